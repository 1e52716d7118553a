//! The process-wide table of device kinds, to which device crates add theirs.

use crate::{Error, Result};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A kind of device: a place in the process's table of kinds, which only grows.
///
/// The kinds of this workspace are constants, so that their names are known without any initialisation. Others
/// [register](DeviceKind::register).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKind(u8);

/// What there is to know of a kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Its name in lower case, as in `RUSTORCH_DEVICES` and `--backend`.
    pub name: &'static str,
    /// Its place in the fallback order: kinds of lower rank are tried first. The CPU has the highest.
    pub fallback_rank: u8,
    /// Kinds of one group are interfaces to the same hardware: of those that are present, only the one of lowest rank is in
    /// the fallback order.
    pub group: Option<&'static str>,
    /// Whether the CPU can read and write its memory where it is: its buffers have a host address.
    pub shares_host_memory: bool,
    /// Whether there may be several, told apart by an index as in `cuda:1`.
    pub indexed: bool,
}

impl KindInfo {
    /// A kind of this name with memory of its own, which may have several devices and is tried after the others of this
    /// workspace, before the CPU.
    pub const fn new(name: &'static str) -> KindInfo {
        KindInfo { name, fallback_rank: 100, group: None, shares_host_memory: false, indexed: true }
    }

    const fn rank(self, fallback_rank: u8) -> KindInfo {
        KindInfo { fallback_rank, ..self }
    }

    /// An interface to GPUs, which other interfaces reach as well.
    const fn gpu(self) -> KindInfo {
        KindInfo { group: Some("gpu"), ..self }
    }
}

const CPU: KindInfo =
    KindInfo { name: "cpu", fallback_rank: u8::MAX, group: None, shares_host_memory: true, indexed: false };

/// The kinds of this workspace, at the places that the constants of [`DeviceKind`] say.
static KNOWN: [KindInfo; 7] = [
    CPU,
    KindInfo::new("cuda").rank(10).gpu(),
    KindInfo::new("metal").rank(20).gpu(),
    KindInfo::new("vulkan").rank(30).gpu(),
    KindInfo::new("dx12").rank(40).gpu(),
    KindInfo::new("opencl").rank(50),
    KindInfo { shares_host_memory: true, indexed: false, ..KindInfo::new("coreml").rank(15) },
];

/// How many kinds may be registered.
const MOST: usize = 64;

/// Those that were registered; the first [`REGISTERED`] are set.
static OTHERS: [OnceLock<KindInfo>; MOST] = [const { OnceLock::new() }; MOST];
static REGISTERED: AtomicUsize = AtomicUsize::new(0);
/// Held by who registers.
static REGISTERING: Mutex<()> = Mutex::new(());

impl DeviceKind {
    /// The CPU.
    pub const CPU: DeviceKind = DeviceKind(0);
    /// NVIDIA GPUs by CUDA.
    pub const CUDA: DeviceKind = DeviceKind(1);
    /// Apple GPUs by Metal.
    pub const METAL: DeviceKind = DeviceKind(2);
    /// GPUs by Vulkan.
    pub const VULKAN: DeviceKind = DeviceKind(3);
    /// GPUs by Direct3D 12.
    pub const DX12: DeviceKind = DeviceKind(4);
    /// Devices by OpenCL.
    pub const OPENCL: DeviceKind = DeviceKind(5);
    /// Core ML, which compiles regions of graphs.
    pub const COREML: DeviceKind = DeviceKind(6);

    /// Adds a kind to the table; from then on its name is known everywhere. The same kind may be registered any number of
    /// times.
    ///
    /// ```
    /// use rustorch_core::{Device, DeviceKind, KindInfo};
    ///
    /// let kind = DeviceKind::register(KindInfo::new("npu"))?;
    /// assert_eq!("npu:1".parse::<Device>()?, Device::new(kind, 1));
    /// assert_eq!(DeviceKind::register(KindInfo::new("npu"))?, kind);
    /// assert!(DeviceKind::register(KindInfo { indexed: false, ..KindInfo::new("npu") }).is_err());
    /// # Ok::<(), rustorch_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is another kind of this name, the name means something else or cannot be written where names of devices
    /// are, or the table is full.
    pub fn register(info: KindInfo) -> Result<DeviceKind> {
        const NAME: &str = "register device kind";
        let refuse = |why: String| Err(Error::argument(NAME, why));
        // What the lock protects is valid whatever happened under it.
        let _registering = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = DeviceKind::from_name(info.name) {
            return match *kind.info() == info {
                true => Ok(kind),
                false => refuse(format!("there is another `{}`: {:?}, not {info:?}", info.name, kind.info())),
            };
        }
        if !info.name.starts_with(|c: char| c.is_ascii_lowercase())
            || !info
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        {
            return refuse(format!(
                "`{}` cannot be a name; it takes lower-case ASCII letters, digits, `-` and `_`, and begins with a letter",
                info.name
            ));
        }
        if super::DeviceType::names().contains(&info.name) || info.name.starts_with("hybrid") {
            return refuse(format!("`{}` names a way of choosing devices", info.name));
        }
        if info.fallback_rank == u8::MAX {
            return refuse(format!("the rank of `{}` must be lower than the CPU's, {}", info.name, u8::MAX));
        }
        let count = REGISTERED.load(Ordering::Relaxed);
        let Some(place) = OTHERS.get(count) else {
            return refuse(format!("there are {MOST} other kinds already, no more fit"));
        };
        place.get_or_init(|| info);
        REGISTERED.store(count + 1, Ordering::Release);
        // At most 71, which fit.
        Ok(DeviceKind((KNOWN.len() + count) as u8))
    }

    /// Every kind: those of this workspace, the CPU first, then others in the order in which they were registered.
    pub fn all() -> impl Iterator<Item = DeviceKind> {
        let count = KNOWN.len() + REGISTERED.load(Ordering::Acquire);
        // At most 71.
        (0..count as u8).map(DeviceKind)
    }

    /// The kind of this name, which is in lower case.
    pub fn from_name(name: &str) -> Option<DeviceKind> {
        DeviceKind::all().find(|kind| kind.name() == name)
    }

    /// What there is to know of it.
    pub fn info(self) -> &'static KindInfo {
        let place = usize::from(self.0);
        KNOWN.get(place).unwrap_or_else(|| {
            OTHERS[place - KNOWN.len()].get().expect("only kinds of the table are handed out")
        })
    }

    /// Its name, as in `RUSTORCH_DEVICES` and `--backend`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether this is the CPU.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
