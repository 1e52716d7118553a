//! `quantize`: a model file whose matrices take fewer bits.

use super::imatrix;
use crate::args::{QuantizeArgs, QuantizeType};
use crate::failure::Failure;
use crate::model::{self, progress_bar};
use crate::output;
use rustorch::DType;
use rustorch::llm::quantize::{ImportanceMatrix, Mixture, Quantization, QuantizeError, QuantizeOptions};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

pub(crate) fn run(args: &QuantizeArgs, verbosity: u8) -> Result<(), Failure> {
    let file = model::open_file(Some(&args.source), args.no_mmap)?;
    if !args.dry_run && !args.keep_split {
        output::refuse_same_file(&args.source, &args.target)?;
    }
    let importance =
        args.imatrix.as_ref().map(ImportanceMatrix::open).transpose().map_err(imatrix::failure)?;
    let options = QuantizeOptions {
        output_dtype: args.output_tensor_type,
        embedding_dtype: args.token_embedding_type,
        by_name: args.tensor_type.clone(),
        pure: args.pure,
        leave_output: args.leave_output_tensor,
        copy: args.mixture == QuantizeType::Copy,
        allow_requantize: args.allow_requantize,
        importance,
        threads: args.threads.and_then(NonZeroUsize::new),
        ..QuantizeOptions::new(match args.mixture {
            QuantizeType::Mixture(mixture) => mixture,
            // Nothing is converted, whatever it is.
            QuantizeType::Copy => Mixture::F32,
        })
    };
    if !args.tensor_type.is_empty() && (options.copy || !options.mixture.dtype().is_quant()) {
        let (name, what) = if options.copy {
            ("COPY", "tensors stay as they are")
        } else {
            (options.mixture.name(), "all matrices get its type")
        };
        output::note(format_args!("--tensor-type has no effect with {name}: {what}"));
    }
    let plan = Quantization::plan(&file, &options).map_err(failure)?;
    if args.dry_run || verbosity > 0 {
        for tensor in plan.tensors() {
            let name = output::escaped(tensor.source.name());
            output::note(format_args!("{name}: {} -> {}", tensor.source.dtype(), tensor.dtype));
        }
    }
    let mut substitutes: BTreeMap<String, usize> = BTreeMap::new();
    for tensor in plan.tensors().iter().filter(|tensor| tensor.is_substitute) {
        *substitutes.entry(tensor.dtype.to_string()).or_default() += 1;
    }
    for (dtype, count) in substitutes {
        let (tensors, they) = if count == 1 { ("tensor has", "it is") } else { ("tensors have", "they are") };
        output::note(format_args!(
            "warning: {count} {tensors} columns that blocks of the type meant do not divide; {they} {dtype} instead"
        ));
    }
    if !args.dry_run {
        let bar = progress_bar("quantizing {bar:32} {pos}/{len} tensors");
        let progress = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let done = match args.keep_split {
            true => plan.write_parts(&args.target, &progress).map(|_| ()),
            false => plan.write(&args.target, &progress),
        };
        bar.finish_and_clear();
        done.map_err(failure)?;
    }
    output::line(summary(&plan))
}

/// One line about the sizes of all tensors before and after.
fn summary(plan: &Quantization<'_>) -> String {
    let sum = |of: fn(&rustorch::llm::quantize::PlannedTensor<'_>) -> usize| -> u64 {
        plan.tensors().iter().map(|tensor| of(tensor) as u64).sum()
    };
    let (before, after) = (sum(|t| t.source.nbytes()), sum(|t| t.nbytes()));
    let values = sum(|t| t.source.numel()).max(1) as f64;
    format!(
        "{} -> {} ({:.2} -> {:.2} bits per weight)",
        output::bytes(before),
        output::bytes(after),
        before as f64 * 8.0 / values,
        after as f64 * 8.0 / values,
    )
}

fn failure(error: QuantizeError) -> Failure {
    match error {
        QuantizeError::File(_) => Failure::Other(error.to_string()),
        QuantizeError::Importance(error) => imatrix::failure(error),
        _ => Failure::Usage(error.to_string()),
    }
}

/// A dtype that a tensor of a file can get, by its name.
pub(crate) fn dtype(text: &str) -> Result<DType, String> {
    let dense = [("F32", DType::F32), ("F16", DType::F16), ("BF16", DType::BF16)];
    let dense = dense.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, dtype)| dtype);
    let quant = || rustorch::QuantType::from_name(text).map(DType::Quant);
    dense.or_else(quant).ok_or_else(|| "is not the name of a type, such as F16, Q8_0 or Q4_K".into())
}

/// `REGEX=TYPE`.
pub(crate) fn by_name(text: &str) -> Result<(String, DType), String> {
    match text.rsplit_once('=') {
        Some((name, of)) if !name.is_empty() => Ok((name.to_owned(), dtype(of)?)),
        _ => Err("is not REGEX=TYPE, such as ffn_down=Q8_0".into()),
    }
}
