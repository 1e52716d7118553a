//! Architectures with one knob of one part set wrong.
//!
//! Structs are taken apart without `..`, so that a new field does not compile before somebody says what another value of it is.

mod attention;
mod feed_forward;

use attention::{of_attention, of_delta_net, of_latent};
use feed_forward::{of_experts, of_mlp};
use rustorch_llm::arch::{
    AltUp, Architecture, Bias, Factor, Linear, Norm, NormKind, Output, Part, PerLayerEmbedding,
    PerLayerInput, RankedRows, Ranking, Windows,
};
use std::collections::BTreeSet;

/// What is wrong, and the parts in the place of one.
type Wrong<T> = Vec<(String, T)>;

/// `architecture` with each knob of it, and of its parts, set wrong, but for those to `skip`.
pub(super) fn wrong(architecture: &Architecture, skip: &BTreeSet<String>) -> Wrong<Architecture> {
    let Architecture {
        name: _,
        models: _,
        embedding,
        kinds,
        kind: _,
        output,
        windows,
        recurrent,
        causal,
        ranking,
        left_out,
    } = *architecture;
    let base = *architecture;
    let mut all: Wrong<Architecture> = Vec::new();
    let of_list = |parts| of_list(parts).into_iter().filter(|(knob, _)| !skip.contains(knob));
    for (knob, parts) in of_list(embedding) {
        all.push((knob, Architecture { embedding: parts.leak(), ..base }));
    }
    for (i, parts) in kinds.iter().enumerate() {
        for (knob, parts) in of_list(parts) {
            let mut kinds = kinds.to_vec();
            kinds[i] = parts.leak();
            all.push((knob, Architecture { kinds: kinds.leak(), ..base }));
        }
    }
    for (knob, parts) in of_list(output) {
        all.push((knob, Architecture { output: parts.leak(), ..base }));
    }
    let mut set = |knob: &str, wrong: Architecture| all.push((format!("Architecture.{knob}"), wrong));
    if kinds.len() > 1 {
        set("kind: the first", Architecture { kind: |_, _| 0, ..base });
        set("kind: the second", Architecture { kind: |_, _| 1, ..base });
    }
    if let Some(windows) = windows {
        let Windows { size, period, chunked, first_is_full } = windows;
        let mut of = |knob: &str, wrong| {
            set(&format!("windows.{knob}"), Architecture { windows: Some(wrong), ..base });
        };
        of("period", Windows { period: another(period), ..windows });
        of("chunked", Windows { chunked: !chunked, ..windows });
        of("first_is_full", Windows { first_is_full: !first_is_full, ..windows });
        if size.is_some() {
            of("size", Windows { size: None, ..windows });
        }
        set("windows: none", Architecture { windows: None, ..base });
    }
    if let Some(period) = recurrent {
        set("recurrent: another period", Architecture { recurrent: Some(another(period)), ..base });
        set("recurrent: none", Architecture { recurrent: None, ..base });
    }
    set("causal", Architecture { causal: !causal, ..base });
    let Ranking { rows, gelu, softmax } = ranking;
    for other in [RankedRows::First, RankedRows::Last, RankedRows::Mean] {
        if other != rows {
            let knob = format!("ranking.rows: {rows:?} as {other:?}");
            set(&knob, Architecture { ranking: Ranking { rows: other, ..ranking }, ..base });
        }
    }
    set("ranking.gelu", Architecture { ranking: Ranking { gelu: !gelu, ..ranking }, ..base });
    set("ranking.softmax", Architecture { ranking: Ranking { softmax: !softmax, ..ranking }, ..base });
    if !left_out.is_empty() {
        set("left_out: nothing", Architecture { left_out: &[], ..base });
    }
    all.retain(|(knob, _)| !skip.contains(knob));
    all
}

/// Another period; that of all blocks has none above.
fn another(period: usize) -> usize {
    period.checked_add(1).unwrap_or(2)
}

/// A list with one of its parts wrong or missing.
fn of_list(parts: &[Part]) -> Wrong<Vec<Part>> {
    let mut all = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let mut replace = |knob: String, by: &[Part]| {
            all.push((knob, [&parts[..i], by, &parts[i + 1..]].concat()));
        };
        replace(format!("without {}", name(part)), &[]);
        match part {
            Part::Parallel(branches) => replace("Parallel: in sequence".into(), &branches.concat()),
            Part::IfTensor { tensor, then, otherwise } => {
                replace(format!("IfTensor: as with {tensor}"), then);
                replace(format!("IfTensor: as without {tensor}"), otherwise);
            }
            _ => {}
        }
        for (knob, wrong) in of_part(part) {
            replace(knob, &[wrong]);
        }
    }
    all
}

/// The variant's name, and of those with a name of their own which.
fn name(part: &Part) -> String {
    let text = format!("{part:?}");
    let end = text.find([' ', '(']).unwrap_or(text.len());
    match part {
        Part::AltUp(step) => format!("AltUp {step:?}"),
        Part::Norm(Norm { kind, tensor, bias: _ }) => format!("Norm {kind:?} {tensor:?}"),
        _ => text[..end].to_owned(),
    }
}

