//! Writing in place and to given tensors: what is written, with how much memory, and by several threads at once.

use rustorch_core::Device;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{DType, Generator, Result, Scalar, Tensor, TensorOrScalar};

/// Rows and columns of the matrices, and the bytes of one of `F32`.
const SIDE: usize = 512;
const BYTES: u64 = 4 * (SIDE * SIDE) as u64;

/// The most memory that tensors have had at once, in bytes.
fn peak(exec: &HybridExecutor) -> u64 {
    exec.memory().stats(Device::CPU).unwrap().peak
}

/// The bytes that an operation takes in addition to what there is.
fn temporary(exec: &HybridExecutor, run: impl FnOnce() -> Result<()>) -> u64 {
    let before = exec.memory().stats(Device::CPU).unwrap().allocated;
    // Memory up to the peak so far is taken, so that anything beyond shows.
    let room = peak(exec) - before;
    let fill = Tensor::zeros([room as usize], DType::U8).unwrap();
    let before = peak(exec);
    run().unwrap();
    drop(fill);
    peak(exec) - before
}

/// A name, and what is to be done without a temporary.
type Case<'a> = (&'static str, Box<dyn FnOnce() -> Result<()> + 'a>);

#[test]
fn nothing_is_written_twice_or_kept_beside() -> Result<()> {
    let exec = HybridExecutor::builder().threads(2).build()?;
    exec.scope(|| {
        let g = Generator::new(1);
        let matrix = |dtype| -> Result<Tensor> { g.randn([SIDE, SIDE], DType::F32)?.to_dtype(dtype) };
        let (x, y, half) = (matrix(DType::F32)?, matrix(DType::F32)?, matrix(DType::F16)?);
        let row = y.select(0, 0)?.copy()?;
        let (mask, truth) = (x.gt(0)?, Tensor::zeros([SIDE, SIDE], DType::Bool)?);
        let index = Tensor::new([3i64, 400, 3])?;
        let rows = y.narrow(0, 0, 3)?.copy()?;
        let columns = y.narrow(1, 0, 2)?.copy()?;
        let sums = Tensor::zeros([SIDE], DType::F32)?;
        let (left, right) = (x.narrow(1, 0, SIDE / 2)?, x.narrow(1, SIDE / 2, SIDE / 2)?);
        let product = Tensor::zeros([SIDE, SIDE], DType::F32)?;
        let mut z = x.clone();
        let cases: Vec<Case<'_>> = vec![
            ("add_", Box::new(|| x.add_(&y))),
            ("add_ of a number", Box::new(|| x.add_(1))),
            ("sub_ of itself", Box::new(|| y.sub_(&y))),
            ("mul_ of a row", Box::new(|| x.mul_(&row))),
            ("div_ of a column", Box::new(|| x.div_(&row.unsqueeze(1)?))),
            ("f32 += f16", Box::new(|| x.add_(&half))),
            ("f16 += f32", Box::new(|| half.add_(&x))),
            ("f16 += a number that it rounds", Box::new(|| half.add_(0.1))),
            ("transposed", Box::new(|| x.t()?.add_(&y.t()?))),
            ("a part beside another", Box::new(|| left.mul_(&right))),
            ("a column beside another", Box::new(|| x.select(1, 0)?.add_(&x.select(1, 1)?))),
            ("masked_fill_", Box::new(|| x.masked_fill_(&mask, -1))),
            ("copy_", Box::new(|| x.copy_(&y))),
            ("copy_ of another dtype", Box::new(|| half.copy_(&y))),
            ("copy_ of a row", Box::new(|| x.copy_(&row))),
            ("fill_", Box::new(|| x.fill_(2))),
            ("index_copy_ of rows", Box::new(|| x.index_copy_(0, &index, &rows))),
            (
                "scatter_add_ of rows",
                Box::new(|| x.scatter_add_(0, &index.unsqueeze(1)?.expand_as(&rows)?, &rows)),
            ),
            ("index_copy_ of columns", Box::new(|| x.index_copy_(1, &index.narrow(0, 0, 2)?, &columns))),
            (
                "+= -= *= /=",
                Box::new(|| {
                    z += &y;
                    z -= 1.5;
                    z *= &y;
                    z /= 3;
                    Ok(())
                }),
            ),
            ("exp_into itself", Box::new(|| x.exp_into(&x))),
            ("add_into", Box::new(|| x.add_into(&half, &y))),
            ("lt_into", Box::new(|| x.lt_into(&half, &truth))),
            ("sum_into", Box::new(|| x.sum_into(1, false, &sums))),
            ("matmul_into", Box::new(|| x.narrow(1, 0, 64)?.matmul_into(&y.narrow(0, 0, 64)?, &product))),
        ];
        for (name, run) in cases {
            let taken = temporary(&exec, run);
            assert!(taken <= 4 << 10, "{name} took {taken} bytes");
        }
        // What overlaps otherwise gets one temporary.
        let taken = temporary(&exec, || x.add_(&x.t()?));
        assert!((BYTES..BYTES * 9 / 8).contains(&taken), "{taken}");
        let taken = temporary(&exec, || x.narrow(0, 1, SIDE - 1)?.copy_(&x.narrow(0, 0, SIDE - 1)?));
        assert!((BYTES - 4 * SIDE as u64..BYTES * 9 / 8).contains(&taken), "{taken}");
        Ok(())
    })
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

