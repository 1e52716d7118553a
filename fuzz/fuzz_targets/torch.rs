//! Any bytes are read as a PyTorch file, and as the pickle of one, or refused, without a panic or an allocation out of proportion;
//! and what was read is written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rustorch_formats::torch::{ErrorKind, File, TensorView, Value, Writer};
use std::fmt::Write as _;

fuzz_target!(|data: &[u8]| {
    match File::from_bytes(data.to_vec()) {
        Ok(file) => exercise(&file),
        Err(error) => drop(error.to_string()),
    }
    match File::from_bytes(archive(data)) {
        Ok(file) => exercise(&file),
        Err(error) => drop(error.to_string()),
    }
});

/// A PyTorch file of this pickle, with a storage `0` of 16 bytes.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in [("a/data.pkl", pickle), ("a/data/0", &[0; 16])] {
        let crc = crc32(data);
        let mut fields = [20u16, 0, 0, 0, 33].map(u16::to_le_bytes).concat();
        fields.extend([crc, data.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat());
        fields.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.bytes());
        out.extend(b"PK\x03\x04");
        out.extend(fields);
        out.extend(name.bytes());
        out.extend(data);
    }
    let (offset, len) = (out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    out.extend([len, offset].map(u32::to_le_bytes).concat());
    out.extend([0, 0]);
    out
}

/// CRC-32 as in zip.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 })
    })
}

/// Writes the file and reads it again.
fn exercise(file: &File) {
    let bytes = match Writer::new(file.value()).to_bytes() {
        Ok(bytes) => bytes,
        // The only value that is read and not written.
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::TwoDTypes { .. } | ErrorKind::TensorTooLarge { .. }),
                "{error}"
            );
            return;
        }
    };
    let again = File::from_bytes(bytes).expect("what was written can be read");
    assert_eq!(text(file.value()), text(again.value()));
}

fn text(value: &Value<TensorView>) -> String {
    let mut text = format!("{value:?}");
    let described = value.try_map(&mut |tensor| {
        write!(
            text,
            " {:?} {} {:?}",
            tensor.strides(),
            tensor.offset(),
            tensor.to_bytes().map_err(|e| e.to_string())
        )
    });
    described.expect("writing to a string does not fail");
    text
}
