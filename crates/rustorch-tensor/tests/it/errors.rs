//! What a person sees who makes a mistake: shapes, dtypes and the way out.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_tensor::{C128, DType, QuantType, Result, RopeParams, RopeStyle, Tensor};

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this should be refused"),
        Err(error) => error.to_string(),
    }
}

fn expect<T>(result: Result<T>, parts: &[&str]) {
    let text = message(result);
    for part in parts {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

#[test]
fn messages_name_operation_shapes_and_dtypes() {
    let zeros = |dims: &[usize], dtype| Tensor::zeros(dims, dtype).unwrap();
    let (a, b) = (zeros(&[2, 3], DType::F32), zeros(&[4], DType::F32));
    expect(a.add(&b), &["add", "[2, 3]", "[4]"]);
    expect(a.matmul(&b), &["matmul", "[2, 3]", "[4"]);
    expect(a.matmul(&zeros(&[], DType::F32)), &["matmul", "scalar", "[]"]);
    expect(a.matmul(&zeros(&[3, 2], DType::F64)), &["matmul", "f32", "f64"]);
    expect(a.mm(&b), &["mm", "[2, 3]", "[4]"]);
    expect(a.bmm(&a), &["bmm"]);
    expect(a.dot(&b), &["dot"]);
    expect(a.linear(&b, None), &["linear", "[out, in]", "[4]"]);
    expect(a.reshape([4, 2]), &["reshape", "[2, 3]", "[4, 2]"]);
    expect(a.reshape([4, -1]), &["reshape", "[2, 3]"]);
    expect(a.sum(2, false), &["sum", "2"]);
    expect(a.sum([0, 0], false), &["sum", "twice"]);
    expect(a.transpose(0, 5), &["transpose", "5"]);
    expect(a.permute([0, 0]), &["permute"]);
    expect(a.narrow(1, 2, 2), &["slice", "[2, 3]"]);
    expect(a.select(1, 3), &["select", "3"]);
    expect(a.select(1, -4), &["select", "-4"]);
    expect(a.expand([2, 4]), &["expand", "[2, 3]", "[2, 4]"]);
    expect(a.squeeze(7), &["squeeze", "7"]);
    expect(a.t().unwrap().unsqueeze(4), &["unsqueeze"]);
    expect(a.to_vec::<f64>(), &["to_vec", "f64", "f32", "to_dtype"]);
    expect(a.item(), &["item", "[2, 3]"]);
    expect(a.bitwise_and(&a), &["bitwise_and", "f32"]);
    expect(zeros(&[2], DType::Bool).sub(&zeros(&[2], DType::Bool)), &["sub", "bool"]);
    expect(zeros(&[2], DType::Bool).neg(), &["neg", "bool"]);
    expect(zeros(&[2], DType::C64).lt(&zeros(&[2], DType::C64)), &["lt", "order", "c64"]);
    expect(zeros(&[2], DType::C64).amax(0, false), &["amax", "c64"]);
    expect(zeros(&[0, 3], DType::F32).amax(0, false), &["amax", "[0, 3]"]);
    expect(a.layer_norm([2], None, None, 1e-5), &["layer_norm", "[2]", "[2, 3]"]);
    expect(a.rms_norm([3], Some(&b), 1e-5), &["rms_norm", "[4]"]);
    let rope = RopeParams { style: RopeStyle::Halves, rotated: 2, base: 1e4, scale: 1.0, yarn: None };
    let positions = Tensor::new([0i64, 1]).unwrap();
    expect(a.rope(&positions.narrow(0, 0, 1).unwrap(), &rope, None), &["rope", "[2, 3]", "[1]"]);
    expect(a.add_rms_norm(&a, [3], Some(&b), 1e-5), &["add_rms_norm", "[4]"]);
    expect(a.add_rms_norm(&a, [2], None, 1e-5), &["add_rms_norm", "[2]", "[2, 3]"]);
    for shape in [&[3][..], &[2, 3]] {
        expect(a.add_rms_norm(&b, shape, None, 1e-5), &["add_rms_norm", "same shape", "[2, 3]", "[4]"]);
        expect(a.add_rms_norm(&zeros(&[2, 3], DType::F16), shape, None, 1e-5), &["add_rms_norm", "f16"]);
        let ints = zeros(&[2, 3], DType::I32);
        expect(ints.add_rms_norm(&ints, shape, None, 1e-5), &["add_rms_norm", "i32"]);
    }
    expect(a.where_cond(1.0, 2.0), &["where", "bool", "f32"]);
    expect(a.gather(1, &a), &["gather", "integers", "f32"]);
    expect(Tensor::cat(&[&a, &b], 0), &["concat", "[2, 3]", "[4]"]);
    expect(Tensor::cat::<Tensor>(&[], 0), &["cat", "one tensor"]);
    expect(Tensor::stack(&[&a, &b], 0), &["stack", "[2, 3]", "[4]"]);
    expect(a.topk(4, 1, true), &["topk", "4"]);
    expect(a.pad([1], 0), &["pad", "pair"]);
    expect(a.pad([-2, -2], 0), &["pad", "crop"]);
    expect(Tensor::from_slice(&[1f32, 2.0], [3]), &["from_slice", "2 elements", "[3]"]);
    expect(Tensor::from_bytes(&[0; 7], DType::F32, [2]), &["7"]);
    expect(Tensor::from_bytes(&[2], DType::Bool, [1]), &["bool"]);
    expect(Tensor::zeros([usize::MAX, 2], DType::F32), &["shape"]);
    expect(Tensor::arange(0, 5, 0), &["arange", "zero"]);
    expect(Tensor::arange(0, 5, -1), &["arange", "away"]);
    expect(Tensor::arange(0.0, f64::NAN, 1.0), &["arange", "finite"]);
    expect(Tensor::arange(0, i64::MAX, 1), &["out of memory on cpu", "18446744073709551615 bytes"]);
    expect(
        Tensor::zeros([1 << 60], DType::U8).and_then(|x| x.add(&x)),
        &["out of memory on cpu", "1152921504606846976 bytes"],
    );
    expect(Tensor::full([1], 300, DType::U8), &["full", "300", "u8"]);
    expect(Tensor::full([1], C128::new(1.0, 2.0), DType::F32), &["full", "imaginary", "f32"]);
    expect(Tensor::randint(5, 5, [1], DType::I64), &["randint", "low < high"]);
    expect(Tensor::randint(0, 300, [1], DType::U8), &["randint", "299", "u8"]);
    expect(Tensor::bernoulli(1.5, [1], DType::F32), &["bernoulli"]);
    expect(
        zeros(&[2], DType::I64).add(i64::MAX).and_then(|x| x.to_dtype(DType::I8)?.add(200)),
        &["200", "i8"],
    );
}

#[test]
fn block_types_say_what_to_do() {
    let q = Tensor::zeros([2, 32], DType::F32).unwrap().to_dtype(DType::Quant(QuantType::Q4_0)).unwrap();
    expect(q.add(1), &["add", "to_dtype", "Q4_0"]);
    expect(q.add(&q), &["add", "Q4_0"]);
    expect(q.neg(), &["neg", "Q4_0"]);
    expect(q.sum_all(), &["sum", "Q4_0"]);
    expect(q.narrow(1, 0, 16), &["slice", "blocks of 32", "Q4_0", "[2, 16]"]);
    expect(q.reshape([4, 16]), &["reshape", "blocks of 32"]);
    expect(
        Tensor::zeros([2, 33], DType::F32).unwrap().to_dtype(q.dtype()),
        &["cast", "blocks of 32", "[2, 33]"],
    );
    expect(Tensor::zeros([2, 32], q.dtype()), &["fill", "Q4_0"]);
}

#[test]
fn element_values_that_make_no_sense_are_refused() {
    let x = Tensor::new([[1f32, 2.0], [3.0, 4.0]]).unwrap();
    let index = |i: i64| Tensor::new([i]).unwrap();
    for bad in [2, -1] {
        expect(x.index_select(0, &index(bad)), &["index_select", &bad.to_string()]);
        expect(x.embedding(&index(bad)), &["embedding", &bad.to_string()]);
        expect(x.gather(1, &Tensor::new([[bad], [0]]).unwrap()), &["gather", &bad.to_string()]);
        expect(x.scatter(1, &Tensor::new([[bad], [0]]).unwrap(), 1), &["scatter", &bad.to_string()]);
    }
    let n = Tensor::new([1i32, 2]).unwrap();
    expect(n.floor_divide(0), &["floor_divide", "zero"]);
    expect(n.remainder(0), &["remainder", "zero"]);
    expect(n.pow(-1), &["pow", "negative"]);
}

#[test]
#[should_panic(expected = "add: sizes 2 and 3")]
fn operators_panic_with_the_same_message() {
    let _ = Tensor::zeros([2], DType::F32).unwrap() + Tensor::zeros([3], DType::F32).unwrap();
}
