// log(1 + f) in double precision: a Newton step from the single result.
fn wide_log_near_one(f: f32) -> Wide {
    let first = log_near_one(f);
    let rest = wide_add(wide_mul(wide_add(wide(1.0), wide(f)), wide_exp_near_zero(wide(-first))), wide(-1.0));
    return wide_add(wide(first), wide_add(rest, wide_mul(wide(-0.5), wide_mul(rest, rest))));
}
fn power_of(a: f32, b: f32) -> f32 {
    let t = abs(a);
    if b == 0.0 || a == 1.0 { return 1.0; }
    if nan(a) || nan(b) { return not_a_number(); }
    if infinite(b) {
        if t == 1.0 { return 1.0; }
        return select(0.0, infinity(), (t > 1.0) == (b > 0.0));
    }
    let whole = trunc(b) == b;
    let odd = whole && abs(b) < 16777216.0 && trunc(0.5 * b) != 0.5 * b;
    let sign = select(1.0, a, odd);
    if (bitcast<u32>(a) & 0x7fffffffu) == 0u { return with_sign(select(infinity(), 0.0, b > 0.0), sign); }
    if infinite(a) { return with_sign(select(0.0, infinity(), b > 0.0), sign); }
    if a < 0.0 && !whole { return not_a_number(); }
    let parts = log_parts(t);
    let log = wide_add(wide_mul(wide(parts.y), wide_log_two()), wide_log_near_one(parts.x));
    let rough = narrow(log) * b;
    if rough > 89.0 { return with_sign(infinity(), sign); }
    if rough < -104.5 { return with_sign(0.0, sign); }
    let exponent = wide_mul(log, wide(b));
    let n = round(narrow(exponent) * 1.442695);
    let r = wide_add(exponent, wide_mul(wide(-n), wide_log_two()));
    return with_sign(scaled(narrow(wide_exp_near_zero(r)), i32(n)), sign);
}
