//! A device as it would be with less than it has, or as another kind: its kernels go other ways.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs")]

use rustorch_core::Fault;
use rustorch_kernels::{Driver, Hardware, Launch, Text};

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

    /// As if it were no processor in disguise.
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

impl<D: Driver> Driver for Plain<D> {
    type Memory = D::Memory;
    type Kernel = D::Kernel;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<D::Memory, Fault> {
        self.driver.allocate(bytes)
    }

    fn compile(&self, kernel: &Text<'_>) -> Result<D::Kernel, Fault> {
        self.driver.compile(kernel)
    }

    fn launch(&self, launch: &Launch<'_, Self>) -> Result<(), Fault> {
        let &Launch { kernel, buffers, parameters, groups, label } = launch;
        self.driver.launch(&Launch::<D> { kernel, buffers, parameters, groups, label })
    }

    fn write(&self, dst: &D::Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        self.driver.write(dst, offset, src)
    }

    fn read(&self, src: &D::Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        self.driver.read(src, offset, dst)
    }

    fn copy(
        &self,
        src: &D::Memory,
        src_offset: usize,
        dst: &D::Memory,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.driver.copy(src, src_offset, dst, dst_offset, bytes)
    }

    fn finish(&self) -> Result<(), Fault> {
        self.driver.finish()
    }
}
