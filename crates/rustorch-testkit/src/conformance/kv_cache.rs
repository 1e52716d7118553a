//! Cases of operations on caches whose length is data.

use super::cases::{ARRANGEMENTS, Argument, Cases};
use rustorch_core::{Attention, CachedAttention, DType, Layout, Op, Shape, SliceUpdate};

fn index(value: i64) -> Argument {
    let layout = Layout::contiguous(Shape::scalar());
    Argument { dtype: DType::I64, layout, bytes: value.to_le_bytes().to_vec() }
}

impl Cases {
    /// Updates at both ends and where they do not fit, and attention from the first position to the last.
    pub(super) fn kv_cache(&mut self) {
        for dtype in [DType::F32, DType::F16, DType::U8, DType::I64, DType::C128] {
            for how in ARRANGEMENTS {
                for (axis, start) in [(1, 0), (1, 3), (1, 9), (1, -1), (2, 2)] {
                    let updated = if axis == 1 { [2, 2, 4] } else { [2, 6, 2] };
                    let args = vec![
                        self.argument(dtype, &[2, 6, 4], how),
                        self.argument(dtype, &updated, how),
                        index(start),
                    ];
                    self.add(Op::SliceUpdate(SliceUpdate { axis }), args);
                }
            }
        }
        for (to, from) in [(DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::F32, DType::F16)] {
            for how in ARRANGEMENTS {
                for (axis, start) in [(1, 3), (2, 1)] {
                    let updated = if axis == 1 { [2, 1, 4] } else { [2, 6, 1] };
                    let args = vec![
                        self.argument(to, &[2, 6, 4], how),
                        self.argument(from, &updated, how),
                        index(start),
                    ];
                    self.add(Op::SliceUpdate(SliceUpdate { axis }), args);
                }
            }
        }
        for dtype in [DType::F32, DType::F16] {
            for how in ARRANGEMENTS {
                for (position, window) in [(0, None), (5, None), (68, Some(7))] {
                    let attention = Attention { window, ..Attention::new(0.25) };
                    let args = vec![
                        self.argument(DType::F32, &[4, 2, 8], how),
                        self.argument(dtype, &[2, 70, 8], how),
                        self.argument(dtype, &[2, 70, 6], how),
                        index(position),
                    ];
                    self.add(Op::CachedAttention(CachedAttention { attention }), args);
                }
            }
        }
    }
}
