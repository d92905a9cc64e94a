//! The content of a picture, whatever its style: its texts, and its shapes by colour.

#![allow(dead_code)] // each test file uses only a part

use roxmltree::{Document, Node};

pub(crate) const ADMITTED: &str = "#0072B2";
pub(crate) const REFUSED: &str = "#D55E00";

/// A rectangle that text may fill, in pixels.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

fn elements<'d>(svg: &'d Document<'_>, name: &str) -> Vec<Node<'d, 'd>> {
    svg.root()
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
        .collect()
}

fn content(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().trim().to_owned()
}

/// Returns the space that a text takes in an ordinary font: six tenths of its size for each character.
fn area(text: Node<'_, '_>) -> Area {
    let size = number(text, "font-size");
    let width = 0.6 * size * content(text).chars().map(|_| 1.0).sum::<f64>();
    let (x, y) = (number(text, "x"), number(text, "y"));
    let left = match text.attribute("text-anchor") {
        Some("end") => x - width,
        Some("middle") => x - width / 2.0,
        _ => x,
    };
    // The vertical position, in the form in which the library writes it.
    let top = match text.attribute("dy") {
        Some("0.76em") => y,
        Some("0.5ex") => y - size / 2.0,
        _ => y - size,
    };
    Area { left, right: left + width, top, bottom: top + size }
}

/// Returns every text of the picture.
pub(crate) fn texts(svg: &str) -> Vec<String> {
    let svg = Document::parse(svg).expect("a picture is XML");
    elements(&svg, "text").into_iter().map(content).collect()
}

/// Returns the number of rectangles with this colour.
pub(crate) fn rectangles(svg: &str, colour: &str) -> usize {
    let svg = Document::parse(svg).expect("a picture is XML");
    elements(&svg, "rect").iter().filter(|node| node.attribute("fill") == Some(colour)).count()
}

/// Returns the number of curves. Lines of grids and axes are thinner than curves.
pub(crate) fn curves(svg: &str) -> usize {
    let svg = Document::parse(svg).expect("a picture is XML");
    let lines = elements(&svg, "polyline");
    lines.iter().filter(|node| number(**node, "stroke-width") >= 2.0).count()
}

/// Asserts that all texts lie inside the picture and none overlaps another.
#[track_caller]
pub(crate) fn assert_legible(svg: &str) {
    let svg = Document::parse(svg).expect("a picture is XML");
    let (width, height) =
        (number(svg.root_element(), "width"), number(svg.root_element(), "height"));
    let texts: Vec<_> =
        elements(&svg, "text").into_iter().map(|node| (content(node), area(node))).collect();
    for (index, (text, a)) in texts.iter().enumerate() {
        let inside = a.left >= 0.0 && a.right <= width && a.top >= 0.0 && a.bottom <= height;
        assert!(inside, "{text:?} is cut: {a:?} of {width} x {height}");
        for (other, b) in &texts[..index] {
            let apart =
                a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
            assert!(apart, "{text:?} at {a:?} lies on {other:?} at {b:?}");
        }
    }
}

/// Asserts that the style sheet of a page or picture defines every colour that the picture uses.
#[track_caller]
pub(crate) fn assert_has_dark_colours(all: &str) {
    let mut seen = 0;
    for kind in ["fill=\"#", "stroke=\"#"] {
        for (at, _) in all.match_indices(kind) {
            let colour = &all[at..at + kind.len() + 7];
            assert!(all.contains(&format!("[{colour}] {{")), "{colour} is the same in the dark");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} colours");
}
