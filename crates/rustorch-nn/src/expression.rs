//! Expressions that are made once.

/// An expression that a program has once, made when it is first used. It has to use all its inputs.
macro_rules! expression {
    ($name:ident, |[$($input:ident),+]| $value:expr) => {
        static $name: std::sync::LazyLock<rustorch_tensor::Fused> = std::sync::LazyLock::new(|| {
            rustorch_tensor::fuse(|[$($input),+]| $value).expect("the expression uses each input")
        });
    };
}

pub(crate) use expression;
