//! `rustorch-cli`.
fn main() {}
