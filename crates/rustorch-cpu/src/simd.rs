//! Vectors of sixteen `f32` lanes, at every instruction set.
//!
//! Kernels are written once, generic over [`Level`], and run through [`run`], which compiles them for each instruction
//! set and picks the best one present. A value of a level exists only where its instructions do, so its methods are
//! safe. Sums over lanes take the same tree everywhere, and products are fused everywhere, so that levels agree to the last bit.

// By its path, since tests include this file by its own.
#[cfg(target_arch = "aarch64")]
#[path = "simd/arm.rs"]
pub(crate) mod arm;

use crate::{Isa, fused};
use rustorch_core::{bf16, f16};
use std::ops::{Deref, DerefMut};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Sixteen numbers that fill a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// Numbers from the beginning of a cache line on: none of their vectors crosses lines.
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    /// At least `len` zeros.
    pub(crate) fn zeros(len: usize) -> Lines {
        Lines(vec![Line([0.0; LANES]); len.div_ceil(LANES)])
    }
}

impl Deref for Lines {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: lines are numbers one behind the other, without padding.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LANES) }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LANES) }
    }
}

/// An instruction set, as a value that proves that the CPU has it.
pub(crate) trait Level: Copy {
    /// Sixteen `f32`.
    type F: Copy;
    /// Rows and columns of register tiles for which there are registers.
    const WIDE: bool;

    /// `a·b + c`, rounded once: for loops that the compiler vectorises.
    fn fma(self, a: f32, b: f32, c: f32) -> f32;
    /// `a·b + c` of `f64`, rounded once where there is an instruction for it, and twice elsewhere: emulating it would take far longer.
    fn fma_double(self, a: f64, b: f64, c: f64) -> f64;
    /// All lanes equal.
    fn splat(self, x: f32) -> Self::F;
    /// Sixteen consecutive numbers.
    fn load(self, x: &[f32; LANES]) -> Self::F;
    /// Stores sixteen numbers.
    fn store(self, v: Self::F, out: &mut [f32; LANES]);
    /// `a·b + c` in each lane, rounded once.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a + b` in each lane.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a − b` in each lane.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b` in each lane.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger in each lane; one of the two where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The largest lanes of four vectors; anything where there is a NaN.
    fn max4(self, v: [Self::F; 4]) -> [f32; 4];
    /// The sums of the lanes of four vectors: lanes `i` and `i + 8` first, then 4, 2 and 1 apart.
    fn sum4(self, v: [Self::F; 4]) -> [f32; 4];
    /// The lanes of even and of odd numbers, of two vectors one behind the other.
    #[inline(always)]
    fn even_odd(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
        let mut both = [[0.0; LANES]; 2];
        self.store(a, &mut both[0]);
        self.store(b, &mut both[1]);
        let both = both.as_flattened();
        let lanes = |first: usize| std::array::from_fn(|i| both[2 * i + first]);
        (self.load(&lanes(0)), self.load(&lanes(1)))
    }
    /// Lanes of two vectors in turn, as two vectors one behind the other.
    #[inline(always)]
    fn interleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
        let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
        self.store(a, &mut even);
        self.store(b, &mut odd);
        let lanes = |first: usize| {
            std::array::from_fn(|i| if i % 2 == 0 { even[first + i / 2] } else { odd[first + i / 2] })
        };
        (self.load(&lanes(0)), self.load(&lanes(LANES / 2)))
    }
    /// Half to single precision.
    fn widen16(self, x: &[f16; LANES], out: &mut [f32; LANES]);
    /// Single to half precision, to nearest even.
    fn narrow16(self, x: &[f32; LANES], out: &mut [f16; LANES]);
    /// The nearest half-precision numbers, in single precision.
    fn round16(self, v: Self::F) -> Self::F;

    /// Half to single precision for slices of equal length.
    #[inline(always)]
    fn widen(self, x: &[f16], out: &mut [f32]) {
        let (xs, x_tail) = x.as_chunks::<LANES>();
        let (outs, out_tail) = out.as_chunks_mut::<LANES>();
        for (x, out) in xs.iter().zip(outs) {
            self.widen16(x, out);
        }
        if !x_tail.is_empty() {
            let mut padded = [f16::ZERO; LANES];
            padded[..x_tail.len()].copy_from_slice(x_tail);
            let mut wide = [0.0; LANES];
            self.widen16(&padded, &mut wide);
            out_tail.copy_from_slice(&wide[..x_tail.len()]);
        }
    }

    /// Single to half precision for slices of equal length.
    #[inline(always)]
    fn narrow(self, x: &[f32], out: &mut [f16]) {
        let (xs, x_tail) = x.as_chunks::<LANES>();
        let (outs, out_tail) = out.as_chunks_mut::<LANES>();
        for (x, out) in xs.iter().zip(outs) {
            self.narrow16(x, out);
        }
        if !x_tail.is_empty() {
            let mut padded = [0.0; LANES];
            padded[..x_tail.len()].copy_from_slice(x_tail);
            let mut half = [f16::ZERO; LANES];
            self.narrow16(&padded, &mut half);
            out_tail.copy_from_slice(&half[..x_tail.len()]);
        }
    }
}

