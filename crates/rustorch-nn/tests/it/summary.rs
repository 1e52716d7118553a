//! Summaries: what layers compute and keep, by numbers worked out here.

use rustorch_nn::*;
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Result, Tensor};

#[derive(Module)]
struct LeNet {
    features: Sequential,
    hidden: Linear,
    hidden2: Linear,
    out: Linear,
}

impl LeNet {
    fn new() -> Result<LeNet> {
        let features = seq![
            Conv2d::with(1, 6, 5, Conv2dOptions::default().padding(2))?,
            ReLU,
            MaxPool2d::new(2),
            Conv2d::new(6, 16, 5)?,
            ReLU,
            MaxPool2d::new(2),
        ];
        let linear = Linear::new;
        Ok(LeNet { features, hidden: linear(400, 120)?, hidden2: linear(120, 84)?, out: linear(84, 10)? })
    }
}

impl Layer for LeNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.hidden.forward(&self.features.forward(x)?.flatten(1, -1)?)?.relu()?;
        self.out.forward(&self.hidden2.forward(&x)?.relu()?)
    }
}

/// Path, parameters, FLOPs and bytes saved of each row.
fn rows(summary: &Summary) -> Vec<(&str, usize, u64, u64)> {
    summary.rows().iter().map(|row| (row.path.as_str(), row.parameters, row.flops, row.saved_bytes)).collect()
}

#[test]
fn lenet_has_the_numbers_of_its_shapes() -> Result<()> {
    let net = LeNet::new()?;
    let x = Tensor::zeros([2, 1, 28, 28], DType::F32)?;
    let summary = net.summary(&x)?;
    // Elements of a batch of two: activations in front of and behind the pools.
    let (conv1, pool1) = (2 * 6 * 28 * 28, 2 * 6 * 14 * 14);
    let (conv2, pool2) = (2 * 16 * 10 * 10, 2 * 16 * 5 * 5);
    let expected = [
        // The functions `relu`, which keep their results.
        ("", 0, 2 * 120 + 2 * 84, 4 * (2 * 120 + 2 * 84)),
        ("features", 0, 0, 0),
        // A multiplication and an addition for each of 5 · 5 weights and channel; its argument is kept.
        ("features.0", 6 * 25 + 6, 2 * 25 * conv1, 4 * 2 * 28 * 28),
        // Its result is kept, which the pool does not keep again.
        ("features.1", 0, conv1, 4 * conv1),
        // Four comparisons each; 64-bit positions are kept.
        ("features.2", 0, 4 * pool1, 8 * pool1),
        ("features.3", 16 * 6 * 25 + 16, 2 * 6 * 25 * conv2, 4 * pool1),
        ("features.4", 0, conv2, 4 * conv2),
        ("features.5", 0, 4 * pool2, 8 * pool2),
        ("hidden", 400 * 120 + 120, 2 * 2 * 400 * 120, 4 * pool2),
        // Their arguments are what the functions kept.
        ("hidden2", 120 * 84 + 84, 2 * 2 * 120 * 84, 0),
        ("out", 84 * 10 + 10, 2 * 2 * 84 * 10, 0),
    ];
    assert_eq!(
        rows(&summary),
        expected.map(|(path, parameters, flops, saved)| (path, parameters, flops as u64, saved as u64))
    );
    assert_eq!(summary.num_parameters(), 61_706);
    // The graph counts weights as well, but for the first, whose argument needs no gradient.
    let weights = 4 * (16 * 6 * 25 + 400 * 120 + 120 * 84 + 84 * 10);
    let graph = net.forward(&x)?.graph().unwrap();
    assert_eq!(summary.saved_bytes(), graph.saved_bytes() as u64 - weights);
    Ok(())
}

#[test]
fn the_table_is_aligned() -> Result<()> {
    let model = seq![Linear::new(30, 40)?, ReLU, Tensor::sum_all];
    let text = model.summary(&Tensor::zeros([100, 30], DType::F32)?)?.to_string();
    let expected = "\
path   layer       output     parameters    FLOPs     saved
       Sequential  []                  0        0         0
0        Linear    [100, 40]       1,240  240,000  11.7 KiB
1        ReLU      [100, 40]           0    4,000  15.6 KiB
2        Function  []                  0    4,000         0
total                              1,240  248,000  27.3 KiB
";
    assert_eq!(text, expected);
    Ok(())
}

