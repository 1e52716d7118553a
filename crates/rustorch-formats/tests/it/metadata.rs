//! Metadata: reading by key and type, and editing.

use rustorch_formats::gguf::{ErrorKind, MAX_KEY_LEN, Metadata};

fn sample() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.insert("a", 1u32).unwrap();
    metadata.insert("b", "two").unwrap();
    metadata.insert("c", -3i8).unwrap();
    metadata
}

#[test]
fn a_missing_key_and_a_wrong_type_differ() {
    let metadata = sample();
    assert!(matches!(
        metadata.get_u32("d").unwrap_err().into_kind(),
        ErrorKind::MissingKey { key, expected: "u32" } if key == "d"
    ));
    assert!(matches!(
        metadata.get_u32("b").unwrap_err().into_kind(),
        ErrorKind::WrongType { key, expected: "u32", found } if key == "b" && found == "string"
    ));
    assert!(matches!(
        metadata.get_u32("c").unwrap_err().into_kind(),
        ErrorKind::OutOfRange { key, expected: "u32", value } if key == "c" && value == "-3"
    ));
    assert_eq!(metadata.find::<u32>("d").unwrap(), None);
    assert!(metadata.find::<u32>("b").is_err());
    assert_eq!(
        metadata.get_str_array("b").unwrap_err().to_string(),
        "metadata key `b` has the type string, array of string is needed"
    );
}

#[test]
fn editing_keeps_order_and_index() {
    let mut metadata = sample();
    assert!(matches!(metadata.insert("a", 2u8).unwrap_err().kind(), ErrorKind::DuplicateKey { .. }));
    metadata.set("a", 5u8).unwrap();
    metadata.set("d", true).unwrap();
    assert_eq!(metadata.remove("b"), Some("two".into()));
    assert_eq!(metadata.remove("b"), None);
    assert!(metadata.iter().map(|(key, _)| key).eq(["a", "c", "d"]));
    assert_eq!((metadata.get_u8("a").unwrap(), metadata.get_bool("d").unwrap()), (5, true));
    assert_eq!(metadata.get_i32("c").unwrap(), -3);
    let long = "k".repeat(MAX_KEY_LEN + 1);
    assert!(matches!(metadata.set(&long, 1u8).unwrap_err().kind(), ErrorKind::KeyTooLong { .. }));
}
