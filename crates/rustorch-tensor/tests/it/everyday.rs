//! What is used every day: values as Rust's types, arithmetic with scalars of any type, equality, empty tensors.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_tensor::{C64, C128, DType, Result, Scalar, Tensor, TensorSpec, bf16, capture, f16, fuse};

#[test]
fn single_values_as_rust_types() -> Result<()> {
    let of = |value: Scalar, dtype: DType| Tensor::full([1, 1], value, dtype).unwrap();
    assert_eq!(of(2.75.into(), DType::F64).item_as::<f32>()?, 2.75);
    assert_eq!(of(0.1.into(), DType::F64).item_as::<f32>()?, 0.1f32);
    assert_eq!(of((-2.75).into(), DType::F32).item_as::<i8>()?, -2);
    assert_eq!(of(300.into(), DType::I64).item_as::<f16>()?, f16::from_f32(300.0));
    assert_eq!(of(i64::MAX.into(), DType::I64).item_as::<i64>()?, i64::MAX);
    assert_eq!(of(255.into(), DType::I32).item_as::<u8>()?, 255);
    assert_eq!(of(1.5.into(), DType::BF16).item_as::<bf16>()?, bf16::from_f32(1.5));
    assert_eq!(of(C128::new(1.5, 0.0).into(), DType::C64).item_as::<f64>()?, 1.5);
    assert_eq!(of(C128::new(1.5, 2.0).into(), DType::C128).item_as::<C64>()?, C64::new(1.5, 2.0));
    assert!(of(C128::new(0.0, 2.0).into(), DType::C128).item_as::<bool>()?);
    assert!(of(f64::NAN.into(), DType::F64).item_as::<f32>()?.is_nan());

    let refused = |x: Tensor, number: fn(&Tensor) -> Result<()>, text: &str| {
        let error = number(&x).unwrap_err().to_string();
        assert_eq!(error, format!("item_as: {text}"));
    };
    refused(
        of(256.into(), DType::I64),
        |x| x.item_as::<u8>().map(|_| ()),
        "256 is no u8: it is out of range",
    );
    refused(
        of((-1).into(), DType::I64),
        |x| x.item_as::<u32>().map(|_| ()),
        "-1 is no u32: it is out of range",
    );
    for value in [f64::NAN, f64::INFINITY, 9_223_372_036_854_775_808.0] {
        assert!(of(value.into(), DType::F64).item_as::<i64>().is_err(), "{value}");
    }
    assert_eq!(of((-9_223_372_036_854_775_808.0).into(), DType::F64).item_as::<i64>()?, i64::MIN);
    assert!(of(C128::new(1.0, 2.0).into(), DType::C128).item_as::<f64>().is_err());
    assert!(Tensor::zeros([2], DType::F32)?.item_as::<f32>().is_err());
    Ok(())
}

#[test]
fn nested_vectors() -> Result<()> {
    let x = Tensor::arange(0, 6, 1)?.reshape([2, 3])?;
    assert_eq!(x.to_vec2::<i64>()?, [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(x.t()?.to_vec2::<i64>()?, [[0, 3], [1, 4], [2, 5]]);
    assert_eq!(x.reshape([3, 1, 2])?.to_vec3::<i64>()?, [[[0, 1]], [[2, 3]], [[4, 5]]]);
    let none = |dims: [usize; 2]| Tensor::zeros(dims, DType::F32).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!((none([2, 0]), none([0, 2])), (vec![vec![], vec![]], vec![]));
    assert_eq!(Tensor::zeros([2, 0, 3], DType::U8)?.to_vec3::<u8>()?, vec![Vec::<Vec<u8>>::new(); 2]);
    assert_eq!(Tensor::zeros([1, 2, 0], DType::U8)?.to_vec3::<u8>()?, vec![vec![Vec::<u8>::new(); 2]]);
    for error in [
        x.to_vec3::<i64>().unwrap_err().to_string(),
        x.to_vec2::<f32>().unwrap_err().to_string(),
        // More rows than there is memory for.
        Tensor::zeros([1 << 62, 0], DType::F32)?.to_vec2::<f32>().unwrap_err().to_string(),
    ] {
        assert!(error.starts_with("to_vec"), "{error}");
    }
    Ok(())
}

#[test]
fn scalars_of_every_type_stand_on_the_right() -> Result<()> {
    let x = Tensor::new([3.0f32, -5.0])?;
    macro_rules! check {
        ($($scalar:expr),*) => {$(
            for (got, want) in [
                (&x + $scalar, x.add($scalar)?),
                (&x - $scalar, x.sub($scalar)?),
                (&x * $scalar, x.mul($scalar)?),
                (x.copy()? / $scalar, x.div($scalar)?),
            ] {
                assert!(got.dtype() == want.dtype() && got.equal(&want)?, "{}", stringify!($scalar));
            }
        )*};
    }
    check!(2.0f32, 2.0f64, f16::from_f32(2.0), bf16::from_f32(2.0), 2u8, 2i8, 2i16, 2i32, 2u32, 2i64);
    check!(C64::new(1.0, 2.0), C128::new(1.0, 2.0), Scalar::Int(2));
    // Literals need no type, on either side.
    assert_eq!((2.0 * (&x * 2.0 - 1)).abs()?.to_vec::<f32>()?, [10.0, 22.0]);
    assert_eq!((&x * &x + x.copy()? * &x - x.copy()?).to_vec::<f32>()?, [15.0, 55.0]);
    let fused = fuse(|[a]| (a * 2.0f32 + 1u8) / a)?;
    assert_eq!(fused.apply(&[&x])?.to_vec::<f32>()?, ((&x * 2.0 + 1) / &x).to_vec::<f32>()?);
    Ok(())
}

#[test]
fn equality_of_shape_and_elements() -> Result<()> {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    assert!(x.equal(&x.copy()?)? && x.t()?.equal(&Tensor::new([[1i32, 3], [2, 4]])?)?);
    assert!(!x.equal(&x.t()?)? && !x.equal(&x.reshape([4])?)?);
    let nan = Tensor::new([f32::NAN])?;
    assert!(!nan.equal(&nan)?);
    let none = Tensor::zeros([0, 2], DType::F32)?;
    assert!(none.equal(&none)? && !none.equal(&none.t()?)?);
    let error = capture(&[TensorSpec::from(&x)], |args| {
        args[0].equal(&args[0])?;
        Ok(vec![])
    });
    let error = error.err().unwrap().to_string();
    assert!(error.starts_with("equal: asks for the value of"), "{error}");
    Ok(())
}

#[test]
fn empty_tensors_hold_zeros() -> Result<()> {
    let x = Tensor::empty([2, 3], DType::I16)?;
    assert_eq!((x.dims(), x.dtype(), x.to_vec::<i16>()?), (&[2, 3][..], DType::I16, vec![0; 6]));
    assert!(x.empty_like()?.equal(&x)? && !x.empty_like()?.shares_memory(&x));
    Ok(())
}

#[test]
fn variances_of_all_elements() -> Result<()> {
    let x = Tensor::new([[1.0f64, 2.0], [3.0, 6.0]])?;
    // 14 / 3 and 14 / 4, as the mean is 3.
    assert_eq!(x.var_all(1.0)?.item_as::<f64>()?, 14.0 / 3.0);
    assert_eq!(x.std_all(0.0)?.item_as::<f64>()?, 3.5f64.sqrt());
    Ok(())
}
