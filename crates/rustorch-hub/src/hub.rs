//! The hub as a whole: what is asked of it, and what the cache answers.

use crate::cache::{RepositoryCache, link};
use crate::client::Client;
use crate::download::{Progress, download};
use crate::{Error, ModelName, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the hub is, and where its files are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubOptions {
    /// Its address.
    pub endpoint: String,
    /// The cache, the folder `hub` of Hugging Face's programs.
    pub cache: PathBuf,
    /// What is shown for files that not everyone may read.
    pub token: Option<String>,
    /// Whether only what is in the cache is given.
    pub offline: bool,
    /// The pause after a broken connection, which doubles each time.
    pub pause: Duration,
}

impl HubOptions {
    /// As the environment says to Hugging Face's programs: `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`; without a token
    /// there, the one that `hf auth login` keeps.
    ///
    /// # Errors
    /// If nothing says where the cache is.
    pub fn from_env() -> Result<HubOptions> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = variable("HF_HOME").map(PathBuf::from);
        let home =
            home.or_else(|| variable("XDG_CACHE_HOME").map(|cache| Path::new(&cache).join("huggingface")));
        let home = home.or_else(|| env::home_dir().map(|home| home.join(".cache/huggingface")));
        let cache = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE")).map(PathBuf::from);
        let cache = cache.or_else(|| home.as_ref().map(|home| home.join("hub"))).ok_or(Error::NoHome)?;
        let kept = match variable("HF_TOKEN_PATH") {
            Some(path) => std::fs::read_to_string(path).ok(),
            None => home.and_then(|home| hf_hub::Cache::new(home.join("hub")).token()),
        };
        let token = variable("HF_TOKEN").or(kept).map(|token| token.trim().to_owned());
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        let offline = variable("HF_HUB_OFFLINE").is_some_and(|value| {
            ["1", "on", "yes", "true"].iter().any(|yes| value.trim().eq_ignore_ascii_case(yes))
        });
        Ok(HubOptions {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache,
            token: token.filter(|token| !token.is_empty()),
            offline,
            pause: Duration::from_secs(1),
        })
    }
}

/// Hugging Face's hub, or another that answers as it does.
pub struct Hub {
    options: HubOptions,
    client: Client,
}

/// A model that is there.
#[derive(Debug)]
pub struct Pulled {
    /// Its file, or all its parts, the first first.
    pub files: Vec<PathBuf>,
    /// Why the hub could not be asked, where the cache answers for it.
    pub unreachable: Option<Error>,
}

impl Hub {
    /// The hub of these options.
    pub fn new(options: HubOptions) -> Hub {
        let client = Client::new(options.endpoint.clone(), options.token.clone());
        Hub { options, client }
    }

    /// The hub that the environment names; see [`HubOptions::from_env`].
    ///
    /// # Errors
    /// As there.
    pub fn from_env() -> Result<Hub> {
        HubOptions::from_env().map(Hub::new)
    }

    /// The options.
    pub fn options(&self) -> &HubOptions {
        &self.options
    }

    /// Makes a model be in the cache, as its repository has it now, and gives its files. The type that `name` leaves open is llama.cpp's choice: Q4_K_M, else Q8_0,
    /// else the first file.
    ///
    /// If the hub cannot be reached the cache answers, with what was there when it last could.
    ///
    /// # Errors
    /// If the name means no file, a download breaks off for good or does not have the hash that the hub names, the cache cannot be written,
    /// or neither the hub nor the cache has the model.
    pub fn pull(&self, name: &ModelName, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Pulled> {
        let cache = RepositoryCache::new(&self.options.cache, name.repository());
        if self.options.offline {
            let path = self.options.cache.clone();
            let missing = || Error::Offline { name: name.clone(), path };
            let files = cached(&cache, name)?.ok_or_else(missing)?;
            return Ok(Pulled { files, unreachable: None });
        }
        let unreachable = match self.fetch(&cache, name, progress) {
            Ok(files) => return Ok(Pulled { files, unreachable: None }),
            Err(error) if error.is_transient() || matches!(error, Error::NoHttps { .. }) => error,
            Err(error) => return Err(error),
        };
        match cached(&cache, name) {
            Ok(Some(files)) => Ok(Pulled { files, unreachable: Some(unreachable) }),
            _ => Err(unreachable),
        }
    }

    /// As the hub has it now.
    fn fetch(
        &self,
        cache: &RepositoryCache,
        name: &ModelName,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<PathBuf>> {
        let listing = self.client.list(name.repository())?;
        let mut paths: Vec<String> = listing.files.into_iter().map(|file| file.path).collect();
        paths.sort();
        let mut files = Vec::new();
        for path in name.choose(&paths)? {
            let outside = || Error::Answer {
                url: self.options.endpoint.clone(),
                message: format!("`{}` is no path in a repository", path.escape_debug()),
            };
            let snapshot = cache.snapshot(&listing.commit, &path).ok_or_else(outside)?;
            if !snapshot.is_file() {
                let file = self.client.describe(name.repository(), &listing.commit, &path)?;
                download(&self.client, cache, &file, &path, self.options.pause, progress)?;
                // Out of `snapshots/COMMIT`, and of each folder of the path.
                link(&cache.blob(&file), &snapshot, 2 + path.matches('/').count())?;
            }
            files.push(snapshot);
        }
        cache.set_commit(&listing.commit)?;
        Ok(files)
    }
}

/// What the cache has; `None` if it does not have the model.
fn cached(cache: &RepositoryCache, name: &ModelName) -> Result<Option<Vec<PathBuf>>> {
    let Some((commit, paths)) = cache.files() else { return Ok(None) };
    match name.choose(&paths) {
        Ok(files) => Ok(files.iter().map(|path| cache.snapshot(&commit, path)).collect()),
        Err(Error::NoFile { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
