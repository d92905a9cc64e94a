//! The blocks of a file, each with the parser of its lines.

use super::parse::{BlockParser, DetectError, LineTally, Parser};
use super::source::{Block, Sources};
use crate::failure::Failure;

/// Opens a file. The format is found in its first block; blocks can then be parsed in any order, and in parallel.
pub(crate) fn open<'s>(
    file: &str,
    parser: &'s Parser,
    sources: &'s Sources,
) -> Result<impl Iterator<Item = Result<(Block, BlockParser<'s>), Failure>> + Send + 's, Failure> {
    let file = file.to_owned();
    let unreadable = |error, file: &str| Failure::Unreadable { file: file.to_owned(), error };
    let blocks = sources.open(&file).map_err(|error| unreadable(error, &file))?;
    let mut format = parser.file();
    Ok(blocks.map(move |block| {
        let mut block = block.map_err(|error| unreadable(error, &file))?;
        if parser.may_be_wrapped() {
            block.unwrap();
        }
        let useless =
            |error: DetectError| Failure::Useless { file: file.clone(), reason: error.to_string() };
        let lines = format.block(block.bytes()).map_err(useless)?;
        Ok((block, lines))
    }))
}

/// Fails if a file has no readable line: it is probably the wrong file, or read with the wrong options.
pub(crate) fn checked(tally: LineTally, file: &str) -> Result<LineTally, Failure> {
    let reason = match tally.named.first() {
        _ if tally.good > 0 => return Ok(tally),
        Some((line, reason)) => {
            format!("0 of {} lines are good; line {line}: {reason}", tally.counted())
        }
        None => match tally.left_out {
            None | Some(0) => "it has no lines".to_owned(),
            Some(left_out) => format!("--where leaves out all of its {left_out} lines"),
        },
    };
    Err(Failure::Useless { file: file.to_owned(), reason })
}
