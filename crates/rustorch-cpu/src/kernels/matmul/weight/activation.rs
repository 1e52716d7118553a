//! Activations rounded to the weight's activation type: as rows, and as panels of sixteen interleaved rows.

use super::RowIds;
use super::chunk::{CHUNK, paired};
use super::types::ActivationQuant;
use crate::kernels::matmul::rows::{Parts, StridedRows};
use crate::{Isa, ThreadPool};
use bytemuck::Zeroable;
use rustorch_quant::{BlockQ8_0, BlockQ8_1, BlockQ8K, quantize_q8_0, quantize_q8_1, quantize_q8_k};
use std::cell::Cell;

/// Rows in a panel.
pub(crate) const LANES: usize = 16;

/// Rounded activations, row by row, with codes, scales and sums apart.
pub(crate) struct Activations {
    activation_quant: ActivationQuant,
    k: usize,
    parts: Buffers,
}

/// The memory of [`Activations`].
#[derive(Default)]
struct Buffers {
    qs: Vec<i8>,
    d: Vec<f32>,
    s: Vec<f32>,
    sums16: Vec<i16>,
    sums32: Vec<i16>,
}

thread_local! {
    /// Memory of activations that are no longer needed. Without it, each matmul of a prompt would have the system clear fresh
    /// pages.
    static SPARE: Cell<Buffers> = Cell::default();
    /// The same of panels.
    static SPARE_PANELS: Cell<Vec<PanelChunk>> = const { Cell::new(Vec::new()) };
}

/// The most bytes of codes and the most panels that a thread keeps.
const KEPT: usize = 64 << 20;

impl Drop for Activations {
    fn drop(&mut self) {
        if self.parts.qs.capacity() <= KEPT {
            SPARE.set(std::mem::take(&mut self.parts));
        }
    }
}

/// Panels, one after the other, each of so many chunks as a row has.
pub(crate) struct Panels(Vec<PanelChunk>);

impl std::ops::Deref for Panels {
    type Target = [PanelChunk];

    fn deref(&self) -> &[PanelChunk] {
        &self.0
    }
}

impl Drop for Panels {
    fn drop(&mut self) {
        if self.0.capacity() * size_of::<PanelChunk>() <= KEPT {
            SPARE_PANELS.set(std::mem::take(&mut self.0));
        }
    }
}

/// One row of [`Activations`].
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// Codes.
    pub(crate) qs: &'a [i8],
    /// Scales, for each block of the activation type.
    pub(crate) d: &'a [f32],
    /// Scaled sums, for each 32 values (Q8_1 only).
    pub(crate) s: &'a [f32],
    /// Sums of the codes, for each 16 values.
    pub(crate) sums16: &'a [i16],
    /// Sums of the codes, for each 32 values.
    pub(crate) sums32: &'a [i16],
    /// Bytes of weights, as many as those that the row is multiplied with, to be asked for meanwhile. They need not exist.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other kernels leave it to the CPU"))]
    pub(crate) next: *const u8,
}

/// What a kernel wants of its panels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PanelForm {
    /// Values whose sums they carry: 16 or 32.
    pub(crate) group: usize,
    /// Whether values are ordered as by [`paired`].
    pub(crate) is_paired: bool,
}

/// 256 values of sixteen rows, interleaved so that one vector holds four values of each row.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct PanelChunk {
    /// Codes: `[value / 4][row][value % 4]`, if they are not [`paired`].
    pub(crate) qs: [[[i8; 4]; LANES]; CHUNK / 4],
    /// Scales: `[block][row]`.
    pub(crate) d: [[f32; LANES]; 8],
    /// Scaled sums: `[value / 32][row]`.
    pub(crate) s: [[f32; LANES]; 8],
    /// Sums of the codes of groups, two groups together: `[group / 2][row][group % 2]`.
    pub(crate) sums: [[[i16; 2]; LANES]; 8],
}

impl PanelChunk {
    const ZERO: PanelChunk = PanelChunk {
        qs: [[[0; 4]; LANES]; CHUNK / 4],
        d: [[0.0; LANES]; 8],
        s: [[0.0; LANES]; 8],
        sums: [[[0; 2]; LANES]; 8],
    };
}

impl Activations {
    /// Rounds the rows of `x`, whose length is a multiple of the activation type's block.
    pub(crate) fn new(
        pool: &ThreadPool,
        activation_quant: ActivationQuant,
        x: &StridedRows<'_, f32>,
    ) -> Activations {
        let (rows, k) = (x.count, x.len());
        let mut all = SPARE.take();
        all.qs.resize(rows * k, 0);
        all.d.resize(rows * (k / activation_quant.block()), 0.0);
        all.s.resize(if activation_quant == ActivationQuant::Q8_1 { rows * (k / 32) } else { 0 }, 0.0);
        all.sums16.resize(rows * (k / 16), 0);
        all.sums32.resize(rows * (k / 32), 0);
        let parts = (
            Parts::new(all.qs.as_mut_ptr()),
            Parts::new(all.d.as_mut_ptr()),
            Parts::new(all.s.as_mut_ptr()),
            Parts::new(all.sums16.as_mut_ptr()),
            Parts::new(all.sums32.as_mut_ptr()),
        );
        let round = match Isa::detect() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 => round_avx2,
            _ => round_row as unsafe fn(ActivationQuant, &[f32], RowMut<'_>),
        };
        let blocks = k / activation_quant.block();
        pool.ranges(rows, (GRAIN / k.max(1)).max(1), |range| {
            let mut gathered = Vec::new();
            for i in range {
                let values = x.row(i, &mut gathered);
                let s = if activation_quant == ActivationQuant::Q8_1 { k / 32 } else { 0 };
                // SAFETY: every row is claimed by one thread, and its parts are its own. The CPU has the
                // instruction set by which `round` was chosen.
                unsafe {
                    let row = RowMut {
                        qs: parts.0.part(i * k, k),
                        d: parts.1.part(i * blocks, blocks),
                        s: parts.2.part(i * s, s),
                        sums16: parts.3.part(i * (k / 16), k / 16),
                        sums32: parts.4.part(i * (k / 32), k / 32),
                    };
                    round(activation_quant, values, row);
                }
            }
        });
        Activations { activation_quant, k, parts: all }
    }

