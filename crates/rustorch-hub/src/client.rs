//! Requests to the hub, and its answers.

use crate::url::{escaped, origin, resolve};
use crate::{Error, Result};
use serde::Deserialize;
use std::io::Read;
use std::time::Duration;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

/// How many redirects a request may take.
const REDIRECTS: usize = 10;
/// A connection over which nothing comes for so long is given up, to be made anew.
const SILENCE: Duration = Duration::from_secs(60);
/// The longest list of files that is read.
const LIST_BYTES: u64 = 64 << 20;

/// The hub at one address.
pub(crate) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// The files of a repository as they are at one commit.
#[derive(Deserialize)]
pub(crate) struct Listing {
    #[serde(rename = "sha")]
    pub(crate) commit: String,
    #[serde(rename = "siblings")]
    pub(crate) files: Vec<ListedFile>,
}

#[derive(Deserialize)]
pub(crate) struct ListedFile {
    #[serde(rename = "rfilename")]
    pub(crate) path: String,
}

/// A file of the hub.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    pub(crate) url: String,
    /// What the hub calls its content: for large files its SHA-256.
    pub(crate) etag: String,
    pub(crate) bytes: u64,
}

/// The content of a file from some byte on.
pub(crate) struct Content {
    pub(crate) start: u64,
    body: Body,
}

impl Content {
    pub(crate) fn reader(&mut self) -> impl Read {
        self.body.as_reader()
    }
}

impl Client {
    pub(crate) fn new(endpoint: String, token: Option<String>) -> Client {
        let config = Agent::config_builder()
            .user_agent(concat!("rustorch/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed here: the first answer says what the file is, and a token goes to nobody else.
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        #[cfg(feature = "https")]
        let config = {
            use ureq::tls::{RootCerts, TlsConfig};
            // Those of a company's proxy among them.
            config.tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
        };
        Client { agent: config.build().into(), endpoint, token }
    }

    /// The files of a repository's main branch.
    pub(crate) fn list(&self, repository: &str) -> Result<Listing> {
        let url = format!("{}/api/models/{repository}/revision/main", self.endpoint);
        let mut response = self.follow("GET", &url, 0, |_| false)?;
        self.check(&url, &response)?;
        let text = response.body_mut().with_config().limit(LIST_BYTES).read_to_string();
        let text = text.map_err(|error| connection(&url, &error))?;
        serde_json::from_str(&text)
            .map_err(|error| answer(&url, format!("the list of files is malformed: {error}")))
    }

    /// What the hub says about a file of a repository.
    pub(crate) fn describe(&self, repository: &str, commit: &str, path: &str) -> Result<RemoteFile> {
        let url = format!("{}/{repository}/resolve/{commit}/{}", self.endpoint, escaped(path));
        // Where the content lies elsewhere, the hub says what it is, and the other does not know.
        let is_elsewhere = |location: &str| origin(location) != origin(&self.endpoint);
        let response = self.follow("HEAD", &url, 0, is_elsewhere)?;
        if !response.status().is_redirection() {
            self.check(&url, &response)?;
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let missing = |what: &str| answer(&url, format!("the answer names no {what}"));
        let etag = header("x-linked-etag").or(header("etag")).ok_or_else(|| missing("etag"))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        let is_sound = !etag.is_empty() && etag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_sound {
            return Err(answer(&url, format!("`{}` is no etag", etag.escape_debug())));
        }
        let own = header("content-length").filter(|_| response.status().is_success());
        let bytes = header("x-linked-size").or(own).and_then(|size| size.parse().ok());
        let bytes = bytes.ok_or_else(|| missing("size"))?;
        Ok(RemoteFile { etag: etag.to_owned(), bytes, url })
    }

    /// The content of a file from `start` on, or from its beginning where the server does not start elsewhere.
    pub(crate) fn open(&self, file: &RemoteFile, start: u64) -> Result<Content> {
        let response = self.follow("GET", &file.url, start, |_| false)?;
        self.check(&file.url, &response)?;
        let found = match response.status().as_u16() {
            206 => {
                let range = response.headers().get("content-range").and_then(|range| range.to_str().ok());
                let first =
                    range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
                first.ok_or_else(|| answer(&file.url, "a part of the file comes without its place".into()))?
            }
            _ => 0,
        };
        if found != 0 && found != start {
            return Err(answer(
                &file.url,
                format!("asked for the file from byte {start} on, it gives it from {found}"),
            ));
        }
        Ok(Content { start: found, body: response.into_body() })
    }

    /// Sends a request, and again to where redirects lead but for those that `stop` says.
    fn follow(
        &self,
        method: &str,
        url: &str,
        start: u64,
        stop: impl Fn(&str) -> bool,
    ) -> Result<Response<Body>> {
        let mut at = url.to_owned();
        for _ in 0..REDIRECTS {
            let response = self.send(method, &at, start)?;
            let location = response.headers().get("location").and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            let next = resolve(&at, location);
            if stop(&next) {
                return Ok(response);
            }
            at = next;
        }
        Err(answer(url, format!("more than {REDIRECTS} redirects")))
    }

    fn send(&self, method: &str, url: &str, start: u64) -> Result<Response<Body>> {
        if url.starts_with("https:") && !cfg!(feature = "https") {
            return Err(Error::NoHttps { url: url.to_owned() });
        }
        let mut request = Request::builder().method(method).uri(url);
        if let Some(token) = self.token.as_ref().filter(|_| origin(url) == origin(&self.endpoint)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header("range", format!("bytes={start}-"));
        }
        let request =
            request.body(()).map_err(|error| answer(url, format!("no request can be made: {error}")))?;
        self.agent.run(request).map_err(|error| connection(url, &error))
    }

    /// Fails where the answer is not the content asked for.
    fn check(&self, url: &str, response: &Response<Body>) -> Result<()> {
        let url = url.to_owned();
        match response.status().as_u16() {
            200 | 206 => Ok(()),
            404 => Err(Error::NotFound { url }),
            status @ (401 | 403) => Err(Error::Denied { url, status, has_token: self.token.is_some() }),
            status => Err(Error::Status { url, status }),
        }
    }
}

fn answer(url: &str, message: String) -> Error {
    Error::Answer { url: url.to_owned(), message }
}

fn connection(url: &str, error: &ureq::Error) -> Error {
    Error::Connection { url: url.to_owned(), message: error.to_string() }
}
