//! Tensors that are saved for a gradient and written before it is computed.

use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Result, Tensor};

/// What writes in place, and the operation's name in errors.
type Write = (fn(&Tensor) -> Result<()>, &'static str);

/// The error of a backward pass through an exponential whose result was written, and its version before.
fn error_after(write: fn(&Tensor) -> Result<()>) -> Result<(String, u64)> {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    x.requires_grad_(true)?;
    let y = x.exp()?;
    let version = y.storage().version();
    let sum = y.sum_all()?;
    no_grad(|| write(&y))?;
    Ok((sum.backward().unwrap_err().to_string(), version))
}

#[test]
fn a_write_to_a_saved_tensor_is_named_with_both_versions() -> Result<()> {
    let writes: [Write; 11] = [
        (|y| y.add_(1), "add"),
        (|y| y.detach().narrow(0, 0, 1)?.fill_(0), "fill"),
        (|y| y.zero_(), "fill"),
        (|y| y.copy_(&Tensor::new(2.0f32)?), "copy"),
        (|y| y.copy_(&Tensor::new(2i64)?), "cast"),
        (|y| y.sin_into(y), "sin"),
        (|y| Tensor::new([5i64, 6])?.mul_into(2, &y.select(0, 0)?), "fused_pointwise"),
        (|y| y.masked_fill_(&y.gt(2)?, 0), "where"),
        (|y| y.index_copy_(0, &Tensor::new([1i64])?, &Tensor::new([[7.0f32, 8.0]])?), "scatter"),
        (|y| y.detach().matmul_into(&y.detach(), y), "matmul"),
        (|y| y.sum_into(0, false, &y.select(0, 1)?), "sum"),
    ];
    for (write, op) in writes {
        let (error, version) = error_after(write)?;
        assert!(error.contains("result 0 of exp was written in place"), "{op}: {error}");
        assert!(error.contains(&format!(", last by {op}")), "{op}: {error}");
        let versions = format!("its memory is at version {}, and was at {version}", version + 1);
        assert!(error.contains(&versions), "{op}: {error}");
        let line = concat!(", called at ", file!());
        assert_eq!(error.contains(line), cfg!(debug_assertions), "{op}: {error}");
    }
    Ok(())
}

/// Of several writes the last is named, also where an operator made it.
#[test]
fn the_last_write_is_named_with_its_line() -> Result<()> {
    let x = Tensor::new([1.0f32, 2.0])?;
    x.requires_grad_(true)?;
    let mut y = x.exp()?;
    let version = y.storage().version();
    let sum = y.sum_all()?;
    let line = no_grad(|| {
        y.add_(1)?;
        y *= 2.0;
        Ok::<_, rustorch_tensor::Error>(line!() - 1)
    });
    let line = line?;
    let error = sum.backward().unwrap_err().to_string();
    assert!(error.contains(", last by mul"), "{error}");
    assert!(error.contains(&format!("is at version {}, and was at {version}", version + 2)), "{error}");
    let place = format!(", called at {}:{line}:", file!());
    assert_eq!(error.contains(&place), cfg!(debug_assertions), "{error} does not contain {place}");
    Ok(())
}
