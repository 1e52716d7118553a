//! Recurrences: a sequence goes through a state, position by position.
//!
//! Positions go in order, and what runs in parallel are sequences, heads, and the columns or rows of a state that do not depend on each
//! other. Nothing that a position computes depends on how many follow it, so that a sequence in chunks gives the bits of the whole; and
//! nothing depends on threads or on the vectors of the instruction set. A part of a state stays in the first-level cache from the first
//! position to the last.

mod causal_conv1d;
mod columns;
mod gated_delta_rule;
mod operand;
mod rwkv_wkv7;
mod ssm_scan;
mod tile;
mod vector;

pub(super) use causal_conv1d::run as causal_conv1d;
pub(super) use gated_delta_rule::run as gated_delta_rule;
pub(super) use rwkv_wkv7::run as rwkv_wkv7;
pub(super) use ssm_scan::run as ssm_scan;