/// Work that is compiled for every level.
pub(crate) trait Task {
    /// What it returns.
    type Output;
    /// The work; must be `#[inline(always)]`, with everything that it calls in its loops.
    fn run<L: Level>(self, level: L) -> Self::Output;
}

/// Runs a task at the best level of this CPU.
// Inlined, so that the caller writes the fields of the task where the kernel reads them. Passed by value, the task is copied: a vector load
// of fields just written by narrower stores cannot be forwarded from the store buffer, and waits until the earlier stores, among them
// the results of the row before, have reached the cache (Intel's optimization manual, "store forwarding").
#[inline(always)]
pub(crate) fn run<T: Task>(task: T) -> T::Output {
    match Isa::detect() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: detection found these features.
        Isa::Avx512 => unsafe { x86::avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: detection found these features.
        Isa::Avx2 | Isa::AvxVnni => unsafe { x86::avx2(task) },
        #[cfg(target_arch = "aarch64")]
        Isa::Neon | Isa::NeonDotprod | Isa::NeonI8mm => neon(task),
        _ => portable(task),
    }
}

/// Whether a product is added and rounded once by an instruction, at the level that [`run`] picks.
pub(crate) fn fuses() -> bool {
    fused::INSTRUCTION || Isa::detect() != Isa::Portable
}

#[inline(never)]
fn portable<T: Task>(task: T) -> T::Output {
    task.run(Portable)
}

#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn neon<T: Task>(task: T) -> T::Output {
    task.run(arm::Neon)
}

/// Asks for the cache line at an address, of which nothing else is read.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// [`prefetch`] into the second-level cache: the first one waits for few lines at a time, which is too few for what comes from memory.
#[inline(always)]
pub(crate) fn prefetch_l2<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// [`prefetch_l2`] of the lines of so many bytes.
#[inline(always)]
pub(crate) fn prefetch_bytes<T>(from: *const T, bytes: usize) {
    for line in (0..bytes).step_by(size_of::<Line>()) {
        prefetch_l2(from.cast::<u8>().wrapping_add(line));
    }
}

/// Narrows to `bf16`, to nearest even; NaN stays NaN. The compiler vectorises loops over it.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
    let kept = if x.is_nan() { bits | 0x0040_0000 } else { rounded };
    bf16::from_bits((kept >> 16) as u16)
}

/// Widens from `bf16`.
#[inline(always)]
pub(crate) fn from_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// The sum in the order of [`Level::sum4`].
#[inline(always)]
fn tree_sum(x: &[f32; LANES]) -> f32 {
    let mut x = *x;
    let mut half = LANES / 2;
    while half != 0 {
        for i in 0..half {
            x[i] += x[i + half];
        }
        half /= 2;
    }
    x[0]
}

/// What the compiler assumes for the target.
#[derive(Clone, Copy)]
struct Portable;

impl Level for Portable {
    type F = [f32; LANES];
    const WIDE: bool = false;

