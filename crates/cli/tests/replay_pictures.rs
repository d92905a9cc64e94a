//! `tollgate replay --html` and `--svg`: the content of the page and the picture, whatever their style.

use crate::common::{Scratch, assert_refused, line};
use crate::pages::between;
use crate::svg::{ADMITTED, REFUSED};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");

const FOUR: [&str; 8] = [
    "--policy",
    "gcra 10/m burst 5",
    "--policy",
    "fixed-window 10/m",
    "--policy",
    "sliding-window 10/m",
    "--policy",
    "segmented-window 10/m x6",
];

/// Eight requests over 200 s. Under `2/m` of fixed windows 192.0.2.1 is admitted twice and refused
/// three times in the first minute, and admitted once in the third and the fourth.
fn small() -> String {
    let times =
        ["10:00:00", "10:00:10", "10:00:20", "10:00:30", "10:00:40", "10:02:50", "10:03:20"];
    let log: String = times.iter().map(|at| line("192.0.2.1", &format!("{at} +0000"))).collect();
    log + &line("2001:db8::7", "10:01:00 +0000")
}

#[test]
fn a_picture_shows_each_bin_each_key_and_each_class_of_waits() {
    let scratch = Scratch::new("a_picture_shows");
    scratch.file("a.log", small());
    let args = ["a.log", "--policy", "fixed-window 2/m", "--svg", "out.svg"];
    let run = scratch.replay(&args);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let drawn = scratch.read("out.svg");
    let texts = crate::svg::texts(&drawn);
    for text in [
        "refused requests, added up",
        "fixed-window 2/m: 3",
        "fixed-window 2/m",
        "requests in 1s",
        "most refused keys, of their requests",
        "192.0.2.1",
        "3 of 7",
        "refused were told to wait",
        "up to 1m",
        "3 (100.00 %)",
        "10:00:00",
        "10:03:00",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text:?} is not in {texts:?}");
    }
    // There is a bar for each second with an admission, one in the legend, and one for the worst key.
    assert_eq!(crate::svg::rectangles(&drawn, ADMITTED), 5 + 1 + 1);
    // There is a bar for each second with a refusal, one in the legend, one for the worst key, and one for a class of
    // waits.
    assert_eq!(crate::svg::rectangles(&drawn, REFUSED), 3 + 1 + 1 + 1);
    assert_eq!(crate::svg::curves(&drawn), 1);
    crate::svg::assert_legible(&drawn);
    crate::svg::assert_has_dark_colours(&drawn);
    assert!(drawn.starts_with("<svg ") && drawn.contains("<title>requests refused over time, "));
}

