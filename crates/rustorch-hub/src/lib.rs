//! Model files from Hugging Face's hub: which files of a repository are meant, downloads that go on where they broke off and are verified, and the
//! cache that `huggingface_hub`, `llama.cpp` and others share.
//!
//! ```no_run
//! use rustorch_hub::{Hub, ModelName};
//!
//! let hub = Hub::from_env()?;
//! let name: ModelName = "ggml-org/gemma-3-1b-it-GGUF:Q8_0".parse()?;
//! let pulled = hub.pull(&name, &mut |progress| println!("{}: {} of {}", progress.file, progress.done, progress.total))?;
//! println!("{}", pulled.files[0].display());
//! # Ok::<(), rustorch_hub::Error>(())
//! ```
//!
//! A download is written to `blobs/HASH.incomplete`, and gets its final name when all of it is there and has the hash that the hub names. So no
//! reader ever sees half a file, and whoever pulls again, in this process or another, goes on with what is there.
//!
//! HTTPS takes the Cargo feature `https`; without it, files that are in the cache and hubs at `http://` addresses can be used.

mod cache;
mod client;
mod download;
mod error;
mod hub;
mod name;
mod url;

pub use download::Progress;
pub use error::{Error, Result};
pub use hub::{Hub, HubOptions, Pulled};
pub use name::ModelName;
