//! What tests of the driver share.

pub(crate) mod fakes;
pub(crate) mod gemms;
