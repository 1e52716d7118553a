//! What reductions keep of the elements that they have seen, as source: how it starts, takes an element in, joins another,
//! and ends.

use crate::Hardware;
use crate::library::{Order, Parts};
use crate::wgsl::{Elements, Module};
use rustorch_core::{DType, DTypeKind, ReduceOp};

/// A [`ReduceOp`] without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::family) enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    ArgMax,
    ArgMin,
    Any,
    All,
    LogSumExp,
    Norm,
    Var,
    Std,
}

impl Kind {
    pub(in crate::family) fn of(op: ReduceOp) -> Kind {
        match op {
            ReduceOp::Sum => Kind::Sum,
            ReduceOp::Mean => Kind::Mean,
            ReduceOp::Prod => Kind::Prod,
            ReduceOp::Max => Kind::Max,
            ReduceOp::Min => Kind::Min,
            ReduceOp::ArgMax => Kind::ArgMax,
            ReduceOp::ArgMin => Kind::ArgMin,
            ReduceOp::Any => Kind::Any,
            ReduceOp::All => Kind::All,
            ReduceOp::LogSumExp => Kind::LogSumExp,
            ReduceOp::Norm => Kind::Norm,
            ReduceOp::Var { .. } => Kind::Var,
            ReduceOp::Std { .. } => Kind::Std,
        }
    }
}

/// Text: `State`, and functions `empty()`, `take(s, v, i)` for element `v` with number `i`, `merge(a, b)`, and
/// `finish(s, count)`, which gives what is stored. They call functions of the [library](crate::library::called); that of
/// variances also `correction()`, which has to give a number of the [`wide`] dtype.
pub(in crate::family) struct Fold {
    /// Bytes of a state in an array.
    pub(in crate::family) bytes: usize,
    /// How a state moves between invocations.
    pub(in crate::family) parts: Parts,
    pub(in crate::family) text: String,
}

/// Declares the buffer `x` as the fold reads it.
pub(in crate::family) fn input(
    kind: Kind,
    dtype: DType,
    module: &mut Module,
    hardware: &Hardware,
) -> Elements {
    match kind {
        Kind::Max | Kind::Min | Kind::ArgMax | Kind::ArgMin => {
            Order::of(dtype).elements(module, "x", hardware)
        }
        Kind::Any | Kind::All if dtype == DType::C128 => module.four_words("x"),
        Kind::Any | Kind::All => module.bits("x", dtype, false),
        _ => module.elements("x", dtype, false, hardware),
    }
}

/// Declares the buffer `y` as the fold writes it.
pub(in crate::family) fn output(
    kind: Kind,
    dtype: DType,
    out: DType,
    module: &mut Module,
    hardware: &Hardware,
) -> Elements {
    match kind {
        Kind::Max | Kind::Min if dtype.size() == Some(8) => module.bit_places("y", out),
        _ => module.places("y", out, hardware),
    }
}

/// The fold of elements of `x` to one of `y`.
pub(in crate::family) fn fold(
    kind: Kind,
    dtype: DType,
    x: &Elements,
    y: &Elements,
    hardware: &Hardware,
) -> Fold {
    match kind {
        Kind::Sum | Kind::Mean | Kind::Prod => match dtype.kind() {
            DTypeKind::Bool | DTypeKind::Int => integers(kind, x, hardware),
            DTypeKind::Complex => complex(kind, dtype, x, y, hardware),
            _ => floats(kind, dtype, x, y, hardware),
        },
        Kind::Norm => floats(kind, dtype, x, y, hardware),
        Kind::Max | Kind::Min => extreme(kind, dtype, x, y),
        Kind::ArgMax | Kind::ArgMin => place(kind, dtype, x, y),
        Kind::Any | Kind::All => truth(kind, dtype, x),
        Kind::LogSumExp => log_sum_exp(dtype),
        Kind::Var | Kind::Std => moments(kind, dtype, x, y, hardware),
    }
}

/// The dtype in which floats accumulate.
pub(in crate::family) fn wide(dtype: DType, hardware: &Hardware) -> DType {
    if hardware.f64 || matches!(dtype, DType::F64 | DType::C128) { DType::F64 } else { DType::F32 }
}

/// Its type, and the size.
fn wide_type(dtype: DType, hardware: &Hardware) -> (&'static str, usize) {
    match wide(dtype, hardware) {
        DType::F64 => ("f64", 8),
        _ => ("f32", 4),
    }
}

/// The quotient of two numbers of the [`wide`] type: the nearest number, where a double is to come of it.
fn quotient(dtype: DType, a: &str, b: &str) -> String {
    match dtype {
        DType::F64 | DType::C128 => format!("divide_double({a}, {b})"),
        _ => format!("({a}) / ({b})"),
    }
}

