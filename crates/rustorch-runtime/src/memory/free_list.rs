//! Which free block of a size class is used again.

use rustorch_core::Buffer;

/// The last buffer that was let go of on a stream, so that streams need not wait for each other, else on any.
pub(super) fn take_of(free: &mut Vec<(usize, Buffer)>, stream: usize) -> Option<Buffer> {
    let at = free.iter().rposition(|(other, _)| *other == stream).or(free.len().checked_sub(1))?;
    Some(free.remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_on_with_its_stream() {
        let mut free: Vec<(usize, Buffer)> = [(0, 64), (1, 128), (0, 192), (2, 256)]
            .map(|(stream, bytes)| (stream, Buffer::host(bytes).unwrap()))
            .into();
        let mut take = |stream| take_of(&mut free, stream).map(|buffer| buffer.bytes());
        assert_eq!(
            [take(0), take(1), take(1), take(7), take(0)],
            [192, 128, 256, 64, 0].map(|n| Some(n).filter(|&n| n > 0))
        );
    }
}
