//! [`Numerics::Fast`](rustorch_core::Numerics::Fast): one chain of sums for each result of the types for which ggml has eight.

#[cfg(target_arch = "aarch64")]
use super::arm::Vectored;
use super::types::{ActivationQuant, Kind, Weight};
#[cfg(target_arch = "x86_64")]
use super::x86::{Scales4, Vectored};
use bytemuck::{Pod, Zeroable};
use rustorch_core::QuantType;
use rustorch_quant::{Block, Codes};
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A block, with the sums of results in one chain.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Fast<W>(W);

// SAFETY: it is its only field.
unsafe impl<W: Zeroable> Zeroable for Fast<W> {}
// SAFETY: it is its only field.
unsafe impl<W: Pod> Pod for Fast<W> {}

impl<W: Block> Block for Fast<W> {
    const TYPE: QuantType = W::TYPE;

    #[inline(always)]
    fn expand(&self, out: &mut Codes) {
        self.0.expand(out);
    }
}

impl<W: Weight> Weight for Fast<W> {
    const ACTIVATION_QUANT: ActivationQuant = W::ACTIVATION_QUANT;
    const KIND: Kind = match W::KIND {
        Kind::LaneBlocks => Kind::Blocks,
        Kind::Lanes => Kind::Integer,
        kind => kind,
    };
    const GROUP: usize = W::GROUP;
    const BITS: u32 = W::BITS;
    const OFFSET: u8 = W::OFFSET;
    const MINS: bool = W::MINS;

    #[inline(always)]
    fn factors(&self) -> (f32, f32) {
        self.0.factors()
    }

    #[inline(always)]
    fn scales(&self) -> ([i8; 16], [i8; 16]) {
        self.0.scales()
    }
}

#[cfg(target_arch = "x86_64")]
impl<W: Vectored> Vectored for Fast<W> {
    const PAIRS: [(usize, usize); 4] = W::PAIRS;

    #[inline(always)]
    unsafe fn codes(&self, i: usize) -> __m256i {
        // SAFETY: the contract is passed on.
        unsafe { self.0.codes(i) }
    }

    #[inline(always)]
    unsafe fn pair(&self, i: usize) -> __m512i {
        // SAFETY: the contract is passed on.
        unsafe { self.0.pair(i) }
    }

    #[inline(always)]
    unsafe fn two(a: &Self, b: &Self) -> __m512i {
        // SAFETY: the contract is passed on.
        unsafe { W::two(&a.0, &b.0) }
    }

    const FOURS: bool = W::FOURS;

    #[inline(always)]
    unsafe fn four(blocks: *const Self) -> ([__m512i; 2], __m512i) {
        // SAFETY: the contract is passed on.
        unsafe { W::four(blocks.cast()) }
    }

    #[inline(always)]
    unsafe fn scales_of_fours(heads: [__m512i; 4]) -> __m512 {
        // SAFETY: the contract is passed on.
        unsafe { W::scales_of_fours(heads) }
    }

    #[inline(always)]
    unsafe fn factors4([a, b, c, d]: [&Self; 4]) -> (__m128, __m128) {
        // SAFETY: the contract is passed on.
        unsafe { W::factors4([&a.0, &b.0, &c.0, &d.0]) }
    }

    #[inline(always)]
    unsafe fn scales4([a, b, c, d]: [&Self; 4]) -> Scales4 {
        // SAFETY: the contract is passed on.
        unsafe { W::scales4([&a.0, &b.0, &c.0, &d.0]) }
    }

    #[inline(always)]
    unsafe fn factors1(&self) -> (__m128, __m128) {
        // SAFETY: the contract is passed on.
        unsafe { self.0.factors1() }
    }

    fn halves(&self) -> (u16, u16) {
        self.0.halves()
    }
}

#[cfg(target_arch = "aarch64")]
impl<W: Vectored> Vectored for Fast<W> {
    #[inline(always)]
    unsafe fn codes(&self, i: usize) -> [int8x16_t; 2] {
        // SAFETY: the contract is passed on.
        unsafe { self.0.codes(i) }
    }

    #[inline(always)]
    fn factors4([a, b, c, d]: [&Self; 4]) -> (float32x4_t, float32x4_t) {
        W::factors4([&a.0, &b.0, &c.0, &d.0])
    }

    fn halves(&self) -> (u16, u16) {
        self.0.halves()
    }
}
