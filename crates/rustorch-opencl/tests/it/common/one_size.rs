//! A device whose kernels ask for one size of subgroups, by an extension of Intel's.

use rustorch_core::Fault;
use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Hardware, KernelSource, Subgroups};
use rustorch_opencl::{Kernel, OpenCl};

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

impl DriverLayer for OneSize {
    type Inner = OpenCl;

    fn inner(&self) -> &OpenCl {
        &self.driver
    }

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<Kernel, Fault> {
        if !kernel.source.contains("sub_group") {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.driver.compile(kernel) };
        }
        let asked = format!("__kernel __attribute__((intel_reqd_sub_group_size({})))", self.size);
        let source = kernel.source.replace("__kernel", &asked);
        // SAFETY: the caller's promise is the same.
        unsafe { self.driver.compile(&KernelSource { source: &source, ..*kernel }) }
    }
}
