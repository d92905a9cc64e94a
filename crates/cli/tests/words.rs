//! `docs/words.md`: every word is read as the page says, and each policy admits at once as many requests as the page
//! says.

use crate::pages::read;
use tollgate::{Limiter, ManualClock, Policy};
use tollgate_rules::{RuleCache, RuleSettings, RuleText};

/// Returns the cells of each row of the first table of a section, without its head.
fn rows(section: &str) -> Vec<Vec<String>> {
    rows_of(section, 0)
}

/// Returns the cells of each row of a table of a section, without its head.
fn rows_of(section: &str, number: usize) -> Vec<Vec<String>> {
    let page = read("docs/words.md");
    let (_, from) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let mut tables = from.split("\n## ").next().unwrap().split("\n\n");
    let table =
        tables.by_ref().filter(|part| part.trim_start().starts_with('|')).nth(number).unwrap();
    let table = table.trim_start().lines();
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    table.skip(2).map(cells).collect()
}

/// Returns the texts in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Returns the one policy of a cell, if its limiter admits at one instant as many units as the next cell says.
fn policy(cell: &str, at_once: &str) -> Result<Policy, String> {
    let text = quoted(cell)[0];
    let policy: Policy = text.parse().map_err(|error| format!("{error}"))?;
    let limiter = Limiter::builder(policy).clock(ManualClock::new()).build();
    let admitted = (0..20_000).filter(|_| limiter.check().is_allowed()).count();
    if admitted.to_string() == at_once {
        Ok(policy)
    } else {
        Err(format!("{text} admits {admitted} at once, not {at_once}"))
    }
}

/// Checks that these words are read as this policy.
fn is_read_as(words: &str, policy: Policy) -> Result<(), String> {
    let read: Policy = words.parse().map_err(|error| format!("{error}"))?;
    if read == policy { Ok(()) } else { Err(format!("{words} is read as {read}, not {policy}")) }
}

#[test]
fn words_of_other_texts_are_read_as_the_page_says() {
    let rows = rows("Words that are read as they are");
    assert!(rows.len() > 10);
    for row in rows {
        let policy = policy(&row[1], &row[2]).unwrap();
        for words in quoted(&row[0]) {
            assert_eq!(is_read_as(words, policy), Ok(()));
        }
    }
}

const RATES: &str = "Rates as people write them";

/// Returns the algorithm of a policy's text, and its rate.
fn divided(text: &str) -> (&str, &str) {
    let rate = text.find(|letter: char| letter.is_ascii_digit()).unwrap();
    let (name, rate) = text.split_at(rate);
    (if name.is_empty() { "gcra" } else { name.trim() }, rate)
}

/// Returns the policy of a rule with this limit, or why the rule is refused.
fn rule(algorithm: &str, rate: &str) -> Result<Policy, String> {
    let text = format!(
        "domain: d\ndescriptors: [{{key: k, rate_limit: {{rate: \"{rate}\", algorithm: {algorithm}}}}}]\n"
    );
    let loaded = RuleCache::new(RuleSettings::default()).load(&[RuleText::new("d.yaml", text)]);
    let rules = loaded.map_err(|errors| errors[0].to_string())?;
    Ok(rules.rules()[0].limits()[0].policy().unwrap())
}

/// Runs `simulate` and `replay` with these policies, and returns their outputs.
fn commands(policies: &[&str]) -> [std::process::Output; 2] {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");
    [["simulate", "--pattern", "boundary"].as_slice(), &["replay", log]].map(|command| {
        let policies = policies.iter().flat_map(|policy| ["--policy", policy]);
        let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        run.args(command).args(policies).output().unwrap()
    })
}

#[test]
fn a_rate_is_read_alike_in_policies_rules_replay_and_simulate() {
    let rows = rows_of(RATES, 0);
    assert!(rows.len() > 10);
    for row in &rows {
        let policy: Policy = quoted(&row[1])[0].parse().unwrap();
        for words in quoted(&row[0]) {
            assert_eq!(is_read_as(words, policy), Ok(()));
            let (algorithm, rate) = divided(words);
            assert_eq!(rule(algorithm, rate), Ok(policy), "{words}");
        }
    }
    // The report has each policy in the words of the user. One run has the first policy of each row, the other run has
    // all texts of the first row.
    let firsts = rows.iter().map(|row| quoted(&row[0])[0]).collect::<Vec<_>>();
    for policies in [firsts, quoted(&rows[0][0])] {
        for run in commands(&policies) {
            let report = String::from_utf8(run.stdout).unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
            assert!(policies.iter().all(|words| report.contains(words)), "{report}");
        }
    }
}

#[test]
fn a_rate_of_two_meanings_or_of_none_is_refused_alike_with_what_to_write() {
    let rows = rows_of(RATES, 1);
    assert!(rows.len() > 8);
    for row in &rows {
        let (words, told) = (quoted(&row[0])[0], quoted(&row[1])[0]);
        let (algorithm, rate) = divided(words);
        let error = words.parse::<Policy>().unwrap_err().to_string();
        for error in [error, rule(algorithm, rate).unwrap_err()] {
            assert!(error.contains(told), "{error}");
        }
        for run in commands(&[words]) {
            assert!(!run.status.success(), "{words}");
            let error = String::from_utf8(run.stderr).unwrap();
            assert!(error.contains(told), "{error}");
        }
    }
}

#[test]
fn words_of_several_meanings_are_refused_with_what_to_use() {
    let rows = rows("Words that are refused, with what to use");
    assert_eq!(rows.len(), 3);
    for row in rows {
        policy(&row[1], &row[2]).unwrap();
        let algorithm = quoted(&row[1])[0].split(' ').next().unwrap();
        for words in quoted(&row[0]) {
            let error = words.parse::<Policy>().unwrap_err().to_string();
            let (_, accepted) = error.split_once("; use ").expect(&error);
            assert!(accepted.contains(algorithm), "{error}");
        }
    }
    let error = "concurrency 5/s".parse::<Policy>().unwrap_err().to_string();
    assert!(error.ends_with("; use a semaphore: requests in progress are not counted here"));
}

#[test]
fn a_setting_of_another_program_admits_at_once_what_the_page_says() {
    let rows = rows("Settings of other programs");
    assert!(rows.len() > 25);
    for row in rows {
        assert_eq!(policy(&row[2], &row[3]).map(drop), Ok(()));
    }
}

#[test]
fn a_wrong_policy_beside_words_is_caught() {
    let of = |text: &str| text.parse().unwrap();
    assert_eq!(
        is_read_as("sliding tail 100/m", of("sliding-window 100/m exact")).unwrap_err(),
        "sliding tail 100/m is read as sliding-window 100/m, not sliding-window 100/m exact"
    );
    assert_eq!(
        policy("`gcra 10/s burst 21`", "20").unwrap_err(),
        "gcra 10/s burst 21 admits 21 at once, not 20"
    );
}
