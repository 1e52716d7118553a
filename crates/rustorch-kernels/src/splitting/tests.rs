//! Splitting of operands along axes.

use super::extent::alignment;
use super::*;
use crate::{Arithmetic, Language};
use rustorch_core::{DType, Device, Shape};

pub(crate) fn hardware(max_binding: u64) -> Hardware {
    Hardware {
        buffers: 16,
        parameters: 4096,
        device: Device::vulkan(0),
        name: String::new(),
        driver: String::new(),
        language: Language::Wgsl,
        f64: true,
        i64: true,
        subgroups: None,
        software: true,
        workgroup: 256,
        workgroup_memory: 16 << 10,
        groups: 65535,
        max_buffer: 1 << 40,
        max_binding,
        window: Some(256),
        memory: None,
        arithmetic: Arithmetic::default(),
    }
}

pub(crate) fn packed(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// The transposed view of `n` rows of `k`.
pub(crate) fn weight(n: usize, k: usize) -> Layout {
    packed(&[n, k]).transpose(0, 1).unwrap()
}

/// Chunks fit, and their results are all of the result once.
#[test]
fn chunks_cover_the_result_once() {
    let hardware = Hardware { window: Some(16), ..hardware(1000) };
    let mut state = 1u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    for _ in 0..300 {
        let [m, n, k] = [below(70) + 1, below(70) + 1, below(100) + 1].map(|x| x as usize);
        let dtype = [DType::F16, DType::F32, DType::U8][below(3) as usize];
        let left = packed(&[m, k]);
        let right = if below(2) == 0 { packed(&[k, n]) } else { weight(n, k) };
        let extents = [left, right, packed(&[m, n])].map(|layout| Extent {
            dtype,
            layout,
            staging: StagedOperand::Never,
        });
        let axis = |len, moves: [Option<(usize, usize)>; 3], alignment| Axis {
            len,
            moves: moves.into_iter().map(|x| x.map(|(dim, unit)| Move::Each(dim, unit))).collect(),
            alignment,
            within: None,
        };
        let axes = [
            axis(m, [Some((0, 1)), None, Some((0, 1))], alignment(&extents[2], 0, 1)),
            axis(n, [None, Some((1, 1)), Some((1, 1))], alignment(&extents[2], 1, 1)),
        ];
        // A weight that is not transposed has its columns all over its memory, and is more than a chunk from some size on.
        let Ok(chunks) = split_operands(&extents, &axes, &hardware) else {
            assert!(k * dtype.size().unwrap() > 900 || extents[1].layout.strides()[1] == 1);
            continue;
        };
        let mut seen = vec![0; m * n];
        for chunk in &chunks {
            for (extent, layout) in extents.iter().zip(&chunk.layouts) {
                assert!(extent.fits(layout, &hardware));
            }
            let ([rows, _], [_, columns]) = (
                <[usize; 2]>::try_from(chunk.layouts[0].dims()).unwrap(),
                <[usize; 2]>::try_from(chunk.layouts[1].dims()).unwrap(),
            );
            assert_eq!(chunk.layouts[2].dims(), [rows, columns]);
            assert_eq!(chunk.layouts[0].offset(), chunk.starts[0] * k);
            assert_eq!(chunk.layouts[1].offset(), chunk.starts[1] * extents[1].layout.strides()[1]);
            chunk.layouts[2].indices().for_each(|i| seen[i] += 1);
        }
        assert!(seen.iter().all(|&times| times == 1));
        assert!(chunks.len() > 1 || fit(&extents, &hardware));
    }
}
