//! NVRTC: from CUDA C to machine code.

use crate::libraries;
use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult as Status};
use std::ffi::{CString, c_char};
use std::fmt;

/// What nothing may change: products and sums are rounded one by one, subnormal numbers are kept, division and root are
/// exact.
const NUMERICS: [&str; 5] =
    ["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

/// The machine's NVRTC.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    version: (i32, i32),
    /// The compute capabilities that it knows, as in 90 for 9.0, in order.
    known: Vec<i32>,
}

/// What to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Machine code (cubin) of a compute capability, as in 90 for 9.0.
    Machine(i32),
    /// PTX of a compute capability, which drivers translate for later GPUs.
    Ptx(i32),
}

impl fmt::Display for Target {
    /// As in NVRTC's options: `sm_90`, `compute_90`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Machine(capability) => write!(f, "sm_{capability}"),
            Target::Ptx(capability) => write!(f, "compute_{capability}"),
        }
    }
}

/// Why nothing was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvrtcError {
    /// NVRTC is not there, or cannot do what is asked. A sentence for people.
    Missing(String),
    /// The source does not compile: NVRTC's log.
    KernelSource(String),
    /// NVRTC failed by itself.
    Failed(String),
}

impl fmt::Display for NvrtcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvrtcError::Missing(message) | NvrtcError::Failed(message) => f.write_str(message),
            NvrtcError::KernelSource(log) => write!(f, "does not compile:\n{log}"),
        }
    }
}

impl std::error::Error for NvrtcError {}

/// Fails unless a call has succeeded.
fn check(call: &str, status: Status) -> Result<(), NvrtcError> {
    match status {
        Status::NVRTC_SUCCESS => Ok(()),
        error => Err(NvrtcError::Failed(said(call, error))),
    }
}

/// What a call said.
fn said(call: &str, status: Status) -> String {
    format!("{call} says {status:?} ({})", status as u32)
}

impl Nvrtc {
    /// Finds NVRTC: by the variable `NVRTC_PATH` (its file or folder), where the system searches, in the CUDA toolkit, in the
    /// Python packages of an active environment.
    ///
    /// # Errors
    /// [`NvrtcError::Missing`] says how to get it.
    pub fn find() -> Result<Nvrtc, NvrtcError> {
        let library = libraries::nvrtc().map_err(NvrtcError::Missing)?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the numbers go to variables, and as many architectures to the list as there are.
        unsafe {
            check("nvrtcVersion", (library.nvrtcVersion)(&mut major, &mut minor))?;
            check("nvrtcGetNumSupportedArchs", (library.nvrtcGetNumSupportedArchs)(&mut count))?;
            let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
            if !known.is_empty() {
                check("nvrtcGetSupportedArchs", (library.nvrtcGetSupportedArchs)(known.as_mut_ptr()))?;
            }
            known.sort_unstable();
            Ok(Nvrtc { version: (major, minor), known })
        }
    }

    /// Its version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// What to compile for on a GPU of this compute capability (as in 90 for 9.0).
    ///
    /// # Errors
    /// [`NvrtcError::Missing`] if the GPU is older than all that this version knows.
    pub fn target(&self, capability: i32) -> Result<Target, NvrtcError> {
        if self.known.contains(&capability) {
            return Ok(Target::Machine(capability));
        }
        match self.known.iter().rev().find(|&&known| known < capability) {
            Some(&known) => Ok(Target::Ptx(known)),
            None => Err(NvrtcError::Missing(format!(
                "NVRTC {}.{} compiles for GPUs of compute capability {} and later, and this is one of {}: install an \
                 earlier version",
                self.version.0,
                self.version.1,
                decimal(self.known.first().copied().unwrap_or(0)),
                decimal(capability)
            ))),
        }
    }

    /// The options under which source is compiled: with them and the version, all that the result depends on.
    pub fn options(&self, target: Target) -> Vec<String> {
        let mut options = vec![format!("--gpu-architecture={target}")];
        options.extend(NUMERICS.map(String::from));
        options
    }

