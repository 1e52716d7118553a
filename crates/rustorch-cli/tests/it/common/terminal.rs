//! The program on a pseudoterminal, and a person in front of it.

use super::program;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the person waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program and what its terminal shows.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// Everything shown, without escape sequences.
    shown: String,
    /// Whether an escape sequence was among it.
    escapes: bool,
    /// Bytes that may be the beginning of a character or of an escape sequence.
    rest: Vec<u8>,
    /// How much of it was expected already.
    seen: usize,
    /// Where the program keeps its history, unless it is somebody else's.
    _home: Option<tempfile::TempDir>,
}

impl Terminal {
    /// Starts the program with a history of its own.
    pub(crate) fn start(args: &[&str]) -> Terminal {
        let home = tempfile::tempdir().expect("a folder");
        let mut terminal = Terminal::start_in(home.path(), args);
        terminal._home = Some(home);
        terminal
    }

    /// Starts the program with its history below this folder.
    pub(crate) fn start_in(home: &Path, args: &[&str]) -> Terminal {
        let mut command = program();
        command.args(args).env("XDG_STATE_HOME", home).env("TERM", "xterm-256color");
        Terminal::start_command(command)
    }

    /// Starts a program that may not look for its history elsewhere.
    pub(crate) fn start_command(mut command: Command) -> Terminal {
        let (master, slave) = open();
        let clone = || slave.try_clone().expect("a descriptor");
        command.stdin(clone()).stdout(clone()).stderr(clone());
        let terminal = slave.as_raw_fd();
        // SAFETY: between fork and exec only async-signal-safe calls are made: setsid and ioctl, on a descriptor that is
        // open in the child because `slave` lives until after `spawn`.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() < 0 || libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        drop(slave);
        let mut output = File::from(master.try_clone().expect("a descriptor"));
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // On Linux the end is an error.
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            child,
            keyboard: File::from(master),
            screen,
            shown: String::new(),
            escapes: false,
            rest: Vec::new(),
            seen: 0,
            _home: None,
        }
    }

    /// Presses keys.
    pub(crate) fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(line);
        self.send("\r");
    }

    /// Waits until this is shown, after what was waited for before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        self.until(text);
    }

    /// As [`expect`](Self::expect); what was shown before it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                let before = self.shown[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.show(&bytes),
                Err(_) => panic!("waited for {text:?}; shown since: {:?}", &self.shown[self.seen..]),
            }
        }
    }

    /// Types a line and gives the answer, with plain newlines.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.expect(&format!("{line}\r\n"));
        // The editor draws its prompt from the beginning of the line.
        self.until("\r> ").replace("\r\n", "\n").trim().to_owned()
    }

    /// Whether the program has written an escape sequence so far.
    pub(crate) fn saw_escapes(&self) -> bool {
        self.escapes
    }

    /// Waits until the program ends.
    #[track_caller]
    pub(crate) fn exit_code(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code().unwrap_or_else(|| panic!("killed: {status}"));
            }
            assert!(
                Instant::now() < deadline,
                "the program goes on; shown since: {:?}",
                &self.shown[self.seen..]
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Adds to what is shown, leaving escape sequences out.
    fn show(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(&byte) = self.rest.get(at) {
            let length = match byte {
                0x1b => match escape_length(&self.rest[at..]).inspect(|_| self.escapes = true) {
                    Some(length) => length,
                    None => break,
                },
                _ => {
                    let end =
                        self.rest[at..].iter().position(|&b| b == 0x1b).map_or(self.rest.len(), |n| at + n);
                    let valid = match std::str::from_utf8(&self.rest[at..end]) {
                        Ok(text) => text.len(),
                        Err(error) => error.valid_up_to(),
                    };
                    self.shown.push_str(&String::from_utf8_lossy(&self.rest[at..at + valid]));
                    if valid == 0 {
                        break;
                    }
                    valid
                }
            };
            at += length;
        }
        self.rest.drain(..at);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A program that has ended cannot be killed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The length of the control sequence at the beginning, if it is complete.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)).map(|n| n + 3),
        _ => Some(2),
    }
}

/// Both ends of a new pseudoterminal of 24 rows and 200 columns.
fn open() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let mut size = libc::winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the first two point to integers to be written, the last to a window size to be read (some systems take it
    // as mutable); name and settings may be null.
    let code = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &raw mut size as *mut _,
        )
    };
    assert_eq!(code, 0, "openpty: {}", std::io::Error::last_os_error());
    for fd in [master, slave] {
        // SAFETY: the descriptor was opened just now. Programs that tests start meanwhile are not to inherit it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both were opened just now and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}