#[test]
fn layers_without_a_size_and_in_boxes_have_their_paths() -> Result<()> {
    #[derive(Module)]
    struct Net {
        first: ReLU,
        list: Vec<Box<dyn Layer>>,
        hooked: Hooked<Linear>,
        last: ReLU,
    }
    impl Layer for Net {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            let x = self.list.iter().try_fold(self.first.forward(x)?, |x, layer| layer.forward(&x))?;
            self.last.forward(&self.hooked.forward(&x)?)
        }
    }
    let net = Net {
        first: ReLU,
        list: vec![Box::new(Linear::new(2, 2)?), Box::new(Sigmoid)],
        hooked: Hooked::new(Linear::new(2, 3)?),
        last: ReLU,
    };
    let summary = net.summary(&Tensor::zeros([1, 2], DType::F32)?)?;
    let paths: Vec<(&str, usize)> =
        rows(&summary).into_iter().map(|(path, parameters, ..)| (path, parameters)).collect();
    assert_eq!(paths, [("", 0), ("first", 0), ("list.0", 6), ("list.1", 0), ("hooked", 9), ("last", 0)]);
    Ok(())
}

#[test]
fn a_layer_that_is_called_twice_has_its_parameters_once() -> Result<()> {
    #[derive(Module)]
    struct Twice(Linear);
    impl Layer for Twice {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            // One that is no member has a row without a path.
            Tanh.forward(&self.0.forward(&self.0.forward(x)?)?)
        }
    }
    let net = Twice(Linear::new(3, 3)?);
    let summary = net.summary(&Tensor::zeros([1, 3], DType::F32)?)?;
    // The second call keeps the result of the first.
    assert_eq!(
        rows(&summary),
        [("", 0, 0, 0), ("0", 12, 18, 12), ("0", 0, 18, 12), ("", 0, summary.rows()[3].flops, 12)]
    );
    assert_eq!((summary.rows()[3].type_name, summary.rows()[3].depth), ("Tanh", 1));
    Ok(())
}

#[test]
fn modules_of_several_arguments_and_results_have_rows() -> Result<()> {
    let layer = TransformerEncoderLayer::new(8, 2)?;
    let x = Tensor::zeros([3, 2, 8], DType::F32)?;
    let summary = layer.summary(&x)?;
    assert_eq!(summary.num_parameters(), layer.num_parameters());
    let attention = summary.rows().iter().find(|row| row.path == "self_attn").unwrap();
    assert_eq!((attention.type_name, attention.parameters), ("MultiheadAttention", 4 * 8 * 8 + 4 * 8));
    let lstm = LSTM::new(8, 4)?;
    let summary = Summary::of(&lstm, || lstm.forward(&x, None).map(|(y, _)| y))?;
    assert_eq!((summary.rows().len(), summary.num_parameters()), (1, lstm.num_parameters()));
    assert_eq!(summary.rows()[0].outputs[0].1.dims(), [3, 2, 4]);
    Ok(())
}

#[test]
fn nothing_is_saved_without_gradients_and_errors_end_the_observation() -> Result<()> {
    let model = seq![Linear::new(2, 2)?, ReLU];
    let x = Tensor::zeros([1, 2], DType::F32)?;
    assert_eq!(no_grad(|| model.summary(&x))?.saved_bytes(), 0);
    let message = model.summary(&Tensor::zeros([1, 3], DType::F32)?).unwrap_err().to_string();
    assert!(message.contains("Linear"), "{message}");
    let panics = seq![|_: &Tensor| -> Result<Tensor> { panic!("on purpose") }];
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.summary(&x))).is_err());
    assert_eq!(model.summary(&x)?.rows().len(), 3);
    // A summary in a summary is one of its own.
    let inner = seq![Tensor::neg];
    let outer = Summary::of(&model, || {
        assert_eq!(inner.summary(&x)?.rows().len(), 2);
        model.forward(&x)
    })?;
    assert_eq!(outer.rows().len(), 3);
    Ok(())
}
