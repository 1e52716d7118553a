//! Products of small matrices by the 32 threads of a warp together: tensor cores.
//!
//! WGSL has no name for them. The functions here are written by shuffles, and on CUDA they become one instruction each, from
//! compute capability 8.0 on.

use naga_c::Intrinsic;

/// `mma_k32(lane, a, b, c)`: `c + a · b` of 8-bit integers, `[16, 32] · [32, 8]`, and `mma_k16`, `[16, 16] · [16, 8]`.
///
/// Thread `lane` of a warp holds, four values in a word: of `a`, row `lane / 4` at word `lane % 4` of the inner dimension
/// (`x`), the row 8 below (`y`), and both four words on (`z`, `w`); of `b`, the same words of column `lane / 4` (`x`, `y`);
/// of `c` and the result, columns `2 · (lane % 4)` and the next of row `lane / 4` (`x`, `y`), and of the row 8 below (`z`, `w`).
/// (PTX ISA, "Matrix Fragments for mma.m16n8k32 with .s8".)
pub(crate) const MMA_I8: &str = "
fn mma_k32(lane: u32, a: vec4<u32>, b: vec2<u32>, c: vec4<i32>) -> vec4<i32> {
    return mma_k16(lane, a.zw, b.y, mma_k16(lane, a.xy, b.x, c));
}
fn mma_k16(lane: u32, a: vec2<u32>, b: u32, c: vec4<i32>) -> vec4<i32> {
    var sums = c;
    for (var word = 0u; word < 4u; word++) {
        let row = (lane & 28u) + word;
        let column = 8u * (lane & 3u) + word;
        let upper = subgroupShuffle(a.x, row);
        let lower = subgroupShuffle(a.y, row);
        let left = subgroupShuffle(b, column);
        let right = subgroupShuffle(b, column + 4u);
        sums.x += dot4I8Packed(upper, left);
        sums.y += dot4I8Packed(upper, right);
        sums.z += dot4I8Packed(lower, left);
        sums.w += dot4I8Packed(lower, right);
    }
    return sums;
}
";

/// The instructions of [`MMA_I8`].
pub(crate) const INTRINSICS: &[Intrinsic] = &[
    Intrinsic {
        name: "mma_k32",
        condition: "__CUDA_ARCH__ >= 800",
        body: r#"$result d;
asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
    : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
    : "r"($1.x), "r"($1.y), "r"($1.z), "r"($1.w), "r"($2.x), "r"($2.y), "r"($3.x), "r"($3.y), "r"($3.z), "r"($3.w));
return d;"#,
    },
    Intrinsic {
        name: "mma_k16",
        condition: "__CUDA_ARCH__ >= 800",
        body: r#"$result d;
asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
    : "=r"(d.x), "=r"(d.y), "=r"(d.z), "=r"(d.w)
    : "r"($1.x), "r"($1.y), "r"($2), "r"($3.x), "r"($3.y), "r"($3.z), "r"($3.w));
return d;"#,
    },
];
