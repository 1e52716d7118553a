//! Samplers against distributions computed by numpy (`tools/oracle/sampling.py`), and their draws against chi-square.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rustorch_llm::sampling::{Sampler, SamplerConfig, SamplingError};
use serde_json::Value;
use std::collections::BTreeMap;

/// Keeps everything.
fn open() -> SamplerConfig {
    SamplerConfig { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerConfig::default() }
}

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/sampling/distributions.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn config(value: &Value) -> SamplerConfig {
    let mut config = open();
    for (name, value) in value.as_object().unwrap() {
        let number = value.as_f64().unwrap_or(0.0) as f32;
        match name.as_str() {
            "temperature" => config.temperature = number,
            "top_k" => config.top_k = number as usize,
            "top_p" => config.top_p = number,
            "min_p" => config.min_p = number,
            "repeat_penalty" => config.repeat_penalty = number,
            "repeat_last_n" => config.repeat_last_n = number as usize,
            "presence_penalty" => config.presence_penalty = number,
            "frequency_penalty" => config.frequency_penalty = number,
            "logit_bias" => {
                let pairs = value.as_array().unwrap().iter();
                config.logit_bias =
                    pairs.map(|p| (p[0].as_u64().unwrap() as u32, p[1].as_f64().unwrap() as f32)).collect();
            }
            other => panic!("unknown setting {other}"),
        }
    }
    config
}

