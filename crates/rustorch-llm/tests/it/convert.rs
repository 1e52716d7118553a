//! Conversions of Hugging Face's folders against convert_hf_to_gguf.py: `tools/oracle/hf_convert.py` makes the expected values.

use crate::architectures::weights;
use crate::common::{argmax, fnv};
use rustorch_core::{DType, QuantType, bf16, f16};
use rustorch_formats::gguf::{Array, Metadata, Value};
use rustorch_formats::safetensors::Writer;
use rustorch_llm::LanguageModel;
use rustorch_llm::convert::{Conversion, ConvertError, ConvertOptions};
use rustorch_llm::generate::{Session, SessionOptions};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MODELS: [&str; 7] =
    ["llama-7M-chat", "Tiny-Llama-3", "byte-fallback", "qwen2", "qwen3", "gemma3", "gemma3-with-images"];

#[derive(Deserialize)]
struct Expected {
    /// Of each file of weights the tensors: name, shape, dtype.
    weights: BTreeMap<String, Vec<(String, Vec<usize>, String)>>,
    converted: BTreeMap<String, Converted>,
    prompt: Vec<u32>,
    greedy: Vec<u32>,
}

#[derive(Deserialize)]
struct Converted {
    metadata: BTreeMap<String, serde_json::Value>,
    /// Shape, dtype and hash of the data.
    tensors: BTreeMap<String, (Vec<usize>, String, String)>,
}

/// A copy of a fixture with its weights, in a folder of its name.
fn folder(name: &str, within: &Path) -> (PathBuf, Expected) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/convert").join(name);
    let target = within.join(name);
    std::fs::create_dir(&target).unwrap();
    for file in std::fs::read_dir(&source).unwrap() {
        let file = file.unwrap();
        if file.file_name() != "expected.json" {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
    }
    let expected: Expected =
        serde_json::from_slice(&std::fs::read(source.join("expected.json")).unwrap()).unwrap();
    for (file, tensors) in &expected.weights {
        let mut writer = Writer::new();
        for (name, shape, dtype) in tensors {
            let values = weights::tensor(name, shape, 0.5);
            let (dtype, bytes): (DType, Vec<u8>) = match dtype.as_str() {
                "F32" => (DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect()),
                "F16" => (DType::F16, values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect()),
                "BF16" => {
                    (DType::BF16, values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect())
                }
                other => panic!("{other}"),
            };
            writer.tensor(name, shape, dtype, bytes).unwrap();
        }
        writer.write_file(target.join(file)).unwrap();
    }
    (target, expected)
}

fn options(outtype: &str) -> ConvertOptions {
    let dtype = match outtype {
        "f32" => Some(DType::F32),
        "bf16" => Some(DType::BF16),
        "q8_0" => Some(DType::Quant(QuantType::Q8_0)),
        _ => None,
    };
    ConvertOptions { dtype, ..ConvertOptions::default() }
}

/// A value as the oracle writes it: of arrays the type, the length and the hash of their values as JSON.
fn described(value: &Value) -> serde_json::Value {
    let array = |of: &str, values: serde_json::Value| {
        json!(["ARRAY", of, values.as_array().unwrap().len(), fnv(values.to_string().bytes())])
    };
    match value {
        Value::U32(x) => json!(["UINT32", x]),
        Value::I32(x) => json!(["INT32", x]),
        Value::F32(x) => json!(["FLOAT32", f64::from(*x)]),
        Value::Bool(x) => json!(["BOOL", x]),
        Value::Str(x) => json!(["STRING", x.to_string()]),
        Value::Array(Array::I32(values)) => array("INT32", json!(values)),
        Value::Array(Array::F32(values)) => {
            array("FLOAT32", values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>().into())
        }
        Value::Array(Array::Str(values)) => {
            let texts = values.iter().map(|text| String::from_utf8(text.to_vec()).unwrap());
            array("STRING", texts.collect::<Vec<_>>().into())
        }
        other => panic!("{other:?}"),
    }
}

fn entries(metadata: &Metadata) -> BTreeMap<String, serde_json::Value> {
    metadata.iter().map(|(key, value)| (key.to_owned(), described(value))).collect()
}

fn dtype_name(dtype: DType) -> String {
    dtype.to_string().to_uppercase()
}

#[test]
fn metadata_and_tensors_are_llama_cpp_s() {
    let temporary = tempfile::tempdir().unwrap();
    for name in MODELS {
        let (path, expected) = folder(name, temporary.path());
        assert_eq!(expected.weights.len() > 1, name == "Tiny-Llama-3", "one is in several files");
        for (outtype, expected) in &expected.converted {
            let conversion = Conversion::open(&path, &options(outtype)).unwrap();
            let found = entries(conversion.metadata());
            for (key, expected) in &expected.metadata {
                assert_eq!(found.get(key), Some(expected), "{name}, {outtype}: {key}");
            }
            assert_eq!(found.len(), expected.metadata.len(), "{name}: {:?}", found.keys());
            let file = conversion.to_gguf(&|_, _| {}).unwrap();
            assert_eq!(file.tensors().len(), expected.tensors.len(), "{name}");
            for tensor in file.tensors() {
                let (shape, dtype, hash) = &expected.tensors[tensor.name()];
                let what = format!("{name}, {outtype}: {}", tensor.name());
                assert_eq!((tensor.shape(), &dtype_name(tensor.dtype())), (&shape[..], dtype), "{what}");
                assert_eq!(&fnv(tensor.bytes().iter().copied()), hash, "{what}");
            }
        }
    }
}

