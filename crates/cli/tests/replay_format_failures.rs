//! The messages of `tollgate replay` about formats, keys and conditions that it cannot use.

use crate::common::{Run, Scratch, line};

/// Asserts exit code 2, nothing on standard output, and this at the start of standard error.
#[track_caller]
fn assert_refused(run: &Run, message: &str) {
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.starts_with(message), "{}", run.err);
}

#[test]
fn a_log_of_no_known_format_is_refused_with_those_that_there_are() {
    let scratch = Scratch::new("format_unknown");
    scratch.file("a.log", "\n05/17 10:00:00 request of 192.0.2.1\n");
    assert_refused(
        &scratch.replay(&["a.log", "--policy", "9/m"]),
        "tollgate: nothing to replay in a.log: no format that has a name reads its first lines; line 2: \"05/17 \
         10:00:00 request of 192.0.2.1\"; give --format with a format as a server's configuration has it, or one of alb, \
         apache, caddy, cloudfront, combined, common, elb, envoy, envoy-json, gcp, haproxy, iis, ingress-nginx, istio, \
         json, logfmt, nginx, nginx-proxy-manager, npm, s3, squid, tcplog, traefik, vhost, w3c\n",
    );
}

#[test]
fn a_format_that_is_proposed_reads_the_line_that_it_is_proposed_for() {
    let scratch = Scratch::new("format_proposed");
    for (line, proposed) in [
        (
            "192.0.2.1 - - [17/May/2015:10:00:00 +0000] GET /a 200",
            "$remote_addr $_ [$time_local] $_",
        ),
        ("web-1  | 192.0.2.1 [2015-05-17 10:00:00,250] GET", "$remote_addr [$time_local] $_"),
        ("[17/May/2015:10:00:00] GET /a from 192.0.2.1", "[$time_local] $_ $_ $_ $remote_addr"),
        (
            "2015-05-17T10:00:00Z shop a b 192.0.2.1:80 GET",
            "$time_iso8601 $_ $_ $_ $remote_addr $_",
        ),
        ("1431856800.250 192.0.2.1 GET", "$msec $remote_addr $_"),
    ] {
        scratch.file("a.log", format!("{line}\n"));
        let run = scratch.replay(&["a.log", "--policy", "9/m"]);
        assert!(run.err.contains(&format!(", such as '{proposed}', or one of")), "{run:?}");
        let run = scratch.replay(&["a.log", "--policy", "9/m", "--format", proposed]);
        assert!(run.out.starts_with("1 lines, 0 bad, 2015-05-17T10:00:00"), "{run:?}");
    }
}

