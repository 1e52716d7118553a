//! Values of metadata, their text, and the Rust types that they are read as.

use rustorch_formats::gguf::{Array, ByteString, FromValue, Mismatch, StrArray, Value, ValueType};

#[test]
fn types_are_numbered_as_in_files() {
    for (id, &kind) in ValueType::ALL.iter().enumerate() {
        assert_eq!((kind.id() as usize, ValueType::from_id(kind.id())), (id, Some(kind)));
    }
    assert_eq!(ValueType::from_id(13), None);
}

#[test]
fn display_is_short() {
    let show = |value: Value| value.to_string();
    assert_eq!(show("a\"b\n".into()), r#""a\"b\n""#);
    assert_eq!(show(1e-5f32.into()), "1e-5");
    assert_eq!(show(Value::Array(Array::U8(vec![1, 2]))), "u8[2] [1, 2]");
    assert_eq!(show(Value::Array(Array::I32((0..9).collect()))), "i32[9] [0, 1, 2, 3, 4, 5, 6, 7, …]");
    assert_eq!(show(Value::Array(Array::Str(["x"].iter().collect()))), r#"string[1] ["x"]"#);
    let nested = Array::Array(vec![Array::U8(vec![1]), Array::Bool(vec![])]);
    assert_eq!(show(Value::Array(nested)), "array[2] [u8[1] [1], bool[0] []]");
}

#[test]
fn strings_come_back_in_order() {
    let words: [&[u8]; 4] = [b"a", b"", b"\xff\xfe", "é".as_bytes()];
    let array: StrArray = words.iter().collect();
    assert_eq!(array.len(), 4);
    assert!(array.iter().eq(words));
    assert!(array.iter().rev().eq(words.into_iter().rev()));
    assert_eq!((array.get(1), array.get(2), array.get(4)), (Some(words[1]), Some(words[2]), None));
    assert_eq!((array.get_str(3), array.get_str(2)), (Some("é"), None));
    assert_eq!(array, words.iter().collect());
    assert_ne!(array, ["a", "", ""].iter().collect());
    assert!(StrArray::from_iter([""; 0]).is_empty());
}

#[test]
fn byte_strings_show_what_is_not_text() {
    let bad = ByteString::from(&b"ab\xff\n"[..]);
    assert!(bad.to_str().is_err());
    assert_eq!(format!("{bad:?}"), "\"ab\u{fffd}\\n\"");
    assert_eq!(format!("{:>4}", ByteString::from("ab")), "  ab");
}

#[test]
fn integers_come_from_any_type_that_fits() {
    assert_eq!(u32::from_value(&Value::I8(7)), Ok(7));
    assert_eq!(u8::from_value(&Value::U64(255)), Ok(255));
    assert_eq!(u8::from_value(&Value::U64(256)), Err(Mismatch::Range("256".into())));
    assert_eq!(usize::from_value(&Value::I64(-1)), Err(Mismatch::Range("-1".into())));
    assert_eq!(i64::from_value(&Value::U64(u64::MAX)), Err(Mismatch::Range(u64::MAX.to_string())));
    assert_eq!(u32::from_value(&Value::F32(1.0)), Err(Mismatch::Type));
    assert_eq!(u32::from_value(&Value::Bool(true)), Err(Mismatch::Type));
    assert_eq!(Vec::<u32>::from_value(&vec![1i64, 2].into()), Ok(vec![1, 2]));
    assert_eq!(Vec::<u8>::from_value(&vec![1i32, -2].into()), Err(Mismatch::Range("-2".into())));
    assert_eq!(Vec::<u8>::from_value(&Value::U8(1)), Err(Mismatch::Type));
}

#[test]
fn slices_have_exact_types() {
    assert_eq!(<&[i32]>::from_value(&vec![1i32].into()), Ok(&[1][..]));
    assert_eq!(<&[i32]>::from_value(&vec![1u32].into()), Err(Mismatch::Type));
    assert!(<&Array>::from_value(&vec![1u32].into()).is_ok());
    assert_eq!(<&StrArray>::from_value(&Value::from(&["a"][..])).unwrap().get(0), Some(&b"a"[..]));
}

#[test]
fn floats_and_strings() {
    assert_eq!((f32::from_value(&Value::F64(0.1)), f64::from_value(&Value::F32(0.5))), (Ok(0.1), Ok(0.5)));
    assert_eq!(f32::from_value(&Value::U8(1)), Err(Mismatch::Type));
    let bad = Value::Str(b"\xff".into());
    assert_eq!(<&str>::from_value(&bad), Err(Mismatch::Utf8));
    assert_eq!(&**<&ByteString>::from_value(&bad).unwrap(), b"\xff");
    assert_eq!(<&str>::from_value(&"é".into()), Ok("é"));
}
