//! How rotary positions extend beyond the training context.

use super::MetadataReader;
use crate::Result;
use rustorch_core::{RopeParams, RopeStyle, Yarn};

/// The rotation that a file's metadata describes, for heads of `head` elements.
pub(in crate::model) fn rope_params(
    r: &MetadataReader<'_>,
    style: RopeStyle,
    head: usize,
    context: usize,
) -> Result<RopeParams> {
    let rotated = r.find_size("rope.dimension_count")?.unwrap_or(head);
    if !rotated.is_multiple_of(2) || rotated > head {
        let message = format!("{rotated} must be even and at most the head's {head} elements");
        return Err(r.error("rope.dimension_count", message));
    }
    let base = r.find_f32("rope.freq_base")?.unwrap_or(10_000.0);
    if base <= 0.0 {
        return Err(r.error("rope.freq_base", format!("{base} is not positive")));
    }
    let (scale, yarn) = scaling(r, context)?;
    Ok(RopeParams { style, rotated, base, scale, yarn })
}

/// The factor of positions, and YaRN's correction.
fn scaling(r: &MetadataReader<'_>, context: usize) -> Result<(f32, Option<Yarn>)> {
    let factor = match r.find_f32("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => r.find_f32("rope.scale_linear")?,
    };
    // A factor of 0 is how some converters write "none".
    let factor = factor.filter(|&f| f != 0.0);
    if factor.is_some_and(|f| f < 0.0) {
        return Err(r.error("rope.scaling.factor", "must be positive"));
    }
    match (r.find_text("rope.scaling.type")?.unwrap_or("linear"), factor) {
        ("none", _) | ("linear", None) => Ok((1.0, None)),
        ("linear", Some(factor)) => Ok((1.0 / factor, None)),
        ("yarn", factor) => {
            let yarn = Yarn {
                ext_factor: 1.0,
                attn_factor: r.find_f32("rope.scaling.attn_factor")?.unwrap_or(1.0),
                beta_fast: r.find_f32("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: r.find_f32("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                original_context: r.find_size("rope.scaling.original_context_length")?.unwrap_or(context),
            };
            Ok((1.0 / factor.unwrap_or(1.0), Some(yarn)))
        }
        (other, _) => {
            Err(r
                .error("rope.scaling.type", format!("`{other}` is not supported; none, linear and yarn are")))
        }
    }
}
