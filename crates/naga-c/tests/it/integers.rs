//! Integers on a real OpenCL device, and as CUDA source on this CPU: where C leaves behaviour undefined, WGSL's rule must hold.

use crate::common as support;
use crate::common::runners;
use crate::common::table::{Case, case, check, scalar, triples};

fn values() -> Vec<u32> {
    let signed =
        [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 100, -100, 12345, -98765, i32::MIN, i32::MIN + 1, i32::MAX];
    signed.iter().map(|v| *v as u32).chain([0x8000_0001, 0xdead_beef, 0x0f0f_0f0f, 0x0001_0000]).collect()
}

const fn flag(value: bool) -> u32 {
    value as u32
}

fn extract(a: u32, offset: u32, count: u32, signed: bool) -> u32 {
    let offset = offset.min(32);
    let count = count.min(32 - offset);
    if count == 0 {
        return 0;
    }
    let top = a << (32 - count - offset);
    if signed { (top as i32 >> (32 - count)) as u32 } else { top >> (32 - count) }
}

fn insert(a: u32, b: u32, offset: u32, count: u32) -> u32 {
    let offset = offset.min(32);
    let count = count.min(32 - offset);
    if count == 0 {
        return a;
    }
    let mask = (u32::MAX >> (32 - count)) << offset;
    (a & !mask) | ((b << offset) & mask)
}

