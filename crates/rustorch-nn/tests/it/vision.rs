//! Padding, and sampling at points of a grid, with gradients, against PyTorch's.
//!
//! The fixture was made by `tools/oracle/torch_nn_functional.py` with PyTorch 2.

use crate::common::{Case, check};
use rustorch_nn::PaddingMode;
use rustorch_nn::functional::{self as F, GridSampleMode, GridSampleOptions, GridSamplePadding};
use rustorch_tensor::{DType, Result, Tensor};

fn call(case: &Case<'_>, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
    let x = &inputs[0];
    let integers = |key: &str| -> Vec<isize> {
        case.args[key].as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as isize).collect()
    };
    let y = match case.op {
        "pad" => {
            let mode = match case.text("mode") {
                "constant" => PaddingMode::Zeros,
                "reflect" => PaddingMode::Reflect,
                "replicate" => PaddingMode::Replicate,
                "circular" => PaddingMode::Circular,
                other => panic!("mode {other}"),
            };
            F::pad(x, &integers("pad"), mode, case.args["value"].as_f64())?
        }
        "grid_sample" => {
            let mode = match case.text("mode") {
                "bilinear" => GridSampleMode::Linear,
                "nearest" => GridSampleMode::Nearest,
                "bicubic" => GridSampleMode::Bicubic,
                other => panic!("mode {other}"),
            };
            let padding = match case.text("padding_mode") {
                "zeros" => GridSamplePadding::Zeros,
                "border" => GridSamplePadding::Border,
                "reflection" => GridSamplePadding::Reflection,
                other => panic!("padding {other}"),
            };
            let options = GridSampleOptions { mode, padding, align_corners: case.flag("align_corners") };
            F::grid_sample(x, &inputs[1], options)?
        }
        "affine_grid" => {
            let size: Vec<usize> = integers("size").into_iter().map(|n| n as usize).collect();
            F::affine_grid(x, &size, case.flag("align_corners"))?
        }
        other => panic!("no function {other}"),
    };
    Ok([y.clone(), y])
}

#[test]
fn results_and_gradients_equal_pytorch() {
    check("vision.jsonl", call);
}

#[test]
fn points_that_are_no_numbers_or_far_away_are_outside() -> Result<()> {
    let x = Tensor::ones([1, 1, 3, 3], DType::F32)?;
    let grid = Tensor::new([[[[f32::NAN, 0.0], [f32::INFINITY, 0.0], [-1e30, 1e30], [0.0, 0.0]]]])?;
    for mode in [GridSampleMode::Linear, GridSampleMode::Nearest, GridSampleMode::Bicubic] {
        let y = F::grid_sample(&x, &grid, GridSampleOptions { mode, ..GridSampleOptions::default() })?;
        assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 0.0, 1.0], "{mode:?}");
        // Elsewhere they may be anything, but no index is out of range.
        for padding in [GridSamplePadding::Border, GridSamplePadding::Reflection] {
            F::grid_sample(&x, &grid, GridSampleOptions { mode, padding, align_corners: true })?
                .to_vec::<f32>()?;
        }
    }
    Ok(())
}
