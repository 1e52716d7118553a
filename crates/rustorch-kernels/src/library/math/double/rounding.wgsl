// Rounding of doubles from `floor` alone, and not by bits, which would take 64-bit integers: on CPUs that round no vectors of doubles
// llvmpipe emulates `round` with ties away from even, and `trunc` without the sign of zero.
fn trunc_double(x: f64) -> f64 {
    if x == 0.0lf { return x; }
    let whole = floor(abs(x));
    return select(whole, -whole, x < 0.0lf);
}
fn round_double(x: f64) -> f64 {
    let size = abs(x);
    // Of no fraction, or NaN.
    if x == 0.0lf || !(size < 4503599627370496.0lf) { return x; }
    let below = floor(size);
    let rest = size - below;
    let odd = below - 2.0lf * floor(0.5lf * below) == 1.0lf;
    let whole = select(below, below + 1.0lf, rest > 0.5lf || (rest == 0.5lf && odd));
    return select(whole, -whole, x < 0.0lf);
}
