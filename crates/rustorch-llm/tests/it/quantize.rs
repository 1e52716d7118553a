//! Quantizing models: the dtypes that llama.cpp chooses, and its data or data as close (`tools/oracle/llama_quantize.py`).

use crate::architectures::fixture::metadata;
use crate::architectures::weights::{self, splitmix64};
use crate::common::{self, fnv, fnv1a};
use rustorch_core::{DType, QuantType};
use rustorch_formats::gguf::{File, Writer};
use rustorch_llm::quantize::{ImportanceMatrix, Mixture, Quantization, QuantizeError, QuantizeOptions};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Model {
    name: String,
    metadata: serde_json::Map<String, serde_json::Value>,
    tensors: serde_json::Map<String, serde_json::Value>,
    mixtures: BTreeMap<String, Expected>,
}

/// Of each matrix, without and with importances.
#[derive(Deserialize)]
struct Expected {
    plain: Option<String>,
    weighted: Option<String>,
    #[serde(default)]
    fnv: Vec<String>,
    #[serde(default)]
    weighted_fnv: Vec<String>,
    #[serde(default)]
    error: Vec<Option<f64>>,
    #[serde(default)]
    weighted_error: Vec<Option<f64>>,
}

impl Model {
    fn all() -> Vec<Model> {
        let lines = include_str!("../fixtures/quantize.jsonl").lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn shapes(&self) -> impl Iterator<Item = (&str, Vec<usize>)> {
        self.tensors
            .iter()
            .map(|(name, shape)| (name.as_str(), serde_json::from_value(shape.clone()).unwrap()))
    }

    fn matrices(&self) -> impl Iterator<Item = (&str, Vec<usize>)> {
        self.shapes().filter(|(_, shape)| shape.len() > 1)
    }

    fn file(&self) -> File {
        let mut writer = Writer::new();
        for (key, value) in &self.metadata {
            writer.metadata(key, metadata(value)).unwrap();
        }
        for (name, shape) in self.shapes() {
            writer.tensor(name, &shape, DType::F32, bytes(&weights::tensor(name, &shape, 0.25))).unwrap();
        }
        File::from_bytes(writer.to_bytes().unwrap()).unwrap()
    }

    fn importance(&self) -> ImportanceMatrix {
        let mut matrix = ImportanceMatrix::default();
        for (name, shape) in self.matrices() {
            matrix.insert(name, importance(name, &shape));
        }
        matrix
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The twin of the script's function.
fn importance(name: &str, shape: &[usize]) -> Vec<f32> {
    let experts = if shape.len() == 3 { shape[0] } else { 1 };
    let seed = fnv1a(format!("{name}.importance").bytes());
    let of = |i| {
        let z = splitmix64(seed, i);
        ((z & 1023) as f32 + 1.0) * 0.5f32.powi(((z >> 10) % 7) as i32) / 64.0
    };
    (1..=(experts * shape[shape.len() - 1]) as u64).map(of).collect()
}

fn options(mixture: Mixture, importance: Option<ImportanceMatrix>) -> QuantizeOptions {
    QuantizeOptions { importance, ..QuantizeOptions::new(mixture) }
}

/// '0' + ggml's id.
fn letter(dtype: DType) -> char {
    char::from(b'0' + u8::try_from(dtype.ggml_id().unwrap()).unwrap())
}

#[test]
fn every_tensor_gets_the_dtype_that_llama_cpp_gives_it_in_every_mixture() {
    let models = Model::all();
    assert_eq!(models.len(), 11);
    let (mut same, mut refused) = (0, 0);
    for model in &models {
        let file = model.file();
        assert_eq!(model.mixtures.len(), Mixture::ALL.len());
        for (name, expected) in &model.mixtures {
            let mixture = Mixture::from_name(name).unwrap();
            assert_eq!(mixture.name(), name);
            for (importance, expected) in
                [(None, &expected.plain), (Some(model.importance()), &expected.weighted)]
            {
                let what = format!("{}, {name}, importances: {}", model.name, importance.is_some());
                let options = options(mixture, importance);
                let plan = Quantization::plan(&file, &options);
                let Some(expected) = expected else {
                    assert!(plan.is_err(), "{what}");
                    refused += 1;
                    continue;
                };
                let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
                let dtypes: BTreeMap<&str, DType> =
                    plan.tensors().iter().map(|tensor| (tensor.source.name(), tensor.dtype)).collect();
                let found: String = model.matrices().map(|(name, _)| letter(dtypes[name])).collect();
                let differ =
                    || model.matrices().zip(found.chars().zip(expected.chars())).filter(|(_, (a, b))| a != b);
                assert_eq!(&found, expected, "{what}: {:?}", differ().take(5).collect::<Vec<_>>());
                same += 1;
            }
        }
    }
    assert!(same > 500 && refused > 30, "{same}, {refused}");
}

/// Whether a type's data is the result of a search, of which ours is another one.
fn is_searched(dtype: DType, weighted: bool) -> bool {
    use QuantType as Q;
    match dtype {
        DType::Quant(Q::Q4_0 | Q::Q4_1 | Q::Q5_0 | Q::Q5_1) => weighted,
        DType::Quant(quant) => {
            !matches!(quant, Q::Q8_0 | Q::TQ1_0 | Q::TQ2_0 | Q::MXFP4 | Q::NVFP4 | Q::Q1_0 | Q::Q2_0)
        }
        _ => false,
    }
}

#[test]
fn data_is_llama_cpp_s_or_as_close() {
    let models = Model::all();
    let model = models.iter().find(|model| model.name == "data").unwrap();
    let file = model.file();
    let folder = tempfile::tempdir().unwrap();
    let (mut equal, mut close) = (0, 0);
    let mut seen = BTreeSet::new();
    // Square errors, ours and llama.cpp's, over all matrices of a type: of one with few blocks they are a matter of luck.
    let mut sums: BTreeMap<(&str, bool), (f64, f64)> = BTreeMap::new();
    for (name, expected) in &model.mixtures {
        let mixture = Mixture::from_name(name).unwrap();
        for weighted in [false, true] {
            let (types, hashes, errors) = match weighted {
                false => (&expected.plain, &expected.fnv, &expected.error),
                true => (&expected.weighted, &expected.weighted_fnv, &expected.weighted_error),
            };
            let Some(types) = types else { continue };
            // Mixtures without a dtype that no other had show nothing new.
            let new = types.chars().filter(|dtype| seen.insert((*dtype, weighted))).count();
            if new == 0 {
                continue;
            }
            let options = options(mixture, weighted.then(|| model.importance()));
            let path = folder.path().join("quantized.gguf");
            Quantization::plan(&file, &options).unwrap().write(&path, &|_, _| {}).unwrap();
            let written = File::open(&path).unwrap();
            assert_eq!(written.metadata().get::<u32>("general.file_type").unwrap(), mixture.file_type());
            for (i, (tensor, shape)) in model.matrices().enumerate() {
                let found = written.tensor(tensor).unwrap();
                let what = format!("{name}, {tensor}, {}, importances: {weighted}", found.dtype());
                if !is_searched(found.dtype(), weighted) {
                    assert_eq!(fnv(found.bytes().iter().copied()), hashes[i], "{what}");
                    equal += 1;
                    continue;
                }
                let DType::Quant(quant) = found.dtype() else { panic!("{what}") };
                let mut values = vec![0.0; found.numel()];
                rustorch_quant::dequantize(quant, found.bytes(), &mut values).unwrap();
                let weights = importance(tensor, &shape);
                let (columns, of_matrix) =
                    (shape[shape.len() - 1], found.numel() / (weights.len() / shape[shape.len() - 1]));
                let error: f64 = values
                    .iter()
                    .zip(weights::tensor(tensor, &shape, 0.25))
                    .enumerate()
                    .map(|(i, (a, b))| {
                        let weight = weights[i / of_matrix * columns + i % columns];
                        (f64::from(*a) - f64::from(b)).powi(2)
                            * if weighted { f64::from(weight) } else { 1.0 }
                    })
                    .sum();
                let sums: &mut (f64, f64) = sums.entry((quant.name(), weighted)).or_default();
                sums.0 += error;
                sums.1 += errors[i].unwrap();
                close += 1;
            }
        }
    }
    for ((quant, weighted), (ours, theirs)) in &sums {
        println!(
            "{quant:8} {}: {:.4} of llama.cpp's square error",
            if *weighted { "weighted" } else { "plain" },
            ours / theirs
        );
    }
    let worse: Vec<_> = sums.iter().filter(|(_, (ours, theirs))| *ours > 1.01 * theirs).collect();
    assert!(worse.is_empty(), "{worse:?}");
    assert!(equal > 50 && close > 100, "{equal}, {close}");
}

#[test]
fn options_decide_before_the_mixture() {
    let models = Model::all();
    let file = models[0].file();
    let dtypes = |options: &QuantizeOptions| -> BTreeMap<String, DType> {
        let plan = Quantization::plan(&file, options).unwrap();
        plan.tensors().iter().map(|tensor| (tensor.source.name().to_owned(), tensor.dtype)).collect()
    };
    let q = DType::Quant;
    let options = QuantizeOptions {
        output_dtype: Some(DType::F16),
        embedding_dtype: Some(q(QuantType::Q8_0)),
        by_name: vec![
            (r"blk\.1\.ffn".into(), q(QuantType::Q4_0)),
            ("ffn_up".into(), q(QuantType::Q5_K)),
            (r"blk\.[0-2]\.attn_(k|v)".into(), q(QuantType::Q6_K)),
        ],
        ..QuantizeOptions::new(Mixture::Q4_K_M)
    };
    let found = dtypes(&options);
    for (name, dtype) in [
        ("output.weight", DType::F16),
        ("token_embd.weight", q(QuantType::Q8_0)),
        ("blk.1.ffn_up.weight", q(QuantType::Q4_0)),
        ("blk.2.ffn_up.weight", q(QuantType::Q5_K)),
        ("blk.2.attn_q.weight", q(QuantType::Q4_K)),
        ("blk.2.attn_k.weight", q(QuantType::Q6_K)),
        ("blk.2.attn_norm.weight", DType::F32),
    ] {
        assert_eq!(found[name], dtype, "{name}");
    }
    for (pattern, why) in
        [("blk.(", "unclosed group"), ("ffn_sideways", "no matrix"), ("attn_norm", "no matrix")]
    {
        let by_name = vec![(pattern.to_owned(), q(QuantType::Q4_0))];
        let options = QuantizeOptions { by_name, ..QuantizeOptions::new(Mixture::Q4_K_M) };
        let error = Quantization::plan(&file, &options).unwrap_err().to_string();
        assert!(error.contains(pattern) && error.contains(why), "{error}");
    }
    let by_name = vec![("attn_v".to_owned(), q(QuantType::Q8_K))];
    let options = QuantizeOptions { by_name, ..QuantizeOptions::new(Mixture::Q4_K_M) };
    let plan = Quantization::plan(&file, &options);
    assert!(matches!(plan, Err(QuantizeError::NotWritable { .. })), "{plan:?}");
    let pure = dtypes(&QuantizeOptions { pure: true, ..QuantizeOptions::new(Mixture::Q4_K_M) });
    assert!(
        pure.iter().all(|(name, &dtype)| name.contains("norm") || dtype == q(QuantType::Q4_K)),
        "{pure:?}"
    );
    let left = dtypes(&QuantizeOptions { leave_output: true, ..QuantizeOptions::new(Mixture::Q4_0) });
    assert_eq!(left["output.weight"], DType::F32);
    let copy = dtypes(&QuantizeOptions { copy: true, ..QuantizeOptions::new(Mixture::Q4_0) });
    assert!(copy.values().all(|&dtype| dtype == DType::F32));
}

#[test]
fn what_is_quantized_is_not_quantized_again_unless_allowed() {
    let file = File::open(common::carried_path()).unwrap();
    let mut options = QuantizeOptions::new(Mixture::Q4_0);
    let refused = Quantization::plan(&file, &options);
    assert!(matches!(refused, Err(QuantizeError::Quantized { .. })), "{refused:?}");
    options.allow_requantize = true;
    assert!(Quantization::plan(&file, &options).is_ok());
}

#[test]
fn values_that_no_block_can_hold_are_named_and_leave_no_file() {
    let mut writer = Writer::new();
    writer.metadata("general.architecture", "llama").unwrap();
    let mut values = vec![0.5; 64 * 256];
    values[1000] = f32::NAN;
    writer.tensor("blk.0.ffn_up.weight", &[64, 256], DType::F32, bytes(&values)).unwrap();
    let file = File::from_bytes(writer.to_bytes().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = QuantizeOptions::new(Mixture::Q8_0);
    let plan = Quantization::plan(&file, &options).unwrap();
    let error = plan.write(folder.path().join("quantized.gguf"), &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("blk.0.ffn_up.weight") && error.contains("NaN"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn the_number_of_threads_changes_no_byte_and_parts_stay_parts() {
    let mut writer = Writer::new();
    writer.metadata("general.architecture", "llama").unwrap();
    for name in ["blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "blk.1.ffn_up.weight"] {
        writer
            .tensor(name, &[700, 1024], DType::F32, bytes(&weights::tensor(name, &[700, 1024], 0.25)))
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let parts = writer.write_groups(folder.path().join("source"), &[2, 1]).unwrap();
    assert_eq!(parts.len(), 2);
    let file = File::open(&parts[1]).unwrap();
    let written = |threads: usize| {
        let options =
            QuantizeOptions { threads: threads.try_into().ok(), ..QuantizeOptions::new(Mixture::Q4_K_S) };
        let path = folder.path().join("quantized.gguf");
        Quantization::plan(&file, &options).unwrap().write(&path, &|_, _| {}).unwrap();
        std::fs::read(path).unwrap()
    };
    let one = written(1);
    assert!(one == written(3), "threads change bytes");
    let options = QuantizeOptions::new(Mixture::Q4_K_S);
    let plan = Quantization::plan(&file, &options).unwrap();
    let parts = plan.write_parts(folder.path().join("quantized"), &|_, _| {}).unwrap();
    let whole = File::from_bytes(one).unwrap();
    let joined = File::open(&parts[0]).unwrap();
    assert_eq!((parts.len(), joined.tensors().count()), (2, 3));
    for tensor in whole.tensors() {
        let part = joined.tensor(tensor.name()).unwrap();
        assert_eq!((part.dtype(), part.bytes()), (tensor.dtype(), tensor.bytes()), "{}", tensor.name());
        assert_eq!(part.part(), file.tensor(tensor.name()).unwrap().part(), "{}", tensor.name());
    }
}
