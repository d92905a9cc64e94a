#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! Rules pass through these parts. Each part is a module with a type:
//!
//! ```text
//! RuleSource -> Retriever -> RuleCache -> client identifier builder -> DecisionMaker
//! texts         when they    compiled,    what a rule leaves open,     all limits of
//!               change       replaced     as bytes                     a request, or none
//!                            at once
//! ```
//!
//! # The language
//!
//! A rule file of envoyproxy/ratelimit has the same meaning here. The known keys are `domain`, `descriptors`, `key`,
//! `value` (with `*`), `rate_limit` (`unit`, `requests_per_unit`, `unlimited`, `name`, `replaces`), `shadow_mode`,
//! `quota_mode`, `share_threshold`, `detailed_metric`, `value_to_metric` and `metadata`. Merge keys and aliases of YAML
//! are supported.
//!
//! Matching is the same as well. For each entry the exact value is tried first, then patterns in the order of the file,
//! then the key alone. There is no backtracking. A descriptor gets the limit of the level at which its last entry
//! matches, and no limit of the levels above. Networks and regular expressions are [added](#values).
//!
//! ## Keys that are added under `rate_limit`
//!
//! | Key | Means |
//! |---|---|
//! | `rate: 100 req/min` | in place of `requests_per_unit` and `unit`, written as a policy's rate; a month or a year in it is one of the calendar |
//! | `window: 30s` | in place of `unit`: any length, as a policy's period |
//! | `algorithm: gcra` | any algorithm of a [`tollgate::Policy`], see [below](#algorithms). Without it: fixed windows of the UTC clock |
//! | `burst: 20` | the most units at once, under `gcra` |
//! | `mode: soft 5%` | admits that much above the limit; `hard` is the default. `elastic` borrows units that the limit denies, see [pools](#pools) |
//! | `count_rejected: true` | a denied request is charged as well |
//! | `penalty: 10m after 5` | the fifth denial in a row refuses everything for ten minutes |
//! | `queue: 50`, `wait: 450ms` | under `gcra`: the units that may wait for their turn, and the longest wait. See [queues](#queues) |
//! | `debt: 100x` | a charge that does not fit is remembered as a debt of up to 100 times the limit. See [usage](#usage) |
//! | `time_zone: Europe/Berlin` | for windows of the calendar, or fixed windows of whole days: they begin at midnight there. See [time zones](#time-zones) |
//!
//! ## Keys that are added next to it
//!
//! | Key | Means |
//! |---|---|
//! | `limits: [..]` | several limits in place of one `rate_limit`, each written like it; a request is charged to all or none |
//! | `cidr: 10.0.0.0/8`, `regex: '/users/[0-9]+'` | in place of `value`: all addresses of a network, all values of a form. See [values](#values) |
//! | `usage: true`, `usage: false` | `true`: costs are known only after they were used, and are charged in full. `false`: they are known before, and the log does not ask for this key. See [usage](#usage) |
//! | `capacity: 100000` | the number of clients that are limited at a time, [about 15 bytes each](https://github.com/tollgate-rs/tollgate/blob/main/docs/production.md#size-the-table). Without it 65,536, or the rule's [share of the memory](#memory) |
//! | `weight: 4` | in place of `capacity`: four times as many clients as a rule without both, or four shares of the memory |
//! | `on_full: spill` | the treatment of a client when the table is full of others: `spill` decides by a count that it shares with others, never above its limit; `deny` denies it; `allow` admits it. See [`OnFull`] |
//! | `prefix_v6: 56` | the number of bits of an IPv6 address that tell clients apart. The default is 64; 128 counts each address by itself. See [addresses](#addresses) |
//! | `prefix_v4: 24` | the same for IPv4 addresses; the default is all 32 bits |
//! | `on_error`, `accuracy` | for limits over several nodes, see [`DecisionMaker::decide_in`]; in one process every decision is exact. In Redis `count_rejected`, `penalty` and `sliding-log` need `accuracy: exact` |
//!
//! ## Algorithms
//!
//! `algorithm` is one of these, with its option after it:
//!
//! | Word | Also, or with |
//! |---|---|
//! | `gcra` | `token-bucket`, `leaky-bucket`, and `leaky-bucket hard` |
//! | `spaced` | |
//! | `fixed-window` | `fixed-window from-first` |
//! | `sliding-window`, the share rounded down | `sliding-window exact`, `sliding-window strict` |
//! | `segmented-window x6` | |
//! | `calendar-month`, `calendar-year`, `calendar-week` (from Monday on), `calendar-week from-sunday` | with `unit: month`, `unit: year` or `unit: week`; in UTC, or a `time_zone` |
//! | `sliding-log` | a slot of 8 bytes for each unit of each client's limit, up to 2^20, in place of one word for each client: `tollgate check` prints its memory |
//!
//! All other algorithms count a month as 30 days and a year as 365 days, and their weeks begin on Thursday.
//!
//! `mode: soft`, `count_rejected` and `penalty` become words of a [`tollgate::Policy`]. Words that the core does not
//! support yet are refused, with their place in the file.
//!
//! ## Keys of a file
//!
//! Beside `domain` and `descriptors` a file may have a [`pool`](#pools) and `forward_auth`. `forward_auth` says which
//! descriptors to make of a request that a proxy forwards for a decision ([`RuleSet::forwards`]). For each key of such
//! a descriptor it names the part of the request that becomes the value:
//!
//! * `address`, `method`, `host` or `path`, with or without the header that carries it: `path of x-original-url`;
//! * `header x-user`, the content of a header;
//! * `text web`, a constant;
//! * any of these with `else anonymous` behind it, which gives the text to use if the part is absent.
//!
//! A descriptor of `forward_auth` that no rule matches is reported, like an entry that can never match
//! ([`RuleSet::hidden`]).
//!
//! # Values
//!
//! If several entries of one level of a file have the same key, they are tried in this order. The first that matches is
//! chosen, and no other is tried:
//!
//! 1. `value: alice`, if the texts are equal.
//! 2. `cidr: 10.0.0.0/8`, the longest prefix first, whatever its place in the file. The value must be an IPv4 or IPv6
//!    address, in any spelling, or a network that lies inside this one. An IPv4-mapped address is treated as the IPv4
//!    address. A text with a port, a zone or brackets is not an address here. The bits behind the prefix must be 0.
//! 3. `value: '/api/*'` and entries with a `*` in `key`, in the order of the file.
//! 4. `regex: '/users/[0-9]+'`, in the order of the file. It must match the whole value.
//! 5. The key alone.
//!
//! `cidr` and `regex` are accepted only if `key` has no `*`. Each value that they match has a limit of its own; but all
//! IPv6 addresses of one [network](#addresses) share one limit. With `share_threshold` all values together have one
//! limit.
//!
//! **Regular expressions** have the syntax of the crate `regex`: no backreferences, no look-around. They match in time
//! linear in the value's length. A compiled expression takes at most 256 KiB, and as much again if its key has several
//! expressions. All files together may have 256 expressions. For its searches a thread caches at most 32 KiB for one
//! expression, and at most 1 MiB for all expressions of a key.
//!
//! **A `value` that looks like a network** (`value: 10.0.0.0/8`) is refused ([`MatchError`]), because no address is
//! equal to this text. It is accepted only under the key `masked_remote_address`, because Envoy writes networks there.
//! Under any other key, `regex: '10\.0\.0\.0/8'` matches exactly this text.
//!
//! **An entry can be hidden.** An entry never matches if an entry that is tried earlier matches all values that it
//! would match. Examples are `'/api/v1/*'` after `'/api/*'`, a regular expression after an equal one, and any entry
//! after a `*`. Envoyproxy/ratelimit loads such a file, so it is loaded here. [`RuleSet::hidden`] names each such entry
//! with the one that hides it, `tollgate serve` logs a warning, and `tollgate check` refuses the file. Only entries
//! that are certainly hidden are reported, and only the first million pairs of entries are compared.
//!
//! **The price of finding a rule** was measured by `cargo bench -p tollgate-rules`, in whole calls of
//! [`DecisionMaker::peek`]. The unit is the time of a call that finds an exact value among 1,000, in one run on a busy
//! machine of two cores:
//!
//! | A key has | found last | not found |
//! |---|---|---|
//! | 1,000 exact values | 1 | 0.5 |
//! | 1,000 networks | 1.3: a hash for each length of a prefix, however many there are | 0.5 |
//! | 100 patterns | 3.1: one after the other, in the order of the file | 1.2 |
//! | 100 regular expressions | 3.0: all at once (one alone takes 2.1) | 1.2 |
//!
//! # Queues
//!
//! A limit with a `queue`, a `wait` or both gives a place to a request that does not fit now. The request is admitted,
//! and [`Answer::wait`] says how long it has to wait before it goes. Requests go in the order of their calls, at the
//! rate of the limit. If a request has several limits, it waits as long as the longest of their waits, and either all
//! of them give a place or none does.
//!
//! The caller must let the request wait for that time. A caller that cannot wait asks by [`Purpose::CheckNow`], and is
//! denied if it would have to wait. A caller that gives up gives its place back by the [`Receipt`] of
//! [`Purpose::Reserve`]. See [`DecisionMaker::decide`] for rules in shadow and quota mode. Limits that are kept
//! elsewhere have queues as well: see [`RuleClaim::wait`].
//!
//! # Usage
//!
//! The number of tokens that a language model uses is known only after the response. A rule with `usage: true` has two
//! kinds of requests. A *question* has cost 0, and is admitted if anything is left. A *cost* is charged even if it does
//! not fit: the limit goes into debt.
//!
//! **How long a debt counts.** Under `gcra` a debt must drain before a question is admitted again. A fixed window
//! forgets its debt when it ends. A sliding window takes its debt into account in the next window, too.
//!
//! **How much debt is remembered.** By default it is 100 times the limit. If a client's word has no room for that, it
//! is the largest of 50, 20, 10, 5, 2 and 1 times the limit that the word has room for. `debt: 1000x` in the limit asks
//! for more. With `debt: none` the remembered debt is one more burst under `gcra`, and nothing in a window. The
//! remembered debt is just as small under rules that do not say `usage: true`, in segmented windows and in logs. A
//! client in the spill of a full table owes at most twice the burst. Units beyond the debt are reported
//! ([`Status::uncharged`]), counted ([`RuleCounts::uncharged`]), and marked once for each rule for the log
//! ([`Status::is_first_uncharged`]).
//!
//! **Other limits of the request.** A cost is charged even if another rule denies the request. If nothing was left
//! before the charge, the cost is charged and the request is denied. So a caller that asks no questions is limited,
//! too. With `quota_mode` costs are charged in the same way, and a request is denied when the limits of all its rules
//! in quota mode are used up. A rule with `usage` has no `queue`, no `wait` and no `mode: elastic`.
//!
//! **The gap.** Between the question and the cost, the limit cannot take into account what the request will use. So
//! requests that are under way at the same time may together exceed the limit.
//!
//! **A message does not say** whether its cost was used already. Only the rule's `usage` or
//! [`compat`](RuleSettings::compat) can say that it was; earlier requests have no influence. If neither says so, a cost
//! that does not fit is denied and charged nowhere. [`RuleCounts::denied_costs`] counts the units of such costs, except
//! those of cost 1. [`Status::is_first_denied_cost`] marks the first one from Envoy for the log, unless the rule says
//! `usage: false`. Under `compat` a limit without the keys `algorithm` and `debt` also charges the costs that it
//! denies, and goes into debt as described above.
//!
//! **Questions over Envoy's protocol.** With [`Purpose::CheckEnvoy`] a cost of 0 is a question, whatever the rule says
//! about `usage`. It is denied once nothing is left; under `compat` it is denied once the limit is exceeded. Two kinds
//! of limits cannot remember that they are exceeded, so under `compat`, too, they deny once nothing is left: those that
//! have no room for a debt, and those with `accuracy: async` that are kept in a store.
//!
//! **A limit that comes with a request** obeys the `usage` of the rule that it replaces. If limits are kept in a store,
//! such a limit is kept there, too, and each decision asks the store: [`RuleClaim::own_limit`].
//!
//! **Hits that are given back** (`is_negative_hits`, [`Descriptor::is_negative`]) are given back before anything else
//! of the request is decided, and stay given back if the request is denied. They are never over a limit.
//! [`tollgate::Entry::uncharge`] says which units come back under which algorithm. Nothing comes back if the client has
//! no cell, during a penalty, or for charges in a window that is over. [`Status::uncharged`] says how many units did
//! not come back. [`RuleCounts::negative`] counts the units that requests asked to give back, and
//! [`RuleCounts::given_back`] those that came back. The limit does not know who sends a request: every caller may give
//! back all units that the limit was charged, but no more.
//!
//! # Pools
//!
//! Beside `domain` and `descriptors` a file may have `pool: {unit: second, requests_per_unit: 500, burst: 100}` (or
//! `window` in place of `unit`; without `burst` the burst is `requests_per_unit`). All limits of the domain with `mode:
//! elastic` together may borrow up to this quota when the server is idle. If such a limit denies for now
//! ([`tollgate::DenialReason::OverLimit`]), the pool is asked. If it lends the units, [`Status::is_borrowed`] is true.
//! A request that borrows is charged nothing under the limit itself, so the limit's figures do not change.
//!
//! The program that does the work knows what can be spared. It reports its headroom, from 0 for none to 1 for all:
//! [`RuleCache::report_headroom`]. `tollgate-controllers` computes it from latencies or drops. A report is in force for
//! the time that it names. Before the first report, and after the last report has expired, nothing is lent. In any
//! interval of length W the pool lends at most `h * (burst + rate * W)`, where h is the largest headroom in force
//! during the interval ([`tollgate_elastic::SparePool`]).
//!
//! * **All or nothing.** A loan goes back if another limit denies the request, or if the caller gives it back by the
//!   [`Receipt`] of [`Purpose::Reserve`]. Under [`compat`](RuleSettings::compat) each descriptor borrows independently
//!   of the others.
//! * **Shadow and quota mode.** A rule in shadow mode takes nothing from the pool, because other rules need the units.
//!   Its answers say what it would borrow. A rule in quota mode is treated as a rule with room if it can borrow.
//! * **Charges.** [`Purpose::Charge`] charges the limit itself and borrows nothing.
//! * **Questions.** [`Purpose::Peek`] asks the pool separately for each limit. So it may say that two limits of a
//!   request can borrow, although the pool does not have enough for both.
//! * **Not together.** A limit that borrows cannot have `queue`, `wait`, `count_rejected` or `penalty`, and gives no
//!   places even if the caller is ready to wait. A limit in Redis does not borrow: it is refused there when rules are
//!   loaded.
//! * **Reloads.** A load that leaves the quota of a pool unchanged keeps the pool's loans and its headroom. If the
//!   quota changes, the pool begins anew with headroom 0, and [`RuleSet::changes`] reports it. A pool that was gone and
//!   comes back begins anew, too.
//!
//! # Time zones
//!
//! With a `time_zone`, windows of days, of weeks and of the calendar begin at midnight in that zone, even if a day has
//! 23 or 25 hours because clocks are changed. Weeks begin on Thursday, as they do in UTC. The name is that of a zone in
//! the IANA database, which is part of the program.
//!
//! A wait until the next window is exact, with one exception. If clocks are set back in a window, say by an hour, then
//! waits in the first hour of that window are too short, by at most an hour. If the zone of a limit changes, charges
//! stay until the window in which they were made is over. The cache's clock must show Unix time. Limits in Redis have
//! windows of UTC: a `time_zone` is refused there when rules are loaded.
//!
//! # Addresses
//!
//! A client with one IPv6 address has at least 2^64 of them. So if a rule leaves a value open, and the value parses as
//! an IPv6 address, the address's network identifies the client, whatever the entry's key is called. All addresses of
//! one /64, or of one `prefix_v6`, are one client. Each IPv4 address is a client of its own, and an IPv4-mapped address
//! (`::ffff:192.0.2.1`) is the same client as the IPv4 address. With `prefix_v4: 24` all addresses of one /24 are one
//! client.
//!
//! Rules are matched by the value as it is written. Under [`RuleSettings::compat`] the value is also counted as it is
//! written, unless the rule has a `prefix_v6` (or `prefix_v4`, for IPv4). An address with a port, a zone or brackets is
//! treated as plain text.
//!
//! # What differs from envoyproxy/ratelimit
//!
//! [From envoyproxy/ratelimit](https://github.com/tollgate-rs/tollgate/blob/main/docs/from-envoy.md#what-differs) has
//! the list. The most important differences are these: a denied request is charged nowhere, and IPv6 clients are told
//! apart by their [/64](#addresses). With [`RuleSettings::compat`] each descriptor is decided on its own, a denied
//! descriptor is charged as well, and values are counted as they are written. [`RuleSet::lowered`] names the limits
//! that are too high to be counted exactly.
//!
//! # Values in metrics
//!
//! The counts of a rule ([`Rule::counts`]) are those of all its clients. `detailed_metric: true` and
//! `value_to_metric: true` also count [by the values of
//! requests](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/metrics.md#values-in-metrics): see
//! [`Rule::series`], and [`RuleSettings::max_series`] for the bound.
//!
//! # Reloading
//!
//! [`Retriever`] reads again when a [`RuleSource`] signals a change, and every 30 s. Rules can come from anywhere:
//! implement [`RuleSource`]. (`tollgate-service` has one for a hash in Redis.)
//!
//! * **A bad file** leaves all of the last good rules in force.
//! * **A limit that changes** keeps what was spent, if the core can change its quota in place ([`tollgate::Changing`]).
//!   Otherwise it starts empty, and [`RuleSet::changes`] reports it. A limit starts empty after a change of `capacity`,
//!   `prefix_v4` or `prefix_v6`, after a change of `on_full` to or from `deny`, after a change from or to a
//!   `sliding-log`, and after a change to a very different quota.
//! * **A limit whose rule is gone** lingers for [`RuleSettings::linger_rules`]. If a rule with the same domain, keys
//!   and values comes back, it takes the limit again.
//! * **A domain of which no rule is left** keeps its last good rules, unless [`RuleSettings::allow_empty`] is set. An
//!   empty directory therefore keeps all of them.
//!
//! So a file that is half-written, or removed and written anew, gives clients no spent units back, [with one
//! exception](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/rules.md#reloading): the last
//! number of a file may be truncated. To avoid this, write a new file and rename it.
//!
//! # Memory
//!
//! A rule with a `capacity` has tables for that many clients. A rule whose values are all given has tables for one
//! client. Every other rule has tables for 65,536 clients, times its `weight`, or for
//! [`RuleSettings::default_capacity`]. If the tables of such rules would take more than half of
//! [`RuleSettings::max_table_bytes`], each has [a share of that
//! half](https://github.com/tollgate-rs/tollgate/blob/main/crates/service/docs/operating.md#memory), for all its limits
//! together, and [`RuleSet::narrowed`] reports it. A rule that was there before keeps its size. If new rules would have
//! less than a quarter of their share, all rules that share the memory begin anew, and [`RuleSet::changes`] lists them.
//! This happens about once while the number of rules doubles.
//!
//! # Bounds
//!
//! * A file has at most 1 MiB, 64 levels and 250,000 values; the values of an alias are counted each time it is used.
//! * Tables are allocated when rules are loaded, [`RuleSettings::max_table_bytes`] at most, lingering ones included. If
//!   there is no room, the table that has lingered longest is [forgotten](RuleSet::forgotten).
//! * Requests are bounded by [`RuleSettings::max_descriptors`], `max_entries` and `max_key_bytes`.

