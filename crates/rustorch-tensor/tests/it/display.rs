//! Printing against PyTorch's `repr`, recorded by `tools/oracle/tensor_display.py`.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{fixture, tensor};
use rustorch_tensor::{DType, QuantType, Tensor};

/// PyTorch's text with our names of dtypes.
fn ours(text: &str) -> String {
    let names = [
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        ("float64", "f64"),
        ("complex64", "c64"),
        ("complex128", "c128"),
        ("uint8", "u8"),
        ("int8", "i8"),
        ("int16", "i16"),
        ("int32", "i32"),
        ("uint32", "u32"),
        ("int64", "i64"),
        ("bool", "bool"),
    ];
    match text.split_once("dtype=torch.") {
        None => text.into(),
        Some((before, after)) => {
            let name = after.trim_end_matches(')');
            let ours = names.iter().find(|(theirs, _)| *theirs == name).unwrap_or_else(|| panic!("{name}")).1;
            format!("{before}dtype={ours})")
        }
    }
}

#[test]
fn tensors_print_as_in_pytorch() {
    let lines = fixture("display.jsonl");
    assert!(lines.len() > 100);
    for line in lines {
        let got = tensor(&line["input"]).to_string();
        let want = ours(line["repr"].as_str().unwrap());
        assert_eq!(got, want, "\n{got}\nPyTorch:\n{want}\n{}", line["input"]);
    }
}

#[test]
fn block_types_print_their_numbers() {
    let x = Tensor::full([2, 32], 63.5, DType::F32).unwrap();
    let q = x.to_dtype(DType::Quant(QuantType::Q8_0)).unwrap();
    let text = q.to_string();
    assert!(text.starts_with("tensor([[63.5000, 63.5000,"), "{text}");
    assert!(text.ends_with("dtype=Q8_0)"), "{text}");
    let wide = Tensor::ones([40, 64], DType::F32).unwrap().to_dtype(DType::Quant(QuantType::Q8_0)).unwrap();
    let text = wide.to_string();
    assert_eq!(text.lines().count(), 7, "{text}");
    assert_eq!(text.matches("...").count(), 7, "{text}");
}

#[test]
fn debug_is_display() {
    let x = Tensor::new([1.5f32]).unwrap();
    assert_eq!(format!("{x:?}"), "tensor([1.5000])");
}
