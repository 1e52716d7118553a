//! Attention, and what stands in its place, with one knob wrong.

use super::{Wrong, of_factor, of_linear, of_norm, other_kind};
use rustorch_core::{HeadBroadcast, RopeStyle};
use rustorch_llm::arch::{
    Attention, DeltaNet, DeltaRates, HeadNorm, LatentAttention, NormSpan, Rope, Temperature, WindowedRope,
};

fn of_head_norm(norm: HeadNorm) -> Wrong<HeadNorm> {
    let HeadNorm { kind, tensor, span, optional } = norm;
    let mut all = vec![(format!("kind: {kind:?}"), HeadNorm { kind: other_kind(kind), ..norm })];
    for other in [NormSpan::Head, NormSpan::EachHead, NormSpan::AllHeads] {
        if other != span {
            all.push((format!("span: {span:?} as {other:?}"), HeadNorm { span: other, ..norm }));
        }
    }
    if tensor.is_some() {
        all.push(("tensor: none".into(), HeadNorm { tensor: None, ..norm }));
    }
    if optional {
        all.push(("optional".into(), HeadNorm { optional: false, ..norm }));
    }
    all
}

fn of_rope(rope: Rope) -> Wrong<Rope> {
    let Rope { style, factors, windowed, without_magnitude } = rope;
    let other = match style {
        RopeStyle::Adjacent => RopeStyle::Halves,
        RopeStyle::Halves => RopeStyle::Adjacent,
    };
    let mut all = vec![
        (format!("style: {style:?}"), Rope { style: other, ..rope }),
        ("without_magnitude".into(), Rope { without_magnitude: !without_magnitude, ..rope }),
    ];
    if factors {
        all.push(("factors".into(), Rope { factors: false, ..rope }));
    }
    let unscaled = |base| WindowedRope::Unscaled { base };
    let others = match windowed {
        WindowedRope::Same => vec![("Same as Unscaled", unscaled(Some(7.0)))],
        WindowedRope::Unscaled { base: None } => {
            vec![("Unscaled as Same", WindowedRope::Same), ("no base as one", unscaled(Some(7.0)))]
        }
        WindowedRope::Unscaled { base: Some(_) } => {
            vec![("Unscaled as Same", WindowedRope::Same), ("another base", unscaled(Some(7.0)))]
        }
    };
    let others = others.into_iter();
    all.extend(others.map(|(knob, windowed)| (format!("windowed: {knob}"), Rope { windowed, ..rope })));
    all
}

pub(super) fn of_attention(attention: Attention) -> Wrong<Attention> {
    let Attention {
        query,
        key,
        value,
        fused,
        query_norm,
        key_norm,
        value_norm,
        norm_after_rope,
        rope,
        scale,
        clamp,
        alibi,
        softcap,
        sinks,
        temperature,
        gated,
        output,
    } = attention;
    let mut all: Wrong<Attention> = Vec::new();
    all.extend(of_linear(query).into_iter().map(|(k, query)| (k, Attention { query, ..attention })));
    all.extend(of_linear(key).into_iter().map(|(k, key)| (k, Attention { key, ..attention })));
    all.extend(of_linear(value).into_iter().map(|(k, value)| (k, Attention { value, ..attention })));
    all.extend(of_linear(fused).into_iter().map(|(k, fused)| (k, Attention { fused, ..attention })));
    all.extend(of_linear(output).into_iter().map(|(k, output)| (k, Attention { output, ..attention })));
    let mut set = |knob: &str, wrong: Attention| all.push((knob.to_owned(), wrong));
    if let Some(norm) = query_norm {
        set("query_norm: none", Attention { query_norm: None, ..attention });
        for (knob, norm) in of_head_norm(norm) {
            set(&format!("query_norm.{knob}"), Attention { query_norm: Some(norm), ..attention });
        }
    }
    if let Some(norm) = key_norm {
        set("key_norm: none", Attention { key_norm: None, ..attention });
        for (knob, norm) in of_head_norm(norm) {
            set(&format!("key_norm.{knob}"), Attention { key_norm: Some(norm), ..attention });
        }
    }
    set(&format!("value_norm: {value_norm}"), Attention { value_norm: !value_norm, ..attention });
    if query_norm.is_some() {
        let knob = format!("norm_after_rope: {norm_after_rope}");
        set(&knob, Attention { norm_after_rope: !norm_after_rope, ..attention });
    }
    match rope {
        Some(rope) => {
            set("rope: none", Attention { rope: None, ..attention });
            for (knob, rope) in of_rope(rope) {
                set(&format!("rope.{knob}"), Attention { rope: Some(rope), ..attention });
            }
        }
        None => {
            let rope = Some(Rope::new(RopeStyle::Halves));
            set("rope: some", Attention { rope, ..attention });
        }
    }
    for (knob, scale) in of_factor(scale) {
        set(&format!("scale.{knob}"), Attention { scale, ..attention });
    }
    if clamp.is_some() {
        set("clamp: none", Attention { clamp: None, ..attention });
    }
    if let Some(slope) = alibi {
        set("alibi: none", Attention { alibi: None, ..attention });
        for (knob, slope) in of_factor(slope) {
            set(&format!("alibi.{knob}"), Attention { alibi: Some(slope), ..attention });
        }
    }
    if softcap.is_some() {
        set("softcap: none", Attention { softcap: None, ..attention });
    }
    if sinks.is_some() {
        set("sinks: none", Attention { sinks: None, ..attention });
    }
    if let Some(temperature) = temperature {
        set("temperature: none", Attention { temperature: None, ..attention });
        let other = match temperature {
            Temperature::Metadata => Temperature::Fixed { scale: 0.5, floor: 4 },
            Temperature::Fixed { scale, floor } => {
                Temperature::Fixed { scale: 2.0 * scale + 1.0, floor: floor / 1024 + 1 }
            }
        };
        set("temperature: another", Attention { temperature: Some(other), ..attention });
    }
    set(&format!("gated: {gated}"), Attention { gated: !gated, ..attention });
    all
}

