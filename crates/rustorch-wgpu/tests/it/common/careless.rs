//! A device whose doubles are not as they should be.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs")]

use rustorch_core::Fault;
use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Engine, KernelSource};
use rustorch_wgpu::{Adapter, WgpuDriver};

/// Which of them are wrong, by a unit in the last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// All.
    Everywhere,
    /// Those of numbers beyond the range of singles.
    Far,
}

/// A driver that makes them so in the sources of kernels: of the one by which the engine asks, and of the library's functions.
pub struct Careless {
    driver: WgpuDriver,
    wrong: Wrong,
}

/// The engine of a device that states doubles, but does not take kernels with them.
pub fn without_doubles(adapter: &Adapter) -> Engine<Refusing> {
    let driver = adapter.open().unwrap_or_else(|fault| panic!("{fault}"));
    Engine::new(Refusing(driver)).unwrap_or_else(|fault| panic!("{fault}"))
}

/// A driver that compiles no kernel with doubles.
pub struct Refusing(WgpuDriver);

impl DriverLayer for Refusing {
    type Inner = WgpuDriver;

    fn inner(&self) -> &WgpuDriver {
        &self.0
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<<WgpuDriver as Driver>::Kernel, Fault> {
        if kernel.source.contains("f64") {
            let message = "there are no doubles".to_owned();
            return Err(Fault::Backend { device: self.0.hardware().device, message });
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.compile(kernel) }
    }
}

/// The engine of a device that does not round quotients and square roots of doubles, which knows.
pub fn engine(adapter: &Adapter, wrong: Wrong) -> Engine<Careless> {
    let driver = adapter.open().unwrap_or_else(|fault| panic!("{fault}"));
    let engine = Engine::new(Careless { driver, wrong }).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(!engine.hardware().arithmetic.divides_doubles, "{wrong:?}: it was not found out");
    engine
}

impl DriverLayer for Careless {
    type Inner = WgpuDriver;

    fn inner(&self) -> &WgpuDriver {
        &self.driver
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<<WgpuDriver as Driver>::Kernel, Fault> {
        let least = if self.wrong == Wrong::Far { "1e40lf" } else { "0.0lf" };
        let spoiled = |x: &str| format!("(({x}) * select(1.0lf, 0.9999999999999999lf, abs({x}) > {least}))");
        let mut source = kernel.source.to_owned();
        let mut spoil = |before: &str, x: &str| {
            source = source.replace(&format!("{before}{x};"), &format!("{before}{};", spoiled(x)));
        };
        if kernel.label == "probe doubles" {
            spoil("] = ", "x[i] / x[(i + 1u) % 32u]");
            spoil("] = ", "sqrt(x[i])");
        }
        spoil("fn divide_double(a: f64, b: f64) -> f64 {\n    let quotient = ", "a / b");
        spoil("fn root_double(a: f64) -> f64 {\n    let estimate = ", "sqrt(a)");
        // SAFETY: the caller's promise is the same.
        unsafe { self.driver.compile(&KernelSource { source: &source, ..*kernel }) }
    }
}
