//! `cargo xtask`: developer commands.
fn main() {}
