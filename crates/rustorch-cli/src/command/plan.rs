//! `plan`: which device is expected to run which operation of a model's graphs, and why not another.

use crate::args::PlanArgs;
use crate::backend::Backend;
use crate::command::graph::{PROMPT, capture, check_prompt};
use crate::failure::Failure;
use crate::{memory, model, output};
use rustorch::core::Device;
use rustorch::runtime::{Crossing, ExplainedNode, ExplainedRegion, HybridExecutor};
use rustorch::{DeviceType, ProgramExplanation};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    if args.device.eager {
        let message = "a plan is of captured graphs, which --eager does without; leave it out, or see what ran by `explain --eager`";
        return Err(Failure::Usage(message.into()));
    }
    check_prompt(args.prompt, args.ctx_size)?;
    let backend = match args.assume {
        None => Backend::new(&args.device)?,
        Some(_)
            if matches!(args.device.backend.device, DeviceType::Auto | DeviceType::Only(_))
                && !is_core_ml(args) =>
        {
            let message =
                "--assume is for -b coreml, coreml-hybrid, mac-hybrid or hybrid, which choose among devices";
            return Err(Failure::Usage(message.into()));
        }
        Some(system) => Backend::assumed(&args.device, system)?,
    };
    let executor = &backend.executor;
    executor.scope(|| {
        let model = model::load(&args.model, &backend, &args.device)?;
        memory::check_context(&model, args.ctx_size, "--ctx-size")?;
        let cache = model.model().new_cache(args.ctx_size)?;
        let prompt = args.prompt.unwrap_or(PROMPT.min(args.ctx_size));
        let explained = |tokens: usize| {
            let program = capture(&model, &cache, tokens)?;
            let explanation = program.explain().map_err(|error| Failure::Backend(error.to_string()))?;
            Ok::<_, Failure>((tokens, explanation))
        };
        let plans = [("decode", explained(1)?), ("prompt", explained(prompt)?)];
        let backend = args.device.backend.to_string();
        if args.json {
            let graphs = plans.iter().map(|(name, (tokens, plan))| ((*name).to_owned(), graph(*tokens, plan)));
            return output::json(&json!({
                "model": model.name(),
                "backend": backend,
                "context": args.ctx_size,
                "assumed": args.assume.is_some(),
                "devices": devices(executor),
                "graphs": graphs.collect::<Map<String, Value>>(),
            }));
        }
        for (name, (tokens, plan)) in &plans {
            let plural = if *tokens == 1 { "token" } else { "tokens" };
            output::line(format_args!(
                "{name} on {backend} ({tokens} {plural} behind those in a cache of {})",
                args.ctx_size
            ))?;
            output::line(if args.list { format!("{plan:#}") } else { plan.to_string() })?;
        }
        if args.assume.is_some() {
            output::line(
                "Assumed: Core ML and Metal of an Apple M1, whose times are those of its data sheet, beside this machine's CPU. No device of \
                 these was measured, and whether Core ML takes a region is found out on a Mac.",
            )?;
        }
        output::line(match &devices(executor)[..] {
            [_] => "Only the CPU is planned with: `rustorch-cli devices` lists what was found, and says why other devices were not.".to_owned(),
            devices => format!(
                "Devices: {}. Tokens are decoded by this graph where all of it stays on the CPU, and elsewhere by one operation after another, which `rustorch-cli explain` shows.",
                devices.join(", ")
            ),
        })
    })
}

fn is_core_ml(args: &PlanArgs) -> bool {
    args.device.backend.device == DeviceType::Only(Device::COREML)
}

/// The devices that may get operations, in the order in which they are tried.
fn devices(executor: &HybridExecutor) -> Vec<String> {
    executor.memory().devices().iter().map(ToString::to_string).collect()
}

fn graph(tokens: usize, plan: &ProgramExplanation) -> Value {
    let texts = |devices: &[rustorch::Device]| devices.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "tokens": tokens,
        "operations": plan.nodes.iter().map(operation).collect::<Vec<_>>(),
        "regions": plan.regions.iter().map(region).collect::<Vec<_>>(),
        "copies": plan.copies.iter().map(crossing).collect::<Vec<_>>(),
        "compilers": texts(&plan.compilers),
    })
}

fn operation(node: &ExplainedNode) -> Value {
    let said =
        |device: &rustorch::Device, says: String| json!({ "device": device.to_string(), "says": says });
    let others = node.considered.iter().map(|(device, verdict)| said(device, verdict.to_string()));
    let outside = node.reasons.iter().map(|(device, reason)| said(device, reason.to_string()));
    json!({
        "operation": node.op,
        "device": node.device.map(|device| device.to_string()),
        "region": node.region,
        "expected_seconds": node.expected.map(|time| time.as_secs_f64()),
        "other_devices": others.collect::<Vec<_>>(),
        "in_no_region": outside.collect::<Vec<_>>(),
    })
}

fn region(region: &ExplainedRegion) -> Value {
    let plan = &region.plan;
    // What is infinite, as the time of what no device runs by itself, is null.
    let seconds = |us: f64| us.is_finite().then_some(us * 1e-6);
    json!({
        "device": plan.device.to_string(),
        "first": plan.nodes.start,
        "operations": plan.nodes.len(),
        "expected_seconds": seconds(plan.run_us + plan.crossing_us),
        "measured_seconds": region.measured().as_ref().map(Duration::as_secs_f64),
        "one_by_one_seconds": seconds(plan.outside_us),
        "compile_seconds": seconds(plan.compile_us),
        "inputs": plan.inputs.iter().map(crossing).collect::<Vec<_>>(),
        "outputs": plan.outputs.iter().map(crossing).collect::<Vec<_>>(),
    })
}

fn crossing(crossing: &Crossing) -> Value {
    json!({
        "value": crossing.value.index(),
        "from": crossing.from.to_string(),
        "to": crossing.to.to_string(),
        "bytes": crossing.bytes,
        "method": crossing.method.to_string(),
    })
}
