//! How modules print: as `repr` of PyTorch's modules.

use super::{Layer, Member, Module};
use rustorch_tensor::{Shape, Sizes};
use std::fmt;

/// A value as Python prints it: `True`, `1e-05`, `None`, `(3, 3)`, `'mean'`.
#[diagnostic::on_unimplemented(message = "`{Self}` has no text in the `Display` of a module")]
pub trait Repr {
    /// The text.
    fn repr(&self) -> String;
}

impl Repr for bool {
    fn repr(&self) -> String {
        if *self { "True" } else { "False" }.to_owned()
    }
}

impl Repr for str {
    fn repr(&self) -> String {
        format!("'{self}'")
    }
}

impl Repr for f64 {
    /// Rust and Python agree on the digits and on when there is an exponent, not on how it is written: `1e-5`, `1e-05`.
    fn repr(&self) -> String {
        if self.is_nan() {
            return "nan".to_owned();
        }
        let text = format!("{self:?}");
        match text.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
            Some((digits, Ok(exponent))) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
            }
            _ => text,
        }
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Repr for $ty {
            fn repr(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

integers!(usize, isize, i64, u64, i32, u32);

impl<T: Repr + ?Sized> Repr for &T {
    fn repr(&self) -> String {
        (**self).repr()
    }
}

impl<T: Repr> Repr for Option<T> {
    fn repr(&self) -> String {
        self.as_ref().map_or_else(|| "None".to_owned(), T::repr)
    }
}

impl<T: Repr> Repr for [T] {
    /// As a tuple.
    fn repr(&self) -> String {
        let texts: Vec<String> = self.iter().map(T::repr).collect();
        match texts.as_slice() {
            [one] => format!("({one},)"),
            all => format!("({})", all.join(", ")),
        }
    }
}

impl<T: Repr, const N: usize> Repr for [T; N] {
    fn repr(&self) -> String {
        self.as_slice().repr()
    }
}

impl Repr for Shape {
    fn repr(&self) -> String {
        self.dims().repr()
    }
}

impl Repr for Sizes {
    /// A number or a tuple, as they were given.
    fn repr(&self) -> String {
        self.as_one().map_or_else(|| self.as_slice().repr(), |one| one.repr())
    }
}

/// What a module's [`Display`](fmt::Display) says between the parentheses; see [`Module::extra_repr`].
#[derive(Default)]
pub struct ExtraRepr {
    parts: Vec<String>,
    folds: bool,
}

impl ExtraRepr {
    /// A value.
    pub fn value(&mut self, value: &(impl Repr + ?Sized)) -> &mut ExtraRepr {
        self.text(value.repr())
    }

    /// `name=value`.
    pub fn named(&mut self, name: &str, value: &(impl Repr + ?Sized)) -> &mut ExtraRepr {
        self.text(format_args!("{name}={}", value.repr()))
    }

    /// `name=value`, unless the value is this one.
    pub fn named_unless<T: Repr + PartialEq + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        default: &T,
    ) -> &mut ExtraRepr {
        if value == default { self } else { self.named(name, value) }
    }

    /// A text as it is.
    pub fn text(&mut self, text: impl fmt::Display) -> &mut ExtraRepr {
        self.parts.push(text.to_string());
        self
    }

    /// Prints children that follow each other and print the same as one: `(0-5): 6 x ..`.
    pub(crate) fn fold_equal_children(&mut self) {
        self.folds = true;
    }
}

/// A module's children, or those under one field of it: by the rest of their names.
type Children<'a> = Vec<(String, &'a dyn Module)>;

/// The text of a module of this type, with what it says of itself and of its children.
fn repr(type_name: &str, extra: &ExtraRepr, children: Children<'_>) -> String {
    let mut own = extra.parts.join(", ");
    let mut lines = children_of_fields(children);
    if extra.folds {
        lines = folded(lines);
    }
    if lines.is_empty() && !own.contains('\n') {
        return format!("{type_name}({own})");
    }
    let mut text = format!("{type_name}(\n");
    if !own.is_empty() {
        own.push('\n');
        text.extend(own.split_inclusive('\n').map(|line| format!("  {line}")));
    }
    for (name, child) in lines {
        text += &format!("  ({name}): {}\n", child.replace('\n', "\n  "));
    }
    text + ")"
}

/// Names of children and what they print. Those in a field's list or map, whose names have a dot, are in a module of their own, as in
/// PyTorch.
fn children_of_fields(children: Children<'_>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut children = children.into_iter().peekable();
    while let Some((name, child)) = children.next() {
        let Some((field, rest)) = name.split_once('.') else {
            lines.push((name, of_module(child)));
            continue;
        };
        let mut elements = vec![(rest.to_owned(), child)];
        while let Some((name, child)) = children.next_if(|(name, _)| in_field(name, field)) {
            elements.push((name[field.len() + 1..].to_owned(), child));
        }
        let is_list =
            elements.iter().all(|(name, _)| name.bytes().next().is_some_and(|c| c.is_ascii_digit()));
        let container = if is_list { "ModuleList" } else { "ModuleDict" };
        let extra = ExtraRepr { folds: is_list, ..Default::default() };
        lines.push((field.to_owned(), repr(container, &extra, elements)));
    }
    lines
}

fn in_field(name: &str, field: &str) -> bool {
    name.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'))
}

/// Lines with runs of equal texts as one.
fn folded(lines: Vec<(String, String)>) -> Vec<(String, String)> {
    let runs = lines.chunk_by(|(_, a), (_, b)| a == b);
    runs.map(|run| match run {
        [one] => one.clone(),
        [(first, text), .., (last, _)] => (format!("{first}-{last}"), format!("{} x {text}", run.len())),
        [] => unreachable!("`chunk_by` yields no empty run"),
    })
    .collect()
}

fn of_module(module: &dyn Module) -> String {
    let mut extra = ExtraRepr::default();
    module.extra_repr(&mut extra);
    let mut children = Children::new();
    module.visit_members(&mut |name, member| {
        if let Member::Module(child) = member {
            children.push((name.to_owned(), child));
        }
    });
    repr(module.type_name(), &extra, children)
}

impl fmt::Display for dyn Module + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&of_module(self))
    }
}

impl fmt::Display for dyn Layer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self as &dyn Module, f)
    }
}

impl fmt::Display for dyn Layer + Send + Sync + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self as &dyn Module, f)
    }
}

/// `Display` of types that implement [`Module`] by hand.
macro_rules! display {
    ($([$($generics:tt)*] $ty:ty),* $(,)?) => {$(
        impl<$($generics)*> std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self as &dyn $crate::Module, f)
            }
        }
    )*};
}

pub(crate) use display;