#[test]
fn distributions_match_numpy() {
    let fixture = fixture();
    let cases = fixture["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 17);
    for case in cases {
        let logits = floats(&fixture[case["logits"].as_str().unwrap()]);
        let recent: Vec<u32> =
            case["recent"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect();
        let expected: BTreeMap<u32, f64> = case["probabilities"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, p)| (id.parse().unwrap(), p.as_f64().unwrap()))
            .collect();
        let mut sampler = Sampler::new(config(&case["config"])).unwrap();
        // Twice: buffers of the first call must not show in the second.
        for _ in 0..2 {
            let found = sampler.distribution(&logits, &recent).unwrap();
            let found: BTreeMap<u32, f64> = found.iter().map(|c| (c.id, f64::from(c.probability))).collect();
            assert!(found.keys().eq(expected.keys()), "{}: {found:?}", case["config"]);
            for (id, p) in &expected {
                assert!((found[id] - p).abs() < 2e-6, "{}: token {id}: {} vs {p}", case["config"], found[id]);
            }
        }
    }
}

#[test]
fn draws_follow_the_distribution() {
    let fixture = fixture();
    let logits = floats(&fixture["small"]);
    for settings in
        [r#"{}"#, r#"{"temperature": 2.5}"#, r#"{"top_k": 4}"#, r#"{"top_p": 0.7}"#, r#"{"min_p": 0.15}"#]
    {
        let mut sampler =
            Sampler::new(SamplerConfig { seed: 42, ..config(&serde_json::from_str(settings).unwrap()) })
                .unwrap();
        const DRAWS: usize = 50_000;
        let mut counts = BTreeMap::<u32, usize>::new();
        for _ in 0..DRAWS {
            *counts.entry(sampler.sample(&logits, &[]).unwrap()).or_default() += 1;
        }
        let expected = sampler.distribution(&logits, &[]).unwrap();
        assert!(counts.keys().all(|id| expected.iter().any(|c| c.id == *id)));
        let chi_square: f64 = expected
            .iter()
            .map(|c| {
                let mean = f64::from(c.probability) * DRAWS as f64;
                let count = counts.get(&c.id).copied().unwrap_or(0) as f64;
                (count - mean).powi(2) / mean
            })
            .sum();
        // The 0.999 quantile of chi-square with 11 degrees of freedom is 31.3.
        assert!(chi_square < 31.3, "{settings}: {chi_square}");
        assert!(chi_square > 0.0);
    }
}

#[test]
fn top_k_equals_a_full_sort() {
    // Many ties, in a vocabulary of real size.
    let logits: Vec<f32> =
        (0..151_936u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 64.0).collect();
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
    for k in [1, 2, 40, 1000, 100_000] {
        let mut sampler = Sampler::new(SamplerConfig { top_k: k, ..open() }).unwrap();
        let kept: Vec<u32> = sampler.distribution(&logits, &[]).unwrap().iter().map(|c| c.id).collect();
        assert_eq!(kept, order[..k], "k = {k}");
    }
}

#[test]
fn the_same_seed_gives_the_same_tokens() {
    let logits: Vec<f32> = (0..100).map(|i| (i as f32 * 0.7).sin()).collect();
    let draw = |seed: u64| -> Vec<u32> {
        let mut sampler = Sampler::new(SamplerConfig { seed, ..open() }).unwrap();
        (0..64).map(|_| sampler.sample(&logits, &[]).unwrap()).collect()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let mut sampler = Sampler::new(SamplerConfig { seed: 1, ..open() }).unwrap();
    let first = sampler.sample(&logits, &[]).unwrap();
    sampler.sample(&logits, &[]).unwrap();
    sampler.reset();
    assert_eq!(sampler.sample(&logits, &[]).unwrap(), first);
}

#[test]
fn greedy_takes_the_first_of_the_greatest() {
    let mut greedy = Sampler::new(SamplerConfig::greedy()).unwrap();
    assert_eq!(greedy.sample(&[1.0, 3.0, 3.0, 2.0], &[]), Ok(1));
    assert_eq!(greedy.distribution(&[1.0, 3.0, 3.0, 2.0], &[]).unwrap()[0].id, 1);
    assert_eq!(greedy.sample(&[-5.0, f32::NAN, -4.0], &[]), Ok(2));
    let penalized = SamplerConfig { repeat_penalty: 2.0, ..SamplerConfig::greedy() };
    assert_eq!(Sampler::new(penalized).unwrap().sample(&[1.0, 3.0, 2.0], &[1, 900]), Ok(2));
    let banned =
        SamplerConfig { logit_bias: vec![(1, f32::NEG_INFINITY), (70, 1.0)], ..SamplerConfig::greedy() };
    assert_eq!(Sampler::new(banned).unwrap().sample(&[1.0, 3.0, 2.0], &[]), Ok(2));
}

#[test]
fn any_logits_end_in_a_token_or_an_error() {
    const INF: f32 = f32::INFINITY;
    let configs = [
        SamplerConfig::greedy(),
        SamplerConfig::default(),
        open(),
        SamplerConfig { top_k: 2, top_p: 0.0, min_p: 1.0, temperature: 1e-30, ..open() },
        SamplerConfig { temperature: f32::MAX, presence_penalty: f32::MAX, ..open() },
        SamplerConfig {
            repeat_penalty: f32::MIN_POSITIVE,
            frequency_penalty: -f32::MAX,
            top_p: 0.5,
            ..open()
        },
    ];
    for config in configs {
        let mut sampler = Sampler::new(config.clone()).unwrap();
        assert_eq!(sampler.sample(&[], &[1]), Err(SamplingError::Empty));
        let nan = sampler.sample(&[f32::NAN, -INF, f32::NAN], &[]);
        assert_eq!(nan, Err(SamplingError::NoCandidate { count: 3, nan: 2 }));
        assert_eq!(sampler.sample(&[-INF, f32::NAN, -7.0], &[]), Ok(2));
        assert!(matches!(sampler.sample(&[0.0, INF, f32::NAN, INF], &[]), Ok(1 | 3)));
        for logits in
            [[f32::MAX, f32::MIN, 0.0, f32::MAX], [0.0; 4], [f32::MIN; 4], [-0.0, 0.0, 1e-45, -1e-45]]
        {
            for recent in [&[][..], &[0, 0, 1, 2, 3], &[u32::MAX; 100]] {
                // Extreme penalties may forbid everything, which must be told and not chosen from.
                match sampler.sample(&logits, recent) {
                    Ok(token) => assert!(token < 4, "{config:?}"),
                    Err(error) => assert!(matches!(error, SamplingError::NoCandidate { .. }), "{config:?}"),
                }
            }
        }
    }
}

#[test]
fn bad_settings_are_refused_by_name() {
    let nan = f32::NAN;
    for (name, config) in [
        ("temperature", SamplerConfig { temperature: -0.1, ..open() }),
        ("temperature", SamplerConfig { temperature: nan, ..open() }),
        ("temperature", SamplerConfig { temperature: f32::INFINITY, ..open() }),
        ("top_p", SamplerConfig { top_p: 1.01, ..open() }),
        ("min_p", SamplerConfig { min_p: -0.01, ..open() }),
        ("repeat_penalty", SamplerConfig { repeat_penalty: 0.0, ..open() }),
        ("presence_penalty", SamplerConfig { presence_penalty: nan, ..open() }),
        ("frequency_penalty", SamplerConfig { frequency_penalty: f32::INFINITY, ..open() }),
        ("logit_bias", SamplerConfig { logit_bias: vec![(0, nan)], ..open() }),
    ] {
        let error = Sampler::new(config).unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
    }
}
