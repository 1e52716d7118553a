//! Versions and PCI slots, as drivers write them and as people read them.

/// The address of the PCI slot that four numbers name: domain, bus, device and function.
pub(super) fn slot(numbers: &[u32]) -> Option<String> {
    match numbers {
        [domain, bus, device, function] => Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}")),
        _ => None,
    }
}

/// The first version number in a text, as in `OpenCL C 1.2 PoCL`; 0.0 where there is none.
pub(super) fn version(text: &str) -> (u32, u32) {
    text.split_ascii_whitespace()
        .find_map(|word| {
            let (major, minor) = word.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
        .unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_as_the_system_names_them() {
        assert_eq!(slot(&[0, 1, 0, 0]).as_deref(), Some("0000:01:00.0"));
        assert_eq!(slot(&[0x1_0000, 0xaf, 0x1f, 7]).as_deref(), Some("10000:af:1f.7"));
        assert_eq!(slot(&[]), None);
    }

    #[test]
    fn versions_are_found_in_text() {
        assert_eq!(version("OpenCL 3.0 PoCL HSTR: pthread"), (3, 0));
        assert_eq!(version("OpenCL C 1.2"), (1, 2));
        assert_eq!(version("OpenCL"), (0, 0));
        assert!(version("OpenCL 1.1 Mesa") < (1, 2));
    }
}
