//! What devices tell of a language model's run: when they computed for which operation, and what went to and fro.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use rustorch::core::profile::SpanKind;
use rustorch::core::{Device, DeviceType};
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{Session, SessionOptions};
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement, Profile};
use rustorch_testkit::skip;
use std::sync::Arc;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rustorch-cli/assets/shakespeare.gguf");

/// The most launches of a block in a step of one token: two norms, seven matmuls of two launches (the activations are
/// rounded first), two rotations of two (angles first), two copies into the cache of two (to half precision first),
/// attention, the activation of the feed-forward network, and two sums.
const LAUNCHES_PER_BLOCK: usize = 28;
/// The most launches outside of the blocks: the last norm, and the matmul of the output layer.
const LAUNCHES_BESIDE: usize = 3;

/// A model whose weights are all on one device.
struct OnDevice {
    device: Device,
    executor: HybridExecutor,
    session: Session,
}

impl OnDevice {
    /// `None` where there is no such device. Every kernel that a step needs is compiled.
    fn open(name: &str) -> Option<OnDevice> {
        let wanted: DeviceType = name.parse().unwrap();
        let DeviceType::Only(device) = wanted else { unreachable!("names of devices") };
        let executor = match devices::executor(wanted, None) {
            Ok(executor) => executor.with_policy(Placement::Resident).unwrap(),
            Err(error) => {
                skip(name.parse().unwrap(), error);
                return None;
            }
        };
        let session = executor.scope(|| {
            let mut model = LanguageModel::open(MODEL).unwrap();
            let moved = model.offload(&Offload { device, blocks: None, bytes: None }).unwrap();
            assert!(moved.output && moved.unsupported.is_empty(), "everything fits: {moved:?}");
            let model = Arc::new(model);
            let options = SessionOptions { context: 64, ..SessionOptions::for_model(&model) };
            let mut session = Session::new(model, options).unwrap();
            session.feed(&[1, 2, 3, 4, 5]).unwrap();
            session.feed(&[6]).unwrap();
            session
        });
        Some(OnDevice { device, executor, session })
    }

    /// What is measured while these tokens are read together.
    fn feed(&mut self, tokens: &[u32]) -> Profile {
        let (read, profile) = self.executor.profile(|| self.session.feed(tokens).map(<[f32]>::len));
        let config = self.session.model().model().config();
        assert_eq!(read.unwrap(), config.vocabulary);
        assert_eq!(profile.notes(), <[String; 0]>::default());
        profile
    }
}

/// The slices of a Chrome trace that are on the tracks of a device.
fn slices(profile: &Profile, device: Device) -> usize {
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&trace).unwrap();
    let is_track = |event: &&serde_json::Value| {
        let name = event["args"]["name"].as_str().unwrap_or_default();
        event["name"] == "thread_name" && name.starts_with(&format!("{device} ("))
    };
    let tracks: Vec<&serde_json::Value> = events.iter().filter(is_track).map(|event| &event["tid"]).collect();
    assert!(!tracks.is_empty(), "{device} has a track");
    events.iter().filter(|event| event["ph"] == "X" && tracks.contains(&&event["tid"])).count()
}

fn time_is_known(name: &str) {
    let Some(mut on) = OnDevice::open(name) else { return };
    let device = on.device;
    for tokens in [&[7_u32, 8, 9, 10][..], &[11]] {
        let profile = on.feed(tokens);
        let ran: Vec<_> = profile.operations().iter().filter(|o| o.record.device == Some(device)).collect();
        assert!(ran.len() > 20, "the model ran on {device}, not only {} operations of it", ran.len());
        for operation in &ran {
            let time = operation.device_time;
            assert!(time.is_some_and(|time| !time.is_zero()), "{} took {time:?}", operation.record.op);
        }
        let (wall, own) = (profile.interval(), profile.spans().iter().filter(|(d, _)| *d == device));
        let mut sum = 0;
        for (_, span) in own.clone() {
            assert!(wall.start_ns <= span.start_ns && span.end_ns <= wall.end_ns, "{span:?} in {wall:?}");
            sum += span.end_ns - span.start_ns;
        }
        // One queue, in which one thing runs after the other.
        assert!(sum <= wall.end_ns - wall.start_ns, "{sum} ns in {wall:?}");
        assert_eq!(slices(&profile, device), own.count());
    }
}

fn a_step_is_short(name: &str) {
    let Some(mut on) = OnDevice::open(name) else { return };
    let device = on.device;
    for token in [7, 8] {
        let profile = on.feed(&[token]);
        let config = on.session.model().model().config();
        let own =
            || profile.spans().iter().filter(|(d, span)| *d == device && span.kind == SpanKind::Compute);
        for (_, span) in own() {
            println!("{} {}: {} ns", span.sequence, span.label, span.end_ns - span.start_ns);
        }
        let launches = own().count();
        println!("{}\n{device}: {launches} launches for {} blocks", profile.explanation(), config.blocks);
        assert!(launches <= LAUNCHES_PER_BLOCK * config.blocks + LAUNCHES_BESIDE, "{launches} launches");

        let moved = |from: Device, to: Device| -> Vec<u64> {
            let ours = profile.transfers().iter().filter(|t| t.from == from && t.to == to);
            let mut bytes: Vec<u64> = ours.map(|t| t.bytes).collect();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(moved(device, Device::CPU), [4 * config.vocabulary as u64], "the logits, once");
        assert_eq!(moved(Device::CPU, device), [8, 4 * config.embedding as u64], "a position, an embedding");
    }
}

#[test]
fn vulkan_tells_its_time() {
    time_is_known("vulkan");
}

#[test]
fn opencl_tells_its_time() {
    time_is_known("opencl");
}

#[test]
fn cuda_tells_its_time() {
    time_is_known("cuda");
}

#[test]
fn a_step_is_short_on_vulkan() {
    a_step_is_short("vulkan");
}

#[test]
fn a_step_is_short_on_opencl() {
    a_step_is_short("opencl");
}

#[test]
fn a_step_is_short_on_cuda() {
    a_step_is_short("cuda");
}
