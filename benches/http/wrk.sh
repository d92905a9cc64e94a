#!/bin/sh
# Requests per second of the same server without a limit, behind Tollgate's layer and behind tower_governor's,
# measured by wrk over keep-alive connections. Rounds are interleaved, so that a disturbance of the machine disturbs
# all.
#
#   benches/http/wrk.sh                     3 rounds of 30 s each, with 2 and with 256 connections: 9 minutes
#   CONTENDERS="bare ours" WRK_ROUNDS=1 WRK_SECS=5 benches/http/wrk.sh
set -eu
cd "$(dirname "$0")/../.."
url=http://127.0.0.1:3000/
server=$(cargo bench -p tollgate-http-peers --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
printf '%-14s%12s%8s%16s\n' contender connections round requests/s
for connections in 2 256; do
  for round in $(seq "${WRK_ROUNDS:-3}"); do
    for who in ${CONTENDERS:-bare ours theirs}; do
      "$server" --serve "$who" >/dev/null &
      pid=$!
      trap 'kill $pid 2>/dev/null || true' EXIT
      until curl -s -o /dev/null "$url"; do kill -0 $pid; sleep 0.1; done
      told=$(wrk -t 2 -c $connections -d "${WRK_SECS:-30}" "$url")
      kill $pid
      wait $pid 2>/dev/null || true
      # No request is denied here: a server that answers anything but 200 did not do the same work.
      if echo "$told" | grep Non-2xx >&2; then exit 1; fi
      echo "$told" | grep 'Socket errors' >&2 || true
      rate=$(echo "$told" | sed -n 's/^Requests\/sec: *//p')
      printf '%-14s%12s%8s%16s\n' "$who" "$connections" "$round" "$rate"
    done
  done
done