#[test]
fn a_log_that_fits_two_formats_is_refused_until_one_is_named() {
    let scratch = Scratch::new("format_unsure");
    // The first two words are the host that was asked and the client, or the client's name and its identity.
    let host = format!("www.example.com {}", line("gate.example.org", "10:00:00 +0000").trim_end());
    scratch.file("a.log", format!("{host} \"-\" \"curl/8\"\n"));
    let args = ["a.log", "--policy", "9/m", "--json"];
    assert_refused(
        &scratch.replay(&args),
        "tollgate: nothing to replay in a.log: line 1 can be read as combined (2015-05-17T10:00:00Z, \
         \"www.example.com\") and as vhost (2015-05-17T10:00:00Z, \"gate.example.org\"); give --format combined or \
         --format vhost\n",
    );
    let run = scratch.replay(&[&args[..], &["--format", "vhost"]].concat());
    assert!(run.out.contains(r#""formats":["vhost"]"#), "{run:?}");
    // The choice does not matter for a key that is the same in both formats.
    let run = scratch.replay(&[&args[..], &["--key", "user-agent"]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn a_log_of_two_formats_is_refused_until_one_is_named() {
    let scratch = Scratch::new("format_mixed");
    let elb = "2015-05-17T10:00:00.5Z lb 192.0.2.1:2817 10.0.0.1:80 0.1 0.1 0.1 200 200 0 29 \
               \"GET http://www.example.com:80/ HTTP/1.1\" \"curl/8\" - -\n";
    scratch.file("a.log", line("192.0.2.1", "10:00:00 +0000") + "bad\n" + elb);
    let args = ["a.log", "--policy", "9/m", "--json"];
    assert_refused(
        &scratch.replay(&args),
        "tollgate: nothing to replay in a.log: its first lines are of several formats: line 1 can be read as common, \
         line 3 as elb; give the --format that counts, all others are bad lines then\n",
    );
    let run = scratch.replay(&[&args[..], &["--format", "elb"]].concat());
    assert!(run.out.starts_with(r#"{"lines":3,"bad_lines":2,"#), "{run:?}");
}

#[test]
fn what_is_no_format_is_refused_with_what_would_be() {
    let scratch = Scratch::new("format_refused");
    for (format, reason) in [
        ("lighttpd", "no format has this name, and no $name, %h or %NAME% is in it; write auto, a"),
        ("$remote_addr $status", "no time of a date and a clock time is in it; have one, such as"),
        ("$remote_addr$time_local", "nothing stands between remote_addr and time_local, so"),
        ("%h %{User-Agent", "the directive at character 4 has no '}' at its end"),
        ("%h %", "no directive at character 4; write $name, %h, %{Name}i or %NAME%"),
        ("%START_TIME", "the directive at character 1 has no '%' at its end"),
        ("%h %{%H:%M}t", "no time of a date and a clock time is in it"),
    ] {
        let run = scratch.replay(&["a.log", "--policy", "9/m", "--format", format]);
        let message = format!("error: invalid value '{format}' for '--format <FORMAT>': {reason}");
        assert_refused(&run, &message);
    }
}

#[test]
fn what_is_no_key_or_condition_is_refused_with_what_would_be() {
    let scratch = Scratch::new("condition_refused");
    for (option, text, name, reason) in [
        ("--key", "ip,", "KEY", "a name is missing; write one, or several with commas, as in"),
        ("--where", "status", "CONDITION", "nothing is compared; write a field and a value as"),
        ("--where", "=304", "CONDITION", "no field stands in front of the comparison; write one"),
        ("--where", "!=304", "CONDITION", "no field stands in front of the comparison; write one"),
        ("--where", "path~(", "CONDITION", "regex parse error"),
    ] {
        let run = scratch.replay(&["a.log", "--policy", "9/m", option, text]);
        let message = format!("error: invalid value '{text}' for '{option} <{name}>': {reason}");
        assert_refused(&run, &message);
    }
}

#[test]
fn columns_are_needed_and_may_be_given() {
    let scratch = Scratch::new("format_columns");
    let columns = "#Fields: date time c-ip cs-method\n";
    let rows = "2015-05-17 10:00:00 192.0.2.1 GET\n2015-05-17 10:00:01 192.0.2.2 GET\n";
    scratch.file("bare.log", rows).file("late.log", format!("{rows}{columns}{rows}"));
    scratch.file("empty.log", format!("#Version: 1.0\n{columns}"));
    let policy = ["--policy", "9/m", "--json"];
    assert_refused(
        &scratch.replay(&[&["bare.log", "--format", "w3c"], &policy[..]].concat()),
        "tollgate: nothing to replay in bare.log: 0 of 2 lines are good; line 1: no #Fields line above it says what \
         its columns are; give --format \"#Fields: date time c-ip ...\" with all of them\n",
    );
    assert_refused(
        &scratch.replay(&[&["empty.log"], &policy[..]].concat()),
        "tollgate: nothing to replay in empty.log: it has no lines\n",
    );
    let given = ["--format", "#Fields: date time c-ip cs-method"];
    let run = scratch.replay(&[&["bare.log"], &given[..], &policy].concat());
    assert!(run.out.starts_with(r#"{"lines":2,"bad_lines":0,"#), "{run:?}");
    let run = scratch.replay(&[&["late.log"], &given[..], &policy].concat());
    assert!(run.out.starts_with(r#"{"lines":4,"bad_lines":0,"#), "{run:?}");
    let run = scratch.replay(&[&["late.log"], &policy[..]].concat());
    assert!(run.out.starts_with(r#"{"lines":4,"bad_lines":2,"#), "{run:?}");
}
