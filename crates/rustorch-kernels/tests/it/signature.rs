//! What holds for calls of every driver.

use rustorch_kernels::driver::{check_range, check_size, shortened};

#[test]
fn a_long_log_is_cut_in_words() {
    assert_eq!(shortened("short"), "short");
    let long = "é".repeat(4000);
    let cut = shortened(&long);
    assert!(cut.len() < 4100 && cut.ends_with("bytes more"));
}

#[test]
fn ranges_end_where_memory_does() {
    check_range(64, 0, 64).unwrap();
    check_range(64, 64, 0).unwrap();
    for (start, bytes) in [(0, 65), (64, 1), (usize::MAX, 2)] {
        let said = check_range(64, start, bytes).unwrap_err().to_string();
        assert!(said.contains("outside a memory of 64 bytes"), "{said}");
    }
    check_size(16).unwrap();
    assert!(check_size(0).is_err() && check_size(24).is_err());
}
