//! curl, as the client of all scenarios.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The maximum time that curl waits, in seconds. Even a busy machine does not cause such a long delay.
const PATIENCE_S: &str = "60";

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let status = status.unwrap_or_else(|| panic!("no status: {text:?}"));
        Self { status, headers: headers.collect(), body: body.to_owned() }
    }

    /// Returns the value of a header, if it is there. The test fails if the header is there twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(found, _)| found == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice: {self:?}");
        value
    }

    /// Returns the values of these headers, or an empty text for one that is not there.
    pub(crate) fn all<const N: usize>(&self, names: [&str; N]) -> [&str; N] {
        names.map(|name| self.header(name).unwrap_or_default())
    }
}

/// A load of requests, eight at a time, until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<u16>>>,
}

impl Load {
    pub(crate) fn begin(client: Client, headers: &'static [&'static str]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut statuses = Vec::new();
            // Relaxed: nothing else is published with it.
            while !told.load(Ordering::Relaxed) {
                statuses.extend(client.together(200, "/", headers));
            }
            statuses
        });
        Self { stop, thread: Some(thread) }
    }

    /// Returns the statuses of all answers, after the last one has come. A request without an answer has status 0.
    pub(crate) fn statuses(mut self) -> Vec<u16> {
        // Relaxed: no other data is published with it.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it is taken once").join().expect("no panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Relaxed: no other data is published with it.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Asks one server.
#[derive(Clone, Copy)]
pub(crate) struct Client(pub(crate) SocketAddr);

impl Client {
    /// Returns the output of curl.
    fn run(self, path: &str, headers: &[&str], options: &[&str]) -> Vec<u8> {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "--max-time", PATIENCE_S]).args(options);
        for header in headers {
            command.args(["-H", header]);
        }
        command.arg(format!("http://{}{path}", self.0)).stdin(Stdio::null());
        let output = command.output();
        output.unwrap_or_else(|error| panic!("these tests need curl: {error}")).stdout
    }

    /// Sends one request with these headers and more options.
    pub(crate) fn ask_with(self, path: &str, headers: &[&str], options: &[&str]) -> Answer {
        let output = self.run(path, headers, &[&["-i"], options].concat());
        Answer::read(&String::from_utf8_lossy(&output))
    }

    pub(crate) fn ask(self, path: &str, headers: &[&str]) -> Answer {
        self.ask_with(path, headers, &[])
    }

    /// Returns the statuses of `requests` requests, one after the other.
    pub(crate) fn statuses(self, requests: usize, path: &str, headers: &[&str]) -> Vec<u16> {
        self.all(requests, path, headers, &[])
    }

    /// Returns the statuses of this many requests, of which eight are under way at a time.
    pub(crate) fn together(self, requests: usize, path: &str, headers: &[&str]) -> Vec<u16> {
        self.all(requests, path, headers, &["--parallel", "--parallel-max", "8"])
    }

    /// Returns the statuses of this many requests, which are all under way at once.
    pub(crate) fn at_once(self, requests: usize, path: &str, headers: &[&str]) -> Vec<u16> {
        let most = requests.to_string();
        self.all(requests, path, headers, &["--parallel", "--parallel-max", &most])
    }

    /// Returns the times of all requests in microseconds, with `together` requests at a time. Requests with another
    /// status than 200 are left out.
    pub(crate) fn times(self, requests: usize, headers: &[&str], together: usize) -> Vec<f64> {
        let together = together.to_string();
        let options = ["--parallel", "--parallel-max", &together];
        let lines = self.each("%{http_code} %{time_total}", requests, "/", headers, &options);
        let seconds = lines.lines().filter_map(|line| line.strip_prefix("200 "));
        seconds.map(|time| time.parse::<f64>().expect("seconds") * 1e6).collect()
    }

    fn all(self, requests: usize, path: &str, headers: &[&str], options: &[&str]) -> Vec<u16> {
        let text = self.each("%{http_code}", requests, path, headers, options);
        let statuses: Vec<u16> = text.lines().map(|line| line.parse().expect("a status")).collect();
        assert_eq!(statuses.len(), requests, "{statuses:?}");
        statuses
    }

    /// Returns the text that curl writes about each of these requests.
    fn each(
        self,
        format: &str,
        requests: usize,
        path: &str,
        headers: &[&str],
        options: &[&str],
    ) -> String {
        let format = format!("{format}\n");
        let each = ["-o", "/dev/null", "-w", &format];
        let path = format!("{path}?request=[1-{requests}]");
        let output = self.run(&path, headers, &[&each, options].concat());
        String::from_utf8(output).expect("numbers")
    }
}
