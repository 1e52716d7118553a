//! Indexing by lists against NumPy and PyTorch: reading, writing, gradients, errors.
//!
//! The fixture was made by `tools/oracle/numpy_indexing.py` with NumPy 2 and PyTorch 2; the format is told there.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::fixture;
use rustorch_tensor::autograd::{BackwardOptions, GradCheck, gradgradcheck, no_grad};
use rustorch_tensor::{DType, Error, QuantType, Result, Slice, Tensor, TensorIndex, TensorSpec, capture, i};
use serde_json::Value;

fn numbers<T>(list: &Value, one: impl Fn(&Value) -> T) -> Vec<T> {
    list.as_array().unwrap().iter().map(one).collect()
}

fn ints(list: &Value) -> Vec<i64> {
    numbers(list, |n| n.as_i64().unwrap())
}

fn shape(list: &Value) -> Vec<usize> {
    numbers(list, |n| n.as_u64().unwrap() as usize)
}

/// `[shape, elements]`.
fn array(value: &Value) -> Tensor {
    Tensor::from_vec(ints(&value[1]), shape(&value[0])).unwrap()
}

fn items(line: &Value) -> Vec<TensorIndex> {
    numbers(&line["index"], |item| match (item, item[0].as_str()) {
        (Value::Number(n), _) => n.as_i64().unwrap().into(),
        (Value::String(name), _) => match name.as_str() {
            "ellipsis" => (..).into(),
            "none" => None.into(),
            name => (name == "true").into(),
        },
        (_, Some("slice")) => {
            let slice = match (item[1].as_i64(), item[2].as_i64()) {
                (Some(start), Some(end)) => Slice::from(start..end),
                (Some(start), None) => Slice::from(start..),
                (None, Some(end)) => Slice::from(..end),
                (None, None) => Slice::from(..),
            };
            slice.step(item[3].as_i64().unwrap()).into()
        }
        (_, Some("ints")) => Tensor::from_vec(ints(&item[2]), shape(&item[1])).unwrap().into(),
        _ => Tensor::from_vec(numbers(&item[2], |b| b.as_bool().unwrap()), shape(&item[1])).unwrap().into(),
    })
}

fn has_mask(line: &Value) -> bool {
    numbers(&line["index"], |item| item[0] == "mask").contains(&true)
}

fn is_basic(line: &Value) -> bool {
    items(line).iter().all(|item| !matches!(item, TensorIndex::Tensor(_) | TensorIndex::Boolean(_)))
}

/// The line's array.
fn start(line: &Value, dtype: DType) -> Tensor {
    let dims = shape(&line["shape"]);
    let count = dims.iter().product::<usize>() as i64;
    let x = Tensor::arange_with(0, count, 1, dtype).unwrap().reshape(dims).unwrap();
    x.permute(numbers(&line["order"], |n| n.as_i64().unwrap() as isize)).unwrap()
}

fn each(mut check: impl FnMut(&Value) -> std::result::Result<bool, String>) -> usize {
    let (lines, mut checked, mut failures) = (fixture("indexing.jsonl"), 0, Vec::new());
    assert!(lines.len() >= 300);
    for line in &lines {
        match check(line) {
            Ok(counts) => checked += usize::from(counts),
            Err(why) => failures.push(format!("{}{} {}: {why}", line["shape"], line["order"], line["index"])),
        }
    }
    assert!(failures.is_empty(), "{} indices differ:\n{}", failures.len(), failures.join("\n"));
    checked
}

fn same(what: &str, got: &Tensor, want: &Tensor) -> std::result::Result<(), String> {
    if got.dims() == want.dims() && got.to_bytes().unwrap() == want.to_bytes().unwrap() {
        return Ok(());
    }
    Err(format!("{what} gave {} {got}, not {} {want}", got.shape(), want.shape()))
}

