//! Seeds of `log_line`. The inputs are used as they are.

use crate::NamedSeed;

const COMBINED: &[u8] = b"192.0.2.7 - alice [17/May/2015:10:05:03 +0000] \
    \"GET /a?b=1 HTTP/1.1\" 200 5 \"http://example.org/\\\"x\\\"\" \"Agent [1] \\\\\"\n";

pub(crate) const LOGS: [NamedSeed<&[u8]>; 20] = [
    ("combined", COMBINED),
    ("common", b"2001:db8::1 - - [31/Dec/2099:23:59:59 +0000] \"GET / HTTP/1.0\" 404 -"),
    ("common_before_1970", b"192.0.2.1 - - [01/Jan/1970:01:00:00 +0200] \"GET / HTTP/1.0\" 404 -"),
    ("common_after_2099", b"192.0.2.1 - - [31/Dec/2099:23:00:00 -0100] \"GET / HTTP/1.0\" 404 -"),
    ("leap_second", b"192.0.2.1 - - [31/Dec/2016:23:59:60 +0000] \"-\" 408 -"),
    // This line was once accepted by mistake: its day consists of zero bytes, which were equal to the parser's empty
    // cache of the last day.
    ("nul_bytes", b"192.0.2.1 - - [\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0010:05:03\x00\x00\x00\x00\x00\x00] \"-\" 408 -"),
    ("no_such_day", b"192.0.2.1 - - [29/Feb/2015:10:05:03 +0000] \"-\" 408 -"),
    ("user_with_blanks", b"gate.example.org - a b c [17/May/2015:10:05:03 -0830] \"-\" 408 -"),
    (
        "cut_off_agent",
        b"::ffff:192.0.2.1 - - [17/May/2015:10:05:03 +0545] \"GET /\" 200 5 \"-\" \"Ag",
    ),
    ("port", b"192.0.2.1:51312 - - [2015-05-17T12:05:03.25+02:00] \"GET /x#y HTTP/2\" 200 5"),
    (
        "days_and_zones",
        b"192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"-\" 408 -\n\
          192.0.2.2 - - [17/May/2015:10:05:04 +0000] \"-\" 408 -\r\n\n\
          192.0.2.1 - - [18/May/2015:00:00:00 +0200] \"-\" 408 -\n\
          192.0.2.3 - - [18/May/2015:00:00:01 -1145] \"-\" 408 -\n",
    ),
    ("json", b"{\"time\":\"2015-05-17T10:05:03Z\",\"ip\":\"192.0.2.1\",\"tenant\":7}"),
    ("json_nested", b"{\"ts\":1431857103250,\"request\":{\"id\":true,\"ip\":1},\"user\":null}"),
    (
        "json_usual_names",
        b"{\"msec\":1431857103.25,\"remote_addr\":\"[2001:db8::1]:443\",\"uri\":\"/a?\"}",
    ),
    ("json_own_time", b"{\"when\":\"17/May/2015:10:05:03 +0200\",\"client_ip\":\"192.0.2.9\"}"),
    ("json_cut", b"{\"time\":1431857103,\"ip\":\"192.0.2"),
    ("json_not_plain", b"{\"time\":[1],\"ip\":{},\"tenant\":1e400}"),
    ("byte_order_mark", b"\xEF\xBB\xBF192.0.2.1 - - [1431857103.000000001] \"GET /\" 200 1"),
    ("mixed", b"\n bad\n{}\n{\"time\":1431857103,\"ip\":\"::1\"}\n\xFF\xFE - - [\x00] \"\"\n \t\n"),
    ("nothing", b"\n"),
];
