//! Starting the child process, and waiting for it, but not for ever.

use super::child::{self, Answer, Files};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Makes the command of a child process, which does what the folder asks by [`serve`](super::serve); or says why there is none.
pub type Launcher = Arc<dyn Fn(&Path) -> Result<Command, String> + Send + Sync>;

/// This program, started anew: its `main` has to call [`child`](super::child) first.
///
/// # Errors
/// If it has not done so in this process.
pub fn this_program(folder: &Path) -> Result<Command, String> {
    if !child::is_called() {
        return Err(
            "programs are examined in a child process, which this program does not have: let its `main` call \
                    `rustorch::coreml::child()` first"
                .to_owned(),
        );
    }
    let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let mut command = Command::new(program);
    command.env(child::VARIABLE, folder);
    Ok(command)
}

/// Why a child process gave no answer.
pub(super) struct Lost {
    pub(super) reason: String,
    /// Whether it says something of the program, and not of this machine at the moment.
    pub(super) is_lasting: bool,
}

/// Runs the child process: its answer, or what became of it.
pub(super) fn run(launcher: &Launcher, folder: &Path, limit: Duration) -> Result<Answer, Lost> {
    let passing = |reason: String| Lost { reason, is_lasting: false };
    let lasting = |reason: String| Lost { reason, is_lasting: true };
    let files = Files(folder);
    let printed =
        File::create(files.printed()).map_err(|error| passing(format!("{}: {error}", folder.display())))?;
    let mut command = launcher(folder).map_err(passing)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(printed);
    let mut process =
        command.spawn().map_err(|error| passing(format!("the child process did not start: {error}")))?;
    let started = Instant::now();
    let status = loop {
        match process.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // It is gone already, or it goes now; either way it is waited for.
                let _ = process.kill();
                let _ = process.wait();
                let doing = doing(&files);
                return Err(lasting(format!("{doing} took longer than {} s", limit.as_secs_f64())));
            }
            Err(error) => return Err(passing(format!("the child process is not to be had: {error}"))),
        }
    };
    let answer = fs::read(files.answer()).ok().and_then(|text| serde_json::from_slice::<Answer>(&text).ok());
    match answer {
        Some(answer) if status.success() => match answer.error {
            Some(failed) => {
                let reason = format!("{} failed: {}", doing(&files), failed.message);
                Err(Lost { reason, is_lasting: !failed.is_disk })
            }
            None => Ok(answer),
        },
        _ => {
            let last = last_line(&files).map_or(String::new(), |line| format!(" ({line})"));
            Err(lasting(format!("the child process {} while {}{last}", ended(status), doing(&files))))
        }
    }
}

/// What the process did last.
fn doing(files: &Files<'_>) -> String {
    let stage = fs::read_to_string(files.stage()).unwrap_or_default();
    if stage.is_empty() { "starting".to_owned() } else { stage }
}

/// The last line that the process printed.
fn last_line(files: &Files<'_>) -> Option<String> {
    let mut text = Vec::new();
    File::open(files.printed()).ok()?.take(1 << 16).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

fn ended(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    match status.code() {
        Some(0) => "ended without an answer".to_owned(),
        Some(code) => format!("ended with code {code}"),
        None => "ended".to_owned(),
    }
}
