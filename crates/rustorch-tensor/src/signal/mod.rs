//! Signal processing: window functions. Fourier transforms are in [`fft`](mod@crate::fft).

pub mod windows;
