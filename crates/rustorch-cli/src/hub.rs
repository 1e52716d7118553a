//! Models of Hugging Face's hub.

use crate::failure::Failure;
use crate::model::progress_bar;
use crate::output;
use rustorch_hub::{Error, Hub, ModelName};
use std::path::PathBuf;

/// Makes a model be in the cache, and gives its file, or all its parts.
pub(crate) fn pull(name: &ModelName) -> Result<Vec<PathBuf>, Failure> {
    let failure = |error: Error| Failure::Model(error.to_string());
    let hub = Hub::from_env().map_err(failure)?;
    let bar = progress_bar("{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left");
    let mut named = String::new();
    let pulled = hub.pull(name, &mut |progress| {
        if named != progress.file {
            named = progress.file.to_owned();
            let file = output::escaped(progress.file);
            if bar.is_hidden() {
                output::note(format_args!("downloading {file} ({})", output::bytes(progress.total)));
            }
            bar.set_message(file);
            bar.set_length(progress.total);
        }
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let pulled = pulled.map_err(failure)?;
    match pulled.unreachable {
        // Whoever builds without it knows, and has put the model there by another program.
        None | Some(Error::NoHttps { .. }) => {}
        Some(error) => output::note(format_args!("warning: {error}; the model in the cache is used")),
    }
    Ok(pulled.files)
}
