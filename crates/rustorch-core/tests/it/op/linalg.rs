//! Matrix decompositions.

use rustorch_core::{DType, Device, Layout, Linalg, Op, OpType, Result, Shape, TensorMeta};

fn infer(op: Linalg, args: &[(DType, &[usize])]) -> Result<Vec<(DType, Vec<usize>)>> {
    let layouts: Vec<Layout> =
        args.iter().map(|(_, dims)| Layout::contiguous(Shape::new(*dims).unwrap())).collect();
    let metas: Vec<TensorMeta<'_>> = args
        .iter()
        .zip(&layouts)
        .map(|(&(dtype, _), layout)| TensorMeta { dtype, layout, device: Device::CPU })
        .collect();
    let op = Op::Linalg(op);
    let outs = op.infer(&metas)?;
    assert_eq!(op.class(&metas), OpType::Decomposition);
    let empty = outs.iter().all(|out| out.shape.numel() == 0);
    assert!(empty || op.work(&metas, &outs).flops > 0);
    Ok(outs.into_iter().map(|out| (out.dtype, out.shape.dims().to_vec())).collect())
}

#[test]
fn results_have_the_shapes_of_pytorch() {
    use DType::{C64, F32, F64, I32, I64};
    let case = |op, args: &[(DType, &[usize])], want: &[(DType, &[usize])]| {
        let got = infer(op, args).unwrap();
        let want: Vec<_> = want.iter().map(|(dtype, dims)| (*dtype, dims.to_vec())).collect();
        assert_eq!(got, want, "{op:?}");
    };
    case(Linalg::Cholesky { upper: false }, &[(F64, &[2, 3, 3])], &[(F64, &[2, 3, 3])]);
    case(Linalg::Solve, &[(F32, &[4, 1, 3, 3]), (F32, &[5, 3, 2])], &[(F32, &[4, 5, 3, 2])]);
    case(Linalg::Lu, &[(F32, &[2, 5, 3])], &[(F32, &[2, 5, 3]), (I32, &[2, 3]), (I64, &[2, 5])]);
    case(Linalg::SlogDet, &[(C64, &[7, 2, 2])], &[(C64, &[7]), (F32, &[7])]);
    case(Linalg::Qr { complete: false }, &[(F32, &[5, 3])], &[(F32, &[5, 3]), (F32, &[3, 3])]);
    case(Linalg::Qr { complete: true }, &[(F32, &[5, 3])], &[(F32, &[5, 5]), (F32, &[5, 3])]);
    case(Linalg::Qr { complete: false }, &[(F32, &[0, 3])], &[(F32, &[0, 0]), (F32, &[0, 3])]);
    let svd = |full, vectors| Linalg::Svd { full, vectors };
    case(svd(false, false), &[(C64, &[2, 5, 3])], &[(F32, &[2, 3])]);
    case(svd(false, true), &[(C64, &[5, 3])], &[(C64, &[5, 3]), (F32, &[3]), (C64, &[3, 3])]);
    case(svd(true, true), &[(F64, &[3, 5])], &[(F64, &[3, 3]), (F64, &[3]), (F64, &[5, 5])]);
    let eigh = |vectors| Linalg::Eigh { upper: false, vectors };
    case(eigh(false), &[(C64, &[4, 3, 3])], &[(F32, &[4, 3])]);
    case(eigh(true), &[(C64, &[3, 3])], &[(F32, &[3]), (C64, &[3, 3])]);
    case(Linalg::Eig { vectors: false }, &[(F64, &[3, 3])], &[(DType::C128, &[3])]);
    case(Linalg::Eig { vectors: true }, &[(F32, &[3, 3])], &[(C64, &[3]), (C64, &[3, 3])]);
}

#[test]
fn what_does_not_fit_is_named() {
    use DType::{F16, F32, F64, I64};
    let message = |op, args: &[(DType, &[usize])]| infer(op, args).unwrap_err().to_string();
    assert!(message(Linalg::Inverse, &[(F32, &[2, 3])]).contains("linalg.inv: needs square matrices"));
    let eigh = Linalg::Eigh { upper: false, vectors: true };
    assert!(message(eigh, &[(F32, &[2, 3])]).contains("linalg.eigh: needs square matrices"));
    assert!(message(Linalg::Svd { full: false, vectors: false }, &[(F16, &[2, 3])]).contains("f16"));
    assert!(message(Linalg::Det, &[(F32, &[3])]).contains("two dimensions"));
    assert!(message(Linalg::Lu, &[(F16, &[3, 3])]).contains("f16"));
    assert!(message(Linalg::Lu, &[(I64, &[3, 3])]).contains("i64"));
    assert!(message(Linalg::Solve, &[(F32, &[3, 3]), (F64, &[3, 1])]).contains("one dtype"));
    assert!(message(Linalg::Solve, &[(F32, &[3, 3]), (F32, &[2, 1])]).contains("2 rows"));
    assert!(message(Linalg::Solve, &[(F32, &[2, 3, 3]), (F32, &[4, 3, 1])]).contains("linalg.solve: sizes"));
}
