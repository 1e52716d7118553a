//! `torch.fft`; short-time transforms.

use crate::common::{Case, complexes};
use rustorch_tensor::fft::{self, FftNorm, IstftOptions, StftOptions, StftPadding};
use rustorch_tensor::{DType, Result, Tensor};

type OfOne = fn(&Tensor, Option<usize>, isize, FftNorm) -> Result<Tensor>;
type OfTwo = fn(&Tensor, Option<[isize; 2]>, [isize; 2], FftNorm) -> Result<Tensor>;
type OfMany = fn(&Tensor, Option<&[isize]>, Option<&[isize]>, FftNorm) -> Result<Tensor>;

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    let window = case.inputs.get(1).cloned();
    let size = |key| case.int(key).map(|n| n as usize);
    let list = |key: &str| case.attrs[key].is_array().then(|| case.ints(key));
    let onesided = case.attrs["onesided"].as_bool();
    let center = case.attrs["center"].as_bool().unwrap_or(true);
    let normalized = case.flag("normalized");
    let one = |f: OfOne| f(x, size("n"), case.dim(), norm(case));
    let pair = |key| list(key).map(|list| <[isize; 2]>::try_from(list).unwrap());
    let two = |f: OfTwo| f(x, pair("s"), pair("dim").unwrap(), norm(case));
    let many = |f: OfMany| f(x, list("s").as_deref(), list("dim").as_deref(), norm(case));
    Ok(vec![match op {
        "fft.fft" => one(fft::fft)?,
        "fft.ifft" => one(fft::ifft)?,
        "fft.rfft" => one(fft::rfft)?,
        "fft.irfft" => one(fft::irfft)?,
        "fft.hfft" => one(fft::hfft)?,
        "fft.ihfft" => one(fft::ihfft)?,
        "fft.fft2" => two(fft::fft2)?,
        "fft.ifft2" => two(fft::ifft2)?,
        "fft.rfft2" => two(fft::rfft2)?,
        "fft.irfft2" => two(fft::irfft2)?,
        "fft.hfft2" => two(fft::hfft2)?,
        "fft.ihfft2" => two(fft::ihfft2)?,
        "fft.fftn" => many(fft::fftn)?,
        "fft.ifftn" => many(fft::ifftn)?,
        "fft.rfftn" => many(fft::rfftn)?,
        "fft.irfftn" => many(fft::irfftn)?,
        "fft.hfftn" => many(fft::hfftn)?,
        "fft.ihfftn" => many(fft::ihfftn)?,
        "fft.fftfreq" => fft::fftfreq(size("n").unwrap(), case.float("d").unwrap(), x.dtype())?,
        "fft.rfftfreq" => fft::rfftfreq(size("n").unwrap(), case.float("d").unwrap(), x.dtype())?,
        "fft.fftshift" => fft::fftshift(x, list("dim").as_deref())?,
        "fft.ifftshift" => fft::ifftshift(x, list("dim").as_deref())?,
        "stft" => {
            let (hop_length, win_length) = (size("hop"), size("win"));
            let pad_mode = padding(case);
            let options =
                StftOptions { hop_length, win_length, window, center, pad_mode, normalized, onesided };
            x.stft(size("n_fft").unwrap(), &options)?
        }
        "istft" => {
            let (hop_length, win_length, length) = (size("hop"), size("win"), size("length"));
            let return_complex = case.flag("return_complex");
            let options = IstftOptions {
                hop_length,
                win_length,
                window,
                center,
                normalized,
                onesided,
                length,
                return_complex,
            };
            x.istft(size("n_fft").unwrap(), &options)?
        }
        other => panic!("{other}"),
    }])
}

fn norm(case: &Case) -> FftNorm {
    match case.attrs["norm"].as_str() {
        Some("backward") => FftNorm::Backward,
        Some("ortho") => FftNorm::Ortho,
        Some("forward") => FftNorm::Forward,
        other => panic!("{other:?}"),
    }
}

fn padding(case: &Case) -> StftPadding {
    match case.attrs["pad_mode"].as_str() {
        None | Some("reflect") => StftPadding::Reflect,
        Some("constant") => StftPadding::Constant,
        Some("replicate") => StftPadding::Replicate,
        Some("circular") => StftPadding::Circular,
        other => panic!("{other:?}"),
    }
}

/// Points that no transform could treat alike.
fn points(n: usize, dtype: DType) -> Tensor {
    let x = Tensor::arange(0, n as i64, 1).unwrap().to_dtype(DType::F64).unwrap();
    x.mul(1.7).unwrap().sin().unwrap().add(0.25).unwrap().to_dtype(dtype).unwrap()
}