#[test]
fn what_numpy_reads_and_writes() {
    let checked = each(|line| {
        let (x, index) = (start(line, DType::I64), items(line));
        if line["error"].is_string() {
            let value = Tensor::scalar(1i64).unwrap();
            let results = [
                ("i", x.i(&index).map(|_| ())),
                ("index_put", x.index_put(&index, &value, true).map(|_| ())),
                ("set", x.set(&index, &value)),
            ];
            for (name, result) in results {
                match result {
                    Err(error) if error.to_string().starts_with(&format!("{name}: ")) => {}
                    other => return Err(format!("{name}: {other:?}")),
                }
            }
            same("an error", &x, &start(line, DType::I64))?;
            return Ok(false);
        }
        let tell = |error: Error| error.to_string();
        let read = x.i(&index).map_err(tell)?;
        same("i", &read, &array(&line["read"]))?;
        if read.shares_memory(&x) != is_basic(line) {
            return Err("is a view where it should not be, or none where it should be".into());
        }
        let all = |key: &str| Tensor::from_vec(ints(&line[key]), x.dims()).unwrap();
        let value = array(&line["value"]);
        same("index_put", &x.index_put(&index, &value, false).map_err(tell)?, &all("written"))?;
        if line["added"].is_array() {
            same("index_put, added", &x.index_put(&index, &value, true).map_err(tell)?, &all("added"))?;
        }
        same("index_put", &x, &start(line, DType::I64))?;
        x.set(&index, &value).map_err(tell)?;
        same("set", &x, &all("written"))?;
        Ok(true)
    });
    assert!(checked >= 300, "{checked} indices");
}

#[test]
fn gradients_are_those_of_pytorch() {
    let checked = each(|line| {
        let Some(grads) = line["grads"].as_array() else { return Ok(false) };
        let index = items(line);
        let want = |i: usize, like: &Tensor| {
            let elements = numbers(&grads[i], |n| n.as_f64().unwrap());
            Tensor::from_vec(elements, like.dims()).unwrap()
        };
        let seed = |out: &Tensor| -> Result<Tensor> {
            Tensor::from_vec((1..=out.numel()).map(|n| n as f64).collect(), out.dims())
        };
        let run = || -> Result<()> {
            let x = start(line, DType::F64).copy()?;
            x.requires_grad_(true)?;
            let part = x.i(&index)?;
            part.backward_with(Some(&seed(&part)?), &BackwardOptions::default())?;
            same("reading", &x.grad().unwrap(), &want(0, &x)).unwrap();

            let value = array(&line["value"]).to_dtype(DType::F64)?;
            value.requires_grad_(true)?;
            for writes in [true, false] {
                x.set_grad(None)?;
                value.set_grad(None)?;
                let whole = if writes {
                    let whole = x.mul(1)?;
                    whole.set(&index, &value)?;
                    whole
                } else {
                    x.index_put(&index, &value, false)?
                };
                whole.backward_with(Some(&seed(&whole)?), &BackwardOptions::default())?;
                same("writing, of the tensor", &x.grad().unwrap(), &want(1, &x)).unwrap();
                same("writing, of the value", &value.grad().unwrap(), &want(2, &value)).unwrap();
            }
            Ok(())
        };
        run().map_err(|error| error.to_string())?;
        Ok(true)
    });
    assert!(checked >= 100, "{checked} indices");
}

#[test]
fn captured_they_give_eagers_bits_and_masks_are_refused() {
    let (mut masks, mut others) = (0, 0);
    each(|line| {
        if line["error"].is_string() {
            return Ok(false);
        }
        let (x, index, value) = (start(line, DType::I64), items(line), array(&line["value"]));
        let f = |args: &[Tensor]| -> Result<Vec<Tensor>> {
            let part = args[0].i(&index)?;
            let whole = args[0].copy()?;
            whole.set(&index, &args[1])?;
            Ok(vec![part, whole, args[0].index_put(&index, &args[1], true)?])
        };
        let program = capture(&[TensorSpec::from(&x), TensorSpec::from(&value)], |args| {
            // Masks that are the function's own have values, those that are computed in it have none.
            let computed: Vec<TensorIndex> = index
                .iter()
                .map(|item| match item {
                    TensorIndex::Tensor(mask) if mask.dtype() == DType::Bool => {
                        mask.logical_and(&args[0].ge(0)?.all_all()?).map(TensorIndex::from)
                    }
                    item => Ok(item.clone()),
                })
                .collect::<Result<_>>()?;
            args[0].i(&computed)?;
            f(args)
        });
        if has_mask(line) {
            masks += 1;
            let error = program.err().ok_or("was captured")?.to_string();
            let named = error.starts_with("nonzero: asks for the value of");
            return if named { Ok(true) } else { Err(error) };
        }
        others += 1;
        let got =
            program.and_then(|program| program.run(&[&x, &value])).map_err(|error| error.to_string())?;
        let want = f(&[x, value]).map_err(|error| error.to_string())?;
        got.iter().zip(&want).try_for_each(|(got, want)| same("a program", got, want))?;
        Ok(true)
    });
    assert!(masks > 20 && others > 200, "{masks}, {others}");
}