/// What makes a view.
type View<'a> = dyn Fn(&Tensor) -> Result<Tensor> + 'a;

#[test]
fn in_place_gives_the_bits_of_a_copy() -> Result<()> {
    let g = Generator::new(2);
    // Short and long, in one run and in several.
    for dims in [&[7usize][..], &[600], &[40, 30], &[3, 1000], &[300, 400]] {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::C64] {
            let make = || g.normal(3.0, 9.0, dims, DType::F32)?.to_dtype(dtype);
            let (x, y) = (make()?, make()?);
            let last = dims.len() as isize - 1;
            let views: [&View<'_>; 4] =
                [&|x| Ok(x.clone()), &|x| x.transpose(0, last), &|x| x.slice(last, 1.., 2), &|x| {
                    x.narrow(0, 1, x.dims()[0] - 1)
                }];
            for view in views {
                let (fresh, row) = (x.copy()?, view(&y)?.select(0, 0)?);
                let place = view(&fresh)?;
                for other in [view(&y)?, row.clone(), place.clone()] {
                    let want = place.mul(&other)?.copy()?;
                    place.mul_(&other)?;
                    assert_eq!(bits(&place), bits(&want), "{dims:?} {dtype}");
                }
                let want = place.add(3)?;
                place.add_(3)?;
                assert_eq!(bits(&place), bits(&want), "{dims:?} {dtype}");
                // Nothing beside the view is touched.
                let untouched = fresh.select(0, 0)?.item_at(&vec![0; dims.len() - 1])?;
                if place.layout().offset() != 0 {
                    assert_eq!(untouched, x.item_at(&vec![0; dims.len()])?);
                }
            }
        }
    }
    // Where dtypes differ, the result is computed in the common one.
    let (x, y) = (g.randn([100, 33], DType::BF16)?, g.randn([33], DType::F64)?);
    for other in [TensorOrScalar::from(&y), TensorOrScalar::from(0.1)] {
        let want = x.div(other)?.to_dtype(DType::BF16)?;
        x.div_(other)?;
        assert_eq!(bits(&x), bits(&want));
    }
    Ok(())
}

