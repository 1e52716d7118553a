//! What fields of modules may be.

use super::{Member, Module};
use crate::{Buffer, Parameter};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::guard;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether a module trains: [`Module::train`] and [`Module::eval`] set it. A new one trains.
pub struct Training(Arc<AtomicU8>);

/// What a module does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Eval,
    Train,
    /// It trains, and its running statistics are means over all batches: [`update_bn`](crate::optim::update_bn).
    Cumulative,
}

impl Training {
    /// Whether it does.
    pub fn get(&self) -> bool {
        self.mode() != Mode::Eval
    }

    /// Sets it, of this module alone.
    pub fn set(&self, training: bool) {
        self.set_mode(if training { Mode::Train } else { Mode::Eval });
    }

    pub(crate) fn mode(&self) -> Mode {
        let number = self.0.load(Ordering::Relaxed);
        if HybridExecutor::with_current(HybridExecutor::is_capturing) {
            let place = Arc::clone(&self.0);
            guard("the training mode of a module", move || place.load(Ordering::Relaxed) == number);
        }
        let modes = [Mode::Eval, Mode::Train];
        modes.into_iter().find(|mode| *mode as u8 == number).unwrap_or(Mode::Cumulative)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

impl Default for Training {
    fn default() -> Training {
        Training(Arc::new(AtomicU8::new(Mode::Train as u8)))
    }
}

impl fmt::Debug for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Training({})", self.get())
    }
}

/// What a field of a module may be: a parameter, a buffer, a module, a container of them, or a number, a string and the like, which are no
/// part of the module.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of a module",
    label = "neither a parameter, a buffer, a module nor a container of them",
    note = "if it has no parameters, write `#[module(skip)]` before the field; if it has, derive `Module` for its type"
)]
pub trait Part {
    /// Calls a function with the members that the field is, under its name.
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>));
}

impl Part for Parameter {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit(name, Member::Parameter(self));
    }
}

impl Part for Buffer {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit(name, Member::Buffer(self));
    }
}

impl Part for Training {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit(name, Member::Training(self));
    }
}

#[diagnostic::do_not_recommend]
impl<M: Module> Part for M {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit(name, Member::Module(self));
    }
}

impl<P: Part> Part for Option<P> {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        if let Some(part) = self {
            part.visit(name, visit);
        }
    }
}

/// Elements are named by their positions.
fn visit_all<'a>(
    name: &str,
    parts: impl IntoIterator<Item = &'a (impl Part + 'a)>,
    visit: &mut dyn FnMut(&str, Member<'a>),
) {
    for (i, part) in parts.into_iter().enumerate() {
        part.visit(&format!("{name}.{i}"), visit);
    }
}

impl<P: Part> Part for Vec<P> {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit_all(name, self, visit);
    }
}

impl<P: Part, const N: usize> Part for [P; N] {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        visit_all(name, self, visit);
    }
}

impl<P: Part> Part for BTreeMap<String, P> {
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        for (key, part) in self {
            part.visit(&format!("{name}.{key}"), visit);
        }
    }
}

impl<P: Part, S> Part for HashMap<String, P, S> {
    /// In the order of keys, so that it is the same in every run.
    fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
        let mut parts: Vec<_> = self.iter().collect();
        parts.sort_by_key(|(key, _)| *key);
        for (key, part) in parts {
            part.visit(&format!("{name}.{key}"), visit);
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident $i:tt),+))*) => {$(
        impl<$($part: Part),+> Part for ($($part,)+) {
            fn visit<'a>(&'a self, name: &str, visit: &mut dyn FnMut(&str, Member<'a>)) {
                $(self.$i.visit(&format!(concat!("{}.", $i), name), visit);)+
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

macro_rules! no_part {
    ($($ty:ty),*) => {$(
        /// No part of a module.
        impl Part for $ty {
            fn visit<'a>(&'a self, _: &str, _: &mut dyn FnMut(&str, Member<'a>)) {}
        }
    )*};
}

no_part! {
    (), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, String, &'static str,
    rustorch_tensor::DType, rustorch_tensor::Device
}
