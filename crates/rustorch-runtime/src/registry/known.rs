//! A registered device kind, and its devices as far as they were discovered and opened.

use super::{Discovery, Provider, Registry};
use crate::device_state::DeviceState;
use rustorch_core::{Device, DeviceKind};
use std::sync::{Arc, OnceLock};

/// A kind of devices, which are looked for once and opened once each.
pub(super) struct KnownKind {
    provider: Provider,
    found: OnceLock<KnownDevices>,
}

struct KnownDevices {
    devices: Vec<Known>,
    /// Why there are no others.
    missing: Vec<String>,
}

struct Known {
    device: Device,
    software: bool,
    open: super::provider::Open,
    opened: OnceLock<Result<Arc<DeviceState>, String>>,
}

impl KnownKind {
    pub(super) fn new(provider: Provider) -> KnownKind {
        KnownKind { provider, found: OnceLock::new() }
    }

    pub(super) fn kind(&self) -> DeviceKind {
        self.provider.kind
    }

    fn found(&self) -> &KnownDevices {
        self.found.get_or_init(|| {
            let Discovery { devices, mut missing } = (self.provider.discover)();
            let kind = self.provider.kind;
            let most = if kind.info().indexed { usize::from(u8::MAX) + 1 } else { 1 };
            if devices.len() > most {
                missing.push(format!(
                    "{} devices are left out: there are names for {most}",
                    devices.len() - most
                ));
            }
            let devices = devices.into_iter().zip(0..=u8::MAX).take(most).map(|(candidate, index)| Known {
                device: Device::new(kind, index),
                software: candidate.software,
                open: candidate.open,
                opened: OnceLock::new(),
            });
            KnownDevices { devices: devices.collect(), missing }
        })
    }

    /// The devices that were found.
    pub(super) fn devices(&self) -> impl Iterator<Item = Device> + '_ {
        self.found().devices.iter().map(|known| known.device)
    }

    /// The device of an index, or why it is not here.
    pub(super) fn open(&self, index: u8, registry: &Registry) -> Result<Arc<DeviceState>, String> {
        let found = self.found();
        match found.devices.get(usize::from(index)) {
            Some(known) => known.open(registry),
            None if found.devices.is_empty() => Err(reasons(&found.missing)),
            None => Err(format!("there are {} devices of the kind", found.devices.len())),
        }
    }

    /// All that open, and what kept others away.
    pub(super) fn open_all(&self, software: bool, registry: &Registry) -> (Vec<Arc<DeviceState>>, String) {
        let found = self.found();
        let mut missing = found.missing.clone();
        let wanted = found.devices.iter().filter(|known| software || !known.software);
        let opened = wanted.filter_map(|known| known.open(registry).map_err(|why| missing.push(why)).ok());
        let opened = opened.collect();
        (opened, reasons(&missing))
    }
}

impl Known {
    fn open(&self, registry: &Registry) -> Result<Arc<DeviceState>, String> {
        let opened = self.opened.get_or_init(|| {
            let backend = (self.open)()?;
            if backend.device() != self.device {
                return Err(format!("its provider gave {} for {}", backend.device(), self.device));
            }
            let state = DeviceState::new(backend, None);
            registry.opened(Arc::clone(&state));
            Ok(state)
        });
        opened.clone()
    }
}

fn reasons(missing: &[String]) -> String {
    if missing.is_empty() { "there is none".to_owned() } else { missing.join("; ") }
}
