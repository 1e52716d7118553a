//! `embed`: texts as vectors.

use crate::args::{EmbedArgs, VectorFormat};
use crate::backend::Backend;
use crate::failure::Failure;
use crate::model::{self, progress_bar};
use crate::{input, output};
use rustorch::DType;
use rustorch::llm::LanguageModel;
use rustorch::llm::embedding::{Normalization, normalize};
use rustorch::llm::model::Pooling;
use rustorch::llm::tokenizer::EncodeOptions;
use rustorch::numpy::Array;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// The vectors of all texts, row after row.
struct Vectors {
    values: Vec<f32>,
    width: usize,
    /// How many rows each text has; with pooling one.
    rows: Vec<usize>,
    is_pooled: bool,
    /// How many tokens all texts have.
    tokens: usize,
}

pub(crate) fn run(args: &EmbedArgs) -> Result<(), Failure> {
    let format = if args.json { VectorFormat::Json } else { args.format };
    if matches!(format, VectorFormat::Raw | VectorFormat::Npy)
        && args.output.is_none()
        && io::stdout().is_terminal()
    {
        return Err(Failure::Usage("a terminal shows no binary output: give a file by --output".into()));
    }
    let texts = input::lines_or(&args.texts, args.file.as_deref(), "TEXT")?;
    let backend = Backend::new(&args.device)?;
    let (model, vectors) = backend.executor.scope(|| {
        let model = model::load(&args.model, &backend, &args.device)?;
        let vectors = embed(&model, &texts, args)?;
        Ok::<_, Failure>((model, vectors))
    })?;
    let bytes = vectors.encoded(format, &model)?;
    match &args.output {
        Some(path) => output::file(path, |out| out.write_all(&bytes)),
        None => Ok(io::stdout().lock().write_all(&bytes)?),
    }
}

fn embed(model: &LanguageModel, texts: &[String], args: &EmbedArgs) -> Result<Vectors, Failure> {
    let pooling = args.pooling.map_or(model.model().pooling(), Pooling::from);
    // Scores stay what they are.
    let normalization = if pooling == Pooling::Rank { Normalization::None } else { args.normalize };
    let encode = EncodeOptions { add_special: true, parse_special: !args.no_special };
    let is_pooled = pooling != Pooling::None;
    let mut all = Vectors { values: Vec::new(), width: 0, rows: Vec::new(), is_pooled, tokens: 0 };
    let bar = progress_bar("embedding {bar:32} {pos}/{len} texts");
    bar.set_length(texts.len() as u64);
    for (number, text) in (1..).zip(texts) {
        let embedding = model.embed(text, pooling, encode).map_err(|error| match Failure::from(error) {
            // Which of many texts it is.
            Failure::Other(message) if texts.len() > 1 => Failure::Other(format!("text {number}: {message}")),
            failure => failure,
        })?;
        all.width = embedding.vectors.dims()[1];
        all.rows.push(embedding.vectors.dims()[0]);
        all.tokens += embedding.tokens;
        let mut values = embedding.vectors.to_vec::<f32>()?;
        values.chunks_mut(all.width).for_each(|row| normalize(row, normalization));
        all.values.append(&mut values);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Vectors {
    fn encoded(&self, format: VectorFormat, model: &LanguageModel) -> Result<Vec<u8>, Failure> {
        let raw = || self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        match format {
            VectorFormat::Text => Ok(self.text().into_bytes()),
            VectorFormat::Json => Ok((self.json(model)? + "\n").into_bytes()),
            VectorFormat::Raw => Ok(raw()),
            VectorFormat::Npy => {
                let shape = [self.values.len() / self.width, self.width];
                let array = Array::new(&shape, DType::F32, raw()).and_then(|array| array.to_bytes());
                array.map_err(|error| Failure::Other(error.to_string()))
            }
        }
    }

    fn text(&self) -> String {
        let line = |row: &[f32]| {
            let values: Vec<String> = row.iter().map(|value| format!("{value:.7}")).collect();
            values.join(" ") + "\n"
        };
        self.values.chunks(self.width).map(line).collect()
    }

    fn json(&self, model: &LanguageModel) -> Result<String, Failure> {
        let mut rest = self.values.chunks(self.width);
        let data = self.rows.iter().enumerate().map(|(index, &rows)| {
            let vectors: Vec<&[f32]> = rest.by_ref().take(rows).collect();
            let embedding =
                if self.is_pooled { OfText::Pooled(vectors[0]) } else { OfText::OfTokens(vectors) };
            Entry { object: "embedding", index, embedding }
        });
        let tokens = self.tokens;
        Ok(serde_json::to_string(&Answer {
            object: "list",
            model: model.name().unwrap_or("unnamed"),
            data: data.collect(),
            usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
        })?)
    }
}

/// The answer of OpenAI's API.
#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    model: &'a str,
    data: Vec<Entry<'a>>,
    usage: Usage,
}

#[derive(Serialize)]
struct Entry<'a> {
    object: &'static str,
    index: usize,
    embedding: OfText<'a>,
}

/// A vector, or without pooling, as llama.cpp's server has it, a list of them.
#[derive(Serialize)]
#[serde(untagged)]
enum OfText<'a> {
    Pooled(&'a [f32]),
    OfTokens(Vec<&'a [f32]>),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}
