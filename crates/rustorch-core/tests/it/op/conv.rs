//! Convolutions and their gradients.

use rustorch_core::{
    Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, DType, Device, Error, Layout, Op, OpType, Shape,
    TensorMeta, UnaryOp,
};

fn infer_as(dtype: DType, op: &Op, args: &[&[usize]]) -> Result<Vec<usize>, Error> {
    let layouts: Vec<Layout> =
        args.iter().map(|&dims| Layout::contiguous(Shape::new(dims).unwrap())).collect();
    let metas: Vec<TensorMeta<'_>> =
        layouts.iter().map(|layout| TensorMeta { dtype, layout, device: Device::CPU }).collect();
    assert_eq!(op.class(&metas), OpType::Convolution);
    let outs = op.infer(&metas)?;
    assert_eq!((outs.len(), outs[0].dtype), (1, dtype));
    Ok(outs[0].shape.dims().to_vec())
}

fn infer(op: &Op, args: &[&[usize]]) -> Result<Vec<usize>, Error> {
    infer_as(DType::F32, op, args)
}

fn conv(change: impl FnOnce(&mut ConvParams)) -> ConvParams {
    let mut params = ConvParams::new(2);
    change(&mut params);
    params
}

fn forward(params: &ConvParams) -> Op {
    Op::from(Conv { params: params.clone(), activation: None })
}

fn data(params: &ConvParams, size: &[usize]) -> Op {
    Op::from(ConvBackwardData { params: params.clone(), size: size.into() })
}

fn weight(params: &ConvParams, kernel: &[usize]) -> Op {
    Op::from(ConvBackwardWeight { params: params.clone(), kernel: kernel.into() })
}

#[test]
fn gradients_have_the_shapes_of_what_they_are_gradients_of() {
    let cases = [
        (conv(|_| ()), [2, 4, 7, 9], [6, 4, 3, 2]),
        (conv(|p| p.stride[1] = 3), [1, 4, 7, 12], [6, 4, 1, 2]),
        (conv(|p| p.padding[0] = (2, 1)), [0, 4, 1, 9], [6, 4, 3, 2]),
        (conv(|p| p.dilation[0] = 3), [2, 4, 7, 9], [6, 4, 3, 2]),
        (conv(|p| p.groups = 2), [2, 4, 7, 9], [6, 2, 3, 2]),
        (conv(|p| p.padding[0] = (3, 3)), [2, 4, 0, 9], [0, 4, 3, 2]),
    ];
    for (params, x, w) in cases {
        let y = infer(&forward(&params), &[&x, &w]).unwrap();
        assert_eq!(y[..2], [x[0], w[0]]);
        assert_eq!(infer(&data(&params, &x[2..]), &[&y, &w]).unwrap(), x, "{params:?}");
        assert_eq!(infer(&weight(&params, &w[2..]), &[&x, &y]).unwrap(), w, "{params:?}");
    }
    assert_eq!(infer(&forward(&conv(|p| p.stride[1] = 3)), &[&[1, 4, 7, 12], &[6, 4, 1, 2]]).unwrap()[3], 4);
}

#[test]
fn output_padding_stays_below_stride_or_dilation() {
    let params = conv(|p| {
        p.stride[1] = 2;
        p.dilation[0] = 3;
    });
    let (dy, w) = ([1, 2, 4, 4], [2, 5, 2, 3]);
    // (4 − 1) · 1 + 3 · (2 − 1) + 1 = 7 and (4 − 1) · 2 + 2 + 1 = 9
    assert_eq!([params.input_len(0, 4, 2), params.input_len(1, 4, 3)], [Some(7), Some(9)]);
    for size in [[7, 9], [9, 10]] {
        assert_eq!(infer(&data(&params, &size), &[&dy, &w]).unwrap()[2..], size);
    }
    for size in [[6, 9], [10, 9], [7, 8], [7, 11]] {
        let error = infer(&data(&params, &size), &[&dy, &w]).unwrap_err().to_string();
        assert!(error.contains("but to 7 to 9") || error.contains("but to 9 to 10"), "{error}");
    }
}

