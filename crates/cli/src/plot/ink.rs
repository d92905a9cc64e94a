//! Colours. Pictures are drawn in colours for paper. If the reader's screen is dark, a style sheet replaces each colour
//! by another one. So a viewer without style sheets and a printer show the light picture, and no script is needed.
//! Admitted requests are blue and refused ones vermilion: readers with red-green blindness can distinguish these
//! colours.

use plotters::style::RGBColor;

pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
pub(crate) const AXIS: RGBColor = RGBColor(0x59, 0x63, 0x6E);
pub(crate) const GRID: RGBColor = RGBColor(0xDD, 0xE1, 0xE6);
pub(crate) const ADMITTED: RGBColor = RGBColor(0x00, 0x72, 0xB2);
pub(crate) const REFUSED: RGBColor = RGBColor(0xD5, 0x5E, 0x00);

/// The colours of policies. The ninth policy has the first colour again.
pub(crate) const LINES: [RGBColor; 8] = [
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x11, 0x77, 0x33),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x8A, 0x7A, 0x14),
    RGBColor(0x1E, 0x8A, 0x83),
    RGBColor(0xB8, 0x4A, 0x5E),
    RGBColor(0x9A, 0x35, 0x8E),
    RGBColor(0x2F, 0x7F, 0xB8),
];

/// The style sheet that replaces the colours above on a dark screen. A test shows that it replaces each of them.
pub(crate) const STYLE: &str = "\
@media screen and (prefers-color-scheme: dark) {
[fill=\"#FFFFFF\"] { fill: #14181D } [stroke=\"#FFFFFF\"] { stroke: #14181D }
[fill=\"#1F2328\"] { fill: #E6EAEF } [stroke=\"#1F2328\"] { stroke: #E6EAEF }
[fill=\"#59636E\"] { fill: #9AA5B1 } [stroke=\"#59636E\"] { stroke: #9AA5B1 }
[fill=\"#DDE1E6\"] { fill: #2E363F } [stroke=\"#DDE1E6\"] { stroke: #2E363F }
[fill=\"#0072B2\"] { fill: #4FA8E0 } [stroke=\"#0072B2\"] { stroke: #4FA8E0 }
[fill=\"#D55E00\"] { fill: #FF8C3A } [stroke=\"#D55E00\"] { stroke: #FF8C3A }
[fill=\"#332288\"] { fill: #A99BFF } [stroke=\"#332288\"] { stroke: #A99BFF }
[fill=\"#117733\"] { fill: #5FCB84 } [stroke=\"#117733\"] { stroke: #5FCB84 }
[fill=\"#882255\"] { fill: #F084B4 } [stroke=\"#882255\"] { stroke: #F084B4 }
[fill=\"#8A7A14\"] { fill: #DCCB5A } [stroke=\"#8A7A14\"] { stroke: #DCCB5A }
[fill=\"#1E8A83\"] { fill: #66D6CC } [stroke=\"#1E8A83\"] { stroke: #66D6CC }
[fill=\"#B84A5E\"] { fill: #F5A3AF } [stroke=\"#B84A5E\"] { stroke: #F5A3AF }
[fill=\"#9A358E\"] { fill: #E292D8 } [stroke=\"#9A358E\"] { stroke: #E292D8 }
[fill=\"#2F7FB8\"] { fill: #8CC8F2 } [stroke=\"#2F7FB8\"] { stroke: #8CC8F2 }
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_one_for_the_dark() {
        let all = [PAPER, INK, AXIS, GRID, ADMITTED, REFUSED].into_iter().chain(LINES);
        for RGBColor(r, g, b) in all {
            for kind in ["fill", "stroke"] {
                let rule = format!("[{kind}=\"#{r:02X}{g:02X}{b:02X}\"]");
                assert_eq!(STYLE.matches(&rule).count(), 1, "{rule}");
            }
        }
        assert_eq!(STYLE.matches("[fill=").count(), 6 + LINES.len());
    }
}
