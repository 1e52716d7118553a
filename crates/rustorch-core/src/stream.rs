//! Assignment of threads to a device's streams.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// The thread's number; devices take the remainder by how many streams they have.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number for the next thread that has none.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The stream of this thread on a device that has `streams` of them: the one of the innermost [`StreamScope`], else the
/// thread's own, which threads get in turn when they first ask.
///
/// ```
/// use rustorch_core::{StreamScope, current_stream};
///
/// let own = current_stream(4);
/// assert!(own < 4 && own == current_stream(4));
/// {
///     let _scope = StreamScope::enter(2);
///     assert_eq!((current_stream(4), current_stream(2), current_stream(1)), (2, 0, 0));
/// }
/// assert_eq!(current_stream(4), own);
/// ```
pub fn current_stream(streams: usize) -> usize {
    if streams <= 1 {
        return 0;
    }
    // A thread that ends has no number any more, but may still let go of memory.
    let number = NUMBER.try_with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    });
    number.unwrap_or(0) % streams
}

/// While it lives, this thread works on one stream of each device that has several: that of this index, or of the remainder
/// by their number.
#[derive(Debug)]
pub struct StreamScope {
    before: Option<usize>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl StreamScope {
    /// Goes to a stream until the scope is dropped.
    pub fn enter(stream: usize) -> StreamScope {
        StreamScope { before: NUMBER.replace(Some(stream)), _thread: PhantomData }
    }
}

impl Drop for StreamScope {
    fn drop(&mut self) {
        let _ = NUMBER.try_with(|number| number.set(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_streams_in_turn_and_keep_them() {
        // Other tests' threads may take numbers between, so only differences of many are looked at.
        let streams: Vec<usize> = (0..16)
            .map(|_| {
                let thread = std::thread::spawn(|| (current_stream(4), current_stream(4)));
                let (first, second) = thread.join().expect("it does not panic");
                assert_eq!(first, second);
                first
            })
            .collect();
        assert!((0..4).all(|stream| streams.contains(&stream)), "{streams:?}");
    }

    #[test]
    fn scopes_nest_and_stay_on_their_thread() {
        let _outer = StreamScope::enter(3);
        {
            let _inner = StreamScope::enter(5);
            assert_eq!(current_stream(8), 5);
            assert!(std::thread::spawn(|| NUMBER.get().is_none()).join().expect("it does not panic"));
        }
        assert_eq!(current_stream(8), 3);
    }
}
