//! How many launches, and copies from and to the device, a token of a language model takes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common;
use rustorch::core::{Backend, Fault, cache_dir};
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement};
use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Engine, Launch};
use rustorch_testkit::{Requirement, skip};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What a driver was given.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// By the operation that they are part of.
    launches: BTreeMap<String, usize>,
    writes: usize,
    reads: usize,
}

/// A driver that counts.
struct Counting<D> {
    driver: D,
    counts: Arc<Mutex<Counts>>,
}

impl<D: Driver> DriverLayer for Counting<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.driver
    }

    unsafe fn launch(&self, launch: &Launch<'_, D>) -> Result<(), Fault> {
        *self.counts.lock().unwrap().launches.entry(launch.label.to_owned()).or_default() += 1;
        // SAFETY: the caller's promise is the same.
        unsafe { self.driver.launch(launch) }
    }

    fn write(&self, dst: &D::Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        self.counts.lock().unwrap().writes += 1;
        self.driver.write(dst, offset, src)
    }

    fn read(&self, src: &D::Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        self.counts.lock().unwrap().reads += 1;
        self.driver.read(src, offset, dst)
    }
}

/// What one token takes that follows others, and how many blocks there are; none, with a message, without a device.
fn token(path: &Path) -> Option<(Counts, usize)> {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => {
            skip(Requirement::Vulkan, none);
            return None;
        }
    };
    let driver = adapters[0].open_with_cache(cache_dir().as_deref()).unwrap();
    let counts = Arc::new(Mutex::new(Counts::default()));
    let engine = Engine::new(Counting { driver, counts: Arc::clone(&counts) }).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(engine);
    let device = backend.device();
    let executor = HybridExecutor::builder().backend(backend).placement(Placement::Resident).build().unwrap();
    executor.scope(|| {
        let (mut session, _) = common::session(path, Some(&Offload { device, blocks: None, bytes: None }));
        session.feed(&[1, 2, 3]).unwrap();
        *counts.lock().unwrap() = Counts::default();
        session.feed(&[4]).unwrap();
        let blocks = session.model().model().config().blocks;
        Some((counts.lock().unwrap().clone(), blocks))
    })
}

/// Matmuls of quantized weights round activations first: once for queries, keys and values, once for gate and up, and once
/// each for the outputs of attention and of the feed-forward network. Angles are the same for all blocks; keys and values are rounded as they are
/// written to the cache.
#[test]
fn a_token_takes_few() {
    // In a block: two norms and their sums, seven matmuls, two rotations, two writes to the cache, attention, the gate; and what is rounded.
    // Outside: angles, a norm, the output layer.
    for (name, block, outside) in
        [("stories260K-x4-Q4_K_M", 15 + 4, 4), ("stories260K-x4-Q8_0", 15 + 4, 4), ("stories260K-f32", 15, 3)]
    {
        let Some(folder) = common::folder() else { return };
        let Some((counts, blocks)) = token(&folder.join(name).with_extension("gguf")) else { return };
        let all: usize = counts.launches.values().sum();
        println!("{name}: {all} launches for {blocks} blocks, {counts:?}");
        assert_eq!(all, block * blocks + outside, "{name}: {counts:?}");
        // The embedded token and its position, and its logits.
        assert_eq!((counts.writes, counts.reads), (2, 1), "{name}");
    }
}
