//! Writes a message with rules as the text of a rule file, so that the same code reads and validates messages and
//! files.
//!
//! Each descriptor begins a line, so the line of an error identifies the descriptor. The error is then reported with
//! the path of the descriptor in the message, because the control plane has never seen the lines.

use std::fmt::Write;

use tollgate_rules::{RuleError, RuleText};

use crate::protocol::config::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};

/// The text of a message. Writing stops when the text exceeds the size that a file may have. Such a text is refused for
/// its size.
pub(super) fn text(config: &RateLimitConfig, file: String) -> RuleText {
    RuleText::new(file, Writer::of(config, None).text)
}

/// An error in the text of a message, in the form in which the control plane gets it.
pub(super) fn told(config: &RateLimitConfig, error: &RuleError) -> String {
    let line = error.at.map(|at| at.line);
    match line.and_then(|line| Writer::of(config, Some(line)).place) {
        Some(place) => format!("{}: {place}: {}", error.file, error.problem),
        None => format!("{}: {}", error.file, error.problem),
    }
}

struct Writer {
    text: String,
    line: usize,
    /// The line whose path in the message is wanted.
    wanted: Option<usize>,
    place: Option<String>,
    /// The path to the descriptor that is being written, as numbers and as names.
    numbers: Vec<usize>,
    names: Vec<String>,
}

impl Writer {
    fn of(config: &RateLimitConfig, wanted: Option<usize>) -> Self {
        let (text, numbers, names) = (String::new(), Vec::new(), Vec::new());
        let mut writer = Self { text, line: 1, wanted, place: None, numbers, names };
        writer.text += &format!("{{domain: {}", quoted(&config.domain));
        writer.descriptors(&config.descriptors);
        writer.text += "}\n";
        writer
    }

    fn descriptors(&mut self, descriptors: &[RateLimitDescriptor]) {
        if descriptors.is_empty() {
            return;
        }
        self.text += ", descriptors: [";
        for (n, descriptor) in descriptors.iter().enumerate() {
            if self.text.len() > RuleText::MAX_BYTES {
                return;
            }
            self.numbers.push(n);
            self.names.push(name(descriptor));
            self.descriptor(descriptor);
            self.numbers.pop();
            self.names.pop();
        }
        self.text.push(']');
    }

    fn descriptor(&mut self, descriptor: &RateLimitDescriptor) {
        self.text.push('\n');
        self.line += 1;
        if self.wanted == Some(self.line) {
            self.place = Some(self.here());
        }
        self.text += &format!("{{key: {}", quoted(&descriptor.key));
        if !descriptor.value.is_empty() {
            self.text += &format!(", value: {}", quoted(&descriptor.value));
        }
        for (name, is_set) in [
            ("shadow_mode", descriptor.shadow_mode),
            ("detailed_metric", descriptor.detailed_metric),
            ("quota_mode", descriptor.quota_mode),
        ] {
            if is_set {
                self.text += &format!(", {name}: true");
            }
        }
        if let Some(policy) = &descriptor.rate_limit {
            self.text += &format!(", rate_limit: {{{}}}", policy_text(policy));
        }
        self.descriptors(&descriptor.descriptors);
        self.text += "},";
    }

    fn here(&self) -> String {
        let mut place = self.names.join(".").escape_debug().to_string();
        place += " (";
        for (depth, n) in self.numbers.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            // Writing to a text does not fail.
            let _ = write!(place, "{dot}descriptors[{n}]");
        }
        place + ")"
    }
}

/// The name of a descriptor, in the form in which it is part of a rule's path.
fn name(descriptor: &RateLimitDescriptor) -> String {
    match descriptor.value.as_str() {
        "" => descriptor.key.clone(),
        value => format!("{}_{value}", descriptor.key),
    }
}

fn policy_text(policy: &RateLimitPolicy) -> String {
    let mut parts = Vec::new();
    // A number that is not a unit is written in digits, which the reader of rules refuses.
    match RateLimitUnit::try_from(policy.unit) {
        Ok(RateLimitUnit::Unknown) => {}
        Ok(unit) => parts.push(format!("unit: {}", unit.as_str_name().to_ascii_lowercase())),
        Err(_) => parts.push(format!("unit: '{}'", policy.unit)),
    }
    if policy.unlimited {
        parts.push("unlimited: true".to_owned());
    }
    // A limit of zero is written as well, although protobuf leaves a zero out of the message.
    if !policy.unlimited || policy.requests_per_unit > 0 {
        parts.push(format!("requests_per_unit: {}", policy.requests_per_unit));
    }
    if !policy.name.is_empty() {
        parts.push(format!("name: {}", quoted(&policy.name)));
    }
    if !policy.replaces.is_empty() {
        let names = policy.replaces.iter().map(|one| format!("{{name: {}}}", quoted(&one.name)));
        parts.push(format!("replaces: [{}]", names.collect::<Vec<_>>().join(", ")));
    }
    parts.join(", ")
}

