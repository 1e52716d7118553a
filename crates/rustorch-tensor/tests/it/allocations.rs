//! What a recorded operation allocates.

use rustorch_tensor::{Result, Tensor};
use rustorch_testkit::allocations::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn recording_allocates_nothing_in_steady_state() -> Result<()> {
    let x = Tensor::new([1.0f32, 2.0])?;
    let y = Tensor::new([3.0f32, 4.0])?;
    let times = |x: &Tensor| -> Result<usize> {
        for _ in 0..100 {
            x.add(&y)?.mul(2.0)?;
        }
        let before = allocations();
        for _ in 0..1000 {
            x.add(&y)?.mul(2.0)?;
        }
        Ok(allocations() - before)
    };
    let plain = times(&x)?;
    x.requires_grad_(true)?;
    let recorded = times(&x)?;
    assert_eq!((plain, recorded), (0, 0), "allocations in 2,000 operations, plain and recorded");
    Ok(())
}
