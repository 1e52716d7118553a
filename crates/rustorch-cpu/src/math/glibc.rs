//! `expf` of the GNU C library, 2.27 to 2.40, for arguments that are not positive: bit for bit, but in loops that become vector code.
//!
//! The algorithm is that of Arm's Optimized Routines (`math/expf.c`): `exp(x) = 2^(k/32) · 2^(r/32)` with an integer `k` and a polynomial in
//! `r`, all in `f64`.

/// `2^(i/32)` as `f64`, less `i` in the bits to which `k` is added.
static POWERS: [u64; 32] = [
    0x3ff0_0000_0000_0000,
    0x3fef_d9b0_d315_8574,
    0x3fef_b558_6cf9_890f,
    0x3fef_9301_d012_5b51,
    0x3fef_72b8_3c7d_517b,
    0x3fef_5487_3168_b9aa,
    0x3fef_387a_6e75_6238,
    0x3fef_1e9d_f51f_dee1,
    0x3fef_06fe_0a31_b715,
    0x3fee_f1a7_373a_a9cb,
    0x3fee_dea6_4c12_3422,
    0x3fee_ce08_6061_892d,
    0x3fee_bfda_d536_2a27,
    0x3fee_b42b_569d_4f82,
    0x3fee_ab07_dd48_5429,
    0x3fee_a47e_b03a_5585,
    0x3fee_a09e_667f_3bcd,
    0x3fee_9f75_e8ec_5f74,
    0x3fee_a114_73eb_0187,
    0x3fee_a589_994c_ce13,
    0x3fee_ace5_422a_a0db,
    0x3fee_b737_b0cd_c5e5,
    0x3fee_c491_82a3_f090,
    0x3fee_d503_b23e_255d,
    0x3fee_e89f_995a_d3ad,
    0x3fee_ff76_f2fb_5e47,
    0x3fef_199b_dd85_529c,
    0x3fef_3720_dcef_9069,
    0x3fef_5818_dcfb_a487,
    0x3fef_7c97_337b_9b5f,
    0x3fef_a4af_a2a4_90da,
    0x3fef_d076_5b6e_4540,
];

/// Coefficients of the polynomial.
const C: [f64; 3] = [
    f64::from_bits(0x3fac_6af8_4b91_2394) / 32768.0,
    f64::from_bits(0x3fce_bfce_50fa_c4f3) / 1024.0,
    f64::from_bits(0x3fe6_2e42_ff0c_52d6) / 32.0,
];

/// `exp(x)` for `x ≤ 0` or NaN.
#[inline(always)]
pub(crate) fn exp_of_negative(x: f32) -> f32 {
    // Added, it makes integers of numbers.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    const PER_UNIT: f64 = 32.0 * std::f64::consts::LOG2_E;
    // Everything below gives 0; a NaN stays.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = f64::from(x);
    let shifted = PER_UNIT.mul_add(x, SHIFT);
    let k = shifted.to_bits();
    let r = PER_UNIT.mul_add(x, SHIFT - shifted);
    let power = f64::from_bits(POWERS[(k % 32) as usize].wrapping_add(k << 47));
    let y = C[0].mul_add(r, C[1]).mul_add(r * r, C[2].mul_add(r, 1.0));
    (y * power) as f32
}
