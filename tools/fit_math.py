"""Fits the polynomials of crates/rustorch-cpu/src/math: of single.rs by Lawson's iteration, of functions of f64 by Remez' algorithm. Needs numpy and mpmath."""
import math
import numpy as np


def fit(name, f, low, high, powers, weight):
    """Minimises max |p(x) - f(x)|·weight(x) over polynomials with the given powers; prints highest power first."""
    x = low + (high - low) * (1 - np.cos(np.pi * (np.arange(4000) + 0.5) / 4000)) / 2
    y = np.array([f(v) for v in x])
    basis = np.stack([x**p for p in powers], axis=1)
    w = np.array([weight(v) for v in x])
    lawson = np.ones_like(x) / len(x)
    best = None
    for _ in range(3000):
        scale = np.sqrt(lawson) * w
        c = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(basis @ c - y) * w
        if best is None or error.max() < best[0]:
            best = (error.max(), c)
        lawson = lawson * (error + 1e-300)
        lawson /= lawson.sum()
    print(f"// {name}: relative error {best[0]:.2e}")
    print("[" + ", ".join(str(np.float32(v)) for v in best[1][::-1]) + "]")


def taylor(f, series):
    return lambda x: series(x) if abs(x) < 0.03 else f(x)


half_log2 = math.log(2) / 2 * 1.0001
fit("exp: (e^r - 1 - r)/r^2", taylor(lambda r: (math.exp(r) - 1 - r) / r**2, lambda r: 1/2 + r/6 + r*r/24 + r**3/120 + r**4/720 + r**5/5040 + r**6/40320),
    -half_log2, half_log2, range(5), lambda r: r * r / math.exp(r))
fit("exp2: (2^f - 1)/f", taylor(lambda f: (2**f - 1) / f, lambda f: sum(math.log(2)**k * f**(k - 1) / math.factorial(k) for k in range(1, 9))),
    -0.5001, 0.5001, range(6), lambda f: abs(f) / 2**f)
fit("ln: (ln(1+f) - f + f^2/2)/f^3", taylor(lambda f: (math.log1p(f) - f + f*f/2) / f**3, lambda f: sum((-1)**k * f**k / (k + 3) for k in range(12))),
    math.sqrt(0.5) - 1, math.sqrt(2) - 1, range(9), lambda f: abs(f**3 / math.log1p(f)) if f else 0.0)
fit("sin: (sin r - r)/r^3, in r^2", taylor(lambda z: (math.sin(math.sqrt(z)) - math.sqrt(z)) / z**1.5, lambda z: -1/6 + z/120 - z*z/5040 + z**3/362880),
    0.0, 0.6170, range(4), lambda z: z)
fit("cos: (cos r - 1 + r^2/2)/r^4, in r^2", taylor(lambda z: (math.cos(math.sqrt(z)) - 1 + z / 2) / z**2, lambda z: 1/24 - z/720 + z*z/40320 - z**3/3628800),
    0.0, 0.6170, range(4), lambda z: z * z / math.cos(math.sqrt(z)))
fit("tanh: (tanh x - x)/x^3, in x^2", taylor(lambda z: (math.tanh(math.sqrt(z)) - math.sqrt(z)) / z**1.5, lambda z: -1/3 + 2*z/15 - 17*z*z/315 + 62*z**3/2835 - 1382*z**4/155925),
    0.0, 0.625**2, range(5), lambda z: z**1.5 / math.tanh(math.sqrt(z)) if z else 0.0)
fit("erf: erf(x)/x - 1, in x^2", taylor(lambda z: math.erf(math.sqrt(z)) / math.sqrt(z) - 1, lambda z: 2/math.sqrt(math.pi) * (1 - z/3 + z*z/10 - z**3/42 + z**4/216) - 1),
    0.0, 0.9375**2, range(7), lambda z: 1.0)
fit("erfc: -ln(erfc t), t in 0.9375..4", lambda t: -math.log(math.erfc(t)), 0.93, 4.0, range(8), lambda t: math.erfc(t))
fit("gelu: log2(1 - erf(-t/sqrt 2))/t, t in -5.9..0", lambda t: math.log2(math.erfc(-t / math.sqrt(2))) / t if t < -1e-7 else math.sqrt(2 / math.pi) / math.log(2),
    -5.9, 0.0, range(10), lambda t: -t * max(math.erfc(-t / math.sqrt(2)) / (2 - math.erfc(-t / math.sqrt(2))), 2e-3))

