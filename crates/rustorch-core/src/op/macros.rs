//! Macros that derive `Op`, `OpKind` and the tables of pointwise functions from one list each.

/// A field-less enum of functions and their names.
macro_rules! op_names {
    ($(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// All of them.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),*];

            /// The name, PyTorch's where it has one.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }
        }
    };
}

/// An enum of functions with parameters, and the field-less enum of these functions.
macro_rules! op_kinds {
    ($(#[$meta:meta])* $enum:ident, $kind:ident {
        $($(#[$doc:meta])* $variant:ident $({ $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })? = $name:literal,)*
    }) => {
        $(#[$meta])*
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
        pub enum $enum { $($(#[$doc])* $variant $({ $($(#[$field_doc])* $field: $ty,)* })?,)* }

        op_names! {
            #[doc = concat!("A [`", stringify!($enum), "`] without its parameters.")]
            $kind { $(#[doc = concat!("[`", stringify!($enum), "::", stringify!($variant), "`]")] $variant = $name,)* }
        }

        impl $enum {
            /// Which one it is.
            pub const fn kind(self) -> $kind {
                match self { $($enum::$variant $({ $($field: _,)* })? => $kind::$variant,)* }
            }

            /// The name, PyTorch's where it has one.
            pub const fn name(self) -> &'static str {
                self.kind().name()
            }
        }
    };
}

/// [`Op`](super::Op) and [`OpKind`](super::OpKind), of one list of all operations. `single` ones are one operation each;
/// those of `families` have several functions, which the kind tells apart by the type behind the colon. Parameters of the `boxed` ones,
/// lists for each spatial dimension, would be most of an `Op`'s size; they are behind a pointer, so that all others move fast.
macro_rules! ops {
    (
        single { $($(#[$doc:meta])* $single:ident($parameters:ident),)* }
        boxed { $($(#[$boxed_doc:meta])* $boxed:ident($boxed_parameters:ident),)* }
        families { $($(#[$family_doc:meta])* $family:ident($ty:ident: $kind:ident),)* }
    ) => {
        /// An operation with its parameters. Arguments are given apart from it, in the order that each variant names.
        ///
        /// Operands of one operation have one dtype unless the variant says otherwise: promotion is the tensor's business,
        /// done by explicit [`Op::Cast`]. Operands of pointwise operations broadcast.
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum Op {
            $($(#[$doc])* $single($parameters),)*
            $($(#[$boxed_doc])* $boxed(Box<$boxed_parameters>),)*
            $($(#[$family_doc])* $family($ty),)*
        }

        $(impl From<$parameters> for Op {
            fn from(op: $parameters) -> Op { Op::$single(op) }
        })*

        $(impl From<$boxed_parameters> for Op {
            fn from(op: $boxed_parameters) -> Op { Op::$boxed(Box::new(op)) }
        })*

        $(impl From<$ty> for Op {
            fn from(op: $ty) -> Op { Op::$family(op) }
        })*

        /// Which operation an [`Op`] is, without its parameters: what everything that is told apart by operation goes by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum OpKind {
            $(#[doc = concat!("[`Op::", stringify!($single), "`]")] $single,)*
            $(#[doc = concat!("[`Op::", stringify!($boxed), "`]")] $boxed,)*
            $(#[doc = concat!("[`Op::", stringify!($family), "`]")] $family($kind),)*
        }

        $(impl From<$kind> for OpKind {
            fn from(kind: $kind) -> OpKind { OpKind::$family(kind) }
        })*

        impl OpKind {
            /// Every operation.
            pub const ALL: &'static [OpKind] = &{
                const LEN: usize = [$(OpKind::$single,)* $(OpKind::$boxed,)*].len() $(+ $kind::ALL.len())*;
                let mut all = [OpKind::Copy; LEN];
                let mut len = 0;
                $(
                    all[len] = OpKind::$single;
                    len += 1;
                )*
                $(
                    all[len] = OpKind::$boxed;
                    len += 1;
                )*
                $(
                    let mut i = 0;
                    while i < $kind::ALL.len() {
                        all[len] = OpKind::$family($kind::ALL[i]);
                        (i, len) = (i + 1, len + 1);
                    }
                )*
                assert!(len == LEN);
                all
            };

            /// The operation's name, as errors, records and benchmarks show it; PyTorch's where it has one.
            pub const fn name(self) -> &'static str {
                match self {
                    $(OpKind::$single => $parameters::NAME,)*
                    $(OpKind::$boxed => $boxed_parameters::NAME,)*
                    $(OpKind::$family(kind) => kind.name(),)*
                }
            }
        }

        impl std::fmt::Display for OpKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for OpKind {
            type Err = crate::Error;

            /// The operation of a [name](OpKind::name).
            fn from_str(name: &str) -> Result<OpKind> {
                let found = OpKind::ALL.iter().find(|kind| kind.name() == name);
                found.copied().ok_or_else(|| crate::Error::argument("op", format!("`{name}` is no operation")))
            }
        }

        /// An expression over the parameters of a reference to an [`Op`](crate::Op), whichever it is: a match with the same arm for
        /// each, in which the name has another type. So a crate may state something of every operation by a trait.
        ///
        /// ```
        /// use rustorch_core::{BinaryOp, Op, with_op};
        /// let op = Op::from(BinaryOp::Add);
        /// assert_eq!(with_op!(&op, parameters => format!("{parameters:?}")), "Add");
        /// ```
        #[macro_export]
        macro_rules! with_op {
            ($op:expr, $it:ident => $value:expr) => {
                match $op {
                    $($crate::Op::$single($it) => $value,)*
                    $($crate::Op::$boxed($it) => {
                        let $it = &**$it;
                        $value
                    })*
                    $($crate::Op::$family($it) => $value,)*
                }
            };
        }

        impl Op {
            /// Which operation it is.
            pub fn kind(&self) -> OpKind {
                match self {
                    $(Op::$single(_) => OpKind::$single,)*
                    $(Op::$boxed(_) => OpKind::$boxed,)*
                    $(Op::$family(op) => OpKind::$family(op.kind()),)*
                }
            }

            /// Whether its parameters have a destructor, as [`std::mem::needs_drop`]: where not, forgetting it leaks nothing.
            #[inline]
            pub const fn needs_drop(&self) -> bool {
                match self {
                    $(Op::$single(_) => std::mem::needs_drop::<$parameters>(),)*
                    $(Op::$boxed(_) => true,)*
                    $(Op::$family(_) => std::mem::needs_drop::<$ty>(),)*
                }
            }
        }
    };
}
