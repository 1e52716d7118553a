//! What operations accept, and the dtypes and shapes of their results.

mod channel_norm;
mod conv;
mod fft;
mod fused_pointwise;
mod linalg;
mod pooling;