    /// Compiles source, to a cubin or to PTX that ends with a zero.
    ///
    /// # Errors
    /// [`NvrtcError::KernelSource`] with the compiler's log, or [`NvrtcError::Failed`].
    pub fn compile(&self, label: &str, source: &str, target: Target) -> Result<Vec<u8>, NvrtcError> {
        let text = |text: &str, what: &str| {
            CString::new(text).map_err(|_| NvrtcError::KernelSource(format!("the {what} has a zero in it")))
        };
        let (source, name) = (text(source, "source")?, text(&format!("{label}.cu"), "label")?);
        let options = self.options(target);
        let options: Vec<CString> =
            options.iter().map(|option| text(option, "option")).collect::<Result<_, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let library = libraries::nvrtc().map_err(NvrtcError::Missing)?;
        // Destroyed before the texts, which it may refer to.
        let mut program = Program { library, raw: std::ptr::null_mut() };
        let none = std::ptr::null();
        // SAFETY: the texts end with a zero, there are no headers, and the handle goes to a variable.
        let created = unsafe {
            (library.nvrtcCreateProgram)(&mut program.raw, source.as_ptr(), name.as_ptr(), 0, none, none)
        };
        check("nvrtcCreateProgram", created)?;
        // SAFETY: the program lives, and the list has as many texts, which end with a zero.
        match unsafe { (library.nvrtcCompileProgram)(program.raw, options.len() as i32, options.as_ptr()) } {
            Status::NVRTC_SUCCESS => program.output(target),
            Status::NVRTC_ERROR_COMPILATION => Err(NvrtcError::KernelSource(program.log())),
            error => {
                Err(NvrtcError::Failed(format!("{}: {}", said("nvrtcCompileProgram", error), program.log())))
            }
        }
    }
}

/// A compute capability as people write it.
fn decimal(capability: i32) -> String {
    format!("{}.{}", capability / 10, capability % 10)
}

/// A program, destroyed when dropped; null where none was made.
struct Program {
    library: &'static libraries::Nvrtc,
    raw: nvrtcProgram,
}

impl Program {
    fn log(&self) -> String {
        let (mut size, library) = (0, self.library);
        // SAFETY: the program lives, and the size goes to a variable.
        if unsafe { (library.nvrtcGetProgramLogSize)(self.raw, &mut size) } != Status::NVRTC_SUCCESS {
            return String::new();
        }
        let mut log = vec![0_u8; size];
        // SAFETY: the program lives, and the buffer has the size that NVRTC states.
        match unsafe { (library.nvrtcGetProgramLog)(self.raw, log.as_mut_ptr().cast()) } {
            Status::NVRTC_SUCCESS => {
                let end = log.iter().position(|&b| b == 0).unwrap_or(size);
                String::from_utf8_lossy(&log[..end]).trim().to_string()
            }
            _ => String::new(),
        }
    }

    fn output(&self, target: Target) -> Result<Vec<u8>, NvrtcError> {
        let (mut size, library) = (0, self.library);
        let (size_of, get, calls) = match target {
            Target::Machine(_) => {
                (library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"])
            }
            Target::Ptx(_) => {
                (library.nvrtcGetPTXSize, library.nvrtcGetPTX, ["nvrtcGetPTXSize", "nvrtcGetPTX"])
            }
        };
        // SAFETY: the program lives and is compiled for the target, and the size goes to a variable.
        check(calls[0], unsafe { size_of(self.raw, &mut size) })?;
        let mut output = vec![0_u8; size];
        // SAFETY: as above, and the buffer has the size that NVRTC states.
        check(calls[1], unsafe { get(self.raw, output.as_mut_ptr().cast()) })?;
        if output.is_empty() {
            return Err(NvrtcError::Failed(format!("NVRTC gives nothing for {target}")));
        }
        Ok(output)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the program is this object's alone. An error would leave memory behind, and no one to tell.
            let _ = unsafe { (self.library.nvrtcDestroyProgram)(&mut self.raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nvrtc(known: &[i32]) -> Nvrtc {
        Nvrtc { version: (12, 9), known: known.to_vec() }
    }

    #[test]
    fn a_gpu_gets_machine_code_if_it_is_known_and_ptx_if_it_is_newer() {
        let nvrtc = nvrtc(&[75, 80, 86, 90, 100]);
        assert_eq!(nvrtc.target(90), Ok(Target::Machine(90)));
        assert_eq!(nvrtc.target(89), Ok(Target::Ptx(86)));
        assert_eq!(nvrtc.target(121), Ok(Target::Ptx(100)));
        let Err(NvrtcError::Missing(message)) = nvrtc.target(61) else { panic!("6.1 is too old") };
        assert!(message.contains("7.5 and later") && message.contains("one of 6.1"), "{message}");
    }

    #[test]
    fn options_keep_numbers() {
        let options = nvrtc(&[90]).options(Target::Machine(90));
        assert_eq!(options[0], "--gpu-architecture=sm_90");
        assert!(options.iter().any(|option| option == "--fmad=false"));
        assert!(!options.iter().any(|option| option.contains("fast")));
        assert_ne!(options, nvrtc(&[90]).options(Target::Ptx(90)));
    }
}
