//! Vectors and scores of texts are llama.cpp's.
//!
//! Expected: `fixtures/embeddings.json`, written by `tools/oracle/llama_embeddings.py`.

use crate::architectures::fixture::Header;
use crate::common;
use rustorch_core::{DType, Numerics};
use rustorch_llm::LanguageModel;
use rustorch_llm::embedding::{Normalization, normalize};
use rustorch_llm::model::Pooling;
use rustorch_llm::tokenizer::EncodeOptions;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How far the cosine of a vector and llama.cpp's may be from 1, and a score from llama.cpp's where neither rounds.
const TOLERANCE: f64 = 1e-4;
/// As llama.cpp encodes the texts of `llama-embedding`.
const WITH_SPECIAL: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

#[derive(Deserialize)]
struct Fixtures {
    query: String,
    texts: Vec<String>,
    models: Vec<Fixture>,
}

#[derive(Deserialize)]
struct Fixture {
    #[serde(flatten)]
    header: Header,
    /// By pooling, text after text; without pooling a row for each token, of the first texts.
    #[serde(default)]
    vectors: BTreeMap<String, String>,
    /// Of a reranker, the tokens of the query and each text.
    #[serde(default)]
    ids: Vec<Vec<u32>>,
    /// The score of each text.
    #[serde(default)]
    scores: String,
    /// The same with keys, values and GELU unrounded.
    #[serde(default)]
    exact_scores: String,
}

fn fixtures() -> Fixtures {
    serde_json::from_str(include_str!("../fixtures/embeddings.json")).unwrap()
}

impl Fixture {
    fn model(&self) -> LanguageModel {
        let model = self.header.open(|_, _| DType::F32).unwrap_or_else(|message| panic!("{message}"));
        assert_eq!(model.tokenizer().unwrap().warnings(), [""; 0], "{}", self.header.name);
        model
    }
}

fn of_name(name: &str) -> Fixture {
    fixtures().models.into_iter().find(|fixture| fixture.header.name == name).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    assert_eq!(a.len(), b.len());
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn pooling(name: &str) -> Pooling {
    match name {
        "none" => Pooling::None,
        "mean" => Pooling::Mean,
        "cls" => Pooling::Cls,
        "last" => Pooling::Last,
        other => panic!("{other}"),
    }
}

#[test]
fn vectors_equal_llama_cpps() {
    let Fixtures { texts, models, .. } = fixtures();
    assert_eq!(texts.len(), 20);
    for fixture in models.iter().filter(|fixture| !fixture.vectors.is_empty()) {
        let model = fixture.model();
        let own = model.model().pooling();
        assert!(fixture.vectors.keys().any(|name| pooling(name) == own), "{}", fixture.header.name);
        for (name, expected) in &fixture.vectors {
            let expected = common::floats(expected);
            let embed = |text: &String| model.embed(text, pooling(name), WITH_SPECIAL).unwrap().vectors;
            let texts = if name == "none" { &texts[..4] } else { &texts[..] };
            let found: Vec<_> = texts.iter().map(embed).collect();
            let width = found[0].dims()[1];
            let found: Vec<f32> = found.iter().flat_map(|v| v.to_vec::<f32>().unwrap()).collect();
            assert_eq!(found.len(), expected.len(), "{} {name}", fixture.header.name);
            let rows: Vec<(&[f32], &[f32])> = found.chunks(width).zip(expected.chunks(width)).collect();
            let worst = rows.iter().map(|(a, b)| 1.0 - cosine(a, b)).fold(0.0, f64::max);
            // Other texts, and other tokens, are far from being taken for the right one.
            let other = (0..rows.len())
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| 1.0 - cosine(rows[i].0, rows[j].1))
                .fold(1.0, f64::min);
            println!("{} {name}: {worst:.1e}, of others {other:.1e}", fixture.header.name);
            assert!(worst < TOLERANCE, "{} {name}: {worst:.1e}", fixture.header.name);
            assert!(other > 10.0 * TOLERANCE, "{} {name}: {other:.1e}", fixture.header.name);
        }
    }
}

