//! Detection of a block's last handle, after which it may be reused.

use crate::sync::{Arc, Ordering, fence};

/// Whether nobody else has a handle to the block, and what others did with it before they dropped theirs is visible here.
///
/// Only for an `Arc` of which no `Weak` is ever made.
#[inline]
pub(crate) fn is_last<T>(handle: &Arc<T>) -> bool {
    let last = Arc::strong_count(handle) == 1;
    if last {
        // The count was read without an order; dropping a handle releases.
        fence(Ordering::Acquire);
    }
    last
}
