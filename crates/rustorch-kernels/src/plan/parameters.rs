//! Kernel parameters. One struct writes both sides: the members of the WGSL struct that a kernel reads, and the words that a
//! launch gives; so the two cannot diverge.

use super::StepBuilder;
use crate::wgsl::{KernelParam, Module};
use rustorch_core::Decline;

/// A parameter, or several.
pub(crate) trait Parameter {
    /// Its expressions in a kernel's source.
    type Name;
    /// What its declaration depends on beside its type.
    type Shape;

    /// Declares it in the WGSL struct.
    fn declare(module: &mut Module, name: &str, shape: Self::Shape) -> Self::Name;

    /// Adds its words to a launch.
    ///
    /// # Errors
    /// If a value does not fit its WGSL type.
    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline>;
}

/// Which side of its parameters a struct holds: [`Values`] or [`Names`].
pub(crate) trait Side {
    /// A parameter on this side.
    type Of<T: Parameter>;
}

/// The values of a launch.
pub(crate) enum Values {}

/// The expressions of a kernel's source.
pub(crate) enum Names {}

impl Side for Values {
    type Of<T: Parameter> = T;
}

impl Side for Names {
    type Of<T: Parameter> = T::Name;
}

/// Defines a struct of parameters: `parameters! { struct Params(rank: usize) { len: usize, grid: Grid = (rank, 2) } }`.
///
/// In parentheses stands what the declaration depends on; behind `=` what a member's does. A kernel's source gets the names
/// from [`Module::parameters`](crate::wgsl::Module), a launch takes the values by [`StepBuilder::parameters`].
macro_rules! parameters {
    ($(#[$doc:meta])* $vis:vis struct $name:ident($($shape:ident: $shape_ty:ty),*) {
        $($(#[$member_doc:meta])* $member:ident: $ty:ty $(= $of:expr)?),* $(,)?
    }) => {
        $(#[$doc])*
        $vis struct $name<S: $crate::plan::parameters::Side = $crate::plan::parameters::Values> {
            $($(#[$member_doc])* $vis $member: S::Of<$ty>,)*
        }

        #[allow(unused_parens, reason = "one shape, or none")]
        impl $crate::plan::parameters::Parameter for $name {
            type Name = $name<$crate::plan::parameters::Names>;
            type Shape = ($($shape_ty),*);

            fn declare(
                module: &mut $crate::wgsl::Module,
                name: &str,
                ($($shape),*): Self::Shape,
            ) -> Self::Name {
                $(let $member = <$ty as $crate::plan::parameters::Parameter>::declare(
                    module,
                    &$crate::plan::parameters::joined(name, stringify!($member)),
                    ($($of)?),
                );)*
                $name { $($member,)* }
            }

            fn write<K>(
                &self,
                launch: &mut $crate::plan::StepBuilder<'_, K>,
            ) -> Result<(), rustorch_core::Decline> {
                $($crate::plan::parameters::Parameter::write(&self.$member, launch)?;)*
                Ok(())
            }
        }
    };
}
pub(crate) use parameters;

/// The name of a member of a member.
pub(crate) fn joined(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}_{inner}") }
}

macro_rules! scalar {
    ($ty:ty, $wgsl:literal, |$value:ident| $word:expr) => {
        impl Parameter for $ty {
            type Name = KernelParam;
            type Shape = ();

            fn declare(module: &mut Module, name: &str, (): ()) -> KernelParam {
                module.member(name, $wgsl)
            }

            fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
                let $value = *self;
                launch.word($word);
                Ok(())
            }
        }
    };
}

scalar!(u32, "u32", |value| value);
scalar!(i32, "i32", |value| value.cast_unsigned());
scalar!(f32, "f32", |value| value.to_bits());
// A length or a stride, which must fit a word.
scalar!(usize, "u32", |value| u32::try_from(value)
    .map_err(|_| Decline::Attr("a dimension of more than 2³² elements"))?);

impl<T: Parameter<Shape: Copy>, const N: usize> Parameter for [T; N] {
    type Name = [T::Name; N];
    type Shape = T::Shape;

    fn declare(module: &mut Module, name: &str, shape: T::Shape) -> [T::Name; N] {
        std::array::from_fn(|i| T::declare(module, &joined(name, &i.to_string()), shape))
    }

    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
        self.iter().try_for_each(|x| x.write(launch))
    }
}

impl<T: Parameter> Parameter for Vec<T> {
    type Name = Vec<T::Name>;
    /// Of each.
    type Shape = Vec<T::Shape>;

    fn declare(module: &mut Module, name: &str, shapes: Vec<T::Shape>) -> Vec<T::Name> {
        let one = |(i, shape): (usize, T::Shape)| T::declare(module, &joined(name, &i.to_string()), shape);
        shapes.into_iter().enumerate().map(one).collect()
    }

    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
        self.iter().try_for_each(|x| x.write(launch))
    }
}

impl<T: Parameter> Parameter for Option<T> {
    type Name = Option<T::Name>;
    /// None if there is none.
    type Shape = Option<T::Shape>;

    fn declare(module: &mut Module, name: &str, shape: Option<T::Shape>) -> Option<T::Name> {
        shape.map(|shape| T::declare(module, name, shape))
    }

    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
        self.iter().try_for_each(|x| x.write(launch))
    }
}

impl Module {
    /// Declares the parameters of a kernel.
    pub(crate) fn parameters<P: Parameter>(&mut self, shape: P::Shape) -> P::Name {
        P::declare(self, "", shape)
    }
}
