//! A device whose kernels ask for one size of subgroups, by an extension of Intel's.

use rustorch_core::Fault;
use rustorch_kernels::{Driver, Hardware, Launch, Subgroups, Text};
use rustorch_opencl::{Kernel, Memory, OpenCl};

/// A driver that has subgroups of one size.
pub struct OneSize {
    driver: OpenCl,
    hardware: Hardware,
    size: u32,
}

impl OneSize {
    /// With subgroups of so many invocations, one of the sizes that the driver has.
    pub fn new(driver: OpenCl, size: u32) -> OneSize {
        let subgroups = Some(Subgroups { least: size, most: size });
        let hardware = Hardware { subgroups, ..driver.hardware().clone() };
        OneSize { driver, hardware, size }
    }
}

impl Driver for OneSize {
    type Memory = Memory;
    type Kernel = Kernel;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Fault> {
        self.driver.allocate(bytes)
    }

    fn compile(&self, kernel: &Text<'_>) -> Result<Kernel, Fault> {
        if !kernel.source.contains("sub_group") {
            return self.driver.compile(kernel);
        }
        let asked = format!("__kernel __attribute__((intel_reqd_sub_group_size({})))", self.size);
        let source = kernel.source.replace("__kernel", &asked);
        self.driver.compile(&Text { source: &source, ..*kernel })
    }

    fn launch(&self, launch: &Launch<'_, OneSize>) -> Result<(), Fault> {
        let &Launch { kernel, buffers, parameters, groups, label } = launch;
        self.driver.launch(&Launch::<OpenCl> { kernel, buffers, parameters, groups, label })
    }

    fn write(&self, dst: &Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        self.driver.write(dst, offset, src)
    }

    fn read(&self, src: &Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        self.driver.read(src, offset, dst)
    }

    fn copy(&self, src: &Memory, from: usize, dst: &Memory, to: usize, bytes: usize) -> Result<(), Fault> {
        self.driver.copy(src, from, dst, to, bytes)
    }

    fn finish(&self) -> Result<(), Fault> {
        self.driver.finish()
    }
}
