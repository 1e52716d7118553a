//! Sixteen lanes in four registers of NEON, which every 64-bit Arm CPU has.
//!
//! The intrinsics of conversions to and from half precision are newer than the oldest compiler that builds this crate.

use super::{LANES, Level};
use rustorch_core::f16;
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon;

// SAFETY of all intrinsics and instructions below: the target's CPUs have NEON, and the array types make every load and store in
// bounds.

/// Four f16, by their bits, in single precision.
#[inline(always)]
pub(crate) fn widen4(bits: [u16; 4]) -> float32x4_t {
    // SAFETY: see above.
    unsafe { widen(vld1_u16(bits.as_ptr())) }
}

#[inline(always)]
fn widen(half: uint16x4_t) -> float32x4_t {
    let wide;
    // SAFETY: see above; the instruction changes nothing but the register that is named.
    unsafe {
        asm!(
            "fcvtl {wide:v}.4s, {half:v}.4h",
            wide = lateout(vreg) wide,
            half = in(vreg) half,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    wide
}

/// The nearest f16, to even.
#[inline(always)]
fn narrow(wide: float32x4_t) -> uint16x4_t {
    let half;
    // SAFETY: as above.
    unsafe {
        asm!(
            "fcvtn {half:v}.4h, {wide:v}.4s",
            half = lateout(vreg) half,
            wide = in(vreg) wide,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    half
}

impl Level for Neon {
    type F = [float32x4_t; 4];
    const WIDE: bool = false;

    #[inline(always)]
    fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fma_double(self, a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: see above.
        unsafe { [vdupq_n_f32(x); 4] }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        let p = x.as_ptr();
        // SAFETY: see above.
        unsafe { [vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))] }
    }
    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        for (i, v) in v.into_iter().enumerate() {
            // SAFETY: see above.
            unsafe { vst1q_f32(out.as_mut_ptr().add(4 * i), v) };
        }
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, mut c: Self::F) -> Self::F {
        for i in 0..4 {
            // SAFETY: see above.
            c[i] = unsafe { vfmaq_f32(c[i], a[i], b[i]) };
        }
        c
    }
    #[inline(always)]
    fn add(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..4 {
            // SAFETY: see above.
            a[i] = unsafe { vaddq_f32(a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    fn sub(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..4 {
            // SAFETY: see above.
            a[i] = unsafe { vsubq_f32(a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    fn mul(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..4 {
            // SAFETY: see above.
            a[i] = unsafe { vmulq_f32(a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    fn max(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..4 {
            // SAFETY: see above. By comparison, as elsewhere: the instruction for it orders zeros by their signs.
            a[i] = unsafe { vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    fn max4(self, v: [Self::F; 4]) -> [f32; 4] {
        let [a, b, c, d] = v;
        // SAFETY: see above.
        unsafe {
            let ab = vpmaxq_f32(greatest(a), greatest(b));
            let cd = vpmaxq_f32(greatest(c), greatest(d));
            array(vpmaxq_f32(ab, cd))
        }
    }
    #[inline(always)]
    fn sum4(self, v: [Self::F; 4]) -> [f32; 4] {
        let [a, b, c, d] = v;
        array(sum_pairs(halves(quarter(a), quarter(b)), halves(quarter(c), quarter(d))))
    }
    #[inline(always)]
    fn even_odd(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
        let [a, b] = [a, b].map(|v| [[v[0], v[1]], [v[2], v[3]]]);
        let pairs = [a[0], a[1], b[0], b[1]];
        // SAFETY: see above.
        unsafe { (pairs.map(|[x, y]| vuzp1q_f32(x, y)), pairs.map(|[x, y]| vuzp2q_f32(x, y))) }
    }
    #[inline(always)]
    fn interleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
        // SAFETY: see above.
        let eight = |i: usize| unsafe { [vzip1q_f32(a[i], b[i]), vzip2q_f32(a[i], b[i])] };
        let ([v0, v1], [v2, v3], [v4, v5], [v6, v7]) = (eight(0), eight(1), eight(2), eight(3));
        ([v0, v1, v2, v3], [v4, v5, v6, v7])
    }
    #[inline(always)]
    fn widen16(self, x: &[f16; LANES], out: &mut [f32; LANES]) {
        let mut v = self.splat(0.0);
        for (i, v) in v.iter_mut().enumerate() {
            // SAFETY: see above; an f16 is two bytes.
            *v = widen(unsafe { vld1_u16(x.as_ptr().cast::<u16>().add(4 * i)) });
        }
        self.store(v, out);
    }
    #[inline(always)]
    fn narrow16(self, x: &[f32; LANES], out: &mut [f16; LANES]) {
        for (i, v) in self.load(x).into_iter().enumerate() {
            // SAFETY: see above; an f16 is two bytes.
            unsafe { vst1_u16(out.as_mut_ptr().cast::<u16>().add(4 * i), narrow(v)) };
        }
    }
    #[inline(always)]
    fn round16(self, mut v: Self::F) -> Self::F {
        for v in &mut v {
            *v = widen(narrow(*v));
        }
        v
    }
}

/// Lanes 8 apart, then 4 apart.
#[inline(always)]
fn quarter([a, b, c, d]: [float32x4_t; 4]) -> float32x4_t {
    // SAFETY: see above.
    unsafe { vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d)) }
}

/// Lanes 2 apart of two vectors.
#[inline(always)]
fn halves(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    // SAFETY: see above.
    unsafe {
        vaddq_f32(
            vcombine_f32(vget_low_f32(a), vget_low_f32(b)),
            vcombine_f32(vget_high_f32(a), vget_high_f32(b)),
        )
    }
}

/// Lanes 1 apart.
#[inline(always)]
fn sum_pairs(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    // SAFETY: see above.
    unsafe { vpaddq_f32(a, b) }
}

/// The largest lanes of four registers.
#[inline(always)]
fn greatest([a, b, c, d]: [float32x4_t; 4]) -> float32x4_t {
    // SAFETY: see above.
    unsafe { vmaxq_f32(vmaxq_f32(a, b), vmaxq_f32(c, d)) }
}

#[inline(always)]
fn array(v: float32x4_t) -> [f32; 4] {
    let mut out = [0.0; 4];
    // SAFETY: see above.
    unsafe { vst1q_f32(out.as_mut_ptr(), v) };
    out
}
