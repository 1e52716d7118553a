//! Which supported architectures a file of another one is nearest to.

use super::{
    AltUp, Architecture, Attention, Experts, HeadNorm, LatentAttention, Mlp, MlpGate, Part, RouterInput,
};
use super::{DeltaNet, DeltaRates};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

/// The supported architectures whose parts use the most of a file's tensors.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The architectures; their tensors do not tell them apart.
    pub architectures: Vec<&'static Architecture>,
    /// Tensors of the file that the first of them has no part for, without their blocks and suffixes.
    pub unknown: Vec<String>,
}

impl Architecture {
    /// The architectures that lack parts for the fewest of these tensors, and of those the ones that leave the fewest parts without tensors.
    pub fn nearest<'a>(tensors: impl IntoIterator<Item = &'a str>) -> Nearest {
        let file: BTreeSet<&str> = tensors.into_iter().map(stem).collect();
        let mut nearest = Nearest { architectures: Vec::new(), unknown: Vec::new() };
        let mut least = (usize::MAX, usize::MAX);
        for &architecture in Architecture::ALL {
            let (unknown, unused) = architecture.compare(&file);
            let distance = (unknown.len(), unused);
            if distance < least {
                least = distance;
                nearest = Nearest { architectures: Vec::new(), unknown };
            }
            if distance == least {
                nearest.architectures.push(architecture);
            }
        }
        nearest
    }

    /// The tensors that no part uses, and how many names of parts are no tensor's, in those kinds of blocks that the file has.
    fn compare(&self, file: &BTreeSet<&str>) -> (Vec<String>, usize) {
        let names_of = |parts: &[Part], file: Option<&BTreeSet<&str>>| {
            let mut names = BTreeSet::new();
            parts.iter().for_each(|part| add(part, file, &mut names));
            names
        };
        let has = |name: &str| file.iter().any(|tensor| matches(name, tensor));
        let kinds: Vec<BTreeSet<&str>> = self.kinds.iter().map(|parts| names_of(parts, Some(file))).collect();
        let mut used: BTreeSet<&str> = names_of(self.embedding, Some(file));
        used.extend(names_of(self.output, Some(file)));
        let mut all = used.clone();
        for (i, kind) in kinds.iter().enumerate() {
            let others = kinds.iter().enumerate().filter(|(j, _)| *j != i);
            let others: BTreeSet<&str> = others.flat_map(|(_, names)| names.iter().copied()).collect();
            let mut own = kind.difference(&others).peekable();
            if own.peek().is_none() || own.any(|name| has(name)) {
                used.extend(kind);
            }
            all.extend(names_of(self.kinds[i], None));
        }
        let is_known = |name: &&str| all.iter().copied().chain(SHARED).any(|part| matches(part, name));
        let unknown = file.iter().filter(|name| !is_known(name)).map(|&name| name.to_owned());
        (unknown.collect(), used.iter().filter(|name| !has(name)).count())
    }
}

/// Tensors that files of any architecture may have.
const SHARED: [&str; 5] = ["rope_freqs", "rope_factors_long", "rope_factors_short", "cls*", "dense_*"];

impl Display for Nearest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let names: Vec<&str> = self.architectures.iter().map(|architecture| architecture.name).collect();
        write!(f, "by its tensors it is nearest to `{}`, ", names.join("`, `"))?;
        match &self.unknown[..] {
            [] => write!(f, "with a part for each of them, but may compute something else"),
            unknown => write!(f, "without a part for `{}`", unknown.join("`, `")),
        }
    }
}

