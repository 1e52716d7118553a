//! Generating text: sessions, sampling loops, stop strings.

mod session;
mod stop;

pub use session::{
    FinishReason, Generation, GenerationOptions, MakeRoom, Overflow, Session, SessionOptions, Step,
    without_older_half,
};
pub use stop::StopFilter;