#[test]
fn a_scalar_is_written_by_a_mask_alone() -> Result<()> {
    let x = || Tensor::arange(0, 24, 1)?.reshape([2, 3, 4])?.to_dtype(DType::F32);
    // Of all dimensions, and of the first two; in memory in another order, too.
    let (all, rows) = (x()?.remainder(5)?.eq(0)?, x()?.select(-1, 1)?.gt(10)?);
    for (mask, chosen) in
        [(&all, [0, 5, 10, 15, 20].as_slice()), (&rows, &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23])]
    {
        let want: Vec<f32> = (0..24).map(|i| if chosen.contains(&i) { -1.0 } else { i as f32 }).collect();
        let written = x()?;
        written.set(i![mask], -1)?;
        assert_eq!(written.to_vec::<f32>()?, want);
        assert_eq!(x()?.index_put(i![mask], -1, false)?.to_vec::<f32>()?, want);
        let turned = x()?.transpose(0, 1)?.copy()?.transpose(0, 1)?;
        turned.set(i![mask], -1)?;
        assert_eq!(turned.to_vec::<f32>()?, want);
        let program = capture(&[TensorSpec::from(&x()?)], |args| {
            args[0].index_put(i![mask], -1, false).map(|y| vec![y])
        })?;
        assert_eq!(program.run(&[&x()?])?[0].to_vec::<f32>()?, want);
    }
    let short = Tensor::new([true, false, true])?;
    assert!(x()?.set(i![&short], 0).unwrap_err().to_string().contains("the mask has the length 3"));
    assert!(
        Tensor::new([1u8, 2])?
            .set(i![&Tensor::new([true, false])?], 300)
            .unwrap_err()
            .to_string()
            .starts_with("set")
    );
    Ok(())
}

#[test]
fn the_macro_takes_what_people_write() -> Result<()> {
    let x = Tensor::arange(0, 24, 1)?.reshape([2, 3, 4])?;
    let (n, at) = (3usize, Tensor::new([1i64, 0])?);
    let cases = [
        (x.i(i![])?, x.copy()?),
        (x.i(i![-1])?, x.select(0, -1)?),
        (x.i(i![.., n])?, x.select(2, 3)?),
        (x.i(i![0.., 1..n, ..=-2])?, x.narrow(1, 1, 2)?.narrow(2, 0, 3)?),
        (x.i(i![.., 1..=-1])?, x.narrow(2, 1, 3)?),
        (x.i(i![.., ..; 3])?, x.slice(2, .., 3)?),
        (x.i(i![.., -3..; 2,])?, x.slice(2, -3.., 2)?),
        (x.i(i![1, None, .., None])?, x.select(0, 1)?.unsqueeze(0)?.unsqueeze(-1)?),
        (x.i(i![true, 1])?, x.narrow(0, 1, 1)?),
        (x.i(i![&at])?, x.index_select(0, &at)?),
        (x.i(i![at.add(0)?, 0..])?, x.index_select(0, &at)?),
        (x.i(i![&at.to_dtype(DType::U8)?, ..])?, x.index_select(0, &at)?),
        (x.i([TensorIndex::from(1)])?, x.select(0, 1)?),
        (x.i(vec![TensorIndex::from(i64::MIN..i64::MAX)])?, x.copy()?),
        (x.i(i![i64::MIN..=i64::MAX; i64::MAX])?, x.narrow(0, 0, 1)?),
        (x.i(i![2..usize::MAX])?, x.narrow(0, 0, 0)?),
    ];
    for (case, (got, want)) in cases.iter().enumerate() {
        same(&format!("case {case}"), got, want).unwrap();
    }
    Ok(())
}