    /// What they are rounded to.
    pub(crate) fn activation_quant(&self) -> ActivationQuant {
        self.activation_quant
    }

    /// Row `i`.
    #[inline]
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        let part = |len: usize| i * len..(i + 1) * len;
        let all = &self.parts;
        let s = if all.s.is_empty() { 0 } else { self.k / 32 };
        Row {
            qs: &all.qs[part(self.k)],
            d: &all.d[part(self.k / self.activation_quant.block())],
            s: &all.s[part(s)],
            sums16: &all.sums16[part(self.k / 16)],
            sums32: &all.sums32[part(self.k / 32)],
            next: std::ptr::null(),
        }
    }

    /// The rows `rows` as panels. In lanes without a row stands anything.
    pub(crate) fn panels(&self, pool: &ThreadPool, rows: RowIds<'_>, form: PanelForm) -> Panels {
        let chunks = self.k.div_ceil(CHUNK);
        let mut panels = SPARE_PANELS.take();
        panels.resize(rows.len().div_ceil(LANES) * chunks, PanelChunk::ZERO);
        let parts = Parts::new(panels.as_mut_ptr());
        pool.run(rows.len().div_ceil(LANES), |p| {
            // SAFETY: panel `p` is claimed by one thread.
            let panel = unsafe { parts.part(p * chunks, chunks) };
            for (lane, i) in (p * LANES..rows.len()).take(LANES).enumerate() {
                interleave(self.activation_quant, &self.row(rows.get(i)), form, lane, panel);
            }
        });
        Panels(panels)
    }
}

/// Values for a thread to round at least.
const GRAIN: usize = 16 << 10;

struct RowMut<'a> {
    qs: &'a mut [i8],
    d: &'a mut [f32],
    s: &'a mut [f32],
    sums16: &'a mut [i16],
    sums32: &'a mut [i16],
}

/// # Safety
/// The CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn round_avx2(activation_quant: ActivationQuant, x: &[f32], out: RowMut<'_>) {
    round_row(activation_quant, x, out);
}

#[inline(always)]
fn round_row(activation_quant: ActivationQuant, x: &[f32], out: RowMut<'_>) {
    match activation_quant {
        ActivationQuant::Q8_0 => {
            let mut block = [BlockQ8_0::zeroed()];
            for (i, x) in x.chunks_exact(32).enumerate() {
                quantize_q8_0(x, &mut block);
                out.d[i] = block[0].d.get();
                out.qs[32 * i..32 * i + 32].copy_from_slice(&block[0].qs);
            }
        }
        ActivationQuant::Q8_1 => {
            let mut block = [BlockQ8_1::zeroed()];
            for (i, x) in x.chunks_exact(32).enumerate() {
                quantize_q8_1(x, &mut block);
                out.d[i] = block[0].d.get();
                out.s[i] = block[0].s.get();
                out.qs[32 * i..32 * i + 32].copy_from_slice(&block[0].qs);
            }
        }
        ActivationQuant::Q8K => {
            let mut block = [BlockQ8K::zeroed()];
            for (i, x) in x.chunks_exact(256).enumerate() {
                quantize_q8_k(x, &mut block);
                out.d[i] = block[0].d.get();
                out.qs[256 * i..256 * i + 256].copy_from_slice(&block[0].qs);
            }
        }
    }
    for (sum, qs) in out.sums16.iter_mut().zip(out.qs.as_chunks::<16>().0) {
        *sum = qs.iter().map(|&q| i16::from(q)).sum();
    }
    for (sum, halves) in out.sums32.iter_mut().zip(out.sums16.as_chunks::<2>().0) {
        *sum = halves[0] + halves[1];
    }
}

fn interleave(
    activation_quant: ActivationQuant,
    row: &Row<'_>,
    PanelForm { group, is_paired }: PanelForm,
    lane: usize,
    panel: &mut [PanelChunk],
) {
    if is_paired {
        for (values, panel) in row.qs.as_chunks::<CHUNK>().0.iter().zip(&mut *panel) {
            for (values, qs) in values.as_chunks::<64>().0.iter().zip(panel.qs.as_chunks_mut::<16>().0) {
                let (first, second) = values.split_at(32);
                let fours = first.as_chunks::<4>().0.iter().zip(second.as_chunks::<4>().0);
                for (i, (first, second)) in fours.enumerate() {
                    [qs[i][lane], qs[8 + i][lane]] = paired(*first, *second);
                }
            }
        }
    } else {
        for (i, qs) in row.qs.as_chunks::<4>().0.iter().enumerate() {
            panel[i / (CHUNK / 4)].qs[i % (CHUNK / 4)][lane] = *qs;
        }
    }
    let blocks = CHUNK / activation_quant.block();
    for (i, &d) in row.d.iter().enumerate() {
        panel[i / blocks].d[i % blocks][lane] = d;
    }
    for (i, &s) in row.s.iter().enumerate() {
        panel[i / 8].s[i % 8][lane] = s;
    }
    let sums = if group == 16 { row.sums16 } else { row.sums32 };
    let groups = CHUNK / group;
    for (i, &sum) in sums.iter().enumerate() {
        let at = i % groups;
        panel[i / groups].sums[at / 2][lane][at % 2] = sum;
    }
}
