//! Steps of optimizers.

use crate::testing::{Tensor, noise, run};
use rustorch_core::{Op, OptimizerRule, OptimizerStep, bf16};

const ADAM: OptimizerRule =
    OptimizerRule::Adam { beta1: 0.5, beta2: 0.75, eps: 0.0, amsgrad: false, decoupled_weight_decay: false };

#[test]
fn parameters_of_all_sizes_are_updated_once() {
    let rule = OptimizerRule::Sgd { momentum: 0.5, dampening: 0.0, nesterov: false };
    let op = OptimizerStep { rule, weight_decay: 0.0, maximize: false, master: false };
    let scalars = [0.25f32, 2.0].map(|x| Tensor::new(&[], &[x]));
    let sizes = [[1, 7], [3, 30_001], [0, 4], [16, 1], [1, 40_000]];
    let operands: Vec<[Tensor; 3]> = (0u64..)
        .zip(sizes)
        .map(|(i, dims)| [0, 1, 2].map(|k| Tensor::new(&dims, &noise(3 * i + k, dims[0] * dims[1]))))
        .collect();
    let args: Vec<&Tensor> = scalars.iter().chain(operands.iter().flatten()).collect();
    // `run` compares numbers of threads, and packed results with others.
    let outs = run(&Op::OptimizerStep(op), &args).unwrap();
    for (operands, outs) in operands.iter().zip(outs.chunks(2)) {
        let [x, grad, buf] = operands.each_ref().map(Tensor::values::<f32>);
        let new: Vec<f32> = buf.iter().zip(&grad).map(|(buf, grad)| buf * 0.5 + grad).collect();
        let moved: Vec<f32> = x.iter().zip(&new).map(|(x, buf)| x - buf * 0.25).collect();
        assert!(outs[1].values::<f32>() == new && outs[0].values::<f32>() == moved);
    }
}

#[test]
fn master_copies_are_kept_unless_the_parameter_was_set() {
    let op = OptimizerStep { rule: ADAM, weight_decay: 0.0, maximize: false, master: true };
    let of = |x: f32| bf16::from_f32(x);
    // Rounds to 1; was set to 2 meanwhile.
    let (x, master) = (Tensor::new(&[2], &[of(1.0), of(2.0)]), Tensor::new(&[2], &[1.001f32, 1.001]));
    let grad = Tensor::new(&[2], &[of(-3.0), of(4.0)]);
    let [m, v] = [0, 1].map(|_| Tensor::new(&[2], &[0f32; 2]));
    let scalars = [0.001f32, 1.0].map(|x| Tensor::new(&[], &[x]));
    let [lr, t] = &scalars;
    let outs = run(&Op::OptimizerStep(op), &[lr, t, &x, &grad, &master, &m, &v]).unwrap();
    // The first step of Adam is the learning rate.
    let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
    let [first, second] = outs[1].values::<f32>()[..] else { panic!("two elements") };
    assert!(near(first, 1.002) && near(second, 1.999), "{first} {second}");
    assert_eq!(outs[0].values::<bf16>(), [of(1.002), of(1.999)]);
}
