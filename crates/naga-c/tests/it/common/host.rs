//! CUDA source as C++ on this CPU, through the system's compiler and `shim.h`: what the source means can so be tested
//! without a GPU, if not how NVIDIA's compiler understands it. Text with PTX instructions does not compile.

use std::ffi::c_void;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;
use naga_c::{ArgumentKind, Dialect, Output};
use rustorch_testkit::{Requirement, skip};

/// A C++ compiler.
pub(crate) struct Host {
    compiler: String,
}

/// The compiler that `CXX` names, else `c++`; `None` where there is none.
pub(crate) fn host() -> Option<&'static Host> {
    static HOST: OnceLock<Result<Host, String>> = OnceLock::new();
    let host = HOST.get_or_init(|| {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        if cfg!(windows)
            || !Command::new(&compiler).arg("--version").output().is_ok_and(|o| o.status.success())
        {
            return Err(format!("{compiler} is no C++ compiler"));
        }
        Ok(Host { compiler })
    });
    host.as_ref().map_err(|reason| skip(Requirement::Cxx, reason)).ok()
}

impl super::Runner for Host {
    fn dialect(&self) -> Dialect {
        Dialect::Cuda
    }

    fn run_output(&self, output: &Output, groups: [u32; 3], buffers: &mut [Vec<u8>]) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let kernel = &output.entry_points[0];
        let name = &kernel.name;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("naga-c-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("kernel.cpp");
        let library_path = path.with_extension("so");
        let text = format!(
            "#include \"shim.h\"\n{}\nextern \"C\" void launch(void** arguments, const unsigned* groups, const unsigned* size) {{
                nc_shim_launch({name}, arguments, groups, size);\n}}\n",
            output.source
        );
        std::fs::write(&path, text).unwrap();
        let built = Command::new(&self.compiler)
            .args([
                "-std=c++20",
                "-O1",
                "-w",
                "-shared",
                "-pthread",
                "-fPIC",
                "-ffp-contract=off",
                "-fno-strict-aliasing",
            ])
            .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/common"), "-o"])
            .args([&library_path, &path])
            .output()
            .unwrap();
        assert!(built.status.success(), "{}\n{}", String::from_utf8_lossy(&built.stderr), output.source);

        // Pointers to buffers, values of uniforms, sizes: each in a place of its own, aligned for every type.
        #[repr(align(32))]
        #[derive(Clone)]
        struct Aligned([u8; 1024]);
        let mut places = vec![Aligned([0; 1024]); kernel.arguments.len()];
        // Buffers aligned as a device's are.
        let mut aligned: Vec<Vec<u128>> =
            buffers.iter().map(|buffer| vec![0; buffer.len().div_ceil(16) + 1]).collect();
        for (buffer, words) in buffers.iter().zip(&mut aligned) {
            for (word, chunk) in words.iter_mut().zip(buffer.chunks(16)) {
                let mut bytes = [0; 16];
                bytes[..chunk.len()].copy_from_slice(chunk);
                *word = u128::from_ne_bytes(bytes);
            }
        }
        for (argument, place) in kernel.arguments.iter().zip(&mut places) {
            let index = argument.binding as usize;
            match argument.kind {
                ArgumentKind::Storage { .. } => {
                    let address = aligned[index].as_mut_ptr() as usize;
                    place.0[..size_of::<usize>()].copy_from_slice(&address.to_ne_bytes());
                }
                ArgumentKind::Uniform { size } => {
                    assert_eq!(size as usize, buffers[index].len(), "a uniform's size");
                    place.0[..buffers[index].len()].copy_from_slice(&buffers[index]);
                }
                ArgumentKind::StorageSize => {
                    place.0[..4].copy_from_slice(&(buffers[index].len() as u32).to_ne_bytes())
                }
            }
        }
        let mut pointers: Vec<*mut c_void> =
            places.iter_mut().map(|place| place.0.as_mut_ptr().cast()).collect();
        // SAFETY: the library is what was just built; `launch` has this signature; all that it is given lives until it returns.
        unsafe {
            let library = Library::new(&library_path).unwrap();
            let launch: libloading::Symbol<
                '_,
                unsafe extern "C" fn(*mut *mut c_void, *const u32, *const u32),
            > = library.get(b"launch\0").unwrap();
            launch(pointers.as_mut_ptr(), groups.as_ptr(), kernel.workgroup_size.as_ptr());
        }
        std::fs::remove_dir_all(&folder).unwrap();
        for (buffer, words) in buffers.iter_mut().zip(&aligned) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let length = buffer.len();
            buffer.copy_from_slice(&bytes[..length]);
        }
    }
}
