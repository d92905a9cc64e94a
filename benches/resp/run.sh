#!/usr/bin/env bash
# Requests per second and p99 of `tollgate serve` over HTTP and over Redis' protocol, beside throttlecrab-server if it is
# there (`cargo install throttlecrab-server`, which needs protoc). Each round asks every contender in turn, so that what
# disturbs the machine disturbs all; what is printed at the end are medians of the rounds' ratios.
#
#   benches/resp/run.sh                          3 rounds of 5 s for each row: 4 minutes
#   ROUNDS=1 SECS=2 CONNECTIONS=16 benches/resp/run.sh
#   TOLLGATE=path/to/tollgate THROTTLECRAB=path/to/throttlecrab-server benches/resp/run.sh
#
# Needs wrk, redis-tools (redis-benchmark, redis-cli) and curl. Asserts that answers are right: before the first round
# that each contender admits three of four requests and says what remains, and afterwards that it has admitted all, and
# decided as many as were asked.
set -euo pipefail
cd "$(dirname "$0")/../.."
ROUNDS=${ROUNDS:-3} SECS=${SECS:-5} KEYS=${KEYS:-10000}
read -ra connections <<<"${CONNECTIONS:-16 256}"
HTTP=18180 GRPC=18181 ADMIN=18182 RESP=18183 THEIR_HTTP=18184 THEIR_RESP=18185
if [ -z "${TOLLGATE:-}" ]; then
  cargo build -q --release -p tollgate-cli --features serve --bin tollgate
  TOLLGATE=target/release/tollgate
fi
THROTTLECRAB=${THROTTLECRAB:-$(command -v throttlecrab-server || true)}
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

# A limit that denies nothing of a bench, and one that denies the fourth.
mkdir "$work/rules"
cat >"$work/rules/bench.yaml" <<'RULES'
domain: bench
descriptors:
  - {key: user, rate_limit: {window: 1s, requests_per_unit: 1000000, algorithm: gcra}}
  - {key: few, rate_limit: {unit: hour, requests_per_unit: 3, algorithm: gcra}}
RULES
# And 10,000 rules that no request meets, whose metrics are read in the rows called scraped.
{
  printf 'domain: many\ndescriptors:\n'
  printf '  - {key: k%d, value: v, rate_limit: {unit: hour, requests_per_unit: 5}}\n' $(seq 10000)
} >"$work/rules/many.yaml"
"$TOLLGATE" serve --rules "$work/rules" --http 127.0.0.1:$HTTP --grpc 127.0.0.1:$GRPC --admin 127.0.0.1:$ADMIN \
  --resp 127.0.0.1:$RESP --log-level warn &
pids+=($!)
if [ -n "$THROTTLECRAB" ]; then
  "$THROTTLECRAB" --http --http-host 127.0.0.1 --http-port $THEIR_HTTP --redis --redis-host 127.0.0.1 \
    --redis-port $THEIR_RESP --log-level warn &
  pids+=($!)
else
  echo "throttlecrab-server is not there: tollgate alone" >&2
fi

fail() { echo "$*" >&2; exit 1; }
up() { for _ in $(seq 100); do redis-cli -p "$1" PING >/dev/null 2>&1 && return; sleep 0.1; done; fail "nothing at $1"; }
up $RESP
[ -z "$THROTTLECRAB" ] || up $THEIR_RESP

# The answers that show whether a contender decides what it is asked.
told() { # EXPECTED COMMAND...: four times
  local expected=$1 found
  shift
  found=$(for _ in 1 2 3 4; do "$@" | tr '\n' ' '; done)
  [ "$found" = "$expected" ] || fail "$* answered $found and not $expected"
}
check() { curl -s "http://127.0.0.1:$1" -H 'content-type: application/json' -d "$2" | grep -oE '"allowed":(true|false)' | head -1; }
admits_three='"allowed":true "allowed":true "allowed":true "allowed":false '
told "0 3 2 -1 1200 0 3 1 -1 2400 0 3 0 -1 3600 1 3 0 1200 3600 " redis-cli -p $RESP CL.THROTTLE few 2 3 3600
told "$admits_three" check "$HTTP/v1/check" '{"domain": "bench", "descriptors": [{"few": "x"}]}'
if [ -n "$THROTTLECRAB" ]; then
  admitted=$(for _ in 1 2 3 4; do redis-cli -p $THEIR_RESP THROTTLE few 3 3 3600 | head -1; done | xargs)
  [ "$admitted" = "1 1 1 0" ] || fail "throttlecrab admitted $admitted"
  told "$admits_three" check "$THEIR_HTTP/throttle" '{"key": "few2", "max_burst": 3, "count_per_period": 3, "period": 3600}'
fi

lua() { # BODY with %d: a request for one of the keys
  cat <<LUA
math.randomseed(1)
local requests = {}
for n = 1, $KEYS do
  requests[n] = wrk.format("POST", nil, {["content-type"] = "application/json"}, string.format('$1', n))
end
request = function() return requests[math.random($KEYS)] end
LUA
}
lua '{"domain": "bench", "descriptors": [{"user": "key:%d"}]}' >"$work/ours.lua"
lua '{"key": "key:%d", "max_burst": 1000000, "count_per_period": 1000000, "period": 1}' >"$work/theirs.lua"

over_http() { # URL SCRIPT CONNECTIONS: requests a second, and p99 in milliseconds
  local said
  said=$(wrk -t 2 -c "$3" -d "${SECS}s" --latency -s "$2" "http://127.0.0.1:$1")
  if grep -E 'Non-2xx|Socket errors' <<<"$said" >&2; then fail "not everything was admitted"; fi
  awk '/99%/ { p = $2; ms = p + 0; if (p ~ /us$/) ms /= 1000; else if (p ~ /[0-9]s$/) ms *= 1000 }
    /Requests\/sec/ { rate = $2 } END { printf "%.0f %.3f", rate, ms }' <<<"$said"
}

