//! The traffic to simulate, and the errors of making it.

use std::fmt;

use crate::spans::{DAY_NS, seconds};
use crate::tables::grouped;

/// The maximum number of requests. More would not make a clearer picture, and all of them are stored.
pub(crate) const REQUESTS_MOST: usize = 1_000_000;

/// The maximum span of a pattern: 73 years. Three such spans fit in 64 bits. Times also stay below the maximum that a
/// limiter distinguishes: it is as far from zero as 2100 is from 1970.
pub(crate) const SPAN_MOST_NS: u64 = 1 << 61;

/// The requests to decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The description of the requests, for the heading.
    pub(crate) name: String,
    /// The times of the requests in nanoseconds, in order.
    pub(crate) times: Vec<u64>,
    /// The span of a picture: from the first to the last time, or more.
    pub(crate) span_ns: (u64, u64),
}

/// A mistake in a pattern, or in a file of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrafficError {
    /// More requests than the maximum.
    TooMany,
    /// A time that is too large to compute with.
    TooLong,
    /// A span that must not be zero.
    NoSpan {
        /// The option.
        option: &'static str,
    },
    /// No request at all.
    Nothing,
    /// A file without a time.
    NoTimes {
        /// The file as it was named on the command line.
        file: String,
    },
    /// A line that does not begin with a time.
    BadTime {
        /// The file as it was named on the command line.
        file: String,
        line: u64,
        /// The text that was found, and the forms that a time can have.
        reason: String,
    },
    /// A time before that of the previous line.
    Backwards {
        /// The file as it was named on the command line.
        file: String,
        line: u64,
        time_ns: u64,
        before_ns: u64,
    },
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = grouped(REQUESTS_MOST as u64);
        match self {
            Self::TooMany => {
                write!(
                    f,
                    "more than {most} requests; take a lower --rate, a shorter --for or fewer times"
                )
            }
            Self::TooLong => write!(
                f,
                "the traffic would end after more than {} days; take shorter spans",
                grouped(SPAN_MOST_NS / DAY_NS)
            ),
            Self::NoSpan { option } => {
                write!(f, "{option} is 0; it must be at least 1ns, as in 10s")
            }
            Self::Nothing => {
                f.write_str("no request falls into --for; take a longer one, or a higher --rate")
            }
            Self::NoTimes { file } => {
                write!(
                    f,
                    "no times in {file}; give one per line, in seconds or as dates, such as 0.25"
                )
            }
            Self::BadTime { file, line, reason } => write!(f, "{file}:{line}: {reason}"),
            Self::Backwards { file, line, time_ns, before_ns } => write!(
                f,
                "{file}:{line}: time {} is before {} of the line above; sort the times",
                seconds(*time_ns),
                seconds(*before_ns)
            ),
        }
    }
}

impl std::error::Error for TrafficError {}