/// A text in double quotes, with the escapes of YAML. The escapes of JSON would not be enough: JSON leaves DEL and the
/// control characters above it unescaped, which YAML forbids.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Line separators are escaped, too, because a reader may fold them, and so is the byte order mark.
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a text does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Problem, RuleCache, RuleSettings};

    use super::*;
    use crate::protocol::config::RateLimitReplace;

    fn limited(key: &str, unit: RateLimitUnit, requests: u32) -> RateLimitDescriptor {
        let policy = RateLimitPolicy {
            unit: unit.into(),
            requests_per_unit: requests,
            ..RateLimitPolicy::default()
        };
        RateLimitDescriptor {
            key: key.to_owned(),
            rate_limit: Some(policy),
            ..RateLimitDescriptor::default()
        }
    }

    fn config(descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
        RateLimitConfig { name: "r".to_owned(), domain: "shop".to_owned(), descriptors }
    }

    fn errors(config: &RateLimitConfig) -> Vec<String> {
        let texts = [text(config, "r".to_owned())];
        let errors = RuleCache::new(RuleSettings::default()).load(&texts).expect_err("bad rules");
        errors.iter().map(|error| told(config, error)).collect()
    }

    #[test]
    fn a_message_is_read_as_the_file_that_says_the_same() {
        let mut user = limited("user", RateLimitUnit::Week, 5);
        user.value = "a \"b\"\\\n\u{85}: {#".to_owned();
        (user.shadow_mode, user.quota_mode) = (true, true);
        if let Some(policy) = &mut user.rate_limit {
            policy.name = "own".to_owned();
            policy.replaces = vec![RateLimitReplace { name: "other".to_owned() }];
        }
        let path = limited("path", RateLimitUnit::Second, 0);
        user.descriptors = vec![RateLimitDescriptor { detailed_metric: true, ..path }];
        let free = RateLimitPolicy { unlimited: true, ..RateLimitPolicy::default() };
        let free = RateLimitDescriptor {
            key: "free".to_owned(),
            rate_limit: Some(free),
            ..RateLimitDescriptor::default()
        };
        let message = config(vec![user, free]);
        let cache = RuleCache::new(RuleSettings::default());
        let rules = cache.load(&[text(&message, "r".to_owned())]).expect("good rules");
        let [user, path, free] = rules.rules() else { panic!("three rules: {rules:?}") };
        assert_eq!(user.levels().collect::<Vec<_>>(), ["user_a \"b\"\\\n\u{85}: {#"]);
        assert_eq!((user.name(), user.is_shadow(), user.is_quota()), (Some("own"), true, true));
        // The only series is the one for hits beyond the maximum number of series.
        assert_eq!((user.series().len(), path.series().len()), (0, 1));
        assert_eq!(user.limits()[0].window().as_secs(), 604_800);
        assert_eq!(path.limits()[0].requests_per_unit(), 0);
        assert!(free.is_unlimited());
        assert_eq!(rules.domains().collect::<Vec<_>>(), ["shop"]);
    }

    #[test]
    fn every_unit_is_the_unit_of_that_name() {
        for number in 1..=7 {
            let unit = RateLimitUnit::try_from(number).expect("a unit");
            let message = config(vec![limited("k", unit, 1)]);
            let cache = RuleCache::new(RuleSettings::default());
            let rules = cache.load(&[text(&message, "r".to_owned())]).expect("good rules");
            let name = rules.rules()[0].limits()[0].unit().map(|unit| format!("{unit:?}"));
            assert_eq!(name.map(|name| name.to_uppercase()).as_deref(), Some(unit.as_str_name()));
        }
    }

    #[test]
    fn an_error_names_the_descriptor_of_the_message() {
        let mut outer = limited("user", RateLimitUnit::Hour, 1);
        outer.descriptors =
            vec![limited("a", RateLimitUnit::Day, 1), limited("b", RateLimitUnit::Unknown, 1)];
        let first = limited("first", RateLimitUnit::Hour, 1);
        assert_eq!(
            errors(&config(vec![first.clone(), outer])),
            [
                "r: user.b (descriptors[1].descriptors[1]): invalid rate limit unit ''; use second, minute, hour, \
              day, week, month or year, or leave unit out and write window: 30s"
            ]
        );
        let mut odd = limited("k", RateLimitUnit::Hour, 1);
        if let Some(policy) = &mut odd.rate_limit {
            policy.unit = 99;
        }
        let told = errors(&config(vec![odd]));
        assert!(
            told[0].starts_with("r: k (descriptors[0]): invalid rate limit unit '99'"),
            "{told:?}"
        );
        let twice = errors(&config(vec![first.clone(), first]));
        assert!(
            twice[0].starts_with("r: first (descriptors[1]): duplicate descriptor"),
            "{twice:?}"
        );
        let nameless = RateLimitConfig::default();
        assert_eq!(
            errors(&nameless),
            ["r: config file cannot have empty domain; write domain: and a name"]
        );
    }

    #[test]
    fn a_message_larger_than_a_file_is_refused_and_not_written_in_full() {
        let many = vec![limited(&"k".repeat(1_000), RateLimitUnit::Hour, 1); 100_000];
        let large = text(&config(many), "r".to_owned());
        assert!(large.bytes().len() < RuleText::MAX_BYTES + 2_000);
        let errors = RuleCache::new(RuleSettings::default()).load(&[large]).expect_err("too large");
        assert_eq!(errors[0].problem, Problem::TooLarge { most: RuleText::MAX_BYTES });
    }
}