scraped() { # the same of tollgate over HTTP, while its metrics are read twice a second
  local reader said
  while :; do curl -s "http://127.0.0.1:$HTTP/metrics" >/dev/null; sleep 0.5; done &
  reader=$!
  said=$(over_http $HTTP/v1/check "$work/ours.lua" "$1")
  kill $reader
  wait $reader 2>/dev/null || true
  [ "$(curl -s "http://127.0.0.1:$HTTP/metrics" | grep -c 'rule_hits_total{domain="many"')" = 10000 ] ||
    fail "these are not the metrics of 10,000 rules"
  echo "$said"
}

declare -A rate_seen
over_resp() { # PORT CONNECTIONS PIPELINE COMMAND...: the same
  local port=$1 clients=$2 deep=$3 key requests said
  shift 3
  key="$port $clients $deep"
  # As many as take SECS: a first run says how many these are.
  requests=${rate_seen[$key]:-100000}
  [ -n "${rate_seen[$key]:-}" ] || requests=$(ask $((clients * deep * 200)) "$@" | awk -v s="$SECS" '{ printf "%.0f", $1 * s }')
  said=$(ask "$requests" "$@")
  rate_seen[$key]=$(awk -v s="$SECS" '{ printf "%.0f", $1 * s }' <<<"$said")
  echo "$said"
}
ask() { # REQUESTS COMMAND...
  local n=$1
  shift
  [ "$port" != $RESP ] || echo "$n" >>"$work/asked"
  redis-benchmark -h 127.0.0.1 -p "$port" -c "$clients" -P "$deep" -n "$n" -r "$KEYS" --csv "$@" 2>/dev/null |
    tail -1 | tr -d '"' | awk -F, '{ printf "%.0f %.3f\n", $(NF-6), $(NF-1) }'
}

row() { # CONTENDER PROTOCOL CONNECTIONS ROUND "RATE P99"
  printf '%-13s%-10s%12s%7s%12s%9s\n' "$1" "$2" "$3" "$4" ${5% *} ${5#* } | tee -a "$work/rows"
}
printf '%-13s%-10s%12s%7s%12s%9s\n' contender protocol connections round requests/s p99/ms
for round in $(seq "$ROUNDS"); do
  for n in "${connections[@]}"; do
    row tollgate http "$n" "$round" "$(over_http $HTTP/v1/check "$work/ours.lua" "$n")"
    row tollgate scraped "$n" "$round" "$(scraped "$n")"
    [ -z "$THROTTLECRAB" ] || row throttlecrab http "$n" "$round" "$(over_http $THEIR_HTTP/throttle "$work/theirs.lua" "$n")"
    for deep in 1 32; do
      row tollgate "resp P$deep" "$n" "$round" \
        "$(over_resp $RESP "$n" $deep CL.THROTTLE key:__rand_int__ 99999 1000000 1)"
      [ -z "$THROTTLECRAB" ] || row throttlecrab "resp P$deep" "$n" "$round" \
        "$(over_resp $THEIR_RESP "$n" $deep THROTTLE key:__rand_int__ 100000 1000000 1)"
    done
  done
done

# What tollgate says of itself: nothing was denied but what was to be.
counted() { curl -s "http://127.0.0.1:$HTTP/metrics" | awk -v series="$1" '$1 == series { print $2 }'; }
for protocol in check resp; do
  [ "$(counted "tollgate_requests_total{protocol=\"$protocol\",outcome=\"over_limit\"}")" = 1 ] || fail "$protocol: denied"
done
# Three by hand, and all of the rounds.
asked=$(awk '{ n += $1 } END { print n + 3 }' "$work/asked")
admitted=$(counted 'tollgate_requests_total{protocol="resp",outcome="allowed"}')
[ "$admitted" -ge "$asked" ] || fail "of $asked requests $admitted were admitted over Redis' protocol"

awk -v both="$THROTTLECRAB" '
  { key = $1 " " $2; if ($2 == "resp") { key = key " " $3; at = 4 } else at = 3
    connections = $at; round = $(at + 1); rate[key, connections, round] = $(at + 2); p99[key, connections, round] = $(at + 3)
    if (round > rounds) rounds = round; seen[connections] = 1 }
  function median(one, other, connections, values,   n, i, j, t, all) {
    n = 0
    for (i = 1; i <= rounds; i++) {
      t = other == "" ? 1 : (values == "p99" ? p99[other, connections, i] : rate[other, connections, i])
      all[++n] = (values == "p99" ? p99[one, connections, i] : rate[one, connections, i]) / t
      for (j = n; j > 1 && all[j - 1] > all[j]; j--) { t = all[j]; all[j] = all[j - 1]; all[j - 1] = t }
    }
    return all[int((n + 1) / 2)]
  }
  END {
    print "\nratios, medians of the rounds:"
    for (c in seen) {
      printf "%5d connections: resp P32 / http %.2f; scraped / http: rate %.2f, p99 %.2f", c, \
        median("tollgate resp P32", "tollgate http", c, "rate"), median("tollgate scraped", "tollgate http", c, "rate"), \
        median("tollgate scraped", "tollgate http", c, "p99")
      if (both != "") {
        split("http,resp P1,resp P32", names, ",")
        for (k = 1; k <= 3; k++)
          printf "; %s beside throttlecrab: rate %.2f, p99 %.2f", names[k], \
            median("tollgate " names[k], "throttlecrab " names[k], c, "rate"), \
            median("tollgate " names[k], "throttlecrab " names[k], c, "p99")
      }
      print ""
    }
  }' "$work/rows"