/// A tensor's name without its block and suffix.
fn stem(name: &str) -> &str {
    let in_block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let name = in_block.map_or(name, |(_, rest)| rest);
    [".weight", ".bias", ".scale", ".input_scale"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

fn matches(part: &str, name: &str) -> bool {
    match part.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == part,
    }
}

/// Adds the names that a part uses: in a file with these tensors, or in any.
fn add(part: &Part, file: Option<&BTreeSet<&str>>, names: &mut BTreeSet<&'static str>) {
    match part {
        Part::Embedding(name)
        | Part::PositionEmbedding(name)
        | Part::TokenType(name)
        | Part::ScaleBy(name) => {
            names.insert(stem(name));
        }
        Part::Norm(norm) => names.extend(norm.tensor),
        Part::Attention(part) => attention(part, names),
        Part::LatentAttention(part) => latent_attention(part, names),
        Part::DeltaNet(part) => delta_net(part, names),
        Part::ShortConv => names.extend(["shortconv.*"]),
        Part::Mamba => {
            names.extend(["ssm_in", "ssm_conv1d", "ssm_x", "ssm_dt", "ssm_a", "ssm_d", "ssm_out"]);
            names.extend(["ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"]);
        }
        Part::Mamba2 => {
            names.extend(["ssm_in", "ssm_conv1d", "ssm_dt", "ssm_a", "ssm_d", "ssm_norm", "ssm_out"]);
        }
        Part::RwkvTimeMix => names.extend(["time_mix_*"]),
        Part::RwkvChannelMix => names.extend(["channel_mix_*"]),
        Part::Mlp(part) => mlp(part, names),
        Part::Experts(part) => experts(part, names),
        Part::IfTensor { tensor, then, otherwise } => {
            let has = file.map(|file| file.contains(tensor));
            let then = then.iter().filter(|_| has != Some(false));
            then.chain(otherwise.iter().filter(|_| has != Some(true)))
                .for_each(|part| add(part, file, names));
        }
        Part::Parallel(branches) => {
            branches.iter().copied().flatten().for_each(|part| add(part, file, names));
        }
        Part::Add | Part::Replace | Part::Scale(_) | Part::SoftCap(_) => {}
        Part::PerLayerEmbedding(part) => {
            names.extend([part.table, part.projection.name]);
            names.extend(part.norm.tensor);
        }
        Part::PerLayerInput(part) => names.extend([part.gate.name, part.projection.name]),
        Part::AltUp(AltUp::AddToOthers) => {}
        Part::AltUp(AltUp::Expand | AltUp::Predict | AltUp::Correct | AltUp::Merge) => {
            names.extend(["altup_*"]);
        }
        Part::LowRank(down, up) => names.extend([down.name, up.name]),
        Part::Output(output) => {
            names.insert(output.linear.name);
        }
    }
}

fn attention(part: &Attention, names: &mut BTreeSet<&'static str>) {
    names.extend([part.query.name, part.key.name, part.value.name, part.fused.name, part.output.name]);
    let norm = |norm: Option<HeadNorm>| norm.and_then(|norm| norm.tensor);
    names.extend(norm(part.query_norm).into_iter().chain(norm(part.key_norm)).chain(part.sinks));
}

fn latent_attention(part: &LatentAttention, names: &mut BTreeSet<&'static str>) {
    let (down, norm, up) = part.query_latent;
    let layers = [part.query, down, up, part.latent, part.key, part.value, part.output];
    names.extend(layers.iter().map(|layer| layer.name));
    names.extend(norm.tensor.into_iter().chain(part.latent_norm.tensor));
}

fn delta_net(part: &DeltaNet, names: &mut BTreeSet<&'static str>) {
    names.extend([part.qkv.name, part.gate.name, part.output.name, part.convolution, part.norm]);
    names.extend([stem(part.dt_bias), stem(part.a)]);
    match part.rates {
        DeltaRates::Separate { beta, alpha } => names.extend([beta.name, alpha.name]),
        DeltaRates::Interleaved(both) => names.extend([both.name]),
    }
}

fn mlp(part: &Mlp, names: &mut BTreeSet<&'static str>) {
    names.extend([part.up.name, part.down.name]);
    names.extend(part.sigmoid_gate);
    match part.gate {
        MlpGate::Separate(gate) => names.extend([gate.name]),
        MlpGate::None | MlpGate::InUp => {}
    }
}

fn experts(part: &Experts, names: &mut BTreeSet<&'static str>) {
    names.extend([part.router.name, part.up.name, part.fused.name, part.down.name]);
    names.extend(part.gate.map(|gate| gate.name));
    names.extend(part.selection_bias.map(stem));
    names.extend(part.latent.into_iter().flatten().map(|layer| layer.name));
    match part.router_input {
        RouterInput::Branch => {}
        RouterInput::NormedResidual { scale } => names.extend([stem(scale)]),
    }
}
