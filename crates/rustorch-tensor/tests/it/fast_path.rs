//! A few elements take a shorter way through the executor than many, or than those of which records are kept: the results
//! are the same.

#![allow(clippy::unwrap_used, reason = "a test may fail by a panic")]

use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, Result, Tensor};

/// Runs `f` by the short way and by the planner, whose explanation must name `op`.
fn both(op: &str, f: &dyn Fn() -> Result<Tensor>) {
    let short = f();
    let (planned, explanation) = HybridExecutor::current().explain(f);
    match (short, planned) {
        (Ok(a), Ok(b)) => {
            assert_eq!((a.dtype(), a.dims(), a.strides()), (b.dtype(), b.dims(), b.strides()), "{op}");
            assert_eq!(a.to_string(), b.to_string(), "{op}");
            assert!(explanation.to_string().contains(op), "{op} is missing in {explanation}");
        }
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "{op}"),
        (a, b) => panic!("{op}: {} and {}", a.is_ok(), b.is_ok()),
    }
}

const DTYPES: [DType; 13] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

#[test]
fn the_short_way_and_the_planner_agree() {
    for dtype in DTYPES {
        let all = Tensor::new([1.5f32, 3.0, 0.0, 2.0, 5.0, 7.0, 1.0]).unwrap().to_dtype(dtype).unwrap();
        let shapes: [Tensor; 6] = [
            all.select(0, 4).unwrap().broadcast_to([2, 3]).unwrap(),
            all.clone(),
            all.narrow(0, 3, 4).unwrap().reshape([2, 2]).unwrap(),
            all.narrow(0, 1, 4).unwrap().reshape([2, 2]).unwrap().t().unwrap(),
            all.select(0, 1).unwrap(),
            all.narrow(0, 2, 0).unwrap(),
        ];
        for x in &shapes {
            let y = x.flip([0]).unwrap_or_else(|_| x.clone());
            both("add", &|| x.add(&y));
            both("mul", &|| x.mul(x));
            both("div", &|| x.div(&y));
            both("remainder", &|| x.remainder(&y));
            both("lt", &|| x.lt(&y));
            both("eq", &|| x.eq(&y));
            both("neg", &|| x.neg());
            both("isnan", &|| x.isnan());
            both("sub", &|| x.sub(1));
            both("sub", &|| x.rsub(2));
            both("div", &|| x.rdiv(2));
            both("gt", &|| x.gt(1.5));
            both("add", &|| x.add(true));
        }
        both("abs", &|| all.abs());
        both("add", &|| all.add(&all.narrow(0, 0, 1)?));
    }
}

#[test]
fn a_division_by_zero_names_the_operation() {
    let x = Tensor::new([4i32, 6]).unwrap();
    both("floor_divide", &|| x.floor_divide(0));
    assert!(x.floor_divide(0).unwrap_err().to_string().contains("divided by zero"));
    assert!(x.remainder(&Tensor::new([1i32, 0]).unwrap()).is_err());
}

#[test]
fn handles_outlive_each_other_on_any_thread() {
    let x = Tensor::new([1.0f32, 2.0]).unwrap();
    let sums: Vec<Tensor> = (0..200).map(|i| x.add(i).unwrap()).collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (x, sums) = (x.clone(), sums.clone());
            std::thread::spawn(move || sums.iter().map(|y| y.add(&x).unwrap()).collect::<Vec<_>>())
        })
        .collect();
    drop(sums);
    for thread in threads {
        for (i, y) in thread.join().unwrap().iter().enumerate() {
            assert_eq!(y.to_vec::<f32>().unwrap(), [2.0 + i as f32, 4.0 + i as f32]);
        }
    }
}