/// A part with one knob wrong.
fn of_part(part: &Part) -> Wrong<Part> {
    match *part {
        Part::Norm(norm) => each(of_norm(norm), "Norm", Part::Norm),
        Part::Attention(attention) => each(of_attention(attention), "Attention", Part::Attention),
        Part::LatentAttention(attention) => {
            each(of_latent(attention), "LatentAttention", Part::LatentAttention)
        }
        Part::DeltaNet(net) => each(of_delta_net(net), "DeltaNet", Part::DeltaNet),
        Part::Mlp(mlp) => each(of_mlp(mlp), "Mlp", Part::Mlp),
        Part::Experts(experts) => each(of_experts(experts), "Experts", Part::Experts),
        Part::Scale(factor) => each(of_factor(factor), "Scale", Part::Scale),
        Part::PerLayerEmbedding(part) => {
            let PerLayerEmbedding { table: _, projection, norm } = part;
            let projections = of_linear(projection).into_iter().map(|(knob, projection)| {
                (format!("projection {knob}"), PerLayerEmbedding { projection, ..part })
            });
            let norms = of_norm(norm)
                .into_iter()
                .map(|(knob, norm)| (format!("norm {knob}"), PerLayerEmbedding { norm, ..part }));
            each(projections.chain(norms).collect(), "PerLayerEmbedding", Part::PerLayerEmbedding)
        }
        Part::PerLayerInput(part) => {
            let PerLayerInput { gate, projection } = part;
            let gates = of_linear(gate).into_iter().map(|(k, gate)| (k, PerLayerInput { gate, ..part }));
            let projections = of_linear(projection)
                .into_iter()
                .map(|(k, projection)| (k, PerLayerInput { projection, ..part }));
            each(gates.chain(projections).collect(), "PerLayerInput", Part::PerLayerInput)
        }
        Part::LowRank(down, up) => of_linear(down)
            .into_iter()
            .map(|(k, down)| (format!("LowRank.{k}"), Part::LowRank(down, up)))
            .chain(of_linear(up).into_iter().map(|(k, up)| (format!("LowRank.{k}"), Part::LowRank(down, up))))
            .collect(),
        Part::AltUp(step) => {
            let other = match step {
                AltUp::Expand => AltUp::Merge,
                AltUp::Merge => AltUp::Expand,
                AltUp::Predict => AltUp::Correct,
                AltUp::Correct => AltUp::AddToOthers,
                AltUp::AddToOthers => AltUp::Correct,
            };
            vec![(format!("AltUp: {step:?} as {other:?}"), Part::AltUp(other))]
        }
        Part::Output(output) => {
            let Output { linear, tied } = output;
            let mut all = of_linear(linear)
                .into_iter()
                .map(|(knob, linear)| {
                    (format!("Output.linear {knob}"), Part::Output(Output { linear, ..output }))
                })
                .collect::<Vec<_>>();
            if tied.is_some() {
                all.push(("Output.tied".into(), Part::Output(Output { tied: None, ..output })));
            }
            all
        }
        Part::Parallel(branches) => {
            let mut all = Vec::new();
            for (i, branch) in branches.iter().enumerate() {
                for (knob, wrong) in of_list(branch) {
                    let mut branches = branches.to_vec();
                    branches[i] = wrong.leak();
                    all.push((knob, Part::Parallel(branches.leak())));
                }
            }
            all
        }
        Part::IfTensor { tensor, then, otherwise } => {
            let thens = of_list(then)
                .into_iter()
                .map(|(knob, wrong)| (knob, Part::IfTensor { tensor, then: wrong.leak(), otherwise }));
            let others = of_list(otherwise)
                .into_iter()
                .map(|(knob, wrong)| (knob, Part::IfTensor { tensor, then, otherwise: wrong.leak() }));
            thens.chain(others).collect()
        }
        Part::Add => vec![("Add: Replace".into(), Part::Replace)],
        Part::Replace => vec![("Replace: Add".into(), Part::Add)],
        // Without knobs; they may be missing.
        Part::Embedding(_)
        | Part::PositionEmbedding(_)
        | Part::TokenType(_)
        | Part::ShortConv
        | Part::Mamba
        | Part::Mamba2
        | Part::RwkvTimeMix
        | Part::RwkvChannelMix
        | Part::ScaleBy(_)
        | Part::SoftCap(_) => Vec::new(),
    }
}

fn each<T>(all: Wrong<T>, part: &str, make: impl Fn(T) -> Part) -> Wrong<Part> {
    all.into_iter().map(|(knob, wrong)| (format!("{part}.{knob}"), make(wrong))).collect()
}

/// A bias that is there and is left out, or is asked for and is not there. What may have none and has none is no mistake.
fn of_linear(linear: Linear) -> Wrong<Linear> {
    let Linear { name, bias } = linear;
    let with = |bias| (format!("{name}: bias {:?} as {bias:?}", linear.bias), Linear { bias, ..linear });
    match bias {
        Bias::None => Vec::new(),
        Bias::Optional => vec![with(Bias::None), with(Bias::Required)],
        Bias::Required => vec![with(Bias::None)],
    }
}

fn of_norm(norm: Norm) -> Wrong<Norm> {
    let Norm { kind, tensor, bias } = norm;
    let mut all = vec![(format!("kind: {kind:?}"), Norm { kind: other_kind(kind), ..norm })];
    if tensor.is_some() {
        all.push(("tensor: none".into(), Norm { tensor: None, ..norm }));
    }
    if bias != Bias::None {
        all.push((format!("bias: {bias:?} as None"), Norm { bias: Bias::None, ..norm }));
    }
    all
}

fn other_kind(kind: NormKind) -> NormKind {
    match kind {
        NormKind::Rms => NormKind::Layer,
        NormKind::Layer => NormKind::Rms,
    }
}

/// A factor by which nothing is scaled that should be.
fn of_factor(factor: Factor) -> Wrong<Factor> {
    let Factor { key, default: _, divides } = factor;
    let name = key.unwrap_or("computed");
    let mut all = vec![(format!("{name}: a constant"), Factor::computed(|_, _| 0.7))];
    if key.is_some() {
        all.push((format!("{name}: divides"), Factor { divides: !divides, ..factor }));
    }
    all
}
