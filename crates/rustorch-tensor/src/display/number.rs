//! How floating-point numbers are written, so that all of a tensor line up.

/// The form of all numbers of a tensor, chosen by its finite ones other than zero.
pub(super) struct Format {
    style: Style,
    width: usize,
    precision: usize,
}

#[derive(Clone, Copy)]
enum Style {
    /// All are integers: `3.`
    Whole,
    /// `3.1416`
    Fixed,
    /// `3.1416e+00`: some are above 10⁸, below 10⁻⁴, or a thousand times as large as others.
    Scientific,
}

impl Format {
    /// With so many digits after the point, and with exponents if so asked, or not.
    pub(super) fn of(values: &[f64], precision: usize, sci_mode: Option<bool>) -> Format {
        let proper = || values.iter().copied().filter(|x| x.is_finite() && *x != 0.0);
        let (mut least, mut most, mut whole) = (f64::INFINITY, 0f64, true);
        for x in proper() {
            least = least.min(x.abs());
            most = most.max(x.abs());
            whole &= x == x.ceil();
        }
        if most == 0.0 {
            return Format { style: Style::Whole, width: 1, precision };
        }
        let is_scientific = sci_mode.unwrap_or(most / least > 1000.0 || most > 1e8 || least < 1e-4);
        let style = match (is_scientific, whole) {
            (true, _) => Style::Scientific,
            (false, true) => Style::Whole,
            (false, false) => Style::Fixed,
        };
        let width = proper().map(|x| write(style, x, precision).len()).max().unwrap_or(1);
        Format { style, width, precision }
    }

    /// The width that every number is padded to.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn show(&self, x: f64) -> String {
        format!("{:>width$}", write(self.style, x, self.precision), width = self.width)
    }
}

fn write(style: Style, x: f64, precision: usize) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    match style {
        Style::Whole => format!("{x:.0}."),
        Style::Fixed => format!("{x:.precision$}"),
        Style::Scientific => {
            // The exponent has a sign and two digits at least.
            let text = format!("{x:.precision$e}");
            let (digits, exponent) = text.split_once('e').expect("the format writes an exponent");
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_and_the_least_decide() {
        let show =
            |values: &[f64]| values.iter().map(|&x| Format::of(values, 4, None).show(x)).collect::<Vec<_>>();
        assert_eq!(show(&[1.0, -20.0, f64::NAN]), ["  1.", "-20.", " nan"]);
        assert_eq!(show(&[1.5, 1500.0]), ["   1.5000", "1500.0000"]);
        assert_eq!(show(&[1.5, 1501.5]), ["1.5000e+00", "1.5015e+03"]);
        assert_eq!(show(&[0.5, 0.25]), ["0.5000", "0.2500"]);
        assert_eq!(show(&[1e-300]), ["1.0000e-300"]);
        assert_eq!(show(&[0.0, -0.0]), ["0.", "-0."]);
    }
}
