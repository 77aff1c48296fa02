//! Runs the real program and looks at all that it gives back.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a run gave.
pub struct Run {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Checks the exit code and, for errors, that there is a message.
    #[track_caller]
    pub fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        if code != 0 {
            assert!(self.err.contains("error: "), "no error message: {}", self.err);
            assert!(!self.err.contains("panicked"), "{}", self.err);
        }
        self
    }

    /// Checks that standard error says this.
    #[track_caller]
    pub fn says(self, part: &str) -> Run {
        assert!(self.err.contains(part), "{part:?} is missing in {}", self.err);
        self
    }
}

/// A folder that goes with the test. Programs run in it and keep their cache there.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("millstream-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The program in this folder, in a known environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(arguments).current_dir(&self.0);
        for name in ["MILLSTREAM_DEVICE", "MILLSTREAM_THREADS", "MILLSTREAM_TRACE"] {
            command.env_remove(name);
        }
        // The profile is measured once for all tests of a binary.
        command
            .env("MILLSTREAM_CACHE", std::env::temp_dir().join(format!("millstream-cli-cache-{}", std::process::id())));
        // Drivers complain on standard error where it is not set.
        command.env("XDG_RUNTIME_DIR", &self.0);
        command
    }

    /// Runs the program.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, b"")
    }

    /// Runs the program with this standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Run {
        finish(self.command(arguments), input)
    }
}

/// Runs a command to its end.
pub fn finish(mut command: Command, input: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // A program that does not read its input closes the pipe: no failure of the test.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
