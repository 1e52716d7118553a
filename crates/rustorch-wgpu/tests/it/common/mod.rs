//! What tests of drivers and of the engine on them share.

pub(crate) mod careless;
pub(crate) mod library;
pub(crate) mod plain;
pub(crate) mod splitting;
pub(crate) mod swiftshader;