#[test]
fn changes_of_several_threads_are_all_there() {
    let add = |x: &Tensor, by: &Tensor, times: usize| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..times).for_each(|_| x.add_(by).unwrap()));
            }
        });
    };
    let count = Tensor::zeros([1], DType::F32).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..40_000).for_each(|_| count.add_(1).unwrap()));
        }
    });
    assert_eq!(count.to_vec::<f32>().unwrap(), [160_000.0]);
    // Computed apart, as an operand overlaps the target: doubled 40 times, less a part.
    let x = Tensor::ones([2], DType::F64).unwrap();
    add(&x, &x.select(0, 0).unwrap(), 10);
    assert_eq!(x.to_vec::<f64>().unwrap(), [(1u64 << 40) as f64, (1u64 << 40) as f64]);
    // With a conversion, and on parts of one tensor at once.
    let halves = Tensor::zeros([2, 500], DType::F16).unwrap();
    let one = Tensor::ones([500], DType::F32).unwrap();
    std::thread::scope(|scope| {
        for part in [0, 1, 0, 1] {
            let (halves, one) = (&halves, &one);
            scope.spawn(move || {
                let part = halves.select(0, part).unwrap();
                (0..500).for_each(|_| part.add_(one).unwrap());
            });
        }
    });
    let all = halves.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(all, [1000.0; 1000]);
}

#[test]
fn what_is_refused_is_left_alone() -> Result<()> {
    let x = Tensor::arange_with(0, 6, 1, DType::F32)?.reshape([3, 2])?;
    let before = bits(&x);
    let rows = Tensor::ones([2, 2], DType::F32)?;
    for bad in [3i64, -1] {
        let error = x.index_copy_(0, &Tensor::new([0, bad])?, &rows).unwrap_err().to_string();
        assert!(error.contains(&bad.to_string()), "{error}");
        let added = x.scatter_add_(0, &Tensor::new([[0, 0], [bad, 0]])?, &rows);
        assert!(added.unwrap_err().to_string().contains(&bad.to_string()));
    }
    let int = Tensor::new([1i32, 2])?;
    assert!(int.floor_divide_into(&Tensor::new([1i32, 0])?, &int).unwrap_err().to_string().contains("zero"));
    assert_eq!(int.to_vec::<i32>()?, [1, 2]);
    for refused in [
        x.add_(&Tensor::ones([2, 3, 2], DType::F32)?),
        x.add_(&Tensor::ones([3], DType::F32)?),
        x.masked_fill_(&Tensor::zeros([2, 3, 2], DType::Bool)?, 1),
        x.masked_fill_(&rows.narrow(0, 0, 1)?, 1),
        x.exp_into(&x.narrow(0, 0, 2)?),
        x.sum_into(0, false, &x.narrow(0, 0, 1)?),
        x.matmul_into(&rows, &x.narrow(0, 0, 2)?),
        x.exp_into(&int),
        x.expand([2, 3, 2])?.add_(1),
    ] {
        assert!(refused.is_err());
    }
    assert_eq!(bits(&x), before);
    Ok(())
}

#[test]
fn scatter_add_in_place_has_the_result_and_the_gradients_of_scatter_add() -> Result<()> {
    let g = Generator::new(4);
    let (x, source) = (g.randn([5, 3], DType::F64)?, g.randn([4, 3], DType::F64)?);
    let index = Tensor::new([[1i64, 0, 4], [1, 1, 1], [0, 2, 4], [1, 0, 3]])?;
    let weight = g.randn([5, 3], DType::F64)?;
    x.requires_grad_(true)?;
    source.requires_grad_(true)?;
    let mut all = Vec::new();
    for in_place in [false, true] {
        let y = match in_place {
            false => x.mul(2)?.scatter_add(0, &index, &source)?,
            true => {
                let y = x.mul(2)?;
                y.scatter_add_(0, &index, &source)?;
                y
            }
        };
        y.mul(&weight)?.sum_all()?.backward()?;
        all.push([bits(&y), bits(&x.grad().unwrap()), bits(&source.grad().unwrap())]);
        x.zero_grad();
        source.zero_grad();
    }
    assert_eq!(all[0], all[1]);
    Ok(())
}

