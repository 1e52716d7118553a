//! Printing against PyTorch's `repr`, recorded by `tools/oracle/tensor_display.py`.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{fixture, tensor};
use rustorch_core::Device;
use rustorch_cpu::CpuBackend;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, PrintOptions, QuantType, Result, Tensor};
use rustorch_testkit::FakeDevice;
use std::sync::Arc;

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
        let (x, options, default) = (tensor(&line["input"]), &line["options"], PrintOptions::default());
        let size = |key: &str, default: usize| options[key].as_u64().map_or(default, |n| n as usize);
        let options = PrintOptions {
            precision: size("precision", default.precision),
            threshold: size("threshold", default.threshold),
            edge_items: size("edgeitems", default.edge_items),
            line_width: size("linewidth", default.line_width),
            sci_mode: options["sci_mode"].as_bool(),
        };
        let got = if options == default { x.to_string() } else { x.display(options).to_string() };
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
    assert_eq!(format!("{x:.1} {:.2?}", x.display(PrintOptions::default())), "tensor([1.5]) tensor([1.50])");
}

#[test]
fn options_out_of_bounds_are_moved_into_them() {
    let x = Tensor::new([0.5f32, 1.25, 2.0]).unwrap();
    let options =
        |precision, edge_items| PrintOptions { precision, edge_items, threshold: 1, ..Default::default() };
    assert_eq!(x.display(options(2, 0)).to_string(), "tensor([0.50,  ..., 2.00])");
    assert!(x.display(options(usize::MAX, usize::MAX)).to_string().len() > 3000);
}

#[test]
fn devices_other_than_the_cpu_are_told() -> Result<()> {
    let fake = Arc::new(FakeDevice::new(Device::cuda(0), Arc::new(CpuBackend::new(1))));
    let exec = HybridExecutor::builder().threads(1).backend(fake as _).build()?;
    exec.scope(|| {
        let x = Tensor::new([1.5f64])?.to_device(Device::cuda(0))?;
        assert_eq!(x.to_string(), "tensor([1.5000], device='cuda:0', dtype=f64)");
        let none = Tensor::zeros([0, 2], (DType::F32, Device::cuda(0)))?;
        assert_eq!(none.to_string(), "tensor([], device='cuda:0', size=(0, 2))");
        Ok(())
    })
}
