//! Opening models.

use crate::args::{DeviceArgs, ModelArgs};
use crate::backend::Backend;
use crate::command::convert;
use crate::failure::Failure;
use crate::{hub, memory, output};
use indicatif::{ProgressBar, ProgressStyle};
use rustorch::gguf;
use rustorch::llm::LanguageModel;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Data at an address fit for every dtype, so that tensors need no copy.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static EMBEDDED: &Aligned<[u8]> = &Aligned(*include_bytes!("../assets/shakespeare.gguf"));

/// What the program calls the embedded model.
pub(crate) const EMBEDDED_NAME: &str = "the embedded model";

/// Opens a file, a folder of Hugging Face's `transformers`, or the embedded model.
pub(crate) fn open_file(path: Option<&Path>, read: bool) -> Result<gguf::File, Failure> {
    let file = match path {
        None => gguf::File::from_bytes(&EMBEDDED.0),
        Some(path) if path.is_dir() => return convert::load(path, read),
        Some(path) if read => gguf::File::open(path),
        // SAFETY: that the file stays as it is while the program runs is asked of who starts it, by `--no-mmap`'s help.
        Some(path) => unsafe { gguf::File::open_mapped(path) },
    };
    file.map_err(|e| Failure::Model(e.to_string()))
}

/// The file that the options name, which the hub gives first where they name one of its models; `None` is the embedded model.
pub(crate) fn path(args: &ModelArgs) -> Result<Option<PathBuf>, Failure> {
    match &args.hf_repo {
        Some(name) => hub::pull(name).map(|files| files.into_iter().next()),
        None => Ok(args.model.clone()),
    }
}

/// Opens the file that the options name.
pub(crate) fn open(args: &ModelArgs) -> Result<gguf::File, Failure> {
    open_file(path(args)?.as_deref(), args.no_mmap)
}

/// Loads a model, and puts it where the options want it; on a terminal, with a progress bar where it takes a while.
pub(crate) fn load(
    args: &ModelArgs,
    backend: &Backend,
    device: &DeviceArgs,
) -> Result<Arc<LanguageModel>, Failure> {
    let path = path(args)?;
    let read = args.no_mmap || !args.mmap && backend.computes_on_cpu() && fits_well(path.as_deref());
    let file = open_file(path.as_deref(), read)?;
    let bar = progress_bar("loading {bar:32} {pos}/{len} tensors");
    let model = LanguageModel::from_file(file, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let name = path.map_or(EMBEDDED_NAME.to_owned(), |path| path.display().to_string());
    let mut model = model.map_err(|e| match e.to_string() {
        // Errors of files name them.
        message if message.contains(&name) => Failure::Model(message),
        message => Failure::Model(format!("{name}: {message}")),
    })?;
    backend.place(&mut model, device)?;
    Ok(Arc::new(model))
}

/// Whether a model may be read into huge pages, from which the CPU streams weights faster than from a mapped file: it takes less than
/// half of the memory that is free. A larger one is mapped, so that the system can drop parts of it.
fn fits_well(path: Option<&Path>) -> bool {
    cfg!(target_os = "linux")
        && match (path.and_then(size), memory::available()) {
            (Some(size), Some(free)) => size < free / 2,
            _ => false,
        }
}

/// The bytes of a file, of a folder's files, or about those of a split file's parts.
fn size(path: &Path) -> Option<u64> {
    let metadata = path.metadata().ok()?;
    if metadata.is_dir() {
        let files = path.read_dir().ok()?.filter_map(|entry| entry.ok()?.metadata().ok());
        return Some(files.map(|file| file.len()).sum());
    }
    let parts = path.file_stem()?.to_str()?.rsplit_once("-of-").and_then(|(_, count)| count.parse().ok());
    Some(metadata.len().saturating_mul(parts.unwrap_or(1)))
}

/// A progress bar on a terminal, and nothing elsewhere.
pub(crate) fn progress_bar(template: &str) -> ProgressBar {
    if !output::has_escapes(&std::io::stderr()) {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    // Templates are constants of ours; a mistake in one shows in every test on a terminal.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