#[test]
fn every_length_gives_the_sum_that_defines_it() {
    for n in (1..=70).chain([97, 127, 128, 211, 243, 360]) {
        let x = points(n, DType::F64);
        // cos and sin of 2π·k·t/n, with k·t reduced first.
        let k = Tensor::arange(0, n as i64, 1).unwrap();
        let turns = k.unsqueeze(1).unwrap().mul(&k).unwrap().remainder(n as i64).unwrap();
        let angles = turns.to_dtype(DType::F64).unwrap().mul(-std::f64::consts::TAU / n as f64).unwrap();
        let matrix = Tensor::complex(&angles.cos().unwrap(), &angles.sin().unwrap()).unwrap();
        let want = matrix.matmul(&x.to_dtype(DType::C128).unwrap()).unwrap();
        let whole = fft::fft(&x, None, 0, FftNorm::Backward).unwrap();
        assert!(whole.allclose(&want, 1e-11, 1e-11, false).unwrap(), "{n}");
        let half = fft::rfft(&x, None, 0, FftNorm::Backward).unwrap();
        assert!(half.allclose(&want.narrow(0, 0, n / 2 + 1).unwrap(), 1e-11, 1e-11, false).unwrap(), "{n}");
        let back = fft::irfft(&half, Some(n), 0, FftNorm::Backward).unwrap();
        assert!(back.allclose(&x, 1e-12, 1e-12, false).unwrap(), "{n}");
        let back = fft::ifft(&whole, None, 0, FftNorm::Backward).unwrap().real().unwrap();
        assert!(back.allclose(&x, 1e-12, 1e-12, false).unwrap(), "{n}");
        let single = fft::fft(&x.to_dtype(DType::F32).unwrap(), None, 0, FftNorm::Ortho).unwrap();
        let scaled = want.div((n as f64).sqrt()).unwrap().to_dtype(DType::C64).unwrap();
        assert!(single.allclose(&scaled, 1e-5, 1e-5, false).unwrap(), "{n}");
    }
}

#[test]
fn one_infinity_leaves_no_coefficient_finite() {
    for n in [4, 7, 64, 101] {
        let mut values = vec![1.0f32; n];
        values[1] = f32::INFINITY;
        let x = Tensor::from_vec(values, [n]).unwrap();
        for y in [fft::fft(&x, None, 0, FftNorm::Backward), fft::rfft(&x, None, 0, FftNorm::Backward)] {
            assert!(complexes(&y.unwrap()).iter().all(|z| !(z.re.is_finite() && z.im.is_finite())), "{n}");
        }
        let y = fft::irfft(&x, None, 0, FftNorm::Backward).unwrap();
        assert!(!y.isfinite().unwrap().any_all().unwrap().item().unwrap().to_bool(), "{n}");
    }
}

#[test]
fn imaginary_parts_that_no_real_signal_has_are_not_read() {
    use rustorch_tensor::C128;
    for n in [4usize, 5] {
        let mut values = vec![C128::new(1.0, 0.5), C128::new(2.0, -1.0), C128::new(0.5, 3.0)];
        let y =
            fft::irfft(&Tensor::from_vec(values.clone(), [3]).unwrap(), Some(n), 0, FftNorm::Ortho).unwrap();
        values[0].im = f64::NAN;
        if n == 4 {
            values[2].im = f64::INFINITY;
        }
        let z = fft::irfft(&Tensor::from_vec(values, [3]).unwrap(), Some(n), 0, FftNorm::Ortho).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), z.to_vec::<f64>().unwrap());
    }
}

#[test]
fn lengths_beyond_memory_are_errors() {
    let x = points(4, DType::F32);
    for n in [usize::MAX, usize::MAX / 2, 1 << 61] {
        assert!(fft::fft(&x, Some(n), 0, FftNorm::Backward).is_err());
        assert!(fft::irfft(&x, Some(n), 0, FftNorm::Backward).is_err());
        assert!(fft::fftfreq(n, 1.0, DType::F32).is_err());
        assert!(fft::rfftfreq(n, 1.0, DType::F32).is_err());
        for pad_mode in [StftPadding::Replicate, StftPadding::Constant, StftPadding::Reflect] {
            assert!(x.stft(n, &StftOptions { pad_mode, ..Default::default() }).is_err());
        }
        let y = x.to_dtype(DType::C64).unwrap().unsqueeze(1).unwrap();
        let options = IstftOptions { length: Some(n), ..Default::default() };
        assert!(y.istft(6, &options).is_err());
    }
}

#[test]
fn messages_say_what_does_not_fit() {
    let x = points(4, DType::F32);
    let plain = StftOptions::default();
    for (error, parts) in [
        (fft::fft(&x, Some(0), 0, FftNorm::Backward), &["fft.fft: ", "0 points"][..]),
        (fft::irfft(&x.narrow(0, 0, 1).unwrap(), None, 0, FftNorm::Backward), &["fft.irfft: ", "0 points"]),
        (
            fft::rfft(&x.to_dtype(DType::C64).unwrap(), None, 0, FftNorm::Backward),
            &["fft.rfft: ", "real points"],
        ),
        (fft::fftn(&x, Some(&[2, 2]), None, FftNorm::Backward), &["fft.fftn: ", "2 lengths", "1 dimensions"]),
        (x.stft(16, &plain), &["stft: ", "Reflect", "8 samples"]),
        (x.stft(3, &plain), &["stft: ", "hop_length is 0"]),
        (x.istft(4, &IstftOptions::default()), &["istft: ", "complex"]),
    ] {
        let text = error.unwrap_err().to_string();
        for part in parts {
            assert!(text.contains(part), "`{text}` does not say `{part}`");
        }
    }
}
