//! The trainings of the oracle, line by line.

use super::data::{BATCH, Fixture, integers, rows, uniform};
use rustorch_nn::functional::binary_cross_entropy_with_logits;
use rustorch_nn::optim::schedule::{CosineAnnealingLR, Scheduler};
use rustorch_nn::optim::{
    Adam, AdamOptions, AdamW, AdamWOptions, RMSprop, RMSpropOptions, SGD, SGDOptions, clip_grad_norm_,
};
use rustorch_nn::{
    Conv2d, Conv2dOptions, Embedding, Flatten, LSTM, Layer, LayerNorm, Linear, MaxPool2d, Module, RNNOptions,
    Sequential,
};
use rustorch_tensor::{DType, Reduction, Result, Tensor};

/// What follows the backward pass: clipping, the step, and that of a schedule.
pub(crate) type Update<M> = Box<dyn FnMut(&M) -> Result<()>>;

/// A model with its data and its optimizer.
pub(crate) trait Training: Sized {
    const NAME: &'static str;
    type Model: Module;

    fn new(fixture: &Fixture) -> Result<Self>;
    fn model(&self) -> &Self::Model;
    fn loss(&self, step: usize, dtype: DType) -> Result<Tensor>;
    fn optimizer(&self) -> Result<Update<Self::Model>>;
}

pub(crate) struct Mlp(Sequential, [Tensor; 2]);

/// The mean loss of a classifier.
fn classify(model: &Sequential, [x, y]: &[Tensor; 2], step: usize, dtype: DType) -> Result<Tensor> {
    model.forward(&rows(x, step)?.to_dtype(dtype)?)?.cross_entropy(&rows(y, step)?, &Default::default())
}

impl Training for Mlp {
    const NAME: &'static str = "Mlp";
    type Model = Sequential;

    fn new(_: &Fixture) -> Result<Mlp> {
        let model =
            Sequential::new().push(Linear::new(16, 32)?).push(Tensor::relu).push(Linear::new(32, 10)?);
        Ok(Mlp(model, [uniform(1, [64, 16])?, integers(2, 10.0, [64])?]))
    }

    fn model(&self) -> &Sequential {
        &self.0
    }

    fn loss(&self, step: usize, dtype: DType) -> Result<Tensor> {
        classify(&self.0, &self.1, step, dtype)
    }

    fn optimizer(&self) -> Result<Update<Sequential>> {
        let optimizer = Adam::new(&self.0, AdamOptions { lr: 3e-3, ..Default::default() })?;
        Ok(Box::new(move |_| optimizer.step()))
    }
}

pub(crate) struct LeNet(Sequential, [Tensor; 2]);

impl Training for LeNet {
    const NAME: &'static str = "LeNet";
    type Model = Sequential;

    fn new(_: &Fixture) -> Result<LeNet> {
        let convolutions = Sequential::new()
            .push(Conv2d::with(1, 6, 5, Conv2dOptions::default().padding(2))?)
            .push(Tensor::relu)
            .push(MaxPool2d::new(2))
            .push(Conv2d::new(6, 16, 5)?)
            .push(Tensor::relu)
            .push(MaxPool2d::new(2));
        let model = convolutions.push(Flatten::default()).push(Linear::new(64, 32)?).push(Tensor::relu);
        let data = [uniform(3, [64, 1, 16, 16])?, integers(4, 10.0, [64])?];
        Ok(LeNet(model.push(Linear::new(32, 10)?), data))
    }

    fn model(&self) -> &Sequential {
        &self.0
    }

    fn loss(&self, step: usize, dtype: DType) -> Result<Tensor> {
        classify(&self.0, &self.1, step, dtype)
    }

    fn optimizer(&self) -> Result<Update<Sequential>> {
        let options = SGDOptions { lr: 0.02, momentum: 0.9, ..Default::default() };
        let optimizer = SGD::new(&self.0, options)?;
        Ok(Box::new(move |_| optimizer.step()))
    }
}

/// The mean loss of predicting each character of a text by those before it.
fn predict(model: &dyn Layer, text: &Tensor, step: usize) -> Result<Tensor> {
    let text = rows(text, step)?;
    let logits = model.forward(&text.narrow(1, 0, 10)?)?;
    let target = text.narrow(1, 1, 10)?.reshape([-1])?;
    logits.reshape([-1, 12])?.cross_entropy(&target, &Default::default())
}

#[derive(Module)]
pub(crate) struct LstmModel {
    embedding: Embedding,
    lstm: LSTM,
    out: Linear,
}

impl Layer for LstmModel {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.lstm.forward(&self.embedding.forward(x)?, None)?.0)
    }
}

pub(crate) struct Lstm(LstmModel, Tensor);

impl Training for Lstm {
    const NAME: &'static str = "Lstm";
    type Model = LstmModel;

    fn new(_: &Fixture) -> Result<Lstm> {
        let model = LstmModel {
            embedding: Embedding::new(12, 8, DType::F32)?,
            lstm: LSTM::with(8, 16, RNNOptions::default().batch_first(true))?,
            out: Linear::new(16, 12)?,
        };
        Ok(Lstm(model, integers(5, 12.0, [64, 11])?))
    }

    fn model(&self) -> &LstmModel {
        &self.0
    }

    fn loss(&self, step: usize, _: DType) -> Result<Tensor> {
        predict(&self.0, &self.1, step)
    }

