//! Options that were given and change nothing: each is reported, so that nobody waits for its effect.

use crate::args::RunArgs;
use crate::{output, prompt};
use rustorch::DeviceType;
use rustorch::core::Device;
use rustorch::llm::LanguageModel;
use rustorch::llm::sampling::SamplerConfig;

/// Reports them; `chat` says whether a conversation is held.
pub(crate) fn report(args: &RunArgs, model: &LanguageModel, sampling: &SamplerConfig) {
    for (option, why) in args.without_effect.given() {
        note(option, why);
    }
    let on_cpu = match args.device.backend.device {
        DeviceType::Hybrid => Some("with -b hybrid weights stay in the file"),
        DeviceType::Only(Device::COREML) | DeviceType::CoreMlHybrid(_) | DeviceType::MacHybrid => {
            Some("with Core ML weights stay in the file")
        }
        _ if model.model().weights().iter().all(|weight| weight.tensor().device().is_cpu()) => {
            Some("the model runs on the CPU")
        }
        _ => None,
    };
    let sampled = &args.sampling;
    let greedy = (sampling.temperature == 0.0).then_some("at --temp 0 the likeliest token is taken");
    let is_neutral = sampling.repeat_penalty == 1.0
        && sampling.presence_penalty == 0.0
        && sampling.frequency_penalty == 0.0;
    let neutral = is_neutral.then_some("no penalty is set");
    let forgotten = (sampling.repeat_last_n == 0).then_some("--repeat-last-n is 0");
    let bare_ids = (args.ids && !args.json).then_some("--ids shows no text");
    let embedded = args.model.is_embedded().then_some("the embedded model is in memory already");
    let cannot_think = match args.think {
        Some(_) if !prompt::can_switch_thinking(model) => {
            Some("the model's chat template does not ask for it")
        }
        _ => None,
    };
    for (given, option, why) in [
        (args.device.layers_on_device.is_some(), "--layers-on-device", on_cpu),
        (args.device.device_memory.is_some(), "--device-memory", on_cpu),
        (sampled.seed.is_some(), "--seed", greedy),
        (sampled.top_k.is_some(), "--top-k", greedy),
        (sampled.top_p.is_some(), "--top-p", greedy),
        (sampled.min_p.is_some(), "--min-p", greedy),
        (sampled.repeat_last_n.is_some(), "--repeat-last-n", neutral),
        (sampled.repeat_penalty.is_some(), "--repeat-penalty", forgotten),
        (sampled.presence_penalty.is_some(), "--presence-penalty", forgotten),
        (sampled.frequency_penalty.is_some(), "--frequency-penalty", forgotten),
        (args.special, "--special", bare_ids),
        (args.model.no_mmap, "--no-mmap", embedded),
        (args.model.mmap, "--mmap", embedded),
        (args.think.is_some(), "--think", cannot_think),
    ] {
        if let (true, Some(why)) = (given, why) {
            note(option, why);
        }
    }
}

/// Reports one.
pub(crate) fn note(option: &str, why: &str) {
    output::note(format_args!("warning: {option} has no effect: {why}"));
}
