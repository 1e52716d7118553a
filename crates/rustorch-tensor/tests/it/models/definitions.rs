//! Models written as plain functions, which `tools/oracle/torch_models.py` has as well.

use rustorch_tensor::autograd::{self, GradOptions, checkpoint, grad};
use rustorch_tensor::{ConvOptions, DType, MaxPoolOptions, Result, Tensor};

/// Numbers that need no random generator: those of one tensor after the other.
pub(crate) struct Numbers {
    pub(crate) count: usize,
    pub(crate) dtype: DType,
}

impl Numbers {
    pub(crate) fn next(&mut self, dims: &[usize], scale: f64) -> Result<Tensor> {
        self.count += 1;
        let n: usize = dims.iter().product();
        let values = (0..n).map(|i| (i as f64 * 1.37 + self.count as f64).sin() * scale).collect::<Vec<_>>();
        Tensor::from_vec(values, dims)?.to_dtype(self.dtype)
    }
}

pub(crate) type Loss = fn(&[Tensor], &Tensor, &Tensor) -> Result<Tensor>;

/// A model, an input and classes.
pub(crate) struct Model {
    pub(crate) loss: Loss,
    pub(crate) parameters: Vec<Tensor>,
    pub(crate) x: Tensor,
    pub(crate) y: Tensor,
}

impl Model {
    pub(crate) fn new(
        loss: Loss,
        shapes: &[&[usize]],
        dtype: DType,
        x: impl FnOnce(&mut Numbers) -> Result<Tensor>,
        y: Tensor,
    ) -> Result<Model> {
        let mut numbers = Numbers { count: 0, dtype };
        let parameters = shapes
            .iter()
            .map(|dims| {
                let columns: usize = dims[1..].iter().product();
                let scale = if dims.len() > 1 { 1.0 / (columns as f64).sqrt() } else { 0.1 };
                let parameter = numbers.next(dims, scale)?;
                parameter.requires_grad_(true)?;
                Ok(parameter)
            })
            .collect::<Result<_>>()?;
        Ok(Model { loss, parameters, x: x(&mut numbers)?, y })
    }

    pub(crate) fn loss(&self) -> Result<Tensor> {
        (self.loss)(&self.parameters, &self.x, &self.y)
    }

    /// A step of gradient descent; the loss before.
    pub(crate) fn step(&self, rate: f64) -> Result<f64> {
        let loss = self.loss()?;
        let parameters: Vec<&Tensor> = self.parameters.iter().collect();
        let grads = grad(&[&loss], &parameters, &[], GradOptions::default())?;
        for (parameter, grad) in parameters.iter().zip(grads) {
            autograd::no_grad(|| parameter.sub_(&grad.expect("every parameter is used").mul(rate)?))?;
        }
        loss.item().map(|loss| loss.to_f64())
    }
}

pub(crate) fn nll(logits: &Tensor, y: &Tensor) -> Result<Tensor> {
    logits.log_softmax(-1)?.gather(-1, &y.unsqueeze(-1)?)?.neg()?.mean_all()
}

pub(crate) fn tokens(n: usize, most: usize) -> Result<Tensor> {
    Tensor::from_vec((0..n).map(|i| ((i * i * 7 + 3 * i) % most) as i64).collect::<Vec<_>>(), [n])
}

pub(crate) fn mlp(dtype: DType) -> Result<Model> {
    let loss: Loss = |p, x, y| {
        let x = x.linear(&p[0], Some(&p[1]))?.relu()?;
        let x = x.linear(&p[2], Some(&p[3]))?.relu()?;
        nll(&x.linear(&p[4], Some(&p[5]))?, y)
    };
    let shapes: [&[usize]; 6] = [&[256, 784], &[256], &[256, 256], &[256], &[10, 256], &[10]];
    Model::new(loss, &shapes, dtype, |numbers| numbers.next(&[32, 784], 1.0), tokens(32, 10)?)
}

