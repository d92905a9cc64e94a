//! Traffic from a file: the times of its first column.

use std::fs::File;
use std::io::{self, Read};

use crate::failure::Failure;
use crate::replay::nanos_of_text;
use crate::traffic::{REQUESTS_MOST, Traffic, TrafficError};

/// The maximum number of bytes of a file. A longer file contains other things than times.
const BYTES_MOST: u64 = 64 * REQUESTS_MOST as u64;

/// Reads the times of a file, or of standard input.
pub(super) fn read(file: &str) -> Result<Traffic, Failure> {
    let unreadable = |error| Failure::Unreadable { file: file.to_owned(), error };
    let input: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin()),
        _ => Box::new(File::open(file).map_err(unreadable)?),
    };
    let times = match parse(file, input) {
        Ok(times) => times.map_err(Failure::Traffic)?,
        Err(error) => return Err(unreadable(error.into())),
    };
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return Err(Failure::Traffic(TrafficError::NoTimes { file: file.to_owned() }));
    };
    Ok(Traffic { name: format!("times of {file}"), times, span_ns: (first, last) })
}

/// Parses the times. The outer error is a failure to read, the inner one is invalid traffic.
fn parse(file: &str, input: impl Read) -> Result<Result<Vec<u64>, TrafficError>, csv::Error> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(input.take(BYTES_MOST));
    let mut times: Vec<u64> = Vec::new();
    let mut record = csv::ByteRecord::new();
    let mut is_first = true;
    while reader.read_byte_record(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line);
        let time_ns = match nanos_of_text(record.get(0).unwrap_or_default()) {
            Err(_) if is_first => {
                is_first = false;
                continue; // a heading
            }
            Ok(time_ns) => time_ns,
            Err(reason) => {
                let file = file.to_owned();
                return Ok(Err(TrafficError::BadTime { file, line, reason }));
            }
        };
        is_first = false;
        if let Some(&before_ns) = times.last().filter(|before_ns| **before_ns > time_ns) {
            let file = file.to_owned();
            return Ok(Err(TrafficError::Backwards { file, line, time_ns, before_ns }));
        }
        if times.len() == REQUESTS_MOST {
            return Ok(Err(TrafficError::TooMany));
        }
        times.push(time_ns);
    }
    Ok(if reader.position().byte() >= BYTES_MOST { Err(TrafficError::TooMany) } else { Ok(times) })
}