# The rest is of crates/rustorch-kernels/src/library/math.
fit("asin: (asin x - x)/x^3, in x^2", taylor(lambda z: (math.asin(math.sqrt(z)) - math.sqrt(z)) / z**1.5, lambda z: 1/6 + 3*z/40 + 15*z*z/336 + 105*z**3/3456 + 945*z**4/42240),
    0.0, 0.2501, range(6), lambda z: z**1.5 / math.asin(math.sqrt(z)) if z else 0.0)
fit("atan: (atan x - x)/x^3, in x^2", taylor(lambda z: (math.atan(math.sqrt(z)) - math.sqrt(z)) / z**1.5, lambda z: sum((-1)**(k + 1) * z**k / (2 * k + 3) for k in range(8))),
    0.0, 0.1716, range(5), lambda z: z**1.5 / math.atan(math.sqrt(z)) if z else 0.0)
fit("sinh: (sinh x - x)/x^3, in x^2", taylor(lambda z: (math.sinh(math.sqrt(z)) - math.sqrt(z)) / z**1.5, lambda z: 1/6 + z/120 + z*z/5040 + z**3/362880),
    0.0, 1.0, range(4), lambda z: z**1.5 / math.sinh(math.sqrt(z)) if z else 0.0)


# Of precise.rs and log_add_exp.rs: more digits than f64 has.
from mpmath import lu_solve, matrix, mp, mpf

mp.dps = 60


def fit_double(name, f, low, high, terms, weight):
    """Minimises max |p(x) - f(x)|*(weight(x) + a hundredth of that at the ends) by exchange of the points where the error is largest."""
    low, high = mpf(low), mpf(high)
    floor = max(weight(low), weight(high)) / 100
    node = lambda i, n: (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / n)
    grid = [(x, f(x), weight(x) + floor) for x in (node(i, 1500) for i in range(1501)) if x]
    points = [node(2 * i + 1, 2 * terms + 2) for i in range(terms + 1)]
    for _ in range(30):
        a, b = matrix(terms + 1, terms + 1), matrix(terms + 1, 1)
        for i, x in enumerate(points):
            for power in range(terms):
                a[i, power] = x**power
            a[i, terms], b[i] = (-1)**i / (weight(x) + floor), f(x)
        c = list(lu_solve(a, b))[:terms]
        extrema = []
        for x, y, w in grid:
            error = (mp.polyval(c[::-1], x) - y) * w
            if extrema and mp.sign(extrema[-1][1]) == mp.sign(error):
                extrema[-1] = max(extrema[-1], (x, error), key=lambda e: abs(e[1]))
            else:
                extrema.append((x, error))
        while len(extrema) > terms + 1:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        sizes = [abs(error) for _, error in extrema]
        if len(extrema) <= terms or max(sizes) < 1.02 * min(sizes):
            break
        points = [x for x, _ in extrema]
    print(f"// {name}: relative error 2^{float(mp.log(max(sizes), 2)):.1f}")
    print("[" + ", ".join(repr(float(v)) for v in c[::-1]) + "]")


def exp_tail(k):
    """(e^r - 1 - ... - r^(k-1)/(k-1)!)/r^k"""
    return lambda r: mp.nsum(lambda j: r**j / mp.factorial(j + k), [0, mp.inf]) if abs(r) < 1e-3 else (
        mp.exp(r) - sum(r**i / mp.factorial(i) for i in range(k))) / r**k


half = mp.log(2) / 2 * mpf("1.0001")
fit_double("exp: (e^r - 1 - r)/r^2", exp_tail(2), -half, half, 10, lambda r: r * r / mp.exp(r))
fit_double("exp of logaddexp: (e^r - 1 - r - r^2/2)/r^3", exp_tail(3), -half, half, 10, lambda r: abs(r**3) / mp.exp(r))
fit_double("exp of logaddexp of f32: (e^r - 1)/r", exp_tail(1), -half, half, 8, lambda r: abs(r) / mp.exp(r))
fit_double("log1p(e)/e, e in 0..1", lambda e: mp.log1p(e) / e if e else mpf(1), 0, 1, 15, lambda e: e / mp.log1p(e) if e else mpf(1))
fit_double("(2 artanh s - 2 s)/s^3, in s^2", lambda z: mp.nsum(lambda k: 2 * z**k / (2 * k + 3), [0, mp.inf]) if z < 1e-4 else (
    2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z)**3, 0, 0.02946, 8, lambda z: z / 2)