    #[inline(always)]
    fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        fused::mul_add(a, b, c)
    }
    #[inline(always)]
    fn fma_double(self, a: f64, b: f64, c: f64) -> f64 {
        if fused::INSTRUCTION { a.mul_add(b, c) } else { a * b + c }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        *x
    }
    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        *out = v;
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, mut c: Self::F) -> Self::F {
        fused::mul_add_lanes(&a, &b, &mut c);
        c
    }
    #[inline(always)]
    fn add(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..LANES {
            a[i] += b[i];
        }
        a
    }
    #[inline(always)]
    fn sub(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..LANES {
            a[i] -= b[i];
        }
        a
    }
    #[inline(always)]
    fn mul(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..LANES {
            a[i] *= b[i];
        }
        a
    }
    #[inline(always)]
    fn max(self, mut a: Self::F, b: Self::F) -> Self::F {
        for i in 0..LANES {
            a[i] = if a[i] > b[i] { a[i] } else { b[i] };
        }
        a
    }
    #[inline(always)]
    fn max4(self, v: [Self::F; 4]) -> [f32; 4] {
        v.map(|v| v.iter().fold(f32::NEG_INFINITY, |most, &x| if x > most { x } else { most }))
    }
    #[inline(always)]
    fn sum4(self, v: [Self::F; 4]) -> [f32; 4] {
        v.map(|v| tree_sum(&v))
    }
    #[inline(always)]
    fn widen16(self, x: &[f16; LANES], out: &mut [f32; LANES]) {
        for (x, out) in x.iter().zip(out) {
            *out = x.to_f32();
        }
    }
    #[inline(always)]
    fn narrow16(self, x: &[f32; LANES], out: &mut [f16; LANES]) {
        for (x, out) in x.iter().zip(out) {
            *out = f16::from_f32(*x);
        }
    }
    #[inline(always)]
    fn round16(self, mut v: Self::F) -> Self::F {
        for x in &mut v {
            *x = f16::from_f32(*x).to_f32();
        }
        v
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Level, Task};
    use rustorch_core::f16;
    use std::arch::x86_64::*;

    /// AVX2, FMA and F16C. Made only in [`avx2`].
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    /// AVX-512 F, BW, DQ and VL. Made only in [`avx512`].
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    pub(super) fn avx2<T: Task>(task: T) -> T::Output {
        task.run(Avx2(()))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
    pub(super) fn avx512<T: Task>(task: T) -> T::Output {
        task.run(Avx512(()))
    }

    // SAFETY of all intrinsics below: the level's value was made where the CPU was found to have the features
    // (`run` above), and the array types make every load and store in bounds.

    impl Level for Avx2 {
        type F = [__m256; 2];
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
            unsafe { [_mm256_set1_ps(x); 2] }
        }
        #[inline(always)]
        fn load(self, x: &[f32; LANES]) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))] }
        }
        #[inline(always)]
        fn store(self, v: Self::F, out: &mut [f32; LANES]) {
            // SAFETY: see above.
            unsafe {
                _mm256_storeu_ps(out.as_mut_ptr(), v[0]);
                _mm256_storeu_ps(out.as_mut_ptr().add(8), v[1]);
            }
        }
        #[inline(always)]
        fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn sub(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn max4(self, v: [Self::F; 4]) -> [f32; 4] {
            // SAFETY: see above.
            unsafe {
                let mut quads = [_mm_setzero_ps(); 4];
                for i in 0..4 {
                    let eight = _mm256_max_ps(v[i][0], v[i][1]);
                    quads[i] = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                }
                greatest(quads)
            }
        }
        #[inline(always)]
        fn sum4(self, v: [Self::F; 4]) -> [f32; 4] {
            // SAFETY: see above.
            unsafe {
                // 8 apart, then 4 apart, leaving four partial sums of each vector.
                let mut quads = [_mm_setzero_ps(); 4];
                for i in 0..4 {
                    let eight = _mm256_add_ps(v[i][0], v[i][1]);
                    quads[i] = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                }
                finish(quads)
            }
        }
        #[inline(always)]
        fn even_odd(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
            // SAFETY: see above.
            unsafe {
                // Pairs of the two in turn, by 128-bit halves; then in order.
                let even = [
                    in_order(_mm256_shuffle_ps::<0b10_00_10_00>(a[0], a[1])),
                    in_order(_mm256_shuffle_ps::<0b10_00_10_00>(b[0], b[1])),
                ];
                let odd = [
                    in_order(_mm256_shuffle_ps::<0b11_01_11_01>(a[0], a[1])),
                    in_order(_mm256_shuffle_ps::<0b11_01_11_01>(b[0], b[1])),
                ];
                (even, odd)
            }
        }
        #[inline(always)]
        fn interleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
            // SAFETY: see above.
            unsafe { (in_turn(a[0], b[0]), in_turn(a[1], b[1])) }
        }
        #[inline(always)]
        fn widen16(self, x: &[f16; LANES], out: &mut [f32; LANES]) {
            // SAFETY: see above; an f16 is two bytes.
            unsafe {
                let p = x.as_ptr().cast::<__m128i>();
                let wide = [_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(p.add(1)))];
                self.store(wide, out);
            }
        }
        #[inline(always)]
        fn narrow16(self, x: &[f32; LANES], out: &mut [f16; LANES]) {
            let v = self.load(x);
            // SAFETY: see above; an f16 is two bytes.
            unsafe {
                let p = out.as_mut_ptr().cast::<__m128i>();
                _mm_storeu_si128(p, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[0]));
                _mm_storeu_si128(p.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[1]));
            }
        }
        #[inline(always)]
        fn round16(self, [low, high]: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe {
                [
                    _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(low)),
                    _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(high)),
                ]
            }
        }
    }

    /// Pairs of lanes: the second and the third exchanged.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn in_order(x: __m256) -> __m256 {
        // SAFETY: by the contract.
        unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(x))) }
    }

    /// Lanes of two vectors in turn.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn in_turn(x: __m256, y: __m256) -> [__m256; 2] {
        // SAFETY: by the contract.
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
            [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
        }
    }

    /// Lanes 2 apart, then 1 apart, of four vectors at once.
    ///
    /// # Safety
    /// The CPU has AVX.
    #[inline(always)]
    unsafe fn finish(q: [__m128; 4]) -> [f32; 4] {
        // SAFETY: by the contract; the store is in bounds.
        unsafe {
            // [a0+a2, a1+a3, b0+b2, b1+b3] and likewise of c and d.
            let ab = _mm_add_ps(_mm_movelh_ps(q[0], q[1]), _mm_movehl_ps(q[1], q[0]));
            let cd = _mm_add_ps(_mm_movelh_ps(q[2], q[3]), _mm_movehl_ps(q[3], q[2]));
            let sums =
                _mm_add_ps(_mm_shuffle_ps::<0b10_00_10_00>(ab, cd), _mm_shuffle_ps::<0b11_01_11_01>(ab, cd));
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), sums);
            out
        }
    }

    /// The largest of the four lanes of four vectors.
    ///
    /// # Safety
    /// The CPU has AVX.
    #[inline(always)]
    unsafe fn greatest(q: [__m128; 4]) -> [f32; 4] {
        // SAFETY: by the contract; the store is in bounds.
        unsafe {
            let ab = _mm_max_ps(_mm_movelh_ps(q[0], q[1]), _mm_movehl_ps(q[1], q[0]));
            let cd = _mm_max_ps(_mm_movelh_ps(q[2], q[3]), _mm_movehl_ps(q[3], q[2]));
            let most =
                _mm_max_ps(_mm_shuffle_ps::<0b10_00_10_00>(ab, cd), _mm_shuffle_ps::<0b11_01_11_01>(ab, cd));
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), most);
            out
        }
    }

    impl Level for Avx512 {
        type F = __m512;
        const WIDE: bool = true;

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
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        fn load(self, x: &[f32; LANES]) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_loadu_ps(x.as_ptr()) }
        }
        #[inline(always)]
        fn store(self, v: Self::F, out: &mut [f32; LANES]) {
            // SAFETY: see above.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn sub(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        fn max4(self, v: [Self::F; 4]) -> [f32; 4] {
            // SAFETY: see above.
            unsafe {
                let mut quads = [_mm_setzero_ps(); 4];
                for i in 0..4 {
                    let eight =
                        _mm256_max_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps::<1>(v[i]));
                    quads[i] = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                }
                greatest(quads)
            }
        }
        #[inline(always)]
        fn sum4(self, v: [Self::F; 4]) -> [f32; 4] {
            let [a, b, c, d] = v;
            // SAFETY: see above.
            unsafe {
                // 8 apart: the halves of a and b side by side; then 4 apart: quarters of a, c, b, d… in one vector.
                let ab = _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b),
                    _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b),
                );
                let cd = _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0b01_00_01_00>(c, d),
                    _mm512_shuffle_f32x4::<0b11_10_11_10>(c, d),
                );
                // Quarters of ab: a, a', b, b'. Even quarters plus odd ones: a, b, c, d.
                let abcd = _mm512_add_ps(
                    _mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd),
                    _mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd),
                );
                let two = _mm512_add_ps(abcd, _mm512_permute_ps::<0b11_10_11_10>(abcd));
                let one = _mm512_add_ps(two, _mm512_permute_ps::<0b01_01_01_01>(two));
                let mut all = [0.0; LANES];
                _mm512_storeu_ps(all.as_mut_ptr(), one);
                [all[0], all[4], all[8], all[12]]
            }
        }
        #[inline(always)]
        fn even_odd(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
            // SAFETY: see above.
            unsafe {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
                (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
            }
        }
        #[inline(always)]
        fn interleave(self, a: Self::F, b: Self::F) -> (Self::F, Self::F) {
            // SAFETY: see above.
            unsafe {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b))
            }
        }
        #[inline(always)]
        fn widen16(self, x: &[f16; LANES], out: &mut [f32; LANES]) {
            // SAFETY: see above; an f16 is two bytes.
            unsafe {
                let wide = _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast::<__m256i>()));
                _mm512_storeu_ps(out.as_mut_ptr(), wide);
            }
        }
        #[inline(always)]
        fn narrow16(self, x: &[f32; LANES], out: &mut [f16; LANES]) {
            // SAFETY: see above; an f16 is two bytes.
            unsafe {
                let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(x.as_ptr()));
                _mm256_storeu_si256(out.as_mut_ptr().cast::<__m256i>(), half);
            }
        }
        #[inline(always)]
        fn round16(self, v: Self::F) -> Self::F {
            // SAFETY: see above.
            unsafe { _mm512_cvtph_ps(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Check;

    impl Task for Check {
        type Output = ();

        fn run<L: Level>(self, l: L) {
            let vectors: [[f32; LANES]; 4] =
                std::array::from_fn(|v| std::array::from_fn(|i| ((v * 31 + i * 7) % 13) as f32 * 0.37 - 1.9));
            let sums = l.sum4(vectors.map(|v| l.load(&v)));
            let most = l.max4(vectors.map(|v| l.load(&v)));
            for ((sum, most), v) in sums.iter().zip(&most).zip(&vectors) {
                assert_eq!(*sum, tree_sum(v));
                assert_eq!(*most, v.iter().copied().fold(f32::MIN, f32::max));
            }
            let [a, b] = [0, 1].map(|v| vectors[v]);
            let stored = |v| {
                let mut out = [0.0; LANES];
                l.store(v, &mut out);
                out
            };
            let (even, odd) = l.even_odd(l.load(&a), l.load(&b));
            let (first, second) = l.interleave(even, odd);
            assert_eq!([stored(first), stored(second)], [a, b]);
            let both = vectors[..2].as_flattened();
            assert_eq!(stored(even), std::array::from_fn(|i| both[2 * i]));
            assert_eq!(stored(odd), std::array::from_fn(|i| both[2 * i + 1]));
            let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            let mut wide = vec![0.0; all.len()];
            l.widen(&all, &mut wide);
            let mut back = vec![f16::ZERO; all.len()];
            l.narrow(&wide, &mut back);
            for ((x, w), b) in all.iter().zip(&wide).zip(&back) {
                assert!(x.to_f32().to_bits() == w.to_bits() || x.is_nan() && w.is_nan(), "{x:?} {w}");
                assert!(x.to_bits() == b.to_bits() || x.is_nan() && b.is_nan(), "{x:?} {b:?}");
            }
        }
    }

    #[test]
    fn every_level_agrees() {
        run(Check);
        Check.run(Portable);
        #[cfg(target_arch = "x86_64")]
        if Isa::detect() >= Isa::Avx2 {
            // SAFETY: detection found these features.
            unsafe { x86::avx2(Check) };
        }
        #[cfg(target_arch = "aarch64")]
        neon(Check);
    }

    #[test]
    fn bf16_rounds_to_nearest_even() {
        for bits in (0..u32::MAX).step_by(65_537 / 3) {
            let x = f32::from_bits(bits);
            let (got, want) = (to_bf16(x), bf16::from_f32(x));
            assert!(got.to_bits() == want.to_bits() || x.is_nan() && got.is_nan(), "{x} {got} {want}");
        }
    }
}
