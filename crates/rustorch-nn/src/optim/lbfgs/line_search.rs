//! The line search of L-BFGS for steps that satisfy the strong Wolfe conditions.

use rustorch_tensor::{Result, Tensor};

/// How much of the first slope a value has to fall at least, and how much of it a slope may have at most.
const WOLFE: (f64, f64) = (1e-4, 0.9);

/// The length of a bracket, times the direction's largest element, that is not searched further.
const SHORTEST: f64 = 1e-9;

/// A point along a direction.
#[derive(Clone)]
pub(super) struct Point {
    /// How far it is, in multiples of the direction.
    pub t: f64,
    /// The loss.
    pub loss: f64,
    /// The gradient of all parameters.
    pub grad: Tensor,
    /// The derivative along the direction.
    pub slope: f64,
}

/// Where the cubic polynomial through two points has its minimum, between bounds.
fn cubic_interpolate(a: &Point, b: &Point, (least, most): (f64, f64)) -> f64 {
    let (low, high) = if a.t <= b.t { (a, b) } else { (b, a) };
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    if square >= 0.0 {
        let d2 = square.sqrt();
        let share = (high.slope + d2 - d1) / (high.slope - low.slope + 2.0 * d2);
        (high.t - (high.t - low.t) * share).max(least).min(most)
    } else {
        (least + most) / 2.0
    }
}

/// The index of the lower of two points.
fn lower(bracket: &[Point; 2]) -> usize {
    usize::from(bracket[0].loss.partial_cmp(&bracket[1].loss).is_none_or(|order| order.is_gt()))
}

/// A point that satisfies the strong Wolfe conditions, or the lowest of `most` further ones after the first at `t`, and how many were
/// evaluated. `length` is the direction's largest element. Nocedal, Wright: *Numerical Optimization*, 2006, algorithms 3.5 and 3.6, with the
/// interpolation of `torch.optim.LBFGS`.
pub(super) fn strong_wolfe(
    evaluate: &mut dyn FnMut(f64) -> Result<Point>,
    start: &Point,
    t: f64,
    length: f64,
    most: usize,
) -> Result<(Point, usize)> {
    let too_high = |point: &Point| point.loss > start.loss + WOLFE.0 * point.t * start.slope;
    let flat = |point: &Point| point.slope.abs() <= -WOLFE.1 * start.slope;
    let (mut last, mut new) = (start.clone(), evaluate(t)?);
    let mut further = 0;
    // First a bracket that has such a point in it.
    let mut bracket = loop {
        if further >= most {
            break [start.clone(), new];
        }
        if too_high(&new) || (further > 1 && new.loss >= last.loss) {
            break [last, new];
        }
        if flat(&new) {
            return Ok((new, 1 + further));
        }
        if new.slope >= 0.0 {
            break [last, new];
        }
        let bounds = (new.t + 0.01 * (new.t - last.t), new.t * 10.0);
        let t = cubic_interpolate(&last, &new, bounds);
        last = std::mem::replace(&mut new, evaluate(t)?);
        further += 1;
    };
    // Then it shrinks.
    let mut low = lower(&bracket);
    let mut close = false;
    while further < most {
        let (near, far) = (bracket[0].t.min(bracket[1].t), bracket[0].t.max(bracket[1].t));
        if (far - near) * length < SHORTEST {
            break;
        }
        let mut t = cubic_interpolate(&bracket[0], &bracket[1], (near, far));
        let margin = 0.1 * (far - near);
        let at_bound = (far - t).min(t - near) < margin;
        if at_bound && (close || t >= far || t <= near) {
            t = if (t - far).abs() < (t - near).abs() { far - margin } else { near + margin };
            close = false;
        } else {
            close = at_bound;
        }
        let new = evaluate(t)?;
        further += 1;
        if too_high(&new) || new.loss >= bracket[low].loss {
            bracket[1 - low] = new;
            low = lower(&bracket);
            continue;
        }
        let done = flat(&new);
        if !done && new.slope * (bracket[1 - low].t - bracket[low].t) >= 0.0 {
            bracket[1 - low] = bracket[low].clone();
        }
        bracket[low] = new;
        if done {
            break;
        }
    }
    let [first, second] = bracket;
    Ok((if low == 0 { first } else { second }, 1 + further))
}
