//! NumPy's files are read, and written again byte for byte; tools/oracle/numpy_files.py made them, and reads what these tests
//! leave in target/tmp/numpy.

use crate::common::{Listed, fixture, listed, output};
use rustorch_core::DType;
use rustorch_formats::numpy::{Array, ErrorKind, Npz, NpzWriter};

fn path(name: &str) -> std::path::PathBuf {
    fixture("numpy").join(name)
}

/// The elements row by row.
fn row_by_row(array: &Array) -> Vec<u8> {
    let (size, strides) = (array.dtype().size().unwrap(), array.strides());
    let mut places = vec![0];
    for (&dim, stride) in array.shape().iter().zip(strides) {
        places = places.iter().flat_map(|place| (0..dim).map(move |i| place + i * stride)).collect();
    }
    places.iter().flat_map(|place| array.bytes()[place * size..][..size].to_vec()).collect()
}

fn contents(file: &Npz) -> Vec<Listed> {
    let describe = |name: &str| {
        let array = file.array(name).unwrap();
        (name.to_owned(), array.dtype().name().to_owned(), array.shape().to_vec(), row_by_row(&array))
    };
    file.names().map(describe).collect()
}

#[test]
fn reads_archives_of_every_dtype() {
    for name in ["dtypes.npz", "dtypes_compressed.npz", "big_endian.npz"] {
        // SAFETY: nobody writes to fixtures.
        let mapped = unsafe { Npz::open_mapped(path(name)) }.unwrap();
        for file in [Npz::open(path(name)).unwrap(), mapped] {
            assert_eq!(contents(&file), listed(&path("arrays.tsv")), "{name}");
            assert!(file.array("fortran.f32").unwrap().fortran_order());
            let error = file.array("absent").unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::MissingArray { .. }));
            assert_eq!(error.path(), Some(&*path(name)));
        }
    }
}

#[test]
fn writes_archives_as_numpy_does() {
    let file = Npz::open(path("dtypes.npz")).unwrap();
    // In the order in which NumPy was given them.
    let dtypes = ["bool", "u8", "i8", "i16", "i32", "u32", "i64", "f16", "f32", "f64", "c64", "c128"];
    let names = dtypes
        .iter()
        .flat_map(|name| ["", "scalar.", "empty.", "fortran."].map(|kind| format!("{kind}{name}")));
    let arrays: Vec<_> =
        names.chain(["vektor ž".to_owned()]).map(|name| (file.array(&name).unwrap(), name)).collect();
    let [mut stored, mut compressed] = [NpzWriter::new(), NpzWriter::compressed()];
    for (array, name) in &arrays {
        stored.array(name, array).unwrap();
        compressed.array(name, array).unwrap();
    }
    assert!(stored.to_bytes().unwrap() == std::fs::read(path("dtypes.npz")).unwrap());
    assert!(compressed.to_bytes().unwrap().len() < stored.to_bytes().unwrap().len());
    stored.write_file(output("numpy").join("dtypes.npz")).unwrap();
    compressed.write_file(output("numpy").join("dtypes_compressed.npz")).unwrap();
    let again = Npz::open(output("numpy").join("dtypes_compressed.npz")).unwrap();
    assert_eq!(contents(&again), listed(&path("arrays.tsv")));
    assert!(matches!(
        stored.array("f32", &arrays[0].0).unwrap_err().kind(),
        ErrorKind::DuplicateArray { .. }
    ));
}

#[test]
fn reads_single_arrays_and_writes_the_same_bytes() {
    for (name, dtype, shape, strides) in [
        ("one.npy", DType::F32, &[4, 2][..], &[2, 1][..]),
        ("fortran.npy", DType::I32, &[3, 2], &[1, 3]),
        ("scalar.npy", DType::F64, &[], &[]),
    ] {
        // SAFETY: nobody writes to fixtures.
        let mapped = unsafe { Array::open_mapped(path(name)) }.unwrap();
        for array in [Array::open(path(name)).unwrap(), mapped] {
            assert_eq!((array.dtype(), array.shape(), &*array.strides()), (dtype, shape, strides), "{name}");
            assert!(array.to_bytes().unwrap() == std::fs::read(path(name)).unwrap());
            array.write_file(output("numpy").join(name)).unwrap();
        }
    }
    let array = Array::open(path("version2.npy")).unwrap();
    assert_eq!((array.dtype(), array.shape()), (DType::I64, &[3][..]));
    assert!(Array::open(path("absent.npy")).unwrap_err().to_string().contains("absent.npy: "));
    assert!(matches!(Array::open(path("")).unwrap_err().kind(), ErrorKind::NotAFile));
}

#[test]
fn arrays_are_checked_when_they_are_made() {
    for (error, message) in [
        (Array::new(&[2], DType::BF16, vec![0; 4]).unwrap_err(), "NumPy has no dtype bf16"),
        (
            Array::new(&[2], DType::F32, vec![0; 4]).unwrap_err(),
            "shape [2] and dtype f32 needs 8 bytes, 4 were given",
        ),
        (Array::new(&[usize::MAX, 2, 0], DType::F32, vec![]).unwrap_err(), "larger than any memory"),
        (Array::new(&[1; 65], DType::U8, vec![0]).unwrap_err(), "more than 64 dimensions"),
    ] {
        assert!(error.to_string().contains(message), "\"{error}\" does not say \"{message}\"");
    }
}

#[test]
fn archives_of_many_members_and_long_names() {
    let array = Array::new(&[1], DType::U8, vec![7]).unwrap();
    let mut writer = NpzWriter::new();
    writer.array(&"n".repeat(65_000), &array).unwrap();
    assert_eq!(Npz::from_bytes(writer.to_bytes().unwrap()).unwrap().names().next().unwrap().len(), 65_000);
    writer.array(&"n".repeat(66_000), &array).unwrap();
    assert!(writer.to_bytes().unwrap_err().to_string().contains("a name is longer than zip archives allow"));

    // More than the end record has 16 bits for.
    let mut writer = NpzWriter::new();
    for i in 0..66_000 {
        writer.array(&i.to_string(), &array).unwrap();
    }
    let path = output("numpy").join("many.npz");
    writer.write_file(&path).unwrap();
    let file = Npz::open(&path).unwrap();
    assert_eq!((file.names().count(), file.array("65999").unwrap().bytes()), (66_000, &[7][..]));
}
