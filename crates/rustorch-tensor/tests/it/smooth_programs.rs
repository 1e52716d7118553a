//! Small programs of smooth operations, made of bytes, whose gradients are those that finite differences give. The fuzz target
//! `autograd` runs them for bytes that reach new code; here are some of a generator.

use rustorch_tensor::autograd::{GradCheck, gradcheck};
use rustorch_tensor::{Result, Tensor};

/// Steps of a program, and elements of a value.
const STEPS: usize = 24;
const ELEMENTS: usize = 64;

/// Compares the gradients of the program that the bytes are.
pub(crate) fn check(program: &[u8]) -> Result<()> {
    let leaves = [
        Tensor::from_vec(vec![0.3f64, -0.7, 1.1, 0.45, -1.2, 0.8], [2, 3])?,
        Tensor::from_vec(vec![0.9f64, -0.35, 0.6], 3)?,
        Tensor::from_vec(vec![-0.5f64, 1.3], [2, 1])?,
    ];
    let inputs: Vec<&Tensor> = leaves.iter().collect();
    let options = GradCheck { eps: 1e-5, atol: 1e-4, rtol: 1e-3 };
    gradcheck(|leaves| run(program, leaves), &inputs, options)
}

/// The last values of a program. A step that does not fit its arguments is left out; which ones do depends on shapes alone.
fn run(program: &[u8], leaves: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values = leaves.to_vec();
    for step in program.chunks_exact(4).take(STEPS) {
        let at = |byte: u8| &values[values.len() - 1 - usize::from(byte) % values.len()];
        match apply(step[0], at(step[1]), at(step[2]), step[3]) {
            Ok(value) if value.numel() > 0 && value.numel() <= ELEMENTS && value.ndim() <= 5 => {
                values.push(value)
            }
            _ => {}
        }
    }
    // With one of each leaf, so that some output depends on it.
    let mut outputs = values.split_off(values.len() - 3);
    for leaf in leaves {
        outputs.push(leaf.sin()?);
    }
    Ok(outputs)
}

/// One operation. Results are bounded, so that a program's are: by a sine where the operation's are not.
fn apply(op: u8, a: &Tensor, b: &Tensor, attribute: u8) -> Result<Tensor> {
    let axis = isize::from(attribute % 3);
    let place = usize::from(attribute / 3 % 3);
    match op % 32 {
        0 => a.sin(),
        1 => a.tanh(),
        2 => a.sigmoid(),
        3 => a.tanh()?.exp(),
        4 => a.square()?.sin(),
        5 => a.softplus()?.sin(),
        6 => a.gelu()?.tanh(),
        7 => a.square()?.add(1)?.log()?.sin(),
        8 => a.square()?.add(0.5)?.rsqrt(),
        9 => a.add(b)?.sin(),
        10 => a.sub(b)?.sin(),
        11 => a.mul(b)?.sin(),
        12 => a.div(&b.square()?.add(0.5)?)?.sin(),
        13 => a.matmul(b)?.sin(),
        14 => a.transpose(axis, place as isize),
        15 => a.select(axis, place as isize),
        16 => a.narrow(axis, place, 1),
        17 => a.slice(axis, .., 2),
        18 => a.unfold(axis, 2, 1),
        19 => a.diagonal(place as isize, 0, 1),
        20 => a.unsqueeze(axis),
        21 => a.reshape([-1]),
        22 => a.broadcast_to(b.shape()),
        23 => a.softmax(axis),
        24 => a.log_softmax(axis)?.sin(),
        25 => a.logsumexp(axis, place == 0)?.sin(),
        26 => a.var(axis, 0.0, place == 0)?.sin(),
        27 => a.cumsum(axis)?.sin(),
        28 => a.prod(axis, place == 0)?.sin(),
        29 => Tensor::cat(&[a, b], axis),
        30 => Tensor::stack(&[a, b], axis),
        _ => {
            let place = a.copy()?;
            place.add_(b)?;
            place.sub_(&a.mul(b)?)?;
            place.sin()
        }
    }
}

#[test]
fn gradients_of_smooth_programs_are_those_of_finite_differences() -> Result<()> {
    // Marsaglia's xorshift.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    for _ in 0..60 {
        let program: Vec<u8> = (0..4 * 12).map(|_| byte()).collect();
        check(&program).map_err(|error| {
            rustorch_tensor::Error::argument("smooth_programs", format!("{program:?}: {error}"))
        })?;
    }
    Ok(())
}
