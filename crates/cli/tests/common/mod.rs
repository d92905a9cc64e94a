//! Runs the real binary over small logs.

#![allow(dead_code)] // each test file uses only a part

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code and the output of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Returns the report that was printed in JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A separate directory for one test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// `test` is the name of the test.
    pub(crate) fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory below target");
        Self(path)
    }

    /// Writes a file. Commands run inside the directory, so they reach the file by its name alone.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(name);
        let directory = path.parent().expect("a file is in a directory");
        fs::create_dir_all(directory).expect("a directory below target");
        fs::write(path, content).expect("a file below target");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in Unicode").to_owned()
    }

    /// Returns the binary as a command that runs in the directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `tollgate replay` with these arguments.
    pub(crate) fn replay(&self, args: &[&str]) -> Run {
        self.replay_from(args, b"")
    }

    /// `tollgate replay` with these arguments, and this text on standard input.
    pub(crate) fn replay_from(&self, args: &[&str], input: &[u8]) -> Run {
        self.run_from(&[&["replay"], args].concat(), input)
    }

    /// `tollgate` with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_from(args, b"")
    }

    /// Returns the content of a file that a run has written.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("a file that was written")
    }

    /// `tollgate` with these arguments and something on standard input.
    pub(crate) fn run_from(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child =
            self.command(args).stdin(Stdio::piped()).spawn().expect("the binary was built");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        // A run that fails early may leave its input unread.
        let _ = stdin.write_all(input);
        drop(stdin);
        let output = child.wait_with_output().expect("the run ends");
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("reports are text"),
            err: String::from_utf8(output.stderr).expect("messages are text"),
        }
    }
}

/// Asserts that a run succeeded, printed nothing on standard error, and printed this.
#[track_caller]
pub(crate) fn assert_prints(run: &Run, expected: &str) {
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    assert_eq!(run.out, expected);
}

/// Asserts exit code 2, nothing on standard output, and this on standard error.
#[track_caller]
pub(crate) fn assert_refused(run: &Run, message: &str) {
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(2), "", message));
}

/// Asserts the same of a message of which this is a part.
#[track_caller]
pub(crate) fn assert_refused_with(run: &Run, part: &str) {
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.contains(part), "{part:?} is not in {}", run.err);
}

/// Returns a line in Common Log Format at a time on 17 May 2015.
pub(crate) fn line(client: &str, time_and_zone: &str) -> String {
    format!("{client} - - [17/May/2015:{time_and_zone}] \"GET / HTTP/1.1\" 200 512\n")
}

/// Returns the admitted counts of a report in JSON.
pub(crate) fn admitted(json: &str) -> Vec<u64> {
    let report: serde_json::Value = serde_json::from_str(json).expect("a JSON object");
    let policies = report["policies"].as_array().expect("an array of policies");
    policies.iter().map(|policy| policy["admitted"].as_u64().expect("a number")).collect()
}
