//! `--live`: the decisions as they happen, on a terminal.
//!
//! Traffic of any span is played in ten seconds, at 15 pictures a second: a terminal need not draw faster than people
//! see. The library indicatif draws.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::lane::SimulatedLane;
use crate::replay::shortened;
use crate::spans::seconds;
use crate::tables::grouped;
use crate::traffic::Traffic;

/// The number of pictures a second.
pub(super) const RATE: u8 = 15;

/// The number of pictures in ten seconds.
const PICTURES: u32 = 10 * RATE as u32;

/// The number of characters for the time axis of a line, and for its policy. With these a line fits into 80 characters.
const COLUMNS: usize = 32;
const NAME_CHARS: usize = 22;

/// The requests of one lane so far.
#[derive(Clone, Copy, Debug, Default)]
struct LaneCounts {
    admitted: u64,
    refused: u64,
}

impl LaneCounts {
    fn add(&mut self, is_admitted: bool) {
        self.admitted += u64::from(is_admitted);
        self.refused += u64::from(!is_admitted);
    }

    /// Returns the character that represents these requests.
    fn mark(self) -> char {
        match (self.admitted, self.refused) {
            (0, 0) => '·',
            (_, 0) => '█',
            (0, _) => '░',
            _ => '▒',
        }
    }
}

/// The state up to now.
pub(super) struct LiveView<'r> {
    traffic: &'r Traffic,
    lanes: &'r [SimulatedLane],
    now_ns: u64,
    /// The number of requests that have come.
    come: usize,
    /// The counts of each lane: of all requests, and of those in each column.
    all: Vec<LaneCounts>,
    columns: Vec<[LaneCounts; COLUMNS]>,
}

impl<'r> LiveView<'r> {
    /// Returns the view before the first request.
    pub(super) fn new(traffic: &'r Traffic, lanes: &'r [SimulatedLane]) -> Self {
        Self {
            traffic,
            lanes,
            now_ns: traffic.span_ns.0,
            come: 0,
            all: vec![LaneCounts::default(); lanes.len()],
            columns: vec![[LaneCounts::default(); COLUMNS]; lanes.len()],
        }
    }

    /// Processes the requests up to and including a time.
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        while let Some(&at_ns) = self.traffic.times.get(self.come).filter(|at_ns| **at_ns <= now_ns)
        {
            let column = self.column(at_ns);
            for (n, lane) in self.lanes.iter().enumerate() {
                let is_admitted = lane.admitted[self.come];
                self.all[n].add(is_admitted);
                self.columns[n][column].add(is_admitted);
            }
            self.come += 1;
        }
    }

    fn column(&self, at_ns: u64) -> usize {
        let (start_ns, end_ns) = self.traffic.span_ns;
        let (part, whole) = (at_ns.saturating_sub(start_ns), end_ns.saturating_sub(start_ns));
        let column = u128::from(part) * COLUMNS as u128 / (u128::from(whole) + 1);
        usize::try_from(column).unwrap_or(COLUMNS).min(COLUMNS - 1)
    }

    /// Returns the picture: the time, a line for each policy, and a legend.
    pub(super) fn text(&self) -> String {
        let (start_ns, end_ns) = self.traffic.span_ns;
        let name = shortened(self.traffic.name.as_bytes(), NAME_CHARS + COLUMNS);
        let mut text = format!(
            "{name}: {}s of {}s\n",
            seconds(self.now_ns.saturating_sub(start_ns)),
            seconds(end_ns.saturating_sub(start_ns))
        );
        let passed = self.column(self.now_ns);
        for ((lane, all), columns) in self.lanes.iter().zip(&self.all).zip(&self.columns) {
            let marks: String =
                (0..COLUMNS).map(|n| if n <= passed { columns[n].mark() } else { ' ' }).collect();
            let name = shortened(lane.policy.to_string().as_bytes(), NAME_CHARS - 1);
            let (admitted, refused) = (grouped(all.admitted), grouped(all.refused));
            text += &format!("{name:<NAME_CHARS$} {marks} {admitted:>9} {refused:>9}\n");
        }
        let marks = "█ admitted  ▒ some of both  ░ refused";
        text + &format!(
            "{marks:<width$} {:>9} {:>9}",
            "admitted",
            "refused",
            width = NAME_CHARS + 1 + COLUMNS
        )
    }
}

