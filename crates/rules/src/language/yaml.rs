//! YAML as a tree in which every value has its position.
//!
//! The parser emits one event at a time, and the tree is built here. So the bounds are checked before memory is used:
//! [`MAX_DEEP`] bounds the depth, and [`MAX_NODES`] the number of values. The values of an alias are counted again each
//! time it is used. Scalars stay text, because the key decides how its value is parsed.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use crate::language::error::{LocatedProblem, Problem};
use crate::language::position::Position;

/// The maximum depth. Readable rule files stay far below it.
pub(crate) const MAX_DEEP: usize = 64;

/// The maximum number of values. It is enough for some 30,000 rules, which make a file of a megabyte.
pub(crate) const MAX_NODES: usize = 250_000;

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct YamlNode {
    pub(crate) at: Position,
    pub(crate) data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Scalar(Scalar),
    List(Vec<YamlNode>),
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A scalar as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Whether the scalar has no quotes. If so, it may also be a number, a boolean or null.
    pub(crate) plain: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct YamlKey {
    pub(crate) at: Position,
    pub(crate) text: String,
}

impl Scalar {
    /// Whether the scalar is null, in any of YAML's forms.
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

impl YamlNode {
    pub(crate) fn kind(&self) -> &'static str {
        match &self.data {
            Data::Scalar(scalar) if scalar.is_null() => "empty",
            Data::Scalar(_) => "a single value",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// The number of values in this value, itself included.
    fn size(&self) -> usize {
        1 + match &self.data {
            Data::Scalar(_) => 0,
            Data::List(items) => items.iter().map(YamlNode::size).sum(),
            Data::Map(pairs) => pairs.iter().map(|(_, value)| 1 + value.size()).sum(),
        }
    }

    fn null(at: Position) -> Self {
        Self { at, data: Data::Scalar(Scalar { text: String::new(), plain: true }) }
    }
}

/// Parses the single document of a file. An empty file gives an empty value.
pub(crate) fn parse(text: &str) -> Result<YamlNode, LocatedProblem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = position(error.marker());
            let syntax = Problem::Syntax { reason: error.info().to_owned() };
            dash_without_blank(text, at).unwrap_or(LocatedProblem { at, problem: syntax })
        })?;
        builder.take(event, position(&span.start))?;
    }
    Ok(builder.document.unwrap_or_else(|| YamlNode::null(Position { line: 1, column: 1 })))
}

