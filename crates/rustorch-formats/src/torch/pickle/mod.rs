//! A machine for pickles, which calls nothing but the functions in [`global`].

mod call;
mod cursor;
mod global;
mod machine;
mod opcode;
mod tree;

pub(super) use machine::run;
pub(super) use opcode::*;
