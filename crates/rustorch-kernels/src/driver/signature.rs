//! Checks of kernels, launches and memory ranges that hold for every driver, made before the API is called, which would not
//! report most errors.

use super::{Driver, KernelSource, Launch};
use crate::Hardware;
use rustorch_core::{Device, Error, Fault};
use smallvec::SmallVec;

/// The signature of a kernel: what a launch must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSignature {
    /// As in its [`KernelSource`].
    pub label: String,
    /// As in its [`KernelSource`].
    pub workgroup: [u32; 3],
    /// As in its [`KernelSource`].
    pub buffers: usize,
    /// As in its [`KernelSource`], in bytes.
    pub parameters: usize,
    /// As in its [`KernelSource`].
    pub checked: bool,
}

impl KernelSignature {
    /// The signature of a kernel's source, if its parameters, buffer addresses included, fit into `most` bytes.
    ///
    /// # Errors
    /// [`Fault::Backend`] if they do not.
    pub fn of(text: &KernelSource<'_>, device: Device, most: u64) -> Result<KernelSignature, Fault> {
        let form = KernelSignature {
            label: text.label.to_string(),
            workgroup: text.workgroup,
            buffers: text.buffers,
            parameters: text.parameters,
            checked: text.checked,
        };
        let sizes = if text.checked { text.buffers * size_of::<u32>() } else { 0 };
        let bytes = text.parameters + text.buffers * size_of::<u64>() + sizes;
        if bytes as u64 > most {
            return Err(form.refused(
                device,
                format!("its parameters have {bytes} bytes, but the device takes {most} at most"),
            ));
        }
        Ok(form)
    }

    /// Fails if its workgroups have more invocations than the `most` that the device runs of it.
    ///
    /// # Errors
    /// [`Fault::Backend`].
    pub fn check_workgroup(&self, device: Device, most: u64) -> Result<(), Fault> {
        let invocations: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        if invocations > most {
            return Err(self.refused(
                device,
                format!(
                    "its workgroups have {invocations} invocations, but the device runs {most} of it at most"
                ),
            ));
        }
        Ok(())
    }

    /// The sizes of the buffers of a launch, if the kernel takes them: its last parameters.
    pub fn sizes<D: Driver + ?Sized>(&self, launch: &Launch<'_, D>) -> SmallVec<[u32; 6]> {
        // Operands of checked kernels are counted in 32 bits.
        let sizes = launch.buffers.iter().map(|window| u32::try_from(window.bytes).unwrap_or(u32::MAX));
        if self.checked { sizes.collect() } else { SmallVec::new() }
    }

    /// That the driver does not take the kernel, and why.
    pub fn refused(&self, device: Device, why: impl std::fmt::Display) -> Fault {
        Fault::Backend { device, message: format!("kernel `{}`: {why}", self.label) }
    }

    /// Fails if a launch does not match the signature: number of buffers, size of parameters, workgroups, alignment of bindings.
    /// That ranges are within their buffers is checked by [`check_range`].
    ///
    /// # Errors
    /// [`Fault::Invalid`].
    pub fn check<D: Driver + ?Sized>(
        &self,
        launch: &Launch<'_, D>,
        hardware: &Hardware,
    ) -> Result<(), Fault> {
        let invalid = |why: String| Err(invalid("launch", format!("kernel `{}`: {why}", self.label)));
        if launch.buffers.len() != self.buffers {
            return invalid(format!("{} buffers given, {} taken", launch.buffers.len(), self.buffers));
        }
        if size_of_val(launch.parameters) != self.parameters {
            return invalid(format!(
                "a parameter block of {} bytes given, of {} taken",
                size_of_val(launch.parameters),
                self.parameters
            ));
        }
        if launch.groups.iter().any(|&n| n == 0 || n > hardware.groups) {
            return invalid(format!(
                "{:?} workgroups given, of which each must be from 1 to {}",
                launch.groups, hardware.groups
            ));
        }
        for window in launch.buffers {
            match hardware.window {
                None if window.start != 0 => {
                    return invalid(format!(
                        "a buffer is seen from byte {} on, but kernels see whole buffers here",
                        window.start
                    ));
                }
                Some(alignment) if !window.start.is_multiple_of(u64::from(alignment)) => {
                    return invalid(format!(
                        "a buffer is seen from byte {} on, which is no multiple of {alignment}",
                        window.start
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The caller's error in a call of a driver.
pub fn invalid(call: &'static str, message: String) -> Fault {
    Fault::Invalid(Box::new(Error::argument(call, message)))
}

/// Fails unless `bytes` is a valid allocation size, as [`Driver::allocate`] states.
///
/// # Errors
/// [`Fault::Invalid`].
pub fn check_size(bytes: usize) -> Result<(), Fault> {
    if bytes == 0 || !bytes.is_multiple_of(16) {
        let message = format!("{bytes} bytes asked for, which is no positive multiple of 16");
        return Err(invalid("allocate", message));
    }
    Ok(())
}

/// Fails unless `bytes` bytes from `start` on are inside a memory of `size`.
///
/// # Errors
/// [`Fault::Invalid`].
pub fn check_range(size: usize, start: usize, bytes: usize) -> Result<(), Fault> {
    if start.checked_add(bytes).is_none_or(|end| end > size) {
        let message = format!("{bytes} bytes from byte {start} on are outside a memory of {size} bytes");
        return Err(invalid("memory", message));
    }
    Ok(())
}

/// The beginning of a compiler's log, where the first error is.
pub fn shortened(log: &str) -> String {
    const MOST: usize = 4000;
    if log.len() <= MOST {
        return log.to_string();
    }
    let end = (0..=MOST).rev().find(|&i| log.is_char_boundary(i)).unwrap_or(0);
    format!("{}\n… and {} bytes more", &log[..end], log.len() - end)
}
