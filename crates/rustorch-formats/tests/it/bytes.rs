//! Bytes that are shared.

use rustorch_formats::SharedBytes;

#[test]
fn slices_share_and_stay_in_range() {
    let bytes = SharedBytes::from(vec![0, 1, 2, 3, 4, 5]);
    let middle = bytes.slice(1..5).unwrap();
    drop(bytes);
    assert_eq!(&*middle, [1, 2, 3, 4]);
    assert_eq!(&*middle.slice(1..3).unwrap(), [2, 3]);
    assert_eq!(&*middle.slice(4..4).unwrap(), [0; 0]);
    assert!(middle.slice(0..5).is_none());
    assert!(middle.slice(5..5).is_none());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 3..2;
    assert!(middle.slice(reversed).is_none());
}

#[test]
fn is_send_and_sync() {
    fn check<T: Send + Sync + Clone>() {}
    check::<SharedBytes>();
}
