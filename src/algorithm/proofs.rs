//! Ties this code to the models of `proofs/smt`, about which z3 proves the theorems that `docs/proofs.md` lists. The
//! tests here check that the code answers the questions of `proofs/vectors.txt` as the models do. The models write that
//! file, and `proofs/run` fails if the file is not what they write.

use super::{Decides, FixedWindow, Gcra, Held, Kernel, Rounding, Rules, SlidingWindow};
use crate::clock::Timestamp;
use crate::divisor::Divisor;
use crate::meter::Meter;
use crate::quota::Quota;
use crate::word::{Fields, Word};
use std::time::Duration;

const VECTORS: &str = include_str!("proofs/vectors.txt");

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn numbers<const N: usize>(question: &[&str]) -> [u64; N] {
    let numbers: Vec<u64> = question.iter().map(|text| number(text)).collect();
    numbers.try_into().expect("as many numbers as the kind of vector has")
}

/// The columns that a model writes for a decision: admitted or not, the word afterwards, the units that are left, and
/// the wait.
fn answer(meter: &Meter, word: u64, at_ns: u64, cost: u64) -> String {
    let (decision, next) = meter.check(Word::from_bits(word), Timestamp::from_nanos(at_ns), cost);
    let wait = decision.retry_after().map_or("-".into(), |wait| wait.as_nanos().to_string());
    let admitted = u8::from(decision.is_allowed());
    format!("{admitted} {} {} {wait}", next.to_bits(), decision.remaining())
}

fn windowed(kernel: Kernel, count_bits: u64) -> Meter {
    let count_bits = u8::try_from(count_bits).expect("below 64");
    Meter { kernel, fields: Fields { count_bits }, rules: Rules::default(), plain: None }
}

fn gcra([count, period_ns, burst]: [u64; 3]) -> (Gcra, u8) {
    let quota = Quota::per(count, Duration::from_nanos(period_ns)).burst(burst);
    let unit_bits = quota.unit_bits().expect("the quota is valid");
    (Gcra::new(count, period_ns, burst, unit_bits), unit_bits)
}

/// The code's answer to the question of a vector.
fn told(kind: &str, question: &[&str]) -> String {
    match kind {
        "divide" => {
            let [divisor, dividend] = numbers(question);
            let divisor = Divisor::new(divisor);
            let (quotient, remainder) = divisor.divide(dividend);
            format!("{} {quotient} {remainder}", divisor.parts()[1])
        }
        "scale" => {
            let (gcra, unit_bits) = gcra(numbers(question));
            let (factor, shift) = gcra.scale.parts();
            format!("{unit_bits} {factor} {shift}")
        }
        "gcra" => {
            let [count, period_ns, burst, word, at_ns, cost] = numbers(question);
            let (gcra, _) = gcra([count, period_ns, burst]);
            answer(&Meter::plain(gcra), word, at_ns, cost)
        }
        "late" => {
            let [count, period_ns, burst, ahead, late, cost] = numbers(question);
            let (gcra, _) = gcra([count, period_ns, burst]);
            let held = Held { ahead, ..Held::IDLE };
            // The step of GCRA does not use the moment.
            let next = gcra.step(held, gcra.moment(0), late, cost);
            let ahead = next.map_or(0, |next| next.ahead);
            format!("{} {ahead} {}", u8::from(next.is_some()), gcra.remaining(held, late))
        }
        "fixed" => {
            let [limit, window_ns, bits, word, at_ns, cost] = numbers(question);
            let kernel = Kernel::FixedWindow(FixedWindow::new(limit, window_ns));
            answer(&windowed(kernel, bits), word, at_ns, cost)
        }
        "sliding" => {
            let rounding = match question[0] {
                "exact" => Rounding::Exact,
                "down" => Rounding::Down,
                _ => Rounding::Strict,
            };
            let [limit, window_ns, bits, word, at_ns, cost] = numbers(&question[1..]);
            let count_bits = u8::try_from(bits).expect("below 64");
            let window = SlidingWindow::new(limit, window_ns, rounding, count_bits);
            answer(&windowed(Kernel::SlidingWindow(window), 2 * bits), word, at_ns, cost)
        }
        other => panic!("{other} is no kind of vector"),
    }
}

/// Returns the vectors to which the code and the models give different answers, and the number of all vectors.
fn differences(vectors: &str) -> (Vec<String>, usize) {
    let differs = |vector: &&str| {
        let (question, expected) = vector.split_once(" = ").expect("a question and its answer");
        let columns: Vec<&str> = question.split(' ').collect();
        told(columns[0], &columns[1..]) != expected
    };
    (vectors.lines().filter(differs).map(String::from).collect(), vectors.lines().count())
}

#[test]
fn the_code_answers_as_the_models_that_the_proofs_are_about() {
    let (differing, count) = differences(VECTORS);
    assert_eq!(differing, Vec::<String>::new());
    assert!(count > 500, "{count} vectors");
}

#[test]
fn a_vector_that_is_off_by_one_in_its_last_number_is_noticed() {
    for kind in ["divide", "scale", "gcra", "late", "fixed", "sliding"] {
        let vector = VECTORS.lines().rfind(|it| it.starts_with(kind) && !it.ends_with('-'));
        let (rest, last) = vector.and_then(|it| it.rsplit_once(' ')).expect("a vector");
        let planted = format!("{rest} {}", number(last) + 1);
        assert_eq!(differences(&planted).0, [planted]);
    }
}