/// Looks for a line such as `-key: user` at the line of an error or the line before. Such a line begins a map, although
/// an entry of a list was meant, and the parser reports an error only at the next line.
fn dash_without_blank(text: &str, at: Position) -> Option<LocatedProblem> {
    let lines = text.lines().zip(1..).skip(at.line.saturating_sub(2)).take(2);
    let found = lines.filter_map(|(line, number)| {
        let written = line.trim_start();
        let (key, _) = written.split_once(':')?;
        let name = key.strip_prefix('-')?;
        let is_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
        let column = line.chars().count() - written.chars().count() + 1;
        is_name.then(|| LocatedProblem {
            at: Position { line: number, column },
            problem: Problem::DashWithoutBlank { key: key.trim_end().to_owned() },
        })
    });
    found.last()
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// A list or map that is not finished yet.
struct OpenNode {
    node: YamlNode,
    anchor: usize,
    /// In a map: the key whose value comes next.
    key: Option<YamlKey>,
}

#[derive(Default)]
struct Builder {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, YamlNode>,
    nodes: usize,
    document: Option<YamlNode>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), LocatedProblem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // `!!str 5` is text, as `"5"` is.
                let is_text =
                    tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let plain = style == ScalarStyle::Plain && !is_text;
                let data = Data::Scalar(Scalar { text: text.into_owned(), plain });
                self.finish(YamlNode { at, data }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.begin(Data::List(Vec::new()), anchor, at),
            Event::MappingStart(anchor, _) => self.begin(Data::Map(Vec::new()), anchor, at),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.finish(open.node, open.anchor, 0),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some(named) = self.anchors.get(&anchor) else {
                    return Err(LocatedProblem { at, problem: Problem::BadAlias });
                };
                let size = named.size();
                // The values are counted before they are copied.
                self.count(size, at)?;
                let copy = YamlNode { at, data: self.anchors[&anchor].data.clone() };
                self.finish(copy, 0, 0)
            }
            Event::DocumentStart(_) if self.document.is_some() => {
                Err(LocatedProblem { at, problem: Problem::SecondDocument })
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, at: Position) -> Result<(), LocatedProblem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(LocatedProblem { at, problem: Problem::TooManyNodes { most: MAX_NODES } });
        }
        Ok(())
    }

    fn begin(&mut self, data: Data, anchor: usize, at: Position) -> Result<(), LocatedProblem> {
        self.count(1, at)?;
        if self.open.len() == MAX_DEEP {
            return Err(LocatedProblem { at, problem: Problem::TooDeep { most: MAX_DEEP } });
        }
        self.open.push(OpenNode { node: YamlNode { at, data }, anchor, key: None });
        Ok(())
    }

    /// Adds a finished value to its parent.
    fn finish(
        &mut self,
        node: YamlNode,
        anchor: usize,
        nodes: usize,
    ) -> Result<(), LocatedProblem> {
        self.count(nodes, node.at)?;
        if anchor > 0 {
            // A value with an anchor is stored a second time beside the tree, so it is counted twice.
            self.count(node.size(), node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.document = Some(node);
            return Ok(());
        };
        match (&mut open.node.data, open.key.take()) {
            (Data::Map(pairs), Some(key)) => pairs.push((key, node)),
            (Data::Map(_), None) => match node.data {
                Data::Scalar(scalar) => open.key = Some(YamlKey { at: node.at, text: scalar.text }),
                _ => return Err(LocatedProblem { at: node.at, problem: Problem::KeyNotText }),
            },
            (Data::List(items), _) => items.push(node),
            (Data::Scalar(_), _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Problem {
        parse(text).expect_err("it is refused").problem
    }

    #[test]
    fn values_know_their_places() {
        let Data::Map(pairs) = parse("a: 1\nb:\n  - x\n  - 'y'\n").expect("YAML").data else {
            panic!("a map");
        };
        let (key, list) = &pairs[1];
        assert_eq!((key.text.as_str(), key.at), ("b", Position { line: 2, column: 1 }));
        let Data::List(items) = &list.data else { panic!("a list") };
        assert_eq!(items[1].at, Position { line: 4, column: 5 });
        let Data::Scalar(scalar) = &items[1].data else { panic!("a scalar") };
        assert_eq!(scalar, &Scalar { text: "y".to_owned(), plain: false });
    }

    #[test]
    fn an_alias_is_what_it_names_and_counts_as_much() {
        let Data::Map(pairs) = parse("a: &x [1, 2]\nb: *x\n").expect("YAML").data else {
            panic!("a map");
        };
        assert_eq!(pairs[1].1.size(), 3);
        assert_eq!(problem("a: &x [*x]\n"), Problem::BadAlias);
    }

    #[test]
    fn depth_is_bounded_in_both_styles() {
        let nested = |depth: usize| "- ".repeat(depth) + "x";
        assert!(parse(&nested(MAX_DEEP)).is_ok());
        assert_eq!(problem(&nested(MAX_DEEP + 1)), Problem::TooDeep { most: MAX_DEEP });
        assert_eq!(problem(&"- ".repeat(10_000)), Problem::TooDeep { most: MAX_DEEP });
        for opening in ["[", "{a: "] {
            assert_eq!(problem(&opening.repeat(100)), Problem::TooDeep { most: MAX_DEEP });
            // The parser reads ahead, so its own limit of depth is reached first.
            let reason = "recursion limit exceeded".to_owned();
            assert_eq!(problem(&opening.repeat(10_000)), Problem::Syntax { reason });
        }
    }

    #[test]
    fn an_empty_file_is_an_empty_value_and_a_second_document_is_refused() {
        assert_eq!(parse("").expect("YAML").kind(), "empty");
        assert_eq!(parse("# nothing\n").expect("YAML").kind(), "empty");
        assert_eq!(problem("a: 1\n---\nb: 2\n"), Problem::SecondDocument);
    }
}
