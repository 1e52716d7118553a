//! How rotary positions extend beyond the training context.

use super::{LayerConfig, MetadataReader};
use crate::Result;
use crate::arch::{Rope, WindowedRope};
use rustorch_core::{RopeParams, Yarn};

/// The rotation of one block.
pub(in crate::model) fn rope_params(
    r: &MetadataReader<'_>,
    rope: &Rope,
    layer: &LayerConfig,
    context: usize,
) -> Result<RopeParams> {
    let (head, windowed) = (layer.key_length, layer.window.is_some());
    let rotated = match r.find_size("rope.dimension_count_swa")?.filter(|_| windowed) {
        Some(rotated) => rotated,
        None => r.find_size("rope.dimension_count")?.unwrap_or(head),
    };
    if !rotated.is_multiple_of(2) || rotated > head {
        let message = format!("{rotated} must be even and at most the head's {head} elements");
        return Err(r.error("rope.dimension_count", message));
    }
    let base = r.find_f32("rope.freq_base")?.unwrap_or(10_000.0);
    let base = match (windowed, rope.windowed) {
        (false, _) => base,
        (true, WindowedRope::Same) => r.find_f32("rope.freq_base_swa")?.unwrap_or(base),
        (true, WindowedRope::Unscaled { base: own }) => {
            r.find_f32("rope.freq_base_swa")?.or(own).unwrap_or(base)
        }
    };
    if base <= 0.0 {
        return Err(r.error("rope.freq_base", format!("{base} is not positive")));
    }
    if let Some([_, _, _, other]) = r.find_sections("rope.dimension_sections")?
        && other != 0
    {
        let message = "sections of more than time, height and width are not supported";
        return Err(r.error("rope.dimension_sections", message));
    }
    let (scale, yarn) = match (windowed, rope.windowed) {
        (true, WindowedRope::Unscaled { .. }) => (1.0, None),
        _ => scaling(r, context, rope.without_magnitude)?,
    };
    Ok(RopeParams { style: rope.style, rotated, base, scale, yarn })
}

/// The factor of positions, and YaRN's correction.
fn scaling(r: &MetadataReader<'_>, context: usize, without_magnitude: bool) -> Result<(f32, Option<Yarn>)> {
    let factor = match r.find_f32("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => r.find_f32("rope.scale_linear")?,
    };
    // A factor of 0 is how some converters write "none".
    let factor = factor.filter(|&f| f != 0.0);
    if factor.is_some_and(|f| f < 0.0) {
        return Err(r.error("rope.scaling.factor", "must be positive"));
    }
    let factor = factor.unwrap_or(1.0);
    let kind = r.find_text("rope.scaling.type")?.unwrap_or("linear");
    let yarn = Yarn {
        ext_factor: if kind == "yarn" { 1.0 } else { 0.0 },
        attn_factor: r.find_f32("rope.scaling.attn_factor")?.unwrap_or(1.0),
        beta_fast: r.find_f32("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: r.find_f32("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        original_context: r.find_size("rope.scaling.original_context_length")?.unwrap_or(context),
    };
    let magnified = (yarn.attn_factor != 1.0).then(|| yarn.clone());
    match kind {
        "none" => Ok((1.0, magnified)),
        "linear" | "longrope" => Ok((1.0 / factor, magnified)),
        "yarn" => {
            let attn_factor = yarn.attn_factor * attention_factor(r, factor, without_magnitude)?;
            Ok((1.0 / factor, Some(Yarn { attn_factor, ..yarn })))
        }
        other => {
            let message = format!("`{other}` is not supported; none, linear, longrope and yarn are");
            Err(r.error("rope.scaling.type", message))
        }
    }
}

/// What the magnitude of YaRN is multiplied with where the metadata has a multiplier of its logarithm.
fn attention_factor(r: &MetadataReader<'_>, factor: f32, without_magnitude: bool) -> Result<f32> {
    let magnitude = |multiplier: f32| if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 };
    let multiplier = r.find_f32("rope.scaling.yarn_log_multiplier")?.filter(|&m| m != 0.0);
    let multiplier = multiplier.map(|multiplier| if without_magnitude { 1.0 } else { multiplier });
    Ok(multiplier.map_or(1.0, |multiplier| 1.0 / magnitude(multiplier)))
}