pub(crate) fn lenet(dtype: DType) -> Result<Model> {
    let loss: Loss = |p, x, y| {
        let pooled = |x: Tensor| x.relu()?.max_pool2d(2, &MaxPoolOptions::new());
        let x = pooled(x.conv2d(&p[0], Some(&p[1]), &ConvOptions::new().padding(2))?)?;
        let x = pooled(x.conv2d(&p[2], Some(&p[3]), &ConvOptions::new())?)?;
        let x = x.flatten(1, -1)?.linear(&p[4], Some(&p[5]))?.relu()?;
        let x = x.linear(&p[6], Some(&p[7]))?.relu()?;
        nll(&x.linear(&p[8], Some(&p[9]))?, y)
    };
    let shapes: [&[usize]; 10] = [
        &[6, 1, 5, 5],
        &[6],
        &[16, 6, 5, 5],
        &[16],
        &[120, 400],
        &[120],
        &[84, 120],
        &[84],
        &[10, 84],
        &[10],
    ];
    Model::new(loss, &shapes, dtype, |numbers| numbers.next(&[8, 1, 28, 28], 1.0), tokens(8, 10)?)
}

pub(crate) const LAYERS: usize = 4;
pub(crate) const WIDTH: usize = 64;
pub(crate) const HEADS: usize = 4;
pub(crate) const LENGTH: usize = 32;
pub(crate) const VOCABULARY: usize = 96;

fn block(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let batch = x.dims()[0];
    let norm =
        |x: &Tensor, weight: &Tensor, bias| x.layer_norm([WIDTH], Some(&weight.add(1)?), Some(bias), 1e-5);
    let qkv = norm(x, &p[0], &p[1])?.linear(&p[2], Some(&p[3]))?.chunk(3, -1)?;
    let heads = |x: &Tensor| x.reshape([batch, LENGTH, HEADS, WIDTH / HEADS])?.transpose(1, 2);
    let (q, k, v) = (heads(&qkv[0])?, heads(&qkv[1])?, heads(&qkv[2])?);
    let h = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None)?;
    let h = h.transpose(1, 2)?.reshape([batch, LENGTH, WIDTH])?;
    let x = x.add(&h.linear(&p[4], Some(&p[5]))?)?;
    let h = norm(&x, &p[6], &p[7])?.linear(&p[8], Some(&p[9]))?.gelu()?;
    x.add(&h.linear(&p[10], Some(&p[11]))?)
}

/// A GPT whose blocks run by a function that is given a block's parameters and its input.
fn gpt_loss(
    p: &[Tensor],
    x: &Tensor,
    y: &Tensor,
    run: impl Fn(&[Tensor], &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut x = p[0].embedding(x)?.add(&p[1])?;
    for layer in 0..LAYERS {
        x = run(&p[2 + 12 * layer..14 + 12 * layer], &x)?;
    }
    let [.., weight, bias, head] = p else { unreachable!("there are such parameters") };
    nll(&x.layer_norm([WIDTH], Some(&weight.add(1)?), Some(bias), 1e-5)?.linear(head, None)?, y)
}

pub(crate) fn gpt(dtype: DType, checkpointed: bool) -> Result<Model> {
    let plain: Loss = |p, x, y| gpt_loss(p, x, y, block);
    let by_checkpoints: Loss = |p, x, y| {
        gpt_loss(p, x, y, |p, x| {
            let inputs: Vec<&Tensor> = p.iter().chain([x]).collect();
            let body = |inputs: &[Tensor]| Ok(vec![block(&inputs[..12], &inputs[12])?]);
            Ok(checkpoint(body, &inputs)?.remove(0))
        })
    };
    let of_block: [&[usize]; 12] = [
        &[WIDTH],
        &[WIDTH],
        &[3 * WIDTH, WIDTH],
        &[3 * WIDTH],
        &[WIDTH, WIDTH],
        &[WIDTH],
        &[WIDTH],
        &[WIDTH],
        &[4 * WIDTH, WIDTH],
        &[4 * WIDTH],
        &[WIDTH, 4 * WIDTH],
        &[WIDTH],
    ];
    let mut shapes: Vec<&[usize]> = vec![&[VOCABULARY, WIDTH], &[LENGTH, WIDTH]];
    (0..LAYERS).for_each(|_| shapes.extend(of_block));
    shapes.extend::<[&[usize]; 3]>([&[WIDTH], &[WIDTH], &[VOCABULARY, WIDTH]]);
    let x = tokens(2 * LENGTH, VOCABULARY)?.reshape([2, LENGTH])?;
    let y = x.flip([0, 1])?;
    Model::new(if checkpointed { by_checkpoints } else { plain }, &shapes, dtype, |_| Ok(x), y)
}