#[test]
fn scores_and_their_order_equal_llama_cpps() {
    let Fixtures { query, texts, models } = fixtures();
    let order = |scores: &[f32]| {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order
    };
    for fixture in models.iter().filter(|fixture| !fixture.ids.is_empty()) {
        let name = &fixture.header.name;
        let mut model = fixture.model();
        let pairs: Vec<_> = texts.iter().map(|text| model.encode_pair(&query, text).unwrap()).collect();
        assert_eq!(pairs, fixture.ids, "{name}");
        let scores = |model: &LanguageModel| -> Vec<f32> {
            texts.iter().map(|text| model.relevance(&query, text).unwrap()).collect()
        };
        let distance = 1.0 - cosine(&scores(&model), &common::floats(&fixture.scores));
        model.set_numerics(Numerics::F32);
        let (found, expected) = (scores(&model), common::floats(&fixture.exact_scores));
        let worst = found.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
        println!("{name}: {distance:.1e}, exact {worst:.1e}");
        assert!(distance < TOLERANCE && worst < TOLERANCE, "{name}: {distance:.1e}, exact {worst:.1e}");
        assert_eq!(order(&found), order(&expected), "{name}");
    }
}

#[test]
fn control_tokens_in_a_query_are_text() {
    for name in ["jina-reranker", "qwen3-reranker"] {
        let model = of_name(name).model();
        let tokenizer = model.tokenizer().unwrap();
        let controls = |query: &str, text: &str| {
            let ids = model.encode_pair(query, text).unwrap();
            ids.into_iter().filter(|&id| tokenizer.is_control(id)).count()
        };
        let spelled = ["[SEP]", "<|im_end|>"].join(" ");
        assert_eq!(controls(&spelled, &spelled), controls("a", "b"), "{name}");
        // A text that spells a place of the template stays what it is.
        let ids = model.encode_pair("{document}", "of stone {query}").unwrap();
        assert!(tokenizer.decode(&ids, Default::default()).contains("of stone"), "{name}");
    }
}

#[test]
fn what_cannot_be_embedded_is_an_error() {
    let Fixtures { texts, .. } = fixtures();
    let embedder = of_name("nomic-bert").model();
    let error = embedder.relevance("a", "b").unwrap_err().to_string();
    assert!(error.contains("no classifier"), "{error}");
    let long = texts.join(" ").repeat(3);
    let error = embedder.embed(&long, Pooling::Mean, WITH_SPECIAL).unwrap_err().to_string();
    assert!(error.contains("longer than the 512"), "{error}");
    let without = EncodeOptions { add_special: false, parse_special: false };
    assert!(embedder.embed("", Pooling::Mean, without).is_err());
}

/// `common_embd_normalize` of llama.cpp, by hand: (3, −4, 0, 12) has the 1-norm 19, the 2-norm 13 and the cube of its 3-norm 1819.
#[test]
fn vectors_are_normalized_as_llama_embedding_does() {
    let of = |number: i32| {
        let mut vector = [3.0, -4.0, 0.0, 12.0];
        normalize(&mut vector, Normalization::from_number(number).unwrap());
        vector
    };
    assert_eq!(of(-1), [3.0, -4.0, 0.0, 12.0]);
    assert_eq!(of(0), [8190.0, -10920.0, 0.0, 32760.0]);
    assert_eq!(of(1), [3.0, -4.0, 0.0, 12.0].map(|x: f32| x * (1.0 / 19.0)));
    assert_eq!(of(2), [3.0, -4.0, 0.0, 12.0].map(|x: f32| x * (1.0 / 13.0)));
    assert_eq!(of(3), [3.0, -4.0, 0.0, 12.0].map(|x: f32| x * (1.0 / 1819f64.cbrt()) as f32));
    assert_eq!(Normalization::from_number(-2), None);
    let mut zeros = [0.0; 3];
    normalize(&mut zeros, Normalization::EUCLIDEAN);
    assert_eq!(zeros, [0.0; 3]);
}
