//! Conversions between dtypes.
//!
//! Floats become integers as if by way of 64 bits: towards zero, saturating there, and wrapping from there to what is
//! narrower. The real part stands for a complex number.

use crate::library::kind::Kind;

/// The expression that makes `x` one of another kind, if there is one; `i64` says whether the device has it.
pub(super) fn expression(from: Kind, to: Kind, i64: bool, x: &str) -> Option<String> {
    use Kind::*;
    let is = |text: &str| text.replace('@', x);
    Some(match (from, to) {
        (from, to) if from == to => is("@"),
        (Complex, Complex) | (Signed(_), Signed(_)) | (Unsigned(_), Unsigned(_)) => is("@"),
        (Complex, ComplexDouble) => is("vec2<f64>(f64(@.x), f64(@.y))"),
        (ComplexDouble, Complex) => is("vec2<f32>(f32(@.x), f32(@.y))"),
        (Complex, Bool) => is("@.x != 0.0 || @.y != 0.0 || nan(@.x) || nan(@.y)"),
        (ComplexDouble, Bool) => is("@.x != 0.0lf || @.y != 0.0lf"),
        (Complex, to) => expression(Single, to, i64, &is("@.x"))?,
        (ComplexDouble, to) => expression(Double, to, i64, &is("@.x"))?,
        (from, Complex) => format!("vec2<f32>({}, 0.0)", expression(from, Single, i64, x)?),
        (from, ComplexDouble) => format!("vec2<f64>({}, 0.0lf)", expression(from, Double, i64, x)?),

        (Bool, Unsigned(_)) => is("select(0u, 1u, @)"),
        (Bool, Signed(_)) => is("select(0i, 1i, @)"),
        (Bool, Long) => is("select(0li, 1li, @)"),
        (Bool, Pair) => is("vec2<u32>(select(0u, 1u, @), 0u)"),
        (Bool, Single) => is("select(0.0, 1.0, @)"),
        (Bool, Double) => is("select(0.0lf, 1.0lf, @)"),

        (Unsigned(_), Bool) => is("@ != 0u"),
        (Signed(_), Bool) => is("@ != 0i"),
        (Long, Bool) => is("@ != 0li"),
        (Pair, Bool) => is("!pair_zero(@)"),
        (Single, Bool) => is("@ != 0.0 || nan(@)"),
        (Double, Bool) => is("@ != 0.0lf || nan_double(@)"),

        (Unsigned(_), Signed(_)) => is("bitcast<i32>(@)"),
        (Signed(_), Unsigned(_)) => is("bitcast<u32>(@)"),
        (Unsigned(_), Long) => is("long_of_word(@)"),
        (Signed(_), Long) => is("i64(@)"),
        (Unsigned(_), Pair) => is("vec2<u32>(@, 0u)"),
        (Signed(_), Pair) => is("pair_of(@)"),
        (Unsigned(_) | Signed(_), Single) => is("f32(@)"),
        (Unsigned(_) | Signed(_), Double) => is("f64(@)"),

        (Long, Unsigned(_)) => is("u32(@ & 0xffffffffli)"),
        (Long, Signed(_)) => is("bitcast<i32>(u32(@ & 0xffffffffli))"),
        (Long, Single) => is("f32(@)"),
        (Long, Double) => is("f64(@)"),
        (Pair, Unsigned(_)) => is("@.x"),
        (Pair, Signed(_)) => is("bitcast<i32>(@.x)"),
        (Pair, Single) => is("float_of_pair(@)"),

        (Single, Unsigned(_)) => is("pair_of_float(@).x"),
        (Single, Signed(_)) => is("bitcast<i32>(pair_of_float(@).x)"),
        (Single, Pair) => is("pair_of_float(@)"),
        (Single, Long) => is("long_of_pair(pair_of_float(@))"),
        (Single, Double) => is("f64(@)"),
        (Double, Single) => is("f32(@)"),
        (Double, Unsigned(_)) if i64 => is("u32(long_of_double(@) & 0xffffffffli)"),
        (Double, Signed(_)) if i64 => is("bitcast<i32>(u32(long_of_double(@) & 0xffffffffli))"),
        (Double, Long) => is("long_of_double(@)"),
        (Double, _) | (Pair, Double) => return None,
        (Bool, Bool) | (Long, Long) | (Pair, Pair) | (Pair, Long) | (Long, Pair) | (Single, Single) => {
            return None;
        }
    })
}
