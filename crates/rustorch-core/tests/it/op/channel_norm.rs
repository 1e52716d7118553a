//! Batch and group normalisation.

use rustorch_core::{
    BatchNorm, DType, Device, GroupNorm, GroupNormBackward, Layout, Op, Outputs, Result, Shape, TensorMeta,
};

fn infer(op: &Op, args: &[(DType, &[usize])]) -> Result<Outputs> {
    let layouts: Vec<Layout> =
        args.iter().map(|(_, dims)| Layout::contiguous(Shape::new(*dims).unwrap())).collect();
    let metas: Vec<TensorMeta<'_>> = args
        .iter()
        .zip(&layouts)
        .map(|(&(dtype, _), layout)| TensorMeta { dtype, layout, device: Device::CPU })
        .collect();
    op.infer(&metas)
}

#[test]
fn statistics_come_back_wide() {
    let train = Op::BatchNorm(BatchNorm { training: true, eps: 1e-5 });
    let outs = infer(&train, &[(DType::F16, &[2, 3, 4])]).unwrap();
    assert_eq!(outs.iter().map(|o| o.dtype).collect::<Vec<_>>(), [DType::F16, DType::F32, DType::F32]);
    assert_eq!(outs[1].shape.dims(), [3]);
    let eval = Op::BatchNorm(BatchNorm { training: false, eps: 1e-5 });
    let stats: &[usize] = &[3];
    assert_eq!(
        infer(&eval, &[(DType::BF16, &[2, 3]), (DType::F32, stats), (DType::F32, stats)]).unwrap().len(),
        1
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let eval = Op::BatchNorm(BatchNorm { training: false, eps: 1e-5 });
    let group = |groups| Op::GroupNorm(GroupNorm { groups, eps: 1e-5 });
    let x: (DType, &[usize]) = (DType::F32, &[2, 6, 5]);
    let refuse = |op: &Op, args: &[(DType, &[usize])], part: &str| {
        let text = infer(op, args).unwrap_err().to_string();
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    };
    refuse(&eval, &[x], "arguments");
    refuse(&eval, &[x, (DType::F32, &[6]), (DType::F32, &[5])], "[6]");
    refuse(&eval, &[x, (DType::F16, &[6]), (DType::F16, &[6])], "cast");
    refuse(&eval, &[x, (DType::F32, &[6]), (DType::F64, &[6])], "cast");
    refuse(&group(4), &[x], "6 channels");
    refuse(&group(0), &[x], "0 equal groups");
    refuse(&group(1), &[(DType::F32, &[6])], "channel dimension");
    refuse(&group(1), &[(DType::I32, &[2, 6])], "floating");
    let back = |groups, bias| {
        Op::GroupNormBackward(GroupNormBackward { groups, eps: 1e-5, x: false, weight: false, bias })
    };
    refuse(&back(4, true), &[x, x], "6 channels");
    refuse(&back(3, false), &[x, x], "wanted");
    refuse(&back(3, true), &[(DType::F32, &[2, 6]), x], "shape");
    refuse(&back(3, true), &[(DType::F64, &[2, 6, 5]), x], "dtype");
    refuse(&back(3, true), &[x], "arguments");
}
