//! Deep graphs on a small stack, and what is left when graphs are gone.

use rustorch_tensor::autograd::{
    self, BackwardOptions, Function, FunctionContext, GradOptions, Gradients, grad,
};
use rustorch_tensor::{DType, Error, Result, Tensor};

/// Runs on a thread with a stack of 256 KiB.
fn on_a_small_stack(f: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(f).unwrap();
    thread.join().unwrap()
}

fn leaf(value: f32) -> Tensor {
    let x = Tensor::scalar(value).unwrap();
    x.requires_grad_(true).unwrap();
    x
}

#[test]
fn a_million_nodes_in_line_need_no_stack() -> Result<()> {
    on_a_small_stack(|| {
        let x = leaf(1.0);
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = y.add(1)?;
        }
        y.backward()?;
        assert_eq!((y.item()?.to_f64(), x.grad().unwrap().item()?.to_f64()), (1_000_001.0, 1.0));
        // Dropped without a pass, too.
        let mut z = x.clone();
        for _ in 0..1_000_000 {
            z = z.neg()?;
        }
        drop(z);
        Ok(())
    })
}

#[test]
fn a_hundred_thousand_nodes_are_differentiated_twice() -> Result<()> {
    on_a_small_stack(|| {
        let x = leaf(1.0);
        let mut y = x.clone();
        for _ in 0..50_000 {
            y = y.sin()?;
            y = y.mul(1.001)?;
        }
        let options = GradOptions { create_graph: true, ..Default::default() };
        let first = grad(&[&y], &[&x], &[], options)?.remove(0).unwrap();
        let second = grad(&[&first], &[&x], &[], GradOptions::default())?.remove(0).unwrap();
        assert!(second.item()?.to_f64().is_finite());
        Ok(())
    })
}

#[test]
fn one_tensor_is_used_a_hundred_thousand_times() -> Result<()> {
    on_a_small_stack(|| {
        let x = leaf(2.0);
        let parts: Vec<Tensor> = (0..100_000).map(|_| x.mul(3)).collect::<Result<_>>()?;
        let parts: Vec<Tensor> = parts.iter().map(|part| part.unsqueeze(0)).collect::<Result<_>>()?;
        Tensor::cat(&parts, 0)?.sum_all()?.backward()?;
        assert_eq!(x.grad().unwrap().item()?.to_f64(), 300_000.0);
        Ok(())
    })
}

/// Fails or panics half-way.
struct Failing(bool);

impl Function for Failing {
    const NAME: &'static str = "failing";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].mul(2)?;
        cx.save(&[inputs[0], &y, &inputs[0].add(1)?]);
        Ok(vec![y])
    }

    fn backward(&self, _: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        assert!(!self.0, "on purpose");
        Err(Error::argument("failing", "on purpose"))
    }
}

/// Bytes of the process's memory that are resident.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The heap of this thread's work is looked at in a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn graphs_leave_nothing_behind() {
    rustorch_testkit::in_child(
        "stress::graphs_leave_nothing_behind",
        |_| {},
        || {
            let round = |i: usize| -> Result<()> {
                let x = Tensor::ones([256], DType::F32)?;
                x.requires_grad_(true)?;
                let y = x.exp()?.mul(&x)?;
                match i % 6 {
                    0 => y.sum_all()?.backward()?,
                    1 => {
                        let options = GradOptions { create_graph: true, ..Default::default() };
                        let first = grad(&[&y.sum_all()?], &[&x], &[], options)?.remove(0).unwrap();
                        first.sum_all()?.backward()?;
                    }
                    2 => {
                        let held = x.clone();
                        y.register_hook(move |grad| grad.mul(&held).map(Some))?;
                        y.sum_all()?.backward()?;
                    }
                    3 => {
                        let z = Failing(false).apply(&[&y])?.remove(0);
                        assert!(z.sum_all()?.backward().is_err());
                    }
                    4 => {
                        let options = BackwardOptions { create_graph: true, ..Default::default() };
                        y.sum_all()?.backward_with(None, &options)?;
                        // The gradient leads to the leaf, which holds the gradient: PyTorch's cycle, too, cut by whoever made it.
                        x.zero_grad();
                    }
                    _ => drop(y.mul(2)?),
                }
                Ok(())
            };
            (0..2_000).for_each(|i| round(i).unwrap());
            let before = resident();
            (0..100_000).for_each(|i| round(i).unwrap());
            let after = resident();
            assert!(after < before + (2 << 20), "{before} bytes before, {after} after");
            let panicked = std::panic::catch_unwind(|| -> Result<()> {
                let x = leaf(1.0);
                Failing(true).apply(&[&x])?.remove(0).backward()
            });
            assert!(panicked.is_err() && autograd::is_grad_enabled());
        },
    );
}
