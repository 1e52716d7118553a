//! A device as it would be with less than it has, or as another kind: its kernels go other ways.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs")]

use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Hardware};

/// A driver that tells something else of its device.
pub struct Plain<D> {
    driver: D,
    hardware: Hardware,
}

impl<D: Driver> Plain<D> {
    /// Without 64-bit arithmetic.
    pub fn new(driver: D) -> Plain<D> {
        let hardware = Hardware { f64: false, i64: false, ..driver.hardware().clone() };
        Plain { driver, hardware }
    }

    /// As if it were hardware.
    pub fn gpu(driver: D) -> Plain<D> {
        let hardware = Hardware { software: false, ..driver.hardware().clone() };
        Plain { driver, hardware }
    }

    /// Whose kernels see only so many bytes of a buffer.
    pub fn seeing(driver: D, max_binding: u64) -> Plain<D> {
        let hardware = Hardware { max_binding, ..driver.hardware().clone() };
        Plain { driver, hardware }
    }
}

impl<D: Driver> DriverLayer for Plain<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.driver
    }

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }
}
