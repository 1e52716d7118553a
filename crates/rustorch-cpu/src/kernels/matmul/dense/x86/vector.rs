//! Vector registers as tile elements.

use crate::kernels::matmul::dense::kernel::Vector;
use rustorch_core::{C64, C128};
use std::arch::x86_64::*;

macro_rules! vectors {
    ($($vector:ty: $lanes:literal of $e:ty, $splat:ident, $load:ident, $store:ident, $fma:ident;)*) => {$(
        impl Vector for $vector {
            type E = $e;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $e) {
                // SAFETY: this function's contract.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn multiply_add(acc: Self, a: Self, b: Self) -> Self {
                // SAFETY: this function's contract.
                unsafe { $fma(a, b, acc) }
            }
        }
    )*};
}

vectors! {
    __m512: 16 of f32, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps;
    __m512d: 8 of f64, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd;
    __m256: 8 of f32, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps;
    __m256d: 4 of f64, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd;
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident($vector:ty): $lanes:literal of $e:ty, $splat:ident, $load:ident, $store:ident, $mul:ident, $add:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name($vector);

        impl Vector for $name {
            type E = $e;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $e) -> Self {
                // SAFETY: this function's contract.
                $name(unsafe { $splat(value) })
            }

            #[inline(always)]
            unsafe fn load(from: *const $e) -> Self {
                // SAFETY: this function's contract.
                $name(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $e) {
                // SAFETY: this function's contract.
                unsafe { $store(to.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn multiply_add(acc: Self, a: Self, b: Self) -> Self {
                // SAFETY: this function's contract.
                $name(unsafe { $add(acc.0, $mul(a.0, b.0)) })
            }
        }
    )*};
}

integers! {
    /// Needs AVX-512 BW.
    I16x32(__m512i): 32 of i16, _mm512_set1_epi16, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_mullo_epi16, _mm512_add_epi16;
    /// Needs AVX-512 F.
    I32x16(__m512i): 16 of i32, _mm512_set1_epi32, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_mullo_epi32, _mm512_add_epi32;
    /// Needs AVX-512 DQ.
    I64x8(__m512i): 8 of i64, _mm512_set1_epi64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_mullo_epi64, _mm512_add_epi64;
    /// Needs AVX2.
    I16x16(__m256i): 16 of i16, _mm256_set1_epi16, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_mullo_epi16, _mm256_add_epi16;
    /// Needs AVX2.
    I32x8(__m256i): 8 of i32, _mm256_set1_epi32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_mullo_epi32, _mm256_add_epi32;
}

macro_rules! complex {
    ($($(#[$doc:meta])* $name:ident($vector:ty): $lanes:literal of $e:ty, $splat:ident, $load:ident, $store:ident, $fma:ident, $fmaddsub:ident, |$v:ident| $swap:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// Real and imaginary parts are interleaved, as in memory. A sum is kept in two registers, of products with the
        /// real and with the imaginary part of the left factor; they are joined when it is stored.
        #[derive(Clone, Copy)]
        pub(super) struct $name {
            by_real: $vector,
            by_imaginary: $vector,
        }

        impl Vector for $name {
            type E = $e;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $name { by_real: $splat(value.re), by_imaginary: $splat(value.im) } }
            }

            #[inline(always)]
            unsafe fn load(from: *const $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $name { by_real: $load(from.cast()), by_imaginary: $splat(0.0) } }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $e) {
                // SAFETY: this function's contract.
                unsafe {
                    let $v = self.by_imaginary;
                    // Differences in the real places, sums in the imaginary ones.
                    $store(to.cast(), $fmaddsub(self.by_real, $splat(1.0), $swap));
                }
            }

            #[inline(always)]
            unsafe fn multiply_add(acc: Self, a: Self, b: Self) -> Self {
                // SAFETY: this function's contract.
                unsafe {
                    $name {
                        by_real: $fma(a.by_real, b.by_real, acc.by_real),
                        by_imaginary: $fma(a.by_imaginary, b.by_real, acc.by_imaginary),
                    }
                }
            }
        }
    )*};
}

complex! {
    /// Needs AVX-512 F.
    C64x8(__m512): 8 of C64, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_fmaddsub_ps, |v| _mm512_permute_ps(v, 0xb1);
    /// Needs AVX-512 F.
    C128x4(__m512d): 4 of C128, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd, _mm512_fmaddsub_pd, |v| _mm512_permute_pd(v, 0x55);
    /// Needs AVX and FMA.
    C64x4(__m256): 4 of C64, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_fmaddsub_ps, |v| _mm256_permute_ps(v, 0xb1);
    /// Needs AVX and FMA.
    C128x2(__m256d): 2 of C128, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd, _mm256_fmaddsub_pd, |v| _mm256_permute_pd(v, 0x5);
}
