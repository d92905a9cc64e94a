//! The formats that have a name.

use super::json::JsonFormat;

/// A format with a name. Several formats may share a name, such as the formats of one server.
#[derive(Debug)]
pub(super) struct NamedFormat {
    pub(super) name: &'static str,
    /// The other names of the format.
    pub(super) aliases: &'static [&'static str],
    pub(super) shape: LineShape,
}

/// The structure of a format's lines.
#[derive(Debug)]
pub(super) enum LineShape {
    /// Lines of text, in a format that is written in the language of a server's configuration.
    Text(&'static str),
    /// Columns, as the last `#Fields` line names them.
    Columns,
    /// One object per line, as JSON or as `name=value` pairs.
    Json(&'static JsonFormat),
}

impl NamedFormat {
    /// Returns whether the format has this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

const fn text(
    name: &'static str,
    aliases: &'static [&'static str],
    text: &'static str,
) -> NamedFormat {
    NamedFormat { name, aliases, shape: LineShape::Text(text) }
}

const fn json(name: &'static str, format: &'static JsonFormat) -> NamedFormat {
    NamedFormat { name, aliases: &[], shape: LineShape::Json(format) }
}

/// The name of the format of all JSON lines that no other format reads.
pub(super) const GENERAL: &str = "json";

/// All named formats. If several formats read the same times and keys in a log, and read equally many lines to their
/// ends, the first of these formats is named.
pub(super) static NAMED: [NamedFormat; 22] = [
    text(
        "combined",
        &["nginx", "apache"],
        r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
    ),
    text("common", &[], r#"%h %l %u %t "%r" %>s %b"#),
    text("vhost", &[], r#"%v %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    text(
        "ingress-nginx",
        &[],
        concat!(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "#,
            r#""$http_referer" "$http_user_agent" $request_length $request_time "#,
            r#"[$proxy_upstream_name] [$proxy_alternative_upstream_name] $_"#
        ),
    ),
    text(
        "traefik",
        &[],
        concat!(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $bytes "$http_referer" "#,
            r#""$http_user_agent" $count "$router" "$server_url" ${duration}ms"#
        ),
    ),
    text(
        "alb",
        &[],
        concat!(
            r#"$type $time_iso8601 $elb $client $target $request_processing_time "#,
            r#"$target_processing_time $response_processing_time $status $target_status_code "#,
            r#"$received_bytes $sent_bytes "$request" "$http_user_agent" $ssl_cipher $ssl_protocol "#,
            r#"$target_group_arn "$trace_id" "$domain_name" "$chosen_cert_arn" "#,
            r#"$matched_rule_priority $request_creation_time "$actions_executed" "$redirect_url" "#,
            r#""$error_reason""#
        ),
    ),
    text(
        "elb",
        &[],
        concat!(
            r#"$time_iso8601 $elb $client $backend $request_processing_time $backend_processing_time "#,
            r#"$response_processing_time $status $backend_status_code $received_bytes $sent_bytes "#,
            r#""$request" "$http_user_agent" $ssl_cipher $ssl_protocol"#
        ),
    ),
    text(
        "s3",
        &[],
        concat!(
            r#"$bucket_owner $bucket [$time_local] $remote_addr $requester $request_id $operation "#,
            r#"$object_key "$request" $status $error_code $bytes_sent $object_size $total_time "#,
            r#"$turn_around_time "$http_referer" "$http_user_agent" $_"#
        ),
    ),
    text(
        "envoy",
        &[],
        concat!(
            r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" "#,
            r#"%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "#,
            r#"%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "#,
            r#""%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%""#
        ),
    ),
    text(
        "istio",
        &[],
        concat!(
            r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" "#,
            r#"%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% "#,
            r#"%CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" "#,
            r#"%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "#,
            r#""%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "#,
            r#""%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER% %UPSTREAM_LOCAL_ADDRESS% "#,
            r#"%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% "#,
            r#"%ROUTE_NAME%"#
        ),
    ),
    text(
        "haproxy",
        &[],
        concat!(
            r#"$client [$accept_date] $frontend $backend/$server $timers $status $bytes_read "#,
            r#"$request_cookie $response_cookie $termination_state $connections $queues $_"$request""#
        ),
    ),
    text(
        "haproxy",
        &["tcplog"],
        concat!(
            r#"$client [$accept_date] $frontend $backend/$server $timers $bytes_read "#,
            r#"$termination_state $connections $queues"#
        ),
    ),
    text(
        "squid",
        &[],
        concat!(
            r#"$msec $elapsed $remote_addr $result/$status $bytes $request_method $request_uri "#,
            r#"$remote_user $hierarchy $content_type"#
        ),
    ),
    text(
        "nginx-proxy-manager",
        &["npm"],
        concat!(
            r#"[$time_local] $upstream_cache_status $upstream_status $status - $request_method "#,
            r#"$scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] "#,
            r#"[Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer""#
        ),
    ),
    text(
        "nginx-proxy-manager",
        &["npm"],
        concat!(
            r#"[$time_local] $status - $request_method $scheme $host "$request_uri" "#,
            r#"[Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "#,
            r#""$http_user_agent" "$http_referer""#
        ),
    ),
    NamedFormat { name: "w3c", aliases: &["iis", "cloudfront"], shape: LineShape::Columns },
    json("envoy-json", &JsonFormat::ENVOY),
    json("traefik", &JsonFormat::TRAEFIK),
    json("caddy", &JsonFormat::CADDY),
    json("gcp", &JsonFormat::GCP),
    json("logfmt", &JsonFormat::LOGFMT),
    json(GENERAL, &JsonFormat::GENERAL),
];

/// Returns every name, for messages and help.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = NAMED
        .iter()
        .flat_map(|format| [format.name].into_iter().chain(format.aliases.iter().copied()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