#[test]
fn errors_name_dimension_length_and_index() {
    let x = Tensor::zeros([2, 3], DType::F32).unwrap();
    let none = Tensor::zeros([3, 0], DType::F32).unwrap();
    let at = |index: i64| Tensor::new([0i64, index]).unwrap();
    let mask = |len: usize| Tensor::ones([2, len], DType::Bool).unwrap();
    let cases: Vec<(Vec<TensorIndex>, &str)> = vec![
        (i![0, 3].into(), "index 3 is out of range for dimension 1 of length 3"),
        (i![.., -4].into(), "index -4 is out of range for dimension 1 of length 3"),
        (i![i64::MIN].into(), "index -9223372036854775808 is out of range for dimension 0 of length 2"),
        (i![usize::MAX].into(), "index 9223372036854775807 is out of range for dimension 0 of length 2"),
        (i![&at(2)].into(), "index 2 is out of range for dimension 0 of length 2"),
        (i![.., &at(-4)].into(), "index -4 is out of range for dimension 1 of length 3"),
        (i![&at(i64::MAX)].into(), "index 9223372036854775807 is out of range for dimension 0 of length 2"),
        (i![&at(i64::MIN)].into(), "index -9223372036854775808 is out of range for dimension 0 of length 2"),
        (i![&at(0), &at(3)].into(), "index 3 is out of range for dimension 1 of length 3"),
        (i![&at(-3), &at(0)].into(), "index -3 is out of range for dimension 0 of length 2"),
        (i![0, 0, 0].into(), "the index stands for 3 dimensions, the tensor has 2"),
        (i![&mask(3), 0].into(), "the index stands for 3 dimensions, the tensor has 2"),
        (
            i![&mask(4)].into(),
            "dimension 1 of the mask has the length 4, and dimension 1 of the tensor, which it covers, 3",
        ),
        (i![.., ..].into(), "`..` is there twice; all of one dimension is `0..`"),
        (i![..; -1].into(), "the step -1 must be at least 1; flip reverses a dimension"),
        (i![..; 0].into(), "the step 0 must be at least 1; flip reverses a dimension"),
        (
            i![&x.select(0, 0).unwrap()].into(),
            "a tensor in an index must be of integers or bool; convert it with to_dtype",
        ),
    ];
    for (index, text) in cases {
        for (name, error) in [("i", x.i(&index).err()), ("set", x.set(&index, 1).err())] {
            let error = error.unwrap_or_else(|| panic!("{name} of {index:?}")).to_string();
            assert!(error.starts_with(&format!("{name}: {text}")), "{error}");
        }
    }
    // Also where nothing is read.
    assert_eq!(none.i(i![&at(-1)]).unwrap().dims(), [2, 0]);
    assert_eq!(none.i(i![.., &at(0).narrow(0, 0, 0).unwrap()]).unwrap().dims(), [3, 0]);
    assert!(none.i(i![&at(0), &at(0)]).is_err() && none.i(i![.., &at(0)]).is_err());
    for error in [none.i(i![&at(3)]).err(), none.set(i![&at(3)], 1).err()] {
        let error = error.unwrap().to_string();
        assert!(error.ends_with("index 3 is out of range for dimension 0 of length 3"), "{error}");
    }
    let values = Tensor::zeros([2, 2], DType::F32).unwrap();
    for error in
        [x.set(i![0], &values), x.set(i![&at(1)], &values), x.index_put(i![], &values, true).map(|_| ())]
    {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the values do not broadcast to the shape at the index"), "{error}");
    }
    let bytes = Tensor::zeros([2], DType::U8).unwrap();
    assert!(bytes.set(i![0], 256).is_err() && bytes.set(i![&at(0)], 256).is_err());
    assert_eq!(x.sum_all().unwrap().item().unwrap().to_f64(), 0.0);
}