/// The square root of a number of the [`wide`] type, on the way to a result of type `to`.
fn root(to: &str, x: &str) -> String {
    if to == "f64" { format!("root_double({x})") } else { format!("sqrt(f32({x}))") }
}

fn floats(kind: Kind, dtype: DType, x: &Elements, y: &Elements, hardware: &Hardware) -> Fold {
    let (ty, bytes) = wide_type(dtype, hardware);
    let (from, to) = (x.value(), y.value());
    let (start, operator) = if kind == Kind::Prod { ("1.0", "*") } else { ("0.0", "+") };
    let finish = match kind {
        Kind::Mean => quotient(dtype, "s", &format!("{ty}(count)")),
        Kind::Norm => root(to, "s"),
        _ => "s".to_owned(),
    };
    let term = if kind == Kind::Norm { format!("{ty}(v) * {ty}(v)") } else { format!("{ty}(v)") };
    let text = format!(
        "alias State = {ty};
fn empty() -> State {{ return {ty}({start}); }}
fn take(s: State, v: {from}, i: u32) -> State {{ return s {operator} {term}; }}
fn merge(a: State, b: State) -> State {{ return a {operator} b; }}
fn finish(s: State, count: u32) -> {to} {{ return {to}({finish}); }}
"
    );
    Fold { bytes, parts: Parts::Whole, text }
}

fn complex(kind: Kind, dtype: DType, x: &Elements, y: &Elements, hardware: &Hardware) -> Fold {
    let (ty, bytes) = wide_type(dtype, hardware);
    let (from, to) = (x.value(), y.value());
    let (start, merge) = match kind {
        Kind::Prod => ("1.0", "vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)"),
        _ => ("0.0", "a + b"),
    };
    let part = |name| quotient(dtype, name, &format!("{ty}(count)"));
    let mean = || format!("State({}, {})", part("s.x"), part("s.y"));
    let finish = if kind == Kind::Mean { mean() } else { "s".to_owned() };
    let text = format!(
        "alias State = vec2<{ty}>;
fn empty() -> State {{ return State({ty}({start}), {ty}(0.0)); }}
fn merge(a: State, b: State) -> State {{ return {merge}; }}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, State(v)); }}
fn finish(s: State, count: u32) -> {to} {{ return {to}({finish}); }}
"
    );
    Fold { bytes: 2 * bytes, parts: Parts::Whole, text }
}

fn integers(kind: Kind, x: &Elements, hardware: &Hardware) -> Fold {
    let from = x.value();
    let (ty, start, merge) = match (hardware.i64, kind == Kind::Prod) {
        (true, false) => ("i64", "i64(0)", "a + b"),
        (true, true) => ("i64", "i64(1)", "a * b"),
        (false, false) => ("vec2<u32>", "vec2<u32>(0u, 0u)", "pair_add(a, b)"),
        (false, true) => ("vec2<u32>", "vec2<u32>(1u, 0u)", "pair_product(a, b)"),
    };
    let long = match (hardware.i64, from) {
        (_, "bool") if hardware.i64 => "i64(select(0u, 1u, v))",
        (_, "bool") => "vec2<u32>(select(0u, 1u, v), 0u)",
        // Some take a word for a signed one when they widen it.
        (true, "u32") => "(i64(v) & 0xffffffffli)",
        (true, _) => "i64(v)",
        (false, "u32") => "vec2<u32>(v, 0u)",
        (false, "i32") => "vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u))",
        (false, _) => "v",
    };
    let text = format!(
        "alias State = {ty};
fn empty() -> State {{ return {start}; }}
fn merge(a: State, b: State) -> State {{ return {merge}; }}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, {long}); }}
fn finish(s: State, count: u32) -> State {{ return s; }}
"
    );
    let parts = if hardware.i64 { Parts::Halves } else { Parts::Whole };
    Fold { bytes: 8, parts, text }
}

fn extreme(kind: Kind, dtype: DType, x: &Elements, y: &Elements) -> Fold {
    let order = Order::of(dtype);
    let (key, from, to) = (order.key(), x.value(), y.value());
    let flip = if kind == Kind::Min { "order_flip" } else { "" };
    let text = format!(
        "{}alias State = {key};
fn empty() -> State {{ return State(); }}
fn merge(a: State, b: State) -> State {{ return select(a, b, order_less(a, b)); }}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, {flip}(order_key(v))); }}
fn finish(s: State, count: u32) -> {to} {{ return order_value({flip}(s)); }}
",
        order.text()
    );
    Fold { bytes: dtype.size().unwrap_or(4).max(4), parts: Parts::Whole, text }
}