#[test]
fn results_go_where_they_are_wanted() -> Result<()> {
    let g = Generator::new(3);
    let (a, b) = (g.randn([4, 6], DType::F32)?, g.randn([6], DType::F32)?);
    // Into a part of another tensor, transposed, and in a dtype of the same family or a higher one.
    let to = |dtype| -> Result<(Tensor, Tensor)> {
        let whole = Tensor::full([6, 9], 7, dtype)?;
        let part = whole.narrow(1, 2, 4)?.t()?;
        Ok((whole, part))
    };
    for dtype in [DType::F32, DType::F16, DType::F64, DType::C64] {
        let (whole, out) = to(dtype)?;
        a.add_into(&b, &out)?;
        assert_eq!(bits(&out), bits(&a.add(&b)?.to_dtype(dtype)?), "{dtype}");
        assert_eq!(whole.item_at(&[0, 1])?.to_f64(), 7.0);
        a.tanh_into(&out)?;
        assert_eq!(bits(&out), bits(&a.tanh()?.to_dtype(dtype)?), "{dtype}");
        a.ge_into(0.25, &out)?;
        assert_eq!(bits(&out), bits(&a.ge(0.25)?.to_dtype(dtype)?), "{dtype}");
    }
    let ints = Tensor::new([[1i64, -2, 3]])?;
    let out = Tensor::zeros([1, 3], DType::F32)?;
    ints.exp_into(&out)?;
    assert_eq!(bits(&out), bits(&ints.exp()?));
    ints.floor_into(&out)?;
    assert_eq!(out.to_vec::<f32>()?, [1.0, -2.0, 3.0]);
    ints.div_into(2, &out)?;
    assert_eq!(out.to_vec::<f32>()?, [0.5, -1.0, 1.5]);

    let (whole, out) = (Tensor::zeros([4, 3], DType::F32)?, Tensor::zeros([4], DType::I64)?);
    a.mean_into(1, false, &whole.select(1, 1)?)?;
    assert_eq!(bits(&whole.select(1, 1)?), bits(&a.mean(1, false)?));
    a.argmax_into(1, false, &out)?;
    assert_eq!(bits(&out), bits(&a.argmax(1, false)?));
    let bytes = Tensor::new([[0u8, 2], [0, 0]])?;
    let any = Tensor::full([2], 9, DType::U8)?;
    bytes.any_into(1, false, &any)?;
    assert_eq!(any.to_vec::<u8>()?, [1, 0]);

    for (left, right) in [
        (vec![4usize, 6], vec![6usize, 5]),
        (vec![6], vec![6, 5]),
        (vec![4, 6], vec![6]),
        (vec![6], vec![6]),
        (vec![2, 3, 4, 6], vec![6, 5]),
        (vec![2, 1, 4, 6], vec![3, 6, 5]),
        (vec![2, 4, 6], vec![6]),
    ] {
        let (a, b) = (g.randn(&left[..], DType::F32)?, g.randn(&right[..], DType::F32)?);
        let want = a.matmul(&b)?;
        let out = Tensor::zeros(want.shape(), DType::F32)?;
        a.matmul_into(&b, &out)?;
        assert_eq!(bits(&out), bits(&want), "{left:?} {right:?}");
        // With gaps between rows.
        let mut wide = want.dims().to_vec();
        wide.push(2);
        let out = Tensor::zeros(wide, DType::F32)?.select(-1, 1)?;
        a.matmul_into(&b, &out)?;
        assert_eq!(bits(&out), bits(&want), "{left:?} {right:?}");
    }
    let square = g.randn([5, 5], DType::F32)?;
    let want = square.matmul(&square)?;
    square.matmul_into(&square, &square)?;
    assert_eq!(bits(&square), bits(&want));
    Ok(())
}

#[test]
fn operators_write_in_place() -> Result<()> {
    let mut x = Tensor::new([1.0f32, 2.0])?;
    let view = x.narrow(0, 1, 1)?;
    x += 1;
    x *= &Tensor::new([2.0f32, 10.0])?;
    x -= Scalar::Float(0.5);
    x /= 0.5;
    assert_eq!(view.to_vec::<f32>()?, [59.0]);
    Ok(())
}

#[test]
#[should_panic(expected = "add: sizes 2 and 3")]
fn assigning_operators_panic_with_the_error() {
    let mut x = Tensor::zeros([2], DType::F32).unwrap();
    x += &Tensor::zeros([3], DType::F32).unwrap();
}
