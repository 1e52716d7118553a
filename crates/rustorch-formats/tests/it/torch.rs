//! PyTorch's files are read as PyTorch reads them; tools/oracle/torch_files.py made them, and reads what these tests leave in
//! target/tmp/torch.

use crate::common::{fixture, output};
use rustorch_core::DType;
use rustorch_formats::torch::{Error, ErrorKind, File, Storage, TensorView, Value, Writer};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    fixture("torch").join(name)
}

fn open(name: &str) -> Value<TensorView> {
    File::open(path(name)).unwrap().into_value()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// What the oracle's `show` makes of a value.
fn show(value: &Value<TensorView>) -> String {
    let all = |items: &[Value<TensorView>]| items.iter().map(show).collect::<Vec<_>>();
    match value {
        Value::None => "None".to_owned(),
        Value::Bool(value) => truth(*value).to_owned(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("float({:016x})", value.to_bits()),
        Value::Str(text) => serde_json::to_string(text).unwrap(),
        Value::Bytes(bytes) => format!("bytes({})", hex(bytes)),
        Value::List(items) => format!("[{}]", all(items).join(", ")),
        Value::Tuple(items) => format!("({})", all(items).join(", ")),
        Value::Set(items) => {
            let mut items = all(items);
            items.sort();
            format!("set({})", items.join(", "))
        }
        Value::Dict(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::DType(dtype) => format!("dtype({dtype})"),
        Value::Device(name) => format!("device({name})"),
        Value::Tensor(t) => format!(
            "{}({}, {:?}, {:?}, {}, {}, {}, {})",
            if t.is_parameter() { "parameter" } else { "tensor" },
            t.dtype(),
            t.shape(),
            t.strides(),
            t.offset(),
            t.storage().bytes().len(),
            truth(t.requires_grad()),
            hex(&t.to_bytes().unwrap())
        ),
    }
}

#[test]
fn reads_what_pytorch_reads_and_writes_what_pytorch_reads() {
    for (name, expected) in [
        ("tensors", "tensors"),
        ("views", "views"),
        ("checkpoint", "checkpoint"),
        ("protocol4", "protocol4"),
        ("deflated", "checkpoint"),
    ] {
        let file = format!("{name}.pt");
        let expected = std::fs::read_to_string(path(&format!("{expected}.txt"))).unwrap();
        let value = open(&file);
        // SAFETY: nobody writes to fixtures.
        let mapped = unsafe { File::open_mapped(path(&file)) }.unwrap().into_value();
        let written = Writer::new(&value).to_bytes().unwrap();
        let again = File::from_bytes(written.clone()).unwrap();
        for value in [&value, &mapped, again.value()] {
            assert_eq!(show(value), expected.trim_end_matches('\n'), "{name}");
        }
        assert!(Writer::new(again.value()).to_bytes().unwrap() == written);
        Writer::new(&value).write_file(output("torch").join(file)).unwrap();
    }
}

#[test]
fn views_share_their_storage_and_data_is_aligned() {
    let bytes = Writer::new(&open("views.pt")).to_bytes().unwrap();
    for value in [open("views.pt"), File::from_bytes(bytes).unwrap().into_value()] {
        let tensor = |name: &str| value.get(name).unwrap().as_tensor().unwrap();
        for name in ["same", "transposed", "row", "column", "steps", "expanded", "permuted"] {
            assert!(Arc::ptr_eq(tensor("base").storage(), tensor(name).storage()), "{name}");
        }
        assert!(!Arc::ptr_eq(tensor("base").storage(), tensor("apart").storage()));
        assert!(tensor("base").is_contiguous() && !tensor("transposed").is_contiguous());
        assert_eq!(tensor("row").shared_bytes().unwrap()[..], *tensor("row").to_bytes().unwrap());
        assert!(tensor("column").shared_bytes().is_none());
    }
    for (name, value) in open("tensors.pt").as_dict().unwrap() {
        let address = value.as_tensor().unwrap().storage().bytes().as_ptr().addr();
        assert!(address.is_multiple_of(64) || value.as_tensor().unwrap().numel() == 0, "{name:?}");
    }
}

#[test]
fn checkpoints_are_looked_into() {
    let value = open("checkpoint.pt");
    assert_eq!(value.get("epoch").unwrap().as_int(), Some(3));
    assert_eq!(value.get("epoch").unwrap().as_float(), Some(3.0));
    assert_eq!(value.get("loss").unwrap().as_float(), Some(0.1));
    assert_eq!(value.get("done").unwrap().as_bool(), Some(false));
    assert_eq!(value.get("many").unwrap().as_list().unwrap().len(), 2500);
    assert!(value.get("nothing").unwrap().is_none() && value.find("other").is_none());
    let names: Vec<_> =
        value.get("model").unwrap().state_dict().unwrap().into_iter().map(|(name, _)| name).collect();
    let all = [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    ];
    assert_eq!(names, all);
    let group = &value.get("adam").unwrap().get("param_groups").unwrap().as_list().unwrap()[0];
    assert_eq!(group.get("amsgrad").unwrap().as_bool(), Some(true));
    assert!(value.get("parameter").unwrap().as_tensor().unwrap().is_parameter());

    let says = |error: Error, message: &str| {
        assert!(error.to_string().contains(message), "\"{error}\" does not say \"{message}\"")
    };
    says(value.get("modle").unwrap_err(), "there is no key `modle`; there are `model`, `adam`, `sgd`");
    says(value.get("epoch").unwrap().get("x").unwrap_err(), "a dict is needed, an integer was found");
    says(value.get("epoch").unwrap().state_dict().unwrap_err(), "a dict is needed, an integer");
    says(value.state_dict().unwrap_err(), "its entry `model` is a dict; look up the state dict with `get`");
}

#[test]
fn files_of_other_kinds_say_how_to_convert_them() {
    let error = |name: &str| File::open(path(name)).unwrap_err();
    assert!(matches!(error("legacy.pt").kind(), ErrorKind::Legacy));
    assert!(
        error("legacy.pt").to_string().contains("torch.save(torch.load(path, weights_only=True), new_path)")
    );
    assert!(error("legacy.pt").path().is_some());
    assert!(matches!(error("script.pt").kind(), ErrorKind::TorchScript));
    assert!(error("script.pt").to_string().contains("torch.jit.load(path).state_dict()"));
    assert!(matches!(error("absent.pt").kind(), ErrorKind::Io(_)));
    assert!(matches!(error("").kind(), ErrorKind::NotAFile));
}

#[test]
fn tensors_are_checked_when_they_are_made() {
    let storage = || Storage::new(vec![0; 16]);
    let new = |dtype, shape: &[usize], strides: &[usize], offset| {
        TensorView::new(storage(), dtype, shape, strides, offset).unwrap_err()
    };
    let quant = DType::from_name("Q4_K").unwrap();
    for (error, message) in [
        (
            new(DType::F32, &[2, 2], &[2, 1], 1),
            "shape [2, 2], strides [2, 1] and offset 1 reaches beyond its storage of 16 bytes",
        ),
        (new(DType::F32, &[2], &[usize::MAX], 1), "reaches beyond its storage"),
        (new(DType::F32, &[0], &[1], 5), "reaches beyond its storage"),
        (new(DType::F32, &[2], &[], 0), "shape [2] has the strides []"),
        (new(DType::F32, &[1; 65], &[1; 65], 0), "has 65 dimensions"),
        (new(quant, &[256], &[1], 0), "PyTorch has no dtype Q4_K"),
        (new(DType::F32, &[usize::MAX, 2, 0], &[0, 0, 0], 0), "larger than any memory"),
        (TensorView::contiguous(DType::F32, &[3], vec![0; 8]).unwrap_err(), "needs 12 bytes, 8 were given"),
    ] {
        assert!(error.to_string().contains(message), "\"{error}\" does not say \"{message}\"");
    }
    // A view of four bytes as four terabytes.
    let huge = TensorView::new(storage(), DType::F32, &[1 << 40], &[0], 0).unwrap();
    assert!(matches!(huge.to_bytes().unwrap_err().kind(), ErrorKind::TooMuchExpansion { .. }));
}

#[test]
fn the_writer_says_what_it_cannot_write() {
    let storage = Storage::new(vec![0; 16]);
    let view = |dtype| Value::Tensor(TensorView::new(Arc::clone(&storage), dtype, &[1], &[1], 0).unwrap());
    let error = Writer::new(&Value::List(vec![view(DType::F32), view(DType::I32)])).to_bytes().unwrap_err();
    assert!(error.to_string().contains("tensors of dtypes f32 and i32 view one storage"), "{error}");
    // Bytes that are no whole elements are written as a storage without a type.
    let odd = Value::Tensor(TensorView::new(Storage::new(vec![1; 7]), DType::F32, &[1], &[1], 0).unwrap());
    let again = File::from_bytes(Writer::new(&odd).to_bytes().unwrap()).unwrap();
    assert_eq!(show(again.value()), show(&odd));
    Writer::new(&odd).write_file(output("torch").join("odd.pt")).unwrap();
    let deep = |levels| (0..levels).fold(Value::None, |inner, _| Value::List(vec![inner]));
    assert!(matches!(Writer::new(&deep(101)).to_bytes().unwrap_err().kind(), ErrorKind::TooDeep));
    let bytes = Writer::new(&deep(100)).to_bytes().unwrap();
    assert_eq!(show(File::from_bytes(bytes).unwrap().value()), show(&deep(100)));
}

#[test]
fn values_map_to_other_tensors() {
    let value = open("checkpoint.pt");
    let shapes = value.try_map(&mut |tensor| Ok::<_, ()>(tensor.shape().to_vec())).unwrap();
    assert_eq!(shapes.get("parameter").unwrap().as_tensor(), Some(&vec![2, 2]));
    assert!(value.try_map(&mut |_| Err::<(), _>("no")).is_err());
}
