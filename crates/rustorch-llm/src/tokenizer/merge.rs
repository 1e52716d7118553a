//! Greedy pair merging, the core of both SentencePiece and byte-pair encoding.
//!
//! The pair of neighbours with the smallest priority value merges first, the leftmost of equals; new neighbours are
//! priced and the search goes on until no pair merges. Short inputs scan an array; long ones use a heap over a linked
//! list, so that a megabyte without a boundary takes O(n log n). Both give the same result.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Above this many symbols the heap is faster than scanning.
const SCAN_LIMIT: usize = 32;

/// Marks the end of the list, and symbols that were merged away.
const NONE: u32 = u32::MAX;

/// A stretch of the text that is one symbol: a character, a byte, or what merges made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// What the vocabulary calls it (meaning left to the caller).
    pub(super) id: u32,
    /// Byte offset in the text.
    pub(super) start: u32,
    /// Length in bytes.
    pub(super) len: u32,
}

/// What two neighbours become, if they merge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    /// Smaller merges first.
    pub(super) priority: u32,
    /// The id of the merged symbol.
    pub(super) id: u32,
}

/// Buffers kept between calls, so that merging does not allocate.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// The symbols: filled by the caller, merged in place by [`Merger::run`].
    pub(super) symbols: Vec<Symbol>,
    prices: Vec<Option<Merge>>,
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<Candidate>>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// Ordered by priority, then position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    priority: u32,
    left: u32,
    right: u32,
    /// Length of the pair when it was priced: a pair that has changed since is out of date.
    len: u32,
    id: u32,
}

impl Merger {
    /// Merges [`Merger::symbols`] until `price` finds no pair that merges.
    pub(super) fn run(&mut self, price: impl Fn(&Symbol, &Symbol) -> Option<Merge>) {
        match self.symbols.len() {
            0 | 1 => {}
            2..=SCAN_LIMIT => self.scan(price),
            _ => self.merge_by_heap(price),
        }
    }

    fn scan(&mut self, price: impl Fn(&Symbol, &Symbol) -> Option<Merge>) {
        let Merger { symbols, prices, .. } = self;
        prices.clear();
        prices.extend(symbols.windows(2).map(|pair| price(&pair[0], &pair[1])));
        loop {
            let mut best: Option<(usize, Merge)> = None;
            for (at, found) in prices.iter().enumerate() {
                if let Some(merge) = found
                    && best.is_none_or(|(_, b)| merge.priority < b.priority)
                {
                    best = Some((at, *merge));
                }
            }
            let Some((at, merge)) = best else { return };
            let right = symbols.remove(at + 1);
            symbols[at].len += right.len;
            symbols[at].id = merge.id;
            prices.remove(at);
            if at > 0 {
                prices[at - 1] = price(&symbols[at - 1], &symbols[at]);
            }
            if at + 1 < symbols.len() {
                prices[at] = price(&symbols[at], &symbols[at + 1]);
            }
        }
    }

    fn merge_by_heap(&mut self, price: impl Fn(&Symbol, &Symbol) -> Option<Merge>) {
        let Merger { symbols, links, heap, .. } = self;
        let count = symbols.len() as u32;
        links.clear();
        links.extend((0..count).map(|at| Link {
            previous: at.checked_sub(1).unwrap_or(NONE),
            next: if at + 1 < count { at + 1 } else { NONE },
        }));
        let candidate = |symbols: &[Symbol], left: u32, right: u32| {
            let (l, r) = (&symbols[left as usize], &symbols[right as usize]);
            let Merge { priority, id } = price(l, r)?;
            Some(Reverse(Candidate { priority, left, right, len: l.len + r.len, id }))
        };
        heap.clear();
        heap.extend((1..count).filter_map(|right| candidate(symbols, right - 1, right)));
        while let Some(Reverse(best)) = heap.pop() {
            let (left, right) = (best.left as usize, best.right as usize);
            // A symbol merged away has length 0.
            let (l, r) = (symbols[left].len, symbols[right].len);
            if l == 0 || r == 0 || l + r != best.len {
                continue;
            }
            symbols[left].len = best.len;
            symbols[left].id = best.id;
            symbols[right].len = 0;
            let next = links[right].next;
            links[left].next = next;
            if next != NONE {
                links[next as usize].previous = best.left;
                heap.extend(candidate(symbols, best.left, next));
            }
            let previous = links[left].previous;
            if previous != NONE {
                heap.extend(candidate(symbols, previous, best.left));
            }
        }
        symbols.retain(|symbol| symbol.len > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges any two equal-length neighbours below 8 bytes, preferring odd positions less.
    fn price(l: &Symbol, r: &Symbol) -> Option<Merge> {
        let mixed = (l.start ^ r.start).wrapping_mul(2_654_435_761) >> 24;
        (l.len + r.len <= 7).then_some(Merge { priority: mixed, id: l.len + r.len })
    }

    #[test]
    fn scan_and_heap_agree() {
        for count in 2..200u32 {
            let symbols: Vec<_> = (0..count).map(|start| Symbol { id: 0, start, len: 1 }).collect();
            let mut scanned = Merger { symbols: symbols.clone(), ..Merger::default() };
            scanned.scan(price);
            let mut heaped = Merger { symbols, ..Merger::default() };
            heaped.merge_by_heap(price);
            assert_eq!(scanned.symbols, heaped.symbols, "{count} symbols");
            assert!(scanned.symbols.len() < count as usize);
        }
    }
}
