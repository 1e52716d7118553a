//! A server of this machine that speaks as Hugging Face's hub does, and fails as it is told.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The commit that the main branch is at.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct HubFile {
    /// Its path.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What the hub says that the content's hash is.
    pub etag: String,
}

/// What goes wrong with one request for a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubFault {
    /// The connection breaks after so many bytes.
    Break(usize),
    /// The answer has this status.
    Status(u16),
    /// The whole content comes, whatever part is asked for.
    NoRange,
    /// One byte is another.
    WrongByte,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubRequest {
    /// GET or HEAD.
    pub method: String,
    /// The path.
    pub path: String,
    /// What part of the content was asked for.
    pub range: Option<String>,
    /// Who asked.
    pub authorization: Option<String>,
    /// Whether it came to the server of contents, which has another address than the hub.
    pub is_content: bool,
}

struct State {
    repository: String,
    files: Vec<HubFile>,
    faults: VecDeque<HubFault>,
    requests: Vec<HubRequest>,
    /// The token without which nothing is answered.
    token: Option<String>,
    contents: SocketAddr,
}

/// A hub with one repository, at two addresses: the hub leads to contents by redirects, a relative one and one to the other address. It ends with the process.
pub struct HubServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl HubServer {
    /// Begins to serve `repository` (`OWNER/NAME`).
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start(repository: &str, files: Vec<HubFile>) -> io::Result<HubServer> {
        let hub = TcpListener::bind("127.0.0.1:0")?;
        let contents = TcpListener::bind("127.0.0.1:0")?;
        let state = Arc::new(Mutex::new(State {
            repository: repository.to_owned(),
            files,
            faults: VecDeque::new(),
            requests: Vec::new(),
            token: None,
            contents: contents.local_addr()?,
        }));
        let server = HubServer { address: hub.local_addr()?, state: Arc::clone(&state) };
        serve(hub, Arc::clone(&state), false);
        serve(contents, state, true);
        Ok(server)
    }

    /// The hub's address, for `HF_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the next requests for contents fail, one after the other.
    pub fn fail(&self, faults: &[HubFault]) {
        self.state().faults.extend(faults);
    }

    /// From now on, the hub answers those alone who have this token.
    pub fn require_token(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<HubRequest> {
        std::mem::take(&mut self.state().requests)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers in threads of its own, a connection after the other in each.
fn serve(listener: TcpListener, state: Arc<Mutex<State>>, is_content: bool) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            // A client that goes away is no failure of the test.
            thread::spawn(move || answer(stream, &state, is_content));
        }
    });
}

/// Answers one request; the connection ends with it.
fn answer(stream: TcpStream, state: &Mutex<State>, is_content: bool) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let mut request = HubRequest { method, path, range: None, authorization: None, is_content };
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = Some(value.to_owned()),
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.requests.push(request.clone());
    let fault = if is_content { state.faults.pop_front() } else { None };
    let answer = match is_content {
        true => state.content(&request, fault),
        false => state.hub(&request),
    };
    drop(state);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {} -\r\nconnection: close\r\ncontent-length: {}\r\n",
        answer.status,
        answer.body.len()
    )?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    let sent = match fault {
        Some(HubFault::Break(bytes)) => &answer.body[..bytes.min(answer.body.len())],
        _ => &answer.body[..],
    };
    if request.method != "HEAD" {
        stream.write_all(sent)?;
    }
    stream.flush()
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }
}

impl State {
    fn hub(&self, request: &HubRequest) -> Answer {
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        if token.is_some() && request.authorization != token {
            return Answer::new(401);
        }
        let State { repository, contents, .. } = self;
        if request.path == format!("/api/models/{repository}/revision/main") {
            let entries: Vec<String> =
                self.files.iter().map(|file| format!("{{\"rfilename\":\"{}\"}}", file.path)).collect();
            let body = format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", entries.join(","));
            return Answer { body: body.into_bytes(), ..Answer::new(200) };
        }
        let path_after = |prefix: String| request.path.strip_prefix(&prefix).map(str::to_owned);
        if let Some(path) = path_after(format!("/{repository}/resolve/{COMMIT}/")) {
            return Answer::new(307).header("location", format!("/cache/{path}"));
        }
        let found = path_after("/cache/".to_owned())
            .and_then(|path| self.files.iter().position(|file| file.path == path));
        match found {
            Some(index) => Answer::new(302)
                .header("location", format!("http://{contents}/{index}"))
                .header("x-linked-etag", format!("\"{}\"", self.files[index].etag))
                .header("x-linked-size", self.files[index].bytes.len().to_string()),
            None => Answer::new(404),
        }
    }

    fn content(&self, request: &HubRequest, fault: Option<HubFault>) -> Answer {
        if let Some(HubFault::Status(status)) = fault {
            return Answer::new(status);
        }
        let index = request.path.trim_start_matches('/').parse::<usize>().ok();
        let Some(file) = index.and_then(|index| self.files.get(index)) else { return Answer::new(404) };
        let mut bytes = file.bytes.clone();
        if let (Some(HubFault::WrongByte), Some(byte)) = (fault, bytes.last_mut()) {
            *byte ^= 1;
        }
        let first =
            request.range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
        let first: Option<usize> = first.and_then(|first| first.parse().ok());
        match first.filter(|_| fault != Some(HubFault::NoRange)) {
            Some(first) if first < bytes.len() => {
                let range = format!("bytes {first}-{}/{}", bytes.len() - 1, bytes.len());
                Answer { body: bytes.split_off(first), ..Answer::new(206).header("content-range", range) }
            }
            Some(_) => Answer::new(416),
            None => Answer { body: bytes, ..Answer::new(200) },
        }
    }
}
