//! Pictures as SVG: the code that `replay` and `simulate` share.
//!
//! The library plotters does the drawing. This module adds colours that follow the reader's theme, an axis of time, and
//! a title for screen readers.

mod axis;
mod ink;

use std::fmt::Write;
use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) use axis::{CountAxis, MarkLabels, TimeAxis};
pub(crate) use ink::{ADMITTED, AXIS, GRID, INK, LINES, PAPER, REFUSED, STYLE};

/// The canvas of a picture.
pub(crate) type Canvas<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// The result of drawing, which cannot fail in memory.
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Pixels between the left edge of a panel and its plot: room for grouped numbers.
pub(crate) const LEFT: u32 = 72;

/// Pixels between the plot and the right edge: half a label of the time axis lies there.
pub(crate) const RIGHT: u32 = 48;

/// The maximum number of characters of a policy's name in a picture. Longer names are cut.
pub(crate) const NAME_CHARS: usize = 38;

/// Draws a picture of this size in pixels, for a page that contains [`STYLE`].
pub(crate) fn svg(
    title: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> io::Result<String> {
    let mut drawn = String::new();
    {
        let canvas = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        canvas
            .fill(&PAPER)
            .and_then(|()| draw(&canvas))
            .and_then(|()| canvas.present())
            .map_err(io::Error::other)?;
    }
    let mut named = String::with_capacity(drawn.len() + 200);
    let (head, body) = drawn.split_once('>').unwrap_or((&drawn, ""));
    // Writing to a string cannot fail.
    let _ = write!(named, "{head} role=\"img\">\n<title>{}</title>", escaped(title));
    named.push_str(body);
    Ok(named)
}

/// Returns the picture as a separate file, with its own style sheet.
pub(crate) fn standalone(svg: &str) -> String {
    let (head, body) = svg.split_once("</title>").unwrap_or(("", svg));
    format!("{head}</title>\n<style>\n{STYLE}</style>{body}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A chart of counts over time.
pub(crate) type Chart<'c, 's> = ChartContext<'c, SVGBackend<'s>, Cartesian2d<TimeAxis, CountAxis>>;

/// Draws the axes of a chart of counts over time, with a line at each mark of the counts. `x_labels` is the height of
/// the labels of the time in pixels, or 0 if there are none.
pub(crate) fn chart<'c, 's>(
    canvas: &'c Canvas<'s>,
    x_labels: u32,
    time: TimeAxis,
    counts: CountAxis,
) -> Result<Chart<'c, 's>, DrawingAreaErrorKind<io::Error>> {
    let mut chart = ChartBuilder::on(canvas)
        .margin_right(RIGHT)
        .x_label_area_size(x_labels)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(time, counts)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .label_style(("sans-serif", 16).into_text_style(canvas).color(&INK))
        .draw()?;
    Ok(chart)
}

/// Draws text, vertically centred, on the given side of its position.
pub(crate) fn text(canvas: &Canvas<'_>, text: &str, place: (i32, i32), style: LabelStyle) -> Drawn {
    let font = ("sans-serif", style.size).into_text_style(canvas);
    let style = font.color(&style.colour).pos(Pos::new(style.side, VPos::Center));
    canvas.draw(&Text::new(text.to_owned(), place, style))
}

/// The look of a text.
#[derive(Clone, Copy)]
pub(crate) struct LabelStyle {
    colour: RGBColor,
    size: u32,
    side: HPos,
}

/// The heading of a panel.
pub(crate) const HEADING: LabelStyle = LabelStyle { colour: INK, size: 19, side: HPos::Left };
/// A label.
pub(crate) const LABEL: LabelStyle = LabelStyle { colour: INK, size: 16, side: HPos::Left };
/// A label that ends at its position.
pub(crate) const LABEL_ENDING: LabelStyle = LabelStyle { side: HPos::Right, ..LABEL };
/// A remark.
pub(crate) const REMARK: LabelStyle = LabelStyle { colour: AXIS, ..LABEL };

/// Draws a coloured square and, to the right of it, its meaning. `x` is the left edge.
pub(crate) fn legend(
    canvas: &Canvas<'_>,
    colour: RGBColor,
    meaning: &str,
    x: i32,
    y: i32,
) -> Drawn {
    canvas.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], colour.filled()))?;
    text(canvas, meaning, (x + 18, y), LABEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_title_that_text_cannot_break() {
        let drawn = svg("<b> & \"x\"", (10, 10), |_| Ok(())).expect("memory can be drawn on");
        assert!(
            drawn.starts_with("<svg width=\"10\" height=\"10\" viewBox=\"0 0 10 10\""),
            "{drawn}"
        );
        assert!(drawn.contains("role=\"img\">\n<title>&lt;b&gt; &amp; \"x\"</title>"), "{drawn}");
        assert!(drawn.trim_end().ends_with("</svg>"), "{drawn}");
        assert!(!drawn.contains("<style>"));
        assert_eq!(standalone(&drawn).matches("<style>").count(), 1);
    }
}
