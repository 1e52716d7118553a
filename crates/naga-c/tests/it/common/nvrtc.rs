//! NVIDIA's run-time compiler, where it is installed. `NVRTC_PATH` names the library if it is not where the system looks.

use std::ffi::{CString, c_char, c_void};
use std::io::Write;
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

use libloading::Library;
use rustorch_testkit::{Requirement, skip};

/// The loaded compiler.
pub(crate) struct Nvrtc {
    library: Library,
}

/// The compiler, or `None` after a skip.
pub(crate) fn nvrtc() -> Option<Nvrtc> {
    let names = match std::env::var("NVRTC_PATH") {
        // A folder, as for RusTorch, or the library.
        Ok(path) => match std::fs::read_dir(&path) {
            Ok(files) => files
                .filter_map(|file| file.ok()?.path().into_os_string().into_string().ok())
                .filter(|file| file.contains("nvrtc.so") || file.contains("nvrtc64"))
                .collect(),
            Err(_) => vec![path],
        },
        Err(_) => ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_120_0.dll"]
            .map(String::from)
            .to_vec(),
    };
    for name in &names {
        // SAFETY: NVRTC has no initializers that matter to this process.
        if let Ok(library) = unsafe { Library::new(name) } {
            return Some(Nvrtc { library });
        }
    }
    skip(Requirement::Nvrtc, format!("there is none of {names:?}"));
    None
}

impl Nvrtc {
    /// Compiles, and assembles with `ptxas` where that is found (`PTXAS_PATH` or the path of programs): NVRTC does not look at
    /// what stands in `asm`.
    pub(crate) fn compile_and_assemble(
        &self,
        source: &str,
        architecture: &str,
        flags: &[&str],
    ) -> Result<(), String> {
        let ptx = self.compile(source, architecture, flags)?;
        let assembler = std::env::var("PTXAS_PATH").unwrap_or_else(|_| "ptxas".into());
        let command = Command::new(&assembler)
            .args([
                "--gpu-name",
                architecture,
                "--output-file",
                if cfg!(windows) { "NUL" } else { "/dev/null" },
                "-",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = command else {
            println!("not assembled: no {assembler}");
            return Ok(());
        };
        child.stdin.take().unwrap().write_all(ptx.as_bytes()).map_err(|error| error.to_string())?;
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!(
            "{}\n{ptx}",
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout)
        ))
    }

    /// Compiles to PTX for an architecture such as `sm_80`.
    pub(crate) fn compile(&self, source: &str, architecture: &str, flags: &[&str]) -> Result<String, String> {
        type Create = unsafe extern "C" fn(
            *mut *mut c_void,
            *const c_char,
            *const c_char,
            i32,
            *const *const c_char,
            *const *const c_char,
        ) -> i32;
        type Compile = unsafe extern "C" fn(*mut c_void, i32, *const *const c_char) -> i32;
        type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> i32;
        type Text = unsafe extern "C" fn(*mut c_void, *mut c_char) -> i32;
        type Destroy = unsafe extern "C" fn(*mut *mut c_void) -> i32;

        let text = CString::new(source).unwrap();
        let name = CString::new("kernel.cu").unwrap();
        let mut options = vec![CString::new(format!("--gpu-architecture={architecture}")).unwrap()];
        options.extend(flags.iter().map(|flag| CString::new(*flag).unwrap()));
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the signatures are those of nvrtc.h; texts end with zero; buffers have the sizes that the library says.
        unsafe {
            let create: libloading::Symbol<'_, Create> = self.library.get(b"nvrtcCreateProgram\0").unwrap();
            let compile: libloading::Symbol<'_, Compile> =
                self.library.get(b"nvrtcCompileProgram\0").unwrap();
            let destroy: libloading::Symbol<'_, Destroy> =
                self.library.get(b"nvrtcDestroyProgram\0").unwrap();
            let mut program = null_mut();
            assert_eq!(create(&mut program, text.as_ptr(), name.as_ptr(), 0, null(), null()), 0);
            let code = compile(program, options.len() as i32, options.as_ptr());
            let (size, read) = if code == 0 {
                (&b"nvrtcGetPTXSize\0"[..], &b"nvrtcGetPTX\0"[..])
            } else {
                (&b"nvrtcGetProgramLogSize\0"[..], &b"nvrtcGetProgramLog\0"[..])
            };
            let size: libloading::Symbol<'_, Size> = self.library.get(size).unwrap();
            let read: libloading::Symbol<'_, Text> = self.library.get(read).unwrap();
            let mut length = 0;
            assert_eq!(size(program, &mut length), 0);
            let mut bytes = vec![0_u8; length.max(1)];
            assert_eq!(read(program, bytes.as_mut_ptr().cast()), 0);
            destroy(&mut program);
            bytes.pop();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if code == 0 { Ok(text) } else { Err(format!("{text}\n{source}")) }
        }
    }
}