mod counts;
mod decide;
mod language;
mod load;
mod set;
mod state;

pub use counts::full::{FullReport, NoCell};
pub use counts::rule_counts::RuleCounts;
pub use counts::series::{Series, SeriesStatus};
pub use counts::worst::WorstClient;
pub use decide::answer::{Answer, Code, CurrentLimit, Status};
pub use decide::receipt::Receipt;
pub use decide::request::{Descriptor, Override, Request, RequestError};
pub use decide::{DecisionMaker, LimitStore, PacedAnswer, Purpose, RuleClaim, StoreAnswer};
pub use language::error::{Problem, RuleError};
pub use language::file::{Accuracy, Metadata, RuleOnError};
pub use language::forward::{Forward, ForwardEntry, ForwardError, ForwardPart, ForwardSource};
pub use language::lowered::Lowered;
pub use language::manifest::Manifest;
pub use language::match_error::MatchError;
pub use language::on_full::OnFull;
pub use language::pace::{Pace, PaceError};
pub use language::position::Position;
pub use language::source::{Changed, RuleSource, RuleText};
pub use language::unit::{Unit, UnknownUnit};
pub use language::value::DescriptorEntry;
pub use load::cache::{LoadStatus, RuleCache};
pub use load::file_source::FileSource;
pub use load::retriever::{Refresh, Retriever, Timing};
pub use set::carry::LimitChange;
pub use set::forgotten::Forgotten;
pub use set::loss::Loss;
pub use set::narrowed::Narrowed;
pub use set::pool::{DomainPool, HeadroomRefusal};
pub use set::rule::{Rule, RuleLimit};
pub use set::rule_set::RuleSet;
pub use set::settings::RuleSettings;
pub use state::{StateError, StateSummary};
