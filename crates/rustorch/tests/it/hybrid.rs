//! A language model whose operations are placed one by one: on lavapipe, another software device or a real one, and on the CPU.

use crate::common::{carried, session, text};
use rustorch::core::{CostModel, DType, Device, Link, OpType, Rate, RateOf};
use rustorch::devices;
use rustorch::runtime::{HybridExecutor, Placement};
use rustorch_testkit::{Requirement, skip};

/// What operations cost: matmuls much on the CPU, everything else much on the device. Not measured, so that the choice does not
/// depend on the machine.
fn cost(products: f64, others: f64, link: Link) -> CostModel {
    let rate = |class| Rate {
        of: RateOf::Class(class),
        dtype: DType::F32,
        flops: f64::INFINITY,
        bandwidth: products,
    };
    CostModel {
        launch_us: 1.0,
        flops: f64::INFINITY,
        bandwidth: others,
        rates: vec![rate(OpType::LinearAlgebra)],
        upload: link,
        download: link,
    }
}

#[test]
fn two_devices_write_what_one_writes() {
    let vulkan = Device::vulkan(0);
    let backend = match devices::backend(vulkan) {
        Ok(backend) => backend,
        Err(error) => return skip(Requirement::Vulkan, error),
    };
    let link = Link { start_us: 0.1, bandwidth: 1e12 };
    let executor = HybridExecutor::builder()
        .backend(backend)
        .cost(vulkan, cost(1e12, 1e6, link))
        .cost(Device::CPU, cost(1e6, 1e12, Link::NONE))
        .placement(Placement::Auto)
        .build()
        .unwrap();
    let want = text(&mut session(&carried(), None).0, 24, &mut |_| ());
    let mut session = executor.scope(|| session(&carried(), None).0);
    let weights = session.model().file().summary().bytes;
    let uploads = || executor.transfers().between(Device::CPU, vulkan).bytes;
    let mut after_first = 0;
    let (got, explanation) = executor.explain(|| {
        text(&mut session, 24, &mut |token| {
            if token == 0 {
                after_first = uploads();
            }
        })
    });
    assert_eq!(got, want);
    let ran = [Device::CPU, vulkan].map(|device| explanation.ran_on(device));
    assert!(ran[0] > 0 && ran[1] > 0, "{ran:?}");
    let shown = explanation.to_string();
    assert!(shown.contains("vulkan:0") && shown.contains("cpu"), "both are told of");
    // Weights were uploaded before the first token; from then on activations go alone.
    assert!(uploads() - after_first < weights / 2, "{} of {weights}", uploads() - after_first);
    drop(session);
}
