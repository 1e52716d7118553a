//! Generating text: sessions, sampling loops, stop strings.

mod session;
mod stop;

pub use session::{FinishReason, Generation, GenerationOptions, Overflow, Session, SessionOptions, Step};
pub use stop::StopFilter;
