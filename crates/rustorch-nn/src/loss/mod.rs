//! Losses as modules, with PyTorch's names, arguments and defaults.

/// Modules of a function of tensors, of numbers that are their fields, and of a reduction.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr,)*
    } ($($arg:ident),+) => $function:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, rustorch_macros::Module)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// What becomes of the losses: their mean.
            #[module(skip)]
            pub reduction: rustorch_tensor::Reduction,
        }

        impl Default for $name {
            /// With PyTorch's defaults.
            fn default() -> $name {
                $name { $($field: $default,)* reduction: rustorch_tensor::Reduction::Mean }
            }
        }

        impl $name {
            /// The loss.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($function), "`](crate::functional::", stringify!($function), ").")]
            pub fn forward(
                &self,
                $($arg: &rustorch_tensor::Tensor,)+
            ) -> rustorch_tensor::Result<rustorch_tensor::Tensor> {
                crate::functional::$function($($arg,)+ $(self.$field,)* self.reduction)
            }
        }
    )+};
}

// After the macro, which they use.
mod binary;
mod ctc;
mod embedding;
mod likelihood;
mod margin;
mod regression;

pub use binary::{BCELoss, BCEWithLogitsLoss, MultiLabelSoftMarginLoss, SoftMarginLoss};
pub use ctc::CTCLoss;
pub use embedding::{CosineEmbeddingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss};
pub use likelihood::{CrossEntropyLoss, GaussianNLLLoss, KLDivLoss, NLLLoss, PoissonNLLLoss};
pub use margin::{HingeEmbeddingLoss, MarginRankingLoss, MultiLabelMarginLoss, MultiMarginLoss};
pub use regression::{HuberLoss, L1Loss, MSELoss, SmoothL1Loss};
