//! Devices of a build without the Cargo features for them.

use rustorch::{DType, Tensor};

/// Names of devices are known in every build.
#[test]
fn a_device_of_another_build_is_an_error_that_says_so() -> rustorch::Result<()> {
    let x = Tensor::zeros([2], DType::F32)?;
    for name in ["cuda:0", "metal", "vulkan", "dx12", "opencl:1"] {
        let error = x.to_device(name).err().map(|error| error.to_string());
        let says = |words| error.as_ref().is_some_and(|error| error.contains(words));
        assert!(says("built without it") && says("there is cpu"), "{error:?}");
    }
    Ok(())
}