pub(super) fn of_latent(attention: LatentAttention) -> Wrong<LatentAttention> {
    let LatentAttention { query, query_latent, latent, latent_norm, key, value, rope, output } = attention;
    let (down, norm, up) = query_latent;
    let mut all: Wrong<LatentAttention> = Vec::new();
    all.extend(of_linear(query).into_iter().map(|(k, query)| (k, LatentAttention { query, ..attention })));
    all.extend(of_linear(latent).into_iter().map(|(k, latent)| (k, LatentAttention { latent, ..attention })));
    all.extend(of_linear(key).into_iter().map(|(k, key)| (k, LatentAttention { key, ..attention })));
    all.extend(of_linear(value).into_iter().map(|(k, value)| (k, LatentAttention { value, ..attention })));
    all.extend(of_linear(output).into_iter().map(|(k, output)| (k, LatentAttention { output, ..attention })));
    for (knob, down) in of_linear(down) {
        all.push((knob, LatentAttention { query_latent: (down, norm, up), ..attention }));
    }
    for (knob, up) in of_linear(up) {
        all.push((knob, LatentAttention { query_latent: (down, norm, up), ..attention }));
    }
    for (knob, norm) in of_norm(norm) {
        let query_latent = (down, norm, up);
        all.push((format!("query_latent {knob}"), LatentAttention { query_latent, ..attention }));
    }
    for (knob, latent_norm) in of_norm(latent_norm) {
        all.push((format!("latent_norm {knob}"), LatentAttention { latent_norm, ..attention }));
    }
    all.extend(
        of_rope(rope)
            .into_iter()
            .map(|(k, rope)| (format!("rope.{k}"), LatentAttention { rope, ..attention })),
    );
    all
}

pub(super) fn of_delta_net(net: DeltaNet) -> Wrong<DeltaNet> {
    let DeltaNet { qkv, gate, convolution: _, rates, dt_bias: _, a: _, norm: _, output, broadcast } = net;
    let mut all: Wrong<DeltaNet> = Vec::new();
    all.extend(of_linear(qkv).into_iter().map(|(k, qkv)| (k, DeltaNet { qkv, ..net })));
    all.extend(of_linear(gate).into_iter().map(|(k, gate)| (k, DeltaNet { gate, ..net })));
    all.extend(of_linear(output).into_iter().map(|(k, output)| (k, DeltaNet { output, ..net })));
    let other = match rates {
        DeltaRates::Separate { beta, alpha } => DeltaRates::Separate { beta: alpha, alpha: beta },
        DeltaRates::Interleaved(both) => DeltaRates::Separate { beta: both, alpha: both },
    };
    all.push((
        format!("rates: {}", matches!(rates, DeltaRates::Separate { .. })),
        DeltaNet { rates: other, ..net },
    ));
    let other = match broadcast {
        HeadBroadcast::Interleaved => HeadBroadcast::Tiled,
        HeadBroadcast::Tiled => HeadBroadcast::Interleaved,
    };
    all.push((format!("broadcast: {broadcast:?}"), DeltaNet { broadcast: other, ..net }));
    all
}