#[test]
fn errors_name_what_does_not_fit() {
    let plain = conv(|_| ());
    let (x, w) = ([2, 4, 7, 9], [6, 4, 3, 2]);
    let refused = |op: &Op, args: &[&[usize]], says: &str| {
        let error = infer(op, args).unwrap_err().to_string();
        assert!(error.contains(says), "`{error}` does not say `{says}`");
    };
    refused(&forward(&plain), &[&x], "2 to 3 arguments");
    refused(&forward(&plain), &[&x, &w[..3]], "one to three spatial dimensions");
    refused(&forward(&plain), &[&x[..2], &w[..2]], "one to three spatial dimensions");
    refused(&forward(&ConvParams::new(1)), &[&x, &w], "each of the 2 spatial dimensions");
    refused(&forward(&conv(|p| p.stride[0] = 0)), &[&x, &w], "at least 1");
    refused(&forward(&conv(|p| p.dilation[1] = 0)), &[&x, &w], "at least 1");
    refused(&forward(&conv(|p| p.groups = 0)), &[&x, &w], "at least 1");
    refused(&forward(&conv(|p| p.groups = 2)), &[&x, &w], "needs 8 channels, not 4");
    refused(&forward(&conv(|p| p.groups = 4)), &[&x, &[6, 1, 3, 2]], "parted into 4 groups");
    refused(&forward(&plain), &[&x, &[6, 4, 8, 2]], "dimension 0, a kernel of 8");
    refused(&forward(&plain), &[&x, &[6, 4, 0, 2]], "a kernel of 0");
    refused(&forward(&conv(|p| p.padding[0].0 = usize::MAX)), &[&x, &w], "does not fit");
    refused(&forward(&plain), &[&x, &w, &[4]], "6 elements");
    refused(&data(&plain, &[7]), &[&[2, 6, 5, 8], &w], "size has 1 entries");
    refused(&data(&plain, &[7, 9]), &[&[2, 5, 5, 8], &w], "dy has 5 channels, the weight gives 6");
    refused(&data(&plain, &[7, 9]), &[&[2, 6, 5, 8], &w, &[6]], "4 elements");
    refused(&data(&plain, &[7, 9]), &[&[2, 6, 0, 8], &w], "0 positions of the output");
    refused(&weight(&plain, &[3, 2, 1]), &[&x, &[2, 6, 5, 8]], "kernel has 3 entries");
    refused(&weight(&plain, &[3, 2]), &[&x, &[1, 6, 5, 8]], "number of images");
    refused(&weight(&plain, &[3, 3]), &[&x, &[2, 6, 5, 8]], "dimension 1, 8 positions");
    refused(&weight(&conv(|p| p.groups = 3), &[3, 2]), &[&x, &[2, 6, 5, 8]], "parted into 3 groups");
    let error = infer_as(DType::I32, &forward(&plain), &[&x, &w]).unwrap_err().to_string();
    assert!(error.contains("floating-point") && error.contains("i32"), "{error}");
    let relu = Op::from(Conv { params: plain, activation: Some(UnaryOp::Relu) });
    assert!(infer_as(DType::C64, &relu, &[&x, &w]).unwrap_err().to_string().contains("relu"));
}

#[test]
fn the_three_passes_are_the_same_work() {
    let params = conv(|p| p.groups = 2);
    let (x, w, y) = ([2, 4, 7, 9], [6, 2, 3, 2], [2, 6, 5, 8]);
    let flops = |op: &Op, args: [&[usize]; 2]| {
        let layouts = args.map(|dims| Layout::contiguous(Shape::new(dims).unwrap()));
        let metas: Vec<TensorMeta<'_>> = layouts
            .iter()
            .map(|layout| TensorMeta { dtype: DType::F64, layout, device: Device::CPU })
            .collect();
        op.work(&metas, &op.infer(&metas).unwrap()).flops
    };
    let want = 2 * (2 * 6 * 5 * 8) * (2 * 3 * 2);
    assert_eq!(flops(&forward(&params), [&x, &w]), want);
    assert_eq!(flops(&data(&params, &x[2..]), [&y, &w]), want);
    assert_eq!(flops(&weight(&params, &w[2..]), [&x, &y]), want);
}
