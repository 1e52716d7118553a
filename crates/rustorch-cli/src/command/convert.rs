//! `convert`: a folder of Hugging Face's `transformers` as a GGUF file.

use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::model::progress_bar;
use crate::output;
use rustorch::llm::convert::{Conversion, ConvertError, ConvertOptions};
use rustorch::{DType, QuantType, gguf};
use std::path::Path;

pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let options =
        ConvertOptions { dtype: args.outtype.0, name: args.name.clone(), pre_tokenizer: args.pre.clone() };
    let conversion = open(&args.folder, &options, args.no_mmap)?;
    let bar = progress_bar("converting {bar:32} {pos}/{len} tensors");
    let done = conversion.write(&args.target, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    done.map_err(failure)?;
    output::line(format_args!("{}: {} tensors", args.target.display(), conversion.tensors().len()))
}

/// The model of a folder, converted in memory.
pub(crate) fn load(folder: &Path, no_mmap: bool) -> Result<gguf::File, Failure> {
    let conversion = open(folder, &ConvertOptions::default(), no_mmap)?;
    let bar = progress_bar("converting {bar:32} {pos}/{len} tensors");
    let file = conversion.to_gguf(&|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    file.map_err(failure)
}

fn open(folder: &Path, options: &ConvertOptions, no_mmap: bool) -> Result<Conversion, Failure> {
    let conversion = match no_mmap {
        true => Conversion::open(folder, options),
        // SAFETY: that the files stay as they are while the program runs is asked of who starts it, by `--no-mmap`'s help.
        false => unsafe { Conversion::open_mapped(folder, options) },
    };
    conversion.map_err(failure)
}

fn failure(error: ConvertError) -> Failure {
    match error {
        ConvertError::Gguf(_) => Failure::Other(error.to_string()),
        ConvertError::DType(_) => Failure::Usage(error.to_string()),
        _ => Failure::Model(error.to_string()),
    }
}

/// The dtype of matrices; none is that of the folder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutType(pub(crate) Option<DType>);

/// A dtype that `convert` writes, by llama.cpp's name.
pub(crate) fn outtype(text: &str) -> Result<OutType, String> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => Ok(OutType(None)),
        "f32" => Ok(OutType(Some(DType::F32))),
        "f16" => Ok(OutType(Some(DType::F16))),
        "bf16" => Ok(OutType(Some(DType::BF16))),
        "q8_0" => Ok(OutType(Some(DType::Quant(QuantType::Q8_0)))),
        _ => Err("is none of auto, f32, f16, bf16, q8_0".into()),
    }
}
