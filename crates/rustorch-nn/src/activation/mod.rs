//! Activations as layers, with PyTorch's names, arguments and defaults.

/// Layers of a function of a tensor and of numbers that are their fields. Those with defaults have `Default`.
macro_rules! activations {
    () => {};
    ($(#[$doc:meta])* $name:ident => $function:ident; $($rest:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, rustorch_macros::Module)]
        pub struct $name;

        impl crate::Layer for $name {
            #[rustorch_macros::observed]
            fn forward(&self, x: &rustorch_tensor::Tensor) -> rustorch_tensor::Result<rustorch_tensor::Tensor> {
                crate::functional::$function(x)
            }
        }

        activations! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty $(= $default:expr)?,)+
    } => $function:ident; $($rest:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, rustorch_macros::Module)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)+
        }

        activations! { @default $name $($field $(= $default)?,)+ }

        impl crate::Layer for $name {
            #[rustorch_macros::observed]
            fn forward(&self, x: &rustorch_tensor::Tensor) -> rustorch_tensor::Result<rustorch_tensor::Tensor> {
                crate::functional::$function(x $(, self.$field)+)
            }
        }

        activations! { $($rest)* }
    };
    (@default $name:ident $($field:ident = $default:expr,)+) => {
        impl Default for $name {
            /// With PyTorch's defaults.
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }
    };
    // PyTorch has no defaults.
    (@default $name:ident $($field:ident,)+) => {};
}

// After the macro, which they use.
mod hard;
mod linear_unit;
mod smooth;
mod softmax;

pub use hard::{Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Softshrink, Threshold};
pub use linear_unit::{CELU, ELU, LeakyReLU, PReLU, RReLU, ReLU, ReLU6, SELU};
pub use smooth::{GELU, LogSigmoid, Mish, SiLU, Sigmoid, Softplus, Softsign, Tanh, Tanhshrink};
pub use softmax::{GLU, LogSoftmax, Softmax, Softmax2d, Softmin};