/// Plays the traffic from its start to its end; `pause` waits from one picture to the next.
pub(super) fn play(
    traffic: &Traffic,
    lanes: &[SimulatedLane],
    target: ProgressDrawTarget,
    mut pause: impl FnMut(),
) {
    let mut view = LiveView::new(traffic, lanes);
    let bar = ProgressBar::with_draw_target(None, target);
    // The template is constant; if it were invalid, the library's own bar would be shown.
    let style = ProgressStyle::with_template("{msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (start_ns, end_ns) = traffic.span_ns;
    let whole = u128::from(end_ns.saturating_sub(start_ns));
    for picture in 0..=PICTURES {
        let part = whole * u128::from(picture) / u128::from(PICTURES);
        view.advance(start_ns.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)));
        bar.set_message(view.text());
        if picture < PICTURES {
            pause();
        }
    }
    // Counts requests after the span that is shown, too.
    view.advance(u64::MAX);
    view.now_ns = end_ns;
    bar.finish_with_message(view.text());
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// Four requests a second for two seconds, the first of each at its very start.
    fn traffic() -> Traffic {
        let times = (0..8).map(|n| n * 250_000_000).collect();
        Traffic { name: "uniform".to_owned(), times, span_ns: (0, 2_000_000_000) }
    }

    fn lanes(traffic: &Traffic) -> Vec<SimulatedLane> {
        let lane = |policy: &str| {
            let policy = policy.parse::<crate::written::WrittenLimits>().expect("a policy");
            SimulatedLane::decide(&policy, &traffic.times, |_, _| Ok(()))
                .expect("nothing is written")
        };
        vec![lane("fixed-window 2/s"), lane("gcra 1/h")]
    }

    #[test]
    fn a_picture_shows_what_has_come_so_far_and_nothing_of_the_rest() {
        let traffic = traffic();
        let lanes = lanes(&traffic);
        let mut view = LiveView::new(&traffic, &lanes);
        // The fifth request comes at this exact time.
        view.advance(1_000_000_000);
        let expected = [
            "uniform: 1s of 2s",
            "fixed-window 2/s       █··█···░···░···█                         3         2",
            "gcra 1/h               █··░···░···░···░                         1         4",
            "█ admitted  ▒ some of both  ░ refused                    admitted   refused",
        ];
        assert_eq!(view.text().lines().collect::<Vec<_>>(), expected);
    }

    /// A terminal that records what is visible.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<Vec<String>>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("one thread").push(text.trim_end().to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_left_on_the_screen_is_the_whole_and_no_more_is_drawn_than_there_is_time_for() {
        let traffic = traffic();
        let lanes = lanes(&traffic);
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), RATE);
        let mut pauses = 0;
        // Nothing waits between pictures here, so nearly all come too early to be drawn.
        play(&traffic, &lanes, target, || pauses += 1);
        assert_eq!(pauses, PICTURES);
        let drawn = screen.0.lock().expect("one thread");
        let pictures = drawn.iter().filter(|line| line.starts_with("uniform: ")).count();
        let most = usize::try_from(PICTURES / 2).expect("an index");
        assert!((1..most).contains(&pictures), "{pictures} pictures");
        let mut view = LiveView::new(&traffic, &lanes);
        view.advance(2_000_000_000);
        let whole = view.text();
        let last: Vec<&str> =
            drawn.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        let expected: Vec<&str> = whole.lines().map(str::trim_end).collect();
        assert_eq!(last[last.len() - expected.len()..], expected);
    }
}