    fn optimizer(&self) -> Result<Update<LstmModel>> {
        let optimizer = RMSprop::new(&self.0, RMSpropOptions { lr: 2e-3, ..Default::default() })?;
        Ok(Box::new(move |model| {
            clip_grad_norm_(model, 0.1, 2.0)?;
            optimizer.step()
        }))
    }
}

#[derive(Module)]
struct Block {
    ln_1: LayerNorm,
    ln_2: LayerNorm,
    attn: Linear,
    proj: Linear,
    fc: Linear,
    out: Linear,
}

impl Block {
    fn new() -> Result<Block> {
        let norm = || LayerNorm::new([16], 1e-5, DType::F32);
        Ok(Block {
            ln_1: norm()?,
            ln_2: norm()?,
            attn: Linear::new(16, 48)?,
            proj: Linear::new(16, 16)?,
            fc: Linear::new(16, 64)?,
            out: Linear::new(64, 16)?,
        })
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length) = (x.dims()[0], x.dims()[1]);
        let attn = self.attn.forward(&self.ln_1.forward(x)?)?;
        let heads = |i: usize| attn.narrow(-1, 16 * i, 16)?.reshape([batch, length, 2, 8])?.transpose(1, 2);
        let y = Tensor::scaled_dot_product_attention(&heads(0)?, &heads(1)?, &heads(2)?, None, true, None)?;
        let x = x + &self.proj.forward(&y.transpose(1, 2)?.reshape([batch, length, 16])?)?;
        let y = self.fc.forward(&self.ln_2.forward(&x)?)?.gelu()?;
        Ok(&x + &self.out.forward(&y)?)
    }
}

#[derive(Module)]
pub(crate) struct GptModel {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
    head: Linear,
}

impl Layer for GptModel {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = self.wte.forward(x)? + self.wpe.forward(&Tensor::arange(0, 10, 1)?)?;
        for block in &self.h {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.ln_f.forward(&x)?)
    }
}

pub(crate) struct Gpt(GptModel, Tensor);

impl Training for Gpt {
    const NAME: &'static str = "Gpt";
    type Model = GptModel;

    fn new(_: &Fixture) -> Result<Gpt> {
        let model = GptModel {
            wte: Embedding::new(12, 16, DType::F32)?,
            wpe: Embedding::new(10, 16, DType::F32)?,
            h: vec![Block::new()?, Block::new()?],
            ln_f: LayerNorm::new([16], 1e-5, DType::F32)?,
            head: Linear::new(16, 12)?,
        };
        Ok(Gpt(model, integers(6, 12.0, [64, 11])?))
    }

    fn model(&self) -> &GptModel {
        &self.0
    }

    fn loss(&self, step: usize, _: DType) -> Result<Tensor> {
        predict(&self.0, &self.1, step)
    }

    fn optimizer(&self) -> Result<Update<GptModel>> {
        let options = AdamWOptions { lr: 2e-3, weight_decay: 0.1, ..Default::default() };
        let optimizer = AdamW::new(&self.0, options)?;
        let scheduler = Scheduler::new(CosineAnnealingLR::new(200, 0.0)?, &optimizer)?;
        Ok(Box::new(move |_| {
            optimizer.step()?;
            scheduler.step(&optimizer)
        }))
    }
}

/// Kingma, Welling: *Auto-Encoding Variational Bayes*, 2014.
#[derive(Module)]
pub(crate) struct VaeModel {
    encoder: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: Linear,
    out: Linear,
}

pub(crate) struct Vae {
    model: VaeModel,
    x: Tensor,
    noise: Tensor,
}

impl Training for Vae {
    const NAME: &'static str = "Vae";
    type Model = VaeModel;

    fn new(fixture: &Fixture) -> Result<Vae> {
        let model = VaeModel {
            encoder: Linear::new(16, 24)?,
            mean: Linear::new(24, 4)?,
            log_variance: Linear::new(24, 4)?,
            decoder: Linear::new(4, 24)?,
            out: Linear::new(24, 16)?,
        };
        Ok(Vae { model, x: uniform(7, [64, 16])?, noise: fixture.noise()? })
    }

    fn model(&self) -> &VaeModel {
        &self.model
    }

    fn loss(&self, step: usize, dtype: DType) -> Result<Tensor> {
        let (model, x) = (&self.model, rows(&self.x, step)?.to_dtype(dtype)?);
        let hidden = model.encoder.forward(&x)?.tanh()?;
        let (mean, log_variance) = (model.mean.forward(&hidden)?, model.log_variance.forward(&hidden)?);
        let noise = self.noise.select(0, step as isize)?.to_dtype(dtype)?;
        let z = &mean + &(noise * (&log_variance * 0.5).exp()?);
        let logits = model.out.forward(&model.decoder.forward(&z)?.tanh()?)?;
        let divergence =
            ((&log_variance + 1.0) - mean.square()? - log_variance.exp()?).sum_all()?.mul(-0.5)?;
        let reconstruction = binary_cross_entropy_with_logits(&logits, &x, None, None, Reduction::Sum)?;
        (reconstruction + divergence).div(BATCH as f64)
    }

    fn optimizer(&self) -> Result<Update<VaeModel>> {
        let optimizer = Adam::new(&self.model, AdamOptions { lr: 3e-3, ..Default::default() })?;
        Ok(Box::new(move |_| optimizer.step()))
    }
}