#[test]
fn signed() {
    let cases: &[Case] = &[
        case("a + b", |a, b, _| a.wrapping_add(b)),
        case("a - b", |a, b, _| a.wrapping_sub(b)),
        case("a * b", |a, b, _| a.wrapping_mul(b)),
        case("a / b", |a, b, _| if b == 0 { a } else { (a as i32).wrapping_div(b as i32) as u32 }),
        case("a % b", |a, b, _| if b == 0 { 0 } else { (a as i32).wrapping_rem(b as i32) as u32 }),
        scalar("a / 7", |a, _, _| ((a as i32) / 7) as u32),
        scalar("a % -3", |a, _, _| ((a as i32) % -3) as u32),
        case("-a", |a, _, _| a.wrapping_neg()),
        case("~a", |a, _, _| !a),
        case("a & b", |a, b, _| a & b),
        case("a | b", |a, b, _| a | b),
        case("a ^ b", |a, b, _| a ^ b),
        scalar("a << (bitcast<u32>(b) & 31u)", |a, b, _| a << (b & 31)),
        scalar("a >> (bitcast<u32>(b) & 31u)", |a, b, _| ((a as i32) >> (b & 31)) as u32),
        scalar("a << bitcast<u32>(b)", |a, b, _| a.wrapping_shl(b)),
        scalar("a >> bitcast<u32>(b)", |a, b, _| (a as i32).wrapping_shr(b) as u32),
        scalar("a >> 3u", |a, _, _| (a as i32 >> 3) as u32),
        case("abs(a)", |a, _, _| (a as i32).wrapping_abs() as u32),
        case("sign(a)", |a, _, _| (a as i32).signum() as u32),
        case("min(a, b)", |a, b, _| (a as i32).min(b as i32) as u32),
        case("max(a, b)", |a, b, _| (a as i32).max(b as i32) as u32),
        case("clamp(a, b, c)", |a, b, c| (a as i32).max(b as i32).min(c as i32) as u32),
        scalar("select(0u, 1u, a < b)", |a, b, _| flag((a as i32) < b as i32)),
        scalar("select(0u, 1u, a >= b)", |a, b, _| flag(a as i32 >= b as i32)),
        case("select(a, b, a == c)", |a, b, c| if a == c { b } else { a }),
        case("select(a, b, a > c)", |a, b, c| if a as i32 > c as i32 { b } else { a }),
        case("select(a, b, !(a <= c))", |a, b, c| if a as i32 > c as i32 { b } else { a }),
        case(
            "select(a, b, (a != c) | (b < c))",
            |a, b, c| if a != c || (b as i32) < c as i32 { b } else { a },
        ),
        case(
            "select(a, b, (a != c) & (b < c))",
            |a, b, c| if a != c && (b as i32) < c as i32 { b } else { a },
        ),
        case("countOneBits(a)", |a, _, _| a.count_ones()),
        case("countLeadingZeros(a)", |a, _, _| a.leading_zeros()),
        case("countTrailingZeros(a)", |a, _, _| a.trailing_zeros()),
        case("reverseBits(a)", |a, _, _| a.reverse_bits()),
        case("firstTrailingBit(a)", |a, _, _| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        case("firstLeadingBit(a)", |a, _, _| {
            let x = if (a as i32) < 0 { !a } else { a };
            if x == 0 { u32::MAX } else { 31 - x.leading_zeros() }
        }),
        scalar("extractBits(a, bitcast<u32>(b), bitcast<u32>(c))", |a, b, c| extract(a, b, c, true)),
        scalar("insertBits(a, b, bitcast<u32>(b) & 63u, bitcast<u32>(c) & 63u)", |a, b, c| {
            insert(a, b, b & 63, c & 63)
        }),
        scalar("dot(vec3(a, b, c), vec3(b, c, a))", |a, b, c| {
            a.wrapping_mul(b).wrapping_add(b.wrapping_mul(c)).wrapping_add(c.wrapping_mul(a))
        }),
        scalar("vec4(a, b, c, a)[bitcast<u32>(b) & 3u]", |a, b, c| [a, b, c, a][(b & 3) as usize]),
    ];
    for device in runners() {
        check(device, "i32", &triples(&values()), cases);
    }
}

#[test]
fn unsigned() {
    let cases: &[Case] = &[
        case("a + b", |a, b, _| a.wrapping_add(b)),
        case("a - b", |a, b, _| a.wrapping_sub(b)),
        case("a * b", |a, b, _| a.wrapping_mul(b)),
        case("a / b", |a, b, _| a.checked_div(b).unwrap_or(a)),
        case("a % b", |a, b, _| a.checked_rem(b).unwrap_or(0)),
        scalar("a / 12u + a % 5u", |a, _, _| (a / 12).wrapping_add(a % 5)),
        scalar("a * vec3(a, b, c).y", |a, b, _| a.wrapping_mul(b)),
        case("a << b", |a, b, _| a.wrapping_shl(b)),
        case("a >> b", |a, b, _| a.wrapping_shr(b)),
        case("abs(a)", |a, _, _| a),
        case("min(a, b)", |a, b, _| a.min(b)),
        case("max(a, b)", |a, b, _| a.max(b)),
        case("clamp(a, b, c)", |a, b, c| a.max(b).min(c)),
        case("select(a, b, a < c)", |a, b, c| if a < c { b } else { a }),
        case("countOneBits(a)", |a, _, _| a.count_ones()),
        case("countLeadingZeros(a)", |a, _, _| a.leading_zeros()),
        case("countTrailingZeros(a)", |a, _, _| a.trailing_zeros()),
        case("reverseBits(a)", |a, _, _| a.reverse_bits()),
        case("firstTrailingBit(a)", |a, _, _| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        case("firstLeadingBit(a)", |a, _, _| if a == 0 { u32::MAX } else { 31 - a.leading_zeros() }),
        scalar("extractBits(a, b, c)", |a, b, c| extract(a, b, c, false)),
        scalar("extractBits(a, b & 31u, c & 15u)", |a, b, c| extract(a, b & 31, c & 15, false)),
        case("extractBits(a, 7u, 9u)", |a, _, _| extract(a, 7, 9, false)),
        case("insertBits(a, b, 30u, 9u)", |a, b, _| insert(a, b, 30, 9)),
        scalar("insertBits(a, b, c, 7u)", |a, b, c| insert(a, b, c, 7)),
        scalar("dot4U8Packed(a, b)", |a, b, _| {
            let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
            (0..4).map(|i| u32::from(a[i]) * u32::from(b[i])).sum()
        }),
        scalar("dot4I8Packed(a, b)", |a, b, _| {
            let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
            (0..4).map(|i| i32::from(a[i] as i8) * i32::from(b[i] as i8)).sum::<i32>() as u32
        }),
        scalar("pack4xU8(vec4(a, b, c, a >> 8u))", |a, b, c| {
            u32::from_le_bytes([a as u8, b as u8, c as u8, (a >> 8) as u8])
        }),
        scalar("pack4xI8(bitcast<vec4<i32>>(vec4(a, b, c, a >> 8u)))", |a, b, c| {
            u32::from_le_bytes([a as u8, b as u8, c as u8, (a >> 8) as u8])
        }),
        scalar("pack4xU8Clamp(vec4(a, b, c, a & 511u))", |a, b, c| {
            u32::from_le_bytes([a, b, c, a & 511].map(|x| x.min(255) as u8))
        }),
        scalar("pack4xI8Clamp(bitcast<vec4<i32>>(vec4(a, b, c, a & 255u)))", |a, b, c| {
            u32::from_le_bytes([a, b, c, a & 255].map(|x| (x as i32).clamp(-128, 127) as u8))
        }),
        scalar("dot(unpack4xU8(a), vec4(1u, 1000u, 1000000u, 1000000000u))", |a, _, _| {
            let [x, y, z, w] = a.to_le_bytes().map(u32::from);
            (x + y * 1000 + z * 1_000_000).wrapping_add(w.wrapping_mul(1_000_000_000))
        }),
        scalar("dot(unpack4xI8(a), vec4(1, 1000, 1000000, 1000000000))", |a, _, _| {
            let [x, y, z, w] = a.to_le_bytes().map(|byte| i32::from(byte as i8));
            (x + y * 1000).wrapping_add(z * 1_000_000).wrapping_add(w.wrapping_mul(1_000_000_000)) as u32
        }),
        scalar("u32(all(vec3(a, b, c) > vec3(2u)))", |a, b, c| flag(a > 2 && b > 2 && c > 2)),
        scalar("u32(any(vec3(a, b, c) == vec3(33u)))", |a, b, c| flag(a == 33 || b == 33 || c == 33)),
        scalar("u32(bool(a)) + u32(a == b && b == c)", |a, b, c| flag(a != 0) + flag(a == b && b == c)),
        scalar("vec4(a, vec2(b, c), 9u).wzyx.y", |_, _, c| c),
    ];
    for device in runners() {
        check(device, "u32", &triples(&values()), cases);
    }
}

/// 64-bit integers from two words each; results as the exclusive or of their halves.
#[test]
fn long() {
    fn l(high: u32, low: u32) -> i64 {
        ((u64::from(high) << 32) | u64::from(low)) as i64
    }
    fn fold(value: i64) -> u32 {
        (value as u32) ^ ((value as u64 >> 32) as u32).rotate_left(7)
    }
    macro_rules! long {
        ($expression:literal, $want:expr) => {
            scalar(concat!("fold(", $expression, ")"), |a, b, c| {
                let want: fn(i64, i64, u32) -> i64 = $want;
                fold(want(l(a, b), l(b, c), c))
            })
        };
    }
    let cases: &[Case] = &[
        long!("x(a, b) + x(b, c)", |p, q, _| p.wrapping_add(q)),
        long!("x(a, b) - x(b, c)", |p, q, _| p.wrapping_sub(q)),
        long!("x(a, b) * x(b, c)", |p, q, _| p.wrapping_mul(q)),
        long!("x(a, b) / x(b, c)", |p, q, _| if q == 0 { p } else { p.wrapping_div(q) }),
        long!("x(a, b) % x(b, c)", |p, q, _| if q == 0 { 0 } else { p.wrapping_rem(q) }),
        long!("i64(u64(x(a, b)) / u64(x(b, c)))", |p, q, _| (p as u64)
            .checked_div(q as u64)
            .unwrap_or(p as u64) as i64),
        long!("x(a, b) << c", |p, _, c| p.wrapping_shl(c)),
        long!("x(a, b) >> c", |p, _, c| p.wrapping_shr(c)),
        long!("-x(a, b)", |p, _, _| p.wrapping_neg()),
        long!("abs(x(a, b))", |p, _, _| p.wrapping_abs()),
        long!("min(x(a, b), x(b, c))", |p, q, _| p.min(q)),
        long!("i64(countOneBits(x(a, b)))", |p, _, _| i64::from(p.count_ones())),
        long!("i64(countTrailingZeros(x(a, b)))", |p, _, _| i64::from(p.trailing_zeros())),
        long!("i64(countLeadingZeros(x(a, b)))", |p, _, _| i64::from(p.leading_zeros())),
        long!("reverseBits(x(a, b))", |p, _, _| p.reverse_bits()),
        long!("i64(i32(a)) + i64(c)", |p, _, c| (p >> 32) + i64::from(c)),
        long!("9223372036854775807li - x(a, b)", |p, _, _| i64::MAX.wrapping_sub(p)),
        long!("i64(f32(x(a, b)))", |p, _, _| clamped(p as f32)),
    ];
    fn clamped(value: f32) -> i64 {
        (value as i64).min(9_223_371_487_098_961_920)
    }
    let prelude = "fn x(high: u32, low: u32) -> i64 { return i64((u64(high) << 32u) | u64(low)); }
        fn fold(v: i64) -> u32 { let h = u32(u64(v) >> 32u); return u32(u64(v)) ^ ((h << 7u) | (h >> 25u)); }";
    for device in runners() {
        support::table::check_with(device, prelude, "u32", &triples(&values()), cases);
    }
}

/// 16-bit integers, which C promotes to `int`, from the low halves of words.
#[test]
fn short() {
    macro_rules! short {
        ($expression:literal, $want:expr) => {
            scalar(concat!("bitcast<u32>(i32(", $expression, "))"), |a, b, _| {
                let want: fn(i16, i16, u32) -> i32 = $want;
                want(a as i16, b as i16, b) as u32
            })
        };
    }
    let cases: &[Case] = &[
        short!("i16(a) + i16(b)", |p, q, _| p.wrapping_add(q).into()),
        short!("i16(a) - i16(b)", |p, q, _| p.wrapping_sub(q).into()),
        short!("i16(a) * i16(b)", |p, q, _| p.wrapping_mul(q).into()),
        short!("u16(a) * u16(b)", |p, q, _| (p as u16).wrapping_mul(q as u16).into()),
        short!("u16(a) - u16(b)", |p, q, _| (p as u16).wrapping_sub(q as u16).into()),
        short!("i16(a) / i16(b)", |p, q, _| if q == 0 { p } else { p.wrapping_div(q) }.into()),
        short!("i16(a) % i16(b)", |p, q, _| if q == 0 { 0 } else { p.wrapping_rem(q) }.into()),
        short!("u16(a) / u16(b)", |p, q, _| (p as u16).checked_div(q as u16).unwrap_or(p as u16).into()),
        short!("i16(a) << b", |p, _, b| (p << (b & 15)).into()),
        short!("i16(a) >> b", |p, _, b| (p >> (b & 15)).into()),
        short!("u16(a) << b", |p, _, b| ((p as u16) << (b & 15)).into()),
        short!("~u16(a)", |p, _, _| (!(p as u16)).into()),
        short!("-i16(a)", |p, _, _| p.wrapping_neg().into()),
        short!("abs(i16(a))", |p, _, _| p.wrapping_abs().into()),
        short!("max(i16(a), i16(b))", |p, q, _| p.max(q).into()),
        short!("countOneBits(i16(a))", |p, _, _| p.count_ones() as i32),
        short!("countLeadingZeros(u16(a))", |p, _, _| (p as u16).leading_zeros() as i32),
        short!("countTrailingZeros(i16(a))", |p, _, _| p.trailing_zeros() as i32),
        short!("reverseBits(u16(a))", |p, _, _| (p as u16).reverse_bits().into()),
        short!("firstLeadingBit(u16(a))", |p, _, _| match p as u16 {
            0 => 0xffff,
            p => 15 - p.leading_zeros() as i32,
        }),
        short!("firstLeadingBit(i16(a))", |p, _, _| match if p < 0 { !p } else { p } {
            0 => -1,
            p => 15 - p.leading_zeros() as i32,
        }),
        short!("extractBits(i16(a), 3u, 6u)", |p, _, _| i32::from(p) << 23 >> 26),
        short!("insertBits(u16(a), u16(b), 5u, 7u)", |p, q, _| {
            (i32::from(p as u16) & !0xfe0) | ((i32::from(q as u16) << 5) & 0xfe0)
        }),
    ];
    for device in runners() {
        support::table::check_with(device, "enable wgpu_int16;", "u32", &triples(&values()), cases);
    }
}
