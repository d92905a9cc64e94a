//! Keeps names apart when layers are nested: no two policies in an answer have the same name.
//!
//! The inner layer writes its lists before the outer one does. If a policy of the outer layer has a name that is
//! already in them, the outer policy is reported under this name with a number: `"default-2"`.

use http::header::{HeaderMap, HeaderValue};

use super::RATE_LIMIT_POLICY;

/// Renames the policies in the lists of a layer, so that no name in them is in the answer already.
#[cold]
pub(super) fn apart(
    headers: &HeaderMap,
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
) -> (Option<HeaderValue>, Option<HeaderValue>) {
    let there: Vec<_> = headers.get_all(&RATE_LIMIT_POLICY).iter().filter_map(text).collect();
    let taken: Vec<_> = there.iter().flat_map(|list| names(list)).collect();
    let own: Vec<_> = policy.iter().filter_map(text).flat_map(names).map(str::to_owned).collect();
    let renamed = |list: HeaderValue| {
        let Some(mut told) = text(&list).map(str::to_owned) else { return list };
        // Begins with the last name, so that the indices of the names before it stay valid.
        let mut places = places(&told);
        places.reverse();
        for (begin, end) in places {
            let free = free(&told[begin..end], &taken, &own);
            told.replace_range(begin..end, &free);
        }
        HeaderValue::try_from(told).unwrap_or(list)
    };
    (policy.map(renamed), state.map(renamed))
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// The name if the answer does not have it yet, otherwise the name with the first number that is in neither list.
fn free(name: &str, there: &[&str], own: &[String]) -> String {
    let mut free = name.to_owned();
    for number in 2.. {
        if !there.contains(&&*free) && (free == name || !own.contains(&free)) {
            break;
        }
        free = format!("{}-{number}\"", name.strip_suffix('"').unwrap_or(name));
    }
    free
}

/// The names of a list's members, in their quotes.
fn names(list: &str) -> Vec<&str> {
    places(list).into_iter().map(|(begin, end)| &list[begin..end]).collect()
}

/// The ranges of the quoted names. Each quoted name begins a member, and nothing else in these lists is in quotes.
fn places(list: &str) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let (mut begin, mut is_escaped) = (None, false);
    for (at, byte) in list.bytes().enumerate() {
        match (byte, begin) {
            _ if is_escaped => is_escaped = false,
            (b'\\', Some(_)) => is_escaped = true,
            (b'"', None) => begin = Some(at),
            (b'"', Some(from)) => {
                places.push((from, at + 1));
                begin = None;
            }
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(there: &[&str], policy: &str, state: &str) -> [String; 2] {
        let mut headers = HeaderMap::new();
        for list in there {
            headers.append(&RATE_LIMIT_POLICY, HeaderValue::from_str(list).expect("ASCII"));
        }
        let value = |text| Some(HeaderValue::from_str(text).expect("ASCII"));
        let (policy, state) = apart(&headers, value(policy), value(state));
        [policy, state].map(|list| list.expect("a list").to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn a_name_that_is_there_gets_the_first_number_that_is_free() {
        let own = ["\"a\";q=9;w=1, \"b\";q=8;w=1", "\"a\";r=1;t=1"];
        assert_eq!(told(&["\"c\";q=1;w=1"], own[0], own[1]), own);
        assert_eq!(
            told(&["\"a\";q=1;w=1", "\"a-2\";q=1;w=1"], own[0], own[1]),
            ["\"a-3\";q=9;w=1, \"b\";q=8;w=1", "\"a-3\";r=1;t=1"]
        );
        // The other names in the layer's own list are taken, too.
        assert_eq!(
            told(&["\"a\";q=1;w=1"], "\"a\";q=9;w=1, \"a-2\";q=8;w=1", "\"a-2\";r=1;t=1"),
            ["\"a-3\";q=9;w=1, \"a-2\";q=8;w=1", "\"a-2\";r=1;t=1"]
        );
    }

    #[test]
    fn quotes_within_a_name_end_no_name() {
        assert_eq!(
            told(&["\"x \\\"a\\\\\";q=1;w=1"], "\"a\";q=9;w=1", "\"a\";r=1;t=1"),
            ["\"a\";q=9;w=1", "\"a\";r=1;t=1"]
        );
        assert_eq!(names("\"x \\\"a\\\\\";q=1, \"b\";q=2"), ["\"x \\\"a\\\\\"", "\"b\""]);
    }
}