#[test]
fn writing_keeps_the_rules_of_writing_in_place() -> Result<()> {
    let leaf = Tensor::zeros([3], DType::F32)?;
    leaf.requires_grad_(true)?;
    let at = Tensor::new([0i64, 2])?;
    for index in [Vec::from(i![1..]), i![&at].into()] {
        let error = leaf.set(&index, 1).unwrap_err().to_string();
        assert!(error.contains("a leaf that requires a gradient"), "{error}");
        no_grad(|| leaf.set(&index, 1))?;
    }
    assert_eq!(leaf.detach().to_vec::<f32>()?, [1.0; 3]);

    // A tensor that was saved for a gradient notices.
    let x = Tensor::ones([3], DType::F32)?;
    for index in [Vec::from(i![1..]), i![&at].into()] {
        let loss = leaf.mul(&x)?.sum_all()?;
        x.set(&index, 5)?;
        let error = loss.backward().unwrap_err().to_string();
        assert!(error.contains("written"), "{error}");
    }

    // Memory that others see is not written with a gradient.
    let shared = Tensor::zeros([2, 2], DType::F32)?;
    let row = shared.select(0, 0)?;
    assert!(row.set(i![0], &leaf.i(i![0])?).is_err());

    // Not in order, read-only, of other dtypes, and of itself.
    let x = Tensor::arange(0, 6, 1)?.reshape([2, 3])?;
    let y = Tensor::zeros([2, 3], DType::F32)?;
    y.t()?.set(i![&at, 1], &Tensor::new([7i64, 8])?)?;
    assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 0.0, 7.0, 0.0, 8.0]);
    x.set(i![&Tensor::new([1i64, 0])?], &x)?;
    assert_eq!(x.to_vec::<i64>()?, [3, 4, 5, 0, 1, 2]);
    assert!(Tensor::zeros([1], DType::F32)?.expand([4])?.set(i![&at], 1).is_err());
    Ok(())
}

#[test]
fn what_has_no_single_elements_is_refused() -> Result<()> {
    let x = Tensor::zeros([4, 32], DType::F32)?.to_dtype(DType::Quant(QuantType::Q8_0))?;
    assert_eq!(x.i(i![1..3])?.dims(), [2, 32]);
    assert!(x.i(i![.., 1]).is_err() && x.i(i![&Tensor::new([0i64])?]).is_err() && x.set(i![0], 1).is_err());
    Ok(())
}

#[test]
fn many_dimensions_and_places() -> Result<()> {
    // More dimensions than lists hold inline, and tensors apart from each other.
    let x = Tensor::arange(0, 256, 1)?.reshape([2, 2, 2, 2, 2, 2, 2, 2])?;
    let at = Tensor::new([1i64, 0])?;
    let y = x.i(i![&at, 0.., 1, .., &at])?;
    assert_eq!(y.dims(), [2, 2, 2, 2, 2, 2]);
    assert_eq!(y.i(i![0, 1, 0, 1, 0, 1])?.item()?, x.i(i![1, 1, 1, 0, 1, 0, 1, 1])?.item()?);
    Ok(())
}

#[test]
fn second_gradients_are_those_of_finite_differences() -> Result<()> {
    let x = Tensor::new([[0.3f64, -1.2, 0.7], [1.9, 0.4, -0.6]])?;
    let y = Tensor::new([1.4f64, 0.2])?;
    let at = Tensor::new([0i64, -1])?;
    let f = |args: &[Tensor]| {
        let whole = args[0].square()?;
        whole.set(i![0.., 1], &args[1].square()?)?;
        let put = whole.index_put(i![&at, &at], &args[1], true)?.square()?;
        Ok(vec![put.i(i![.., &at])?.mul(&args[1])?])
    };
    gradgradcheck(f, &[&x, &y], GradCheck::default())
}

#[test]
fn put_is_the_counterpart_of_take() -> Result<()> {
    let x = Tensor::arange_with(0, 6, 1, DType::F64)?.reshape([3, 2])?.t()?;
    let (at, source) = (Tensor::new([[1i64, -1, 1]])?, Tensor::new([10.0f64, 20.0, 30.0])?);
    // `torch.arange(6.).reshape(3, 2).t().put(..)`
    assert_eq!(x.put(&at, &source, false)?.to_vec::<f64>()?, [0.0, 30.0, 4.0, 1.0, 3.0, 20.0]);
    assert_eq!(x.put(&at, &source, true)?.to_vec::<f64>()?, [0.0, 42.0, 4.0, 1.0, 3.0, 25.0]);
    let far = Tensor::new([0i64, 0, -7])?;
    assert_eq!(
        x.put(&far, &source, false).unwrap_err().to_string(),
        "put: index -7 is out of range for a dimension of length 6"
    );
    assert!(x.put(&at, &source.narrow(0, 0, 2)?, false).is_err());
    assert!(x.put(&at, &source.to_dtype(DType::F32)?, false).is_err());
    let f = |args: &[Tensor]| Ok(vec![args[0].put(&at, &args[1], false)?.square()?]);
    gradgradcheck(f, &[&x, &source], GradCheck::default())
}