#[test]
fn a_page_needs_nothing_else() {
    let scratch = Scratch::new("a_page");
    let run = scratch.replay(&[&[SAMPLE, "--html", "out.html"], &FOUR[..]].concat());
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let page = scratch.read("out.html");
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"));
    for loaded in
        ["<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import", "onload"]
    {
        assert!(!page.contains(loaded), "{loaded}");
    }
    // The namespaces of SVG are not links.
    assert_eq!(
        page.matches("http").count(),
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
    assert!(page.contains("(prefers-color-scheme: dark)") && page.contains("@media print"));
    for text in ["2,628 lines, 0 bad", "<td>1,822</td>", "<td>30.67 %</td>", "<td>192.0.2.66</td>"]
    {
        assert!(page.contains(text), "{text}");
    }
    let pictures = between(&page, "<svg ", "</svg>");
    assert_eq!(pictures.len(), 5);
    for picture in pictures {
        crate::svg::assert_legible(&format!("<svg {picture}</svg>"));
        assert!(picture.contains("role=\"img\"") && picture.contains("<title>"));
    }
    crate::svg::assert_has_dark_colours(&page);
}

#[test]
fn four_policies_in_one_picture_are_legible_and_a_stream_is_drawn_as_the_log_is() {
    let scratch = Scratch::new("four_legible");
    let run = scratch.replay(&[&[SAMPLE, "--svg", "log.svg"], &FOUR[..]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    let drawn = scratch.read("log.svg");
    crate::svg::assert_legible(&drawn);
    assert_eq!(crate::svg::curves(&drawn), 4);
    assert!(drawn.len() < 300_000, "{} bytes", drawn.len());
    let args = [SAMPLE, "--svg", "stream.svg", "--stream", "--reorder", "10s"];
    assert_eq!(scratch.replay(&[&args[..], &FOUR[..]].concat()).code, Some(0));
    assert!(drawn == scratch.read("stream.svg"));
}

#[test]
fn nothing_of_a_log_is_markup() {
    let scratch = Scratch::new("no_markup");
    let agent = "</title><script>alert('1')</script>&amp;\u{202e}";
    let text = line("192.0.2.1", "10:00:00 +0000");
    scratch.file("a.log", format!("{} \"-\" \"{agent}\"\n", text.trim_end()).repeat(3));
    let args =
        ["a.log", "--key", "user-agent", "--policy", "1/m", "--html", "o.html", "--svg", "o.svg"];
    assert_eq!(scratch.replay(&args).code, Some(0));
    for file in ["o.html", "o.svg"] {
        let written = scratch.read(file);
        assert!(!written.contains("<script") && !written.contains('\u{202e}'), "{file}");
        assert!(written.contains("&lt;script&gt;"), "{file}");
    }
    assert!(scratch.read("o.html").contains("&amp;amp;\\u{202e}</td>"));
    crate::svg::assert_legible(&scratch.read("o.svg"));
}

#[test]
fn one_line_is_a_page_and_a_picture() {
    let scratch = Scratch::new("one_line");
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000"));
    let args = ["a.log", "--policy", "10/m", "--html", "o.html", "--svg", "o.svg"];
    let run = scratch.replay(&args);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let texts = crate::svg::texts(&scratch.read("o.svg"));
    assert!(texts.iter().any(|text| text == "nothing refused"), "{texts:?}");
    assert!(scratch.read("o.html").contains("Nothing refused."));
    crate::svg::assert_legible(&scratch.read("o.svg"));
}

#[test]
fn many_policies_all_have_their_names() {
    let scratch = Scratch::new("many_policies");
    scratch.file("a.log", small());
    let policies: Vec<String> = (1..=24).map(|n| format!("sliding-window {n}/250ms")).collect();
    let mut args = vec!["a.log", "--svg", "o.svg"];
    policies.iter().for_each(|policy| args.extend(["--policy", policy]));
    assert_eq!(scratch.replay(&args).code, Some(0));
    let drawn = scratch.read("o.svg");
    crate::svg::assert_legible(&drawn);
    let texts = crate::svg::texts(&drawn);
    for policy in &policies {
        assert!(
            texts.iter().any(|text| text.starts_with(&format!("{policy}: "))),
            "{policy} is not in {texts:?}"
        );
    }
}

#[test]
fn a_log_is_not_overwritten() {
    let scratch = Scratch::new("not_overwritten");
    scratch.file("a.log", small());
    for option in ["--html", "--svg"] {
        let run = scratch.replay(&["a.log", "--policy", "10/m", option, "./a.log"]);
        assert_refused(
            &run,
            "tollgate: ./a.log is to be read and to be written, and would be lost; give another file to write\n",
        );
    }
    assert_eq!(scratch.read("a.log"), small());
}

#[cfg(unix)] // the system's own words are part of the message
#[test]
fn a_picture_that_cannot_be_written_costs_no_table() {
    let scratch = Scratch::new("unwritable");
    scratch.file("a.log", small());
    let table = scratch.replay(&["a.log", "--policy", "10/m"]);
    let run = scratch.replay(&["a.log", "--policy", "10/m", "--svg", "missing/o.svg"]);
    assert_eq!((run.code, &run.out), (Some(2), &table.out));
    assert_eq!(
        run.err,
        "tollgate: cannot write missing/o.svg: No such file or directory (os error 2); give a file in a \
         directory that exists\n"
    );
}

const LABEL: &str =
    "<text x=\"10\" y=\"20\" dy=\"0.5ex\" font-size=\"12\" fill=\"#123456\">a label</text>";

#[test]
#[should_panic(expected = "lies on \"a label\"")]
fn a_text_upon_another_is_caught() {
    let other = LABEL.replace("a label", "another").replace("\"10\"", "\"40\"");
    let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"100\">";
    crate::svg::assert_legible(&format!("{head}{LABEL}{other}</svg>"));
}

#[test]
#[should_panic(expected = "\"a label\" is cut")]
fn a_text_beyond_the_edge_is_caught() {
    let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"50\" height=\"100\">";
    crate::svg::assert_legible(&format!("{head}{LABEL}</svg>"));
}

#[test]
#[should_panic(expected = "fill=\"#123456\" is the same in the dark")]
fn a_colour_that_is_the_same_in_the_dark_is_caught() {
    crate::svg::assert_has_dark_colours(LABEL);
}