fn place(kind: Kind, dtype: DType, x: &Elements, y: &Elements) -> Fold {
    let order = Order::of(dtype);
    let (key, from, to) = (order.key(), x.value(), y.value());
    let flip = if kind == Kind::ArgMin { "order_flip" } else { "" };
    let text = format!(
        "{}struct State {{ key: {key}, index: u32 }}
fn empty() -> State {{ return State({key}(), 0xffffffffu); }}
fn merge(a: State, b: State) -> State {{
    if order_less(a.key, b.key) {{ return b; }}
    // Of equals the first.
    if b.index < a.index && !order_less(b.key, a.key) {{ return b; }}
    return a;
}}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, State({flip}(order_key(v)), i)); }}
fn finish(s: State, count: u32) -> {to} {{ return {}; }}
",
        order.text(),
        y.from_u32("s.index"),
    );
    let bytes = if dtype.size() == Some(8) { 16 } else { 8 };
    Fold { bytes, parts: Parts::Fields(&["key", "index"]), text }
}

fn truth(kind: Kind, dtype: DType, x: &Elements) -> Fold {
    let from = x.value();
    // The sign is no part of a zero.
    let nonzero = match dtype {
        DType::F16 | DType::BF16 => "(v & 0x7fff) != 0",
        DType::F32 => "(v & 0x7fffffffu) != 0u",
        DType::F64 => "(v.x | (v.y & 0x7fffffffu)) != 0u",
        DType::C64 => "((v.x | v.y) & 0x7fffffffu) != 0u",
        DType::C128 => "(v.x | v.z | ((v.y | v.w) & 0x7fffffffu)) != 0u",
        DType::I64 => "(v.x | v.y) != 0u",
        DType::I16 => "v != 0",
        _ => "v != 0u",
    };
    let (start, operator) = if kind == Kind::Any { ("0u", "|") } else { ("1u", "&") };
    let text = format!(
        "alias State = u32;
fn empty() -> State {{ return {start}; }}
fn merge(a: State, b: State) -> State {{ return a {operator} b; }}
fn take(s: State, v: {from}, i: u32) -> State {{ return merge(s, select(0u, 1u, {nonzero})); }}
fn finish(s: State, count: u32) -> bool {{ return s != 0u; }}
"
    );
    Fold { bytes: 4, parts: Parts::Whole, text }
}

/// The largest element so far, and the sum of exponentials relative to it.
fn log_sum_exp(dtype: DType) -> Fold {
    let (ty, bytes, exp, log, least) = match dtype {
        DType::F64 => ("f64", 16, "exp_double", "log_double", "-1.7976931348623157e308lf"),
        _ => ("f32", 8, "quick_exp", "log_of", "-3.4028235e38"),
    };
    let text = format!(
        "alias State = vec2<{ty}>;
fn empty() -> State {{ return State({least}, {ty}(0.0)); }}
fn relative(s: State, shift: {ty}) -> {ty} {{
    // Equal infinities have no difference.
    if s.x == shift {{ return s.y; }}
    return s.y * {exp}(s.x - shift);
}}
fn merge(a: State, b: State) -> State {{
    let shift = select(a.x, b.x, b.x > a.x);
    return State(shift, relative(a, shift) + relative(b, shift));
}}
fn take(s: State, v: {ty}, i: u32) -> State {{ return merge(s, State(v, {ty}(1.0))); }}
fn finish(s: State, count: u32) -> {ty} {{ return s.x + {log}(s.y); }}
"
    );
    Fold { bytes, parts: Parts::Whole, text }
}

/// Count, mean and sum of squared deviations.
fn moments(kind: Kind, dtype: DType, x: &Elements, y: &Elements, hardware: &Hardware) -> Fold {
    let (ty, bytes) = wide_type(dtype, hardware);
    let (from, to) = (x.value(), y.value());
    let result = if kind == Kind::Std { root(to, "variance") } else { "variance".to_owned() };
    let quotient = |a, b| quotient(dtype, a, b);
    let text = format!(
        "alias State = vec4<{ty}>;
fn empty() -> State {{ return State(); }}
fn take(s: State, v: {from}, i: u32) -> State {{
    let n = s.x + {ty}(1.0);
    let off = {ty}(v) - s.y;
    let mean = s.y + {};
    return State(n, mean, s.z + off * ({ty}(v) - mean), {ty}(0.0));
}}
// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.
fn merge(a: State, b: State) -> State {{
    if a.x == {ty}(0.0) {{ return b; }}
    if b.x == {ty}(0.0) {{ return a; }}
    let n = a.x + b.x;
    let off = b.y - a.y;
    return State(n, a.y + off * ({}), a.z + b.z + off * off * ({}), {ty}(0.0));
}}
fn finish(s: State, count: u32) -> {to} {{
    let variance = {};
    return {to}({result});
}}
",
        quotient("off", "n"),
        quotient("b.x", "n"),
        quotient("a.x * b.x", "n"),
        quotient("abs(s.z)", &format!("max(s.x - correction(), {ty}(0.0))")),
    );
    Fold { bytes: 4 * bytes, parts: Parts::Whole, text }
}