#[test]
fn converted_models_generate_llama_cpp_s_tokens() {
    let temporary = tempfile::tempdir().unwrap();
    for name in MODELS {
        let (path, expected) = folder(name, temporary.path());
        let file = temporary.path().join(format!("{name}.gguf"));
        Conversion::open(&path, &options("f32")).unwrap().write(&file, &|_, _| {}).unwrap();
        let model = Arc::new(LanguageModel::open(&file).unwrap_or_else(|error| panic!("{name}: {error}")));
        let options = SessionOptions { context: 64, ..SessionOptions::for_model(&model) };
        let mut session = Session::new(model, options).unwrap();
        let mut next = argmax(session.feed(&expected.prompt).unwrap());
        let mut greedy = vec![next];
        while greedy.len() < expected.greedy.len() {
            next = argmax(session.feed(&[next]).unwrap());
            greedy.push(next);
        }
        assert_eq!(greedy, expected.greedy, "{name}");
    }
}

/// The error of a fixture whose configuration is changed.
fn refused(name: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let (path, _) = folder(name, temporary.path());
    let config = path.join("config.json");
    let mut value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&config, value.to_string()).unwrap();
    Conversion::open(&path, &ConvertOptions::default()).err().unwrap_or_else(|| panic!("{value}")).to_string()
}

#[test]
fn what_would_compute_something_else_is_refused() {
    for (name, field, value) in [
        ("llama-7M-chat", "embedding_multiplier", json!(12.0)),
        ("llama-7M-chat", "hidden_act", json!("gelu")),
        ("llama-7M-chat", "sliding_window", json!(64)),
        ("llama-7M-chat", "quantization_config", json!({"quant_method": "fp8"})),
        ("llama-7M-chat", "rope_parameters", json!({"rope_type": "dynamic", "factor": 2.0})),
        ("llama-7M-chat", "rope_parameters", json!({"rope_type": "linear", "factor": 2.0, "mscale": 0.7})),
        ("llama-7M-chat", "num_attention_heads", json!("four")),
        ("qwen2", "use_sliding_window", json!(true)),
        ("qwen2", "layer_types", json!(["full_attention", "sliding_attention", "full_attention"])),
        ("qwen3", "attention_bias", json!(true)),
        ("gemma3", "query_pre_attn_scalar", json!(64)),
        ("gemma3", "attn_logit_softcapping", json!(50.0)),
        ("gemma3", "use_bidirectional_attention", json!(true)),
    ] {
        let error = refused(name, |config| config[field] = value.clone());
        assert!(error.contains("config.json") && error.contains(field), "{error}");
    }
    let error = refused("qwen3", |config| config["architectures"] = json!(["MambaForCausalLM"]));
    assert!(error.contains("MambaForCausalLM") && error.contains("Qwen3ForCausalLM"), "{error}");
    // Without a value, a field says nothing; nor do those about training.
    let temporary = tempfile::tempdir().unwrap();
    let (path, _) = folder("qwen3", temporary.path());
    let config = path.join("config.json");
    let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    value["embedding_multiplier"] = json!(null);
    value["initializer_range"] = json!(0.5);
    std::fs::write(&config, value.to_string()).unwrap();
    Conversion::open(&path, &ConvertOptions::default()).unwrap();
    // A pre-tokenizer that is not known has to be named.
    let json = path.join("tokenizer.json");
    let text = std::fs::read_to_string(&json).unwrap().replace(r"\\p{N}|", r"\\p{N}{1,5}|");
    std::fs::write(&json, text).unwrap();
    let error = Conversion::open(&path, &ConvertOptions::default()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("--pre"), "{error}");
    let named = ConvertOptions { pre_tokenizer: Some("qwen2".into()), ..ConvertOptions::default() };
    let conversion = Conversion::open(&path, &named).unwrap();
    assert_eq!(conversion.metadata().get::<&str>("tokenizer.ggml.pre").unwrap(), "qwen2");
    // Nor are files missed.
    let weights = path.join("model.safetensors");
    std::fs::remove_file(&weights).unwrap();
    let error = Conversion::open(&path, &named).unwrap_err();
    assert!(matches!(error, ConvertError::NoWeights { .. }), "{error}");
    let mut writer = Writer::new();
    writer.tensor("model.layers.0.mlp.router.weight", &[1], DType::F32, vec![0; 4]).unwrap();
    writer.write_file(&weights).unwrap();
    let error = Conversion::open(&path, &named).unwrap_err();
    assert!(matches!(error, ConvertError::UnknownTensor { .. }), "{error}");
}
