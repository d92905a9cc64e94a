#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The parts
//! The pipeline, in which each part is a module and a type of its own:
//!
//! ```text
//! RuleSource -> Retriever -> RuleCache -> client identifier builder -> DecisionMaker
//! texts         when they    compiled,    what a rule leaves open,     all limits of
//!               change       replaced     as bytes                     a request, or none
//!                            at once
//! ```
//!
//! # The language
//! Files of envoyproxy/ratelimit have the same meaning here. Their keys are `domain`, `descriptors`, `key`, `value`
//! (with `*`), `rate_limit` (`unit`, `requests_per_unit`, `unlimited`, `name`, `replaces`), `shadow_mode`,
//! `quota_mode`, `share_threshold`, `detailed_metric`, `value_to_metric` and `metadata`. Matching is the same as well.
//! For each entry the exact value is tried first, then patterns in the order of the file, then the key alone, without
//! backtracking. A limit counts at a descriptor's last entry. Networks and regular expressions are added: see
//! [below](#values). The following keys are added under `rate_limit`:
//!
//! | Key | Means |
//! |---|---|
//! | `rate: 100 req/min` | in place of `requests_per_unit` and `unit`, written as a policy's rate; a month or a year in it is one of the calendar |
//! | `window: 30s` | in place of `unit`: any length, as a policy's period |
//! | `algorithm: gcra` | any algorithm of a [`tollgate::Policy`], see below. Without it: fixed windows of the UTC clock |
//! | `burst: 20` | the most units at once, under `gcra` |
//! | `mode: soft 5%` | admits that much more; `hard` is the default. `elastic` borrows what it denies, see [below](#pools) |
//! | `count_rejected: true` | a denied request is charged as well |
//! | `penalty: 10m after 5` | the fifth denial in a row refuses everything for ten minutes |
//! | `queue: 50`, `wait: 450ms` | under `gcra`: the units that may wait for their turn, and the longest wait. See [below](#queues) |
//! | `debt: 100x` | a charge that does not fit is remembered to 100 times the limit, beyond it. See [below](#usage) |
//! | `time_zone: Europe/Berlin` | for windows of the calendar, or fixed windows of whole days: they begin at midnight there. See [below](#time-zones) |
//!
//! and next to it:
//!
//! | Key | Means |
//! |---|---|
//! | `limits: [..]` | several limits in place of one `rate_limit`, each written like it; a request is charged to all or none |
//! | `cidr: 10.0.0.0/8`, `regex: '/users/[0-9]+'` | in place of `value`: all addresses of a network, all values of a form. See below |
//! | `usage: true`, `usage: false` | `true`: costs are known only after they were used, and are charged in full. `false`: they are known before, and the log does not ask for this key. See [below](#usage) |
//! | `capacity: 100000` | the number of clients that are limited at a time, 14 to 16 bytes each. Without it 65,536, or the rule's share of the memory, see [below](#memory) |
//! | `weight: 4` | in place of `capacity`: four times as many clients as a rule without both, or four shares of the memory |
//! | `on_full: spill` | the treatment of a client when the table is full of others: `spill` decides by a count that it shares with others, never above its limit; `deny` denies it; `allow` admits it. See [`OnFull`] |
//! | `prefix_v6: 56` | the number of bits of an IPv6 address that tell clients apart. The default is 64; 128 counts each address by itself. See below |
//! | `prefix_v4: 24` | the same for IPv4 addresses; the default is all 32 bits |
//! | `on_error`, `accuracy` | for limits over several nodes, see [`DecisionMaker::question`]; in one process every decision is exact. In Redis `count_rejected`, `penalty` and `sliding-log` need `accuracy: exact` |
//!
//! `algorithm` is one of these, with its option after it: `gcra` (also `token-bucket`, `leaky-bucket`, and
//! `leaky-bucket hard`), `spaced`, `fixed-window` (also `fixed-window from-first`), `sliding-window` (the
//! share rounded down; also `sliding-window exact`, `sliding-window strict`), `segmented-window x6` and, with `unit: month`,
//! `unit: year` or `unit: week`, `calendar-month`, `calendar-year`, `calendar-week` (from Monday on) and `calendar-week
//! from-sunday` (in UTC, or a `time_zone`; any other algorithm counts a month as 30 days, a year as 365, and weeks from
//! Thursday on). `sliding-log` keeps a slot
//! of 8 bytes for each unit of each client's limit, up to 2^20, in place of one word for each client: see what
//! `tollgate rules check` says of its memory.
//!
//! Beside `domain` and `descriptors` a file may have a `pool` ([below](#pools)), and `forward_auth`: descriptors for
//! requests that a proxy forwards for a decision ([`RuleSet::forwards`]). Each of these descriptors names, for each
//! key, the part of the request that is its value: `address`, `method`, `host` or `path`, also `of` a header that is
//! named; `header x-user`; or `text web`. `else anonymous` names the value to take if that part is absent. A descriptor
//! that no rule matches is reported together with entries that can never match.
//!
//! `mode: soft`, `count_rejected` and `penalty` become options of a [`tollgate::Policy`]: options that the core does
//! not support yet are refused, with their place in the file. Merge keys and aliases of YAML are supported.
//!
//! # Values
//! If a descriptor has several entries with one key, the first that matches in this order is chosen, and no other is
//! tried:
//!
//! 1. `value: alice`, if the texts are equal;
//! 2. `cidr: 10.0.0.0/8`, the longest prefix first, whatever its place in the file. The value must be an IPv4 or IPv6
//!    address, in any spelling, or a network that lies wholly inside. An IPv4-mapped address is the IPv4 address; a
//!    text with a port, a zone or brackets is no address. The bits behind the prefix must be 0;
//! 3. `value: '/api/*'`, in the order of the file, also those with a `*` in `key`;
//! 4. `regex: '/users/[0-9]+'`, in the order of the file. It must match the whole value, in time linear in its length
//!    (the syntax of the crate `regex`: no backreferences, no look-around). An expression takes 256 KiB at most when
//!    compiled, and as much again if its key has several. All files together have 256 at most. For searching, a thread
//!    caches 32 KiB for one expression, and 1 MiB for all of a key;
//! 5. the key alone.
//!
//! `cidr` and `regex` stand beside a `key` without `*`. Each value that they match has a limit of its own; IPv6
//! addresses have one limit for each network, as described below. With `share_threshold` all values together have one.
//!
//! A `value` that looks like a network (`value: 10.0.0.0/8`) is refused ([`MatchError`]), because no address is that
//! text. It is accepted only under the key `masked_remote_address`, because Envoy writes networks there; elsewhere
//! `regex: '10\.0\.0\.0/8'` matches that text and no other.
//!
//! An entry has no effect if an entry that is tried before it matches everything that it matches: `'/api/v1/*'` after
//! `'/api/*'`, a regular expression after an equal one, all after a `*`. Envoyproxy/ratelimit loads such a file, so it
//! is loaded here: [`RuleSet::hidden`] names each such entry with the one that hides it, `tollgate serve` logs a
//! warning, and `tollgate check` refuses the file. Only certain cases among the first million pairs of entries are
//! reported.
//!
//! The cost of finding a rule, measured by `cargo bench -p tollgate-rules` in one run on a busy machine of two cores.
//! Each figure is a whole question ([`DecisionMaker::peek`]), as a multiple of one that finds an exact value among
//! 1,000:
//!
//! | A key has | found last | not found |
//! |---|---|---|
//! | 1,000 exact values | 1 | 0.5 |
//! | 1,000 networks | 1.3: one hash for each length of a prefix, however many networks there are | 0.5 |
//! | 100 patterns | 3.1: one after the other, in the order of the file | 1.2 |
//! | 100 regular expressions | 3.0: all at once (one alone takes 2.1) | 1.2 |
//!
//! # Queues
//! If a request does not fit now, a limit with a `queue`, a `wait` or both gives it a place: the request is admitted,
//! and [`Answer::wait`] says how long it has to wait before it goes. Requests go in the order of their calls, at the
//! rate of the limit. Under several limits the longest wait counts, and all give a place or none. The caller must keep
//! the wait. A caller that cannot wait asks by [`Act::CheckNow`], and is denied where it would have to wait. A caller
//! that gives up gives its place back by the [`Receipt`] of [`Act::Reserve`]. See [`DecisionMaker::act`] for rules in
//! shadow and quota mode. Limits that are kept elsewhere have queues as well: see [`Claim::wait`].
//!
//! # Usage
//! The tokens of a language model are known after the response. A rule with `usage: true` admits a question of cost 0
//! if anything is left, and charges every cost, whether it fits or not, into debt. Under `gcra` the debt drains before
//! a question is admitted again; the end of a fixed window forgets it; in a sliding window it weighs on the next one. A
//! debt is remembered up to 100 times the limit, or up to the largest of 50, 20, 10, 5, 2 or 1 times that fits in a
//! client's word. `debt: 1000x` in the limit sets another bound. With `debt: none` the debt is at most one more burst
//! under `gcra`, and nothing in a window; the same holds for rules that do not say `usage: true`, for segmented windows
//! and for logs. The units beyond the bound are in the answer ([`Status::uncharged`]), are counted
//! ([`RuleCounts::uncharged`]) and are marked once for each rule, for the log ([`Status::is_first_uncharged`]). A
//! client in the spill of a full table owes at most twice the burst. A used cost is charged even if another rule denies
//! the request. A cost is denied as well if nothing had been left for it, so that a caller that asks no questions is
//! limited, too. The limit does not know of requests between their question and their cost: as many as are under way at
//! once may go beyond it. With `quota_mode` costs are charged in the same way, and a request is denied once all such
//! limits are used up. A rule with `usage` has no `queue`, no `wait` and no `mode: elastic`.
//!
//! A message does not say whether its cost was used already. The rule says it, or [`compat`](Settings::compat) does; earlier
//! requests never change it. If neither says it, a cost that does not fit is denied and charged nowhere.
//! [`RuleCounts::denied_costs`] counts the units of such costs above 1. [`Status::is_first_denied_cost`] marks the
//! first such cost from Envoy for the log, unless the rule says `usage: false`. Under `compat` a limit also charges a
//! cost that it denies, into a debt as above. This holds for limits whose rule uses only keys that envoyproxy/ratelimit
//! knows.
//!
//! With [`Act::CheckEnvoy`] a cost of 0 is a question to any limit. The question is denied once nothing is left; under
//! `compat` it is denied once the limit is exceeded. Two kinds of limits do not remember that they are exceeded, and
//! deny once nothing is left: those that have no room for a debt, and those with `accuracy: async` that are kept
//! elsewhere.
//!
//! A limit that comes with a request obeys the `usage` of the rule that it replaces. If limits are kept elsewhere, it
//! is kept there, too, and each decision asks the store: [`Claimed::OwnLimit`].
//!
//! Hits that are given back (`is_negative_hits`, [`Descriptor::is_negative`]) are given back before anything else of
//! the request is decided, whatever the decision is, and are never over a limit. [`tollgate::Entry::uncharge`] says how
//! much comes back. Nothing comes back to a client that has no cell, during a penalty, or for a window that is over.
//! [`Status::uncharged`] is the number of units that did not come back, and [`RuleCounts::negative`] and
//! [`RuleCounts::given_back`] count them. The limit does not know which caller asks: any caller may give back all that
//! a limit was charged, and no more.
//!
//! # Pools
//! Beside `domain` and `descriptors` a file may have `pool: {unit: second, requests_per_unit: 500, burst: 100}` (or a
//! `window` in place of the `unit`; the default of `burst` is `requests_per_unit`). That is what all limits of the
//! domain with `mode: elastic` together may borrow when the server is idle. If such a limit denies for now
//! ([`tollgate::Denial::is_for_now`]), the pool is asked, and [`Status::is_borrowed`] says that it lent the units. The
//! limit is charged nothing then, and its figures stay as they are.
//!
//! Only the program that does the work knows what it can spare. It reports its headroom, from 0 for none to 1 for all:
//! [`RuleCache::report_headroom`]. `tollgate-controllers` computes a headroom from latencies or drops. A report counts
//! for the time that it names; before the first one and after its time nothing is lent. In any interval of length W the
//! pool lends at most `h * (burst + rate * W)`, h being the largest headroom in force in it
//! ([`tollgate_elastic::SparePool`]).
//!
//! * All or nothing: a loan goes back if another limit denies the request, and by the [`Receipt`] of [`Act::Reserve`]. Under
//!   [`compat`](Settings::compat) each descriptor borrows by itself.
//! * A rule in shadow mode takes nothing from the pool, which others need, but says what it would borrow. A rule in
//!   quota mode has room if it can borrow. [`Act::Charge`] charges the limit.
//! * A question ([`Act::Peek`]) asks the pool for each limit alone: two limits of a request might together borrow more
//!   than the pool has.
//! * A limit that borrows has no `queue`, `wait`, `count_rejected` or `penalty`, and gives no places for a caller's own
//!   wait. A limit in Redis does not borrow: `mode: elastic` is refused there when rules are loaded.
//! * A pool keeps what it has lent, and its headroom, over loads that leave its quota as it is. Otherwise it begins anew, with
//!   headroom 0, and [`RuleSet::changes`] reports it; so does a pool that was gone and comes back.
//!
//! # Time zones
//! A limit with a `time_zone` has windows that begin at midnight there: days, weeks (which begin on Thursday, like
//! those of UTC here) and windows of the calendar. When clocks are changed, a day has 23 or 25 hours. The name is one
//! of the IANA's list, whose rules are part of the program. A wait until the next window is exact, except in the hours
//! after clocks were set back within a window of several days: then it is too short by that change. If the zone of a
//! limit changes, spent units stay spent until the window in which they were spent is over. The cache's clock must be
//! one of Unix time. Limits in Redis have windows of UTC: a `time_zone` is refused there when rules are loaded.
//!
//! # Addresses
//! A client with one IPv6 address has at least 2^64 of them. So if a rule leaves a value open, and the value parses as
//! an IPv6 address, its network counts in its place, whatever the key is called: all addresses of one /64, or of one
//! `prefix_v6`, are one client. An IPv4 address counts in full, and an IPv4-mapped one (`::ffff:192.0.2.1`) counts as
//! the IPv4 address; `prefix_v4: 24` makes all addresses of one /24 one client. Rules match the value as it is. Under
//! [`Settings::compat`] it is also counted as it is, unless the rule has a `prefix_v6` (or `prefix_v4`, for IPv4). An
//! address with a port, a zone or brackets is treated as plain text.
//!
//! # What differs from envoyproxy/ratelimit
//! * IPv6 clients count by their /64 (see above).
//! * A denied request is charged nowhere. With [`Settings::compat`] each descriptor is decided on its own instead,
//!   and a denied one is charged as well.
//! * Key and value are never joined: `a_b` with `c` and `a` with `b_c` are different.
//! * Series of metrics for values of requests (`detailed_metric`, `value_to_metric`) are bounded: see [`Series`].
//! * `value: 10.0.0.0/8` is refused (see above).
//! * A request that has to wait for its turn is denied over Envoy's protocol, because Envoy cannot wait.
//! * More than 2,248,262,313 requests per second cannot be counted exactly: a higher rate is counted as that many, and
//!   the load reports it ([`RuleSet::lowered`]). A limit that comes with a request is lowered in the same way, and its
//!   answer has the lower number. With an algorithm other than a fixed window such a rate is refused.
//! * Duplicate keys in one map are refused, and so is a second document in one file.
//!
//! # Values in metrics
//! The counts of a rule ([`Rule::counts`]) are those of all its clients. `detailed_metric: true` at a rule counts its
//! hits also by the keys and values of requests, at all its levels ([`Rule::series`]). `value_to_metric: true` at a
//! descriptor counts them by the value of this level, also for rules below it without `detailed_metric`. If all values
//! share a limit (`share_threshold`), the pattern takes the place of the value. Names are those of
//! envoyproxy/ratelimit. They may contain text that clients sent. At most the first [`Settings::max_series`] names of
//! up to 256 bytes are kept; all other hits are counted as `other`.
//!
//! # Reloading
//! [`Retriever`] reads again when a [`RuleSource`] signals a change, and every 30 s. If one file is bad, all of the
//! last good rules stay. A limit keeps its counts, even when its quota changes, if the core can change it in place
//! ([`tollgate::KeyedLimiter::set_quota`]). Otherwise (another `capacity`, `prefix_v4` or `prefix_v6`; `on_full` to or
//! from `deny`; `mode`, `count_rejected` or `penalty`; a very different quota) it starts empty, and
//! [`RuleSet::changes`] reports it. Rules can come from anywhere: implement [`RuleSource`]. (`tollgate-service` has one
//! for a hash in Redis.)
//!
//! A file that is half-written, or removed and written anew, restores no credit. The counts of a limit whose rule is
//! gone linger for [`Settings::linger_rules`], and the rule continues with them if it comes back (the same domain, keys
//! and values). Meanwhile the remaining rules decide. But a domain that had limits keeps its last good rules if it
//! loses all of them, unless [`Settings::allow_empty`] is set; so an empty directory keeps all rules. One loss remains:
//! if a limit is lowered and raised again, at most the lower limit counts as spent. So a file whose last number is
//! truncated for a moment restores the difference. To avoid it, write a new file and rename it.
//!
//! # Memory
//! A rule with a `capacity` has tables for that many clients, and a rule whose values are all given has tables for one
//! client. Every other rule has tables for 65,536 clients, times its `weight`, or for [`Settings::default_capacity`].
//! If 65,536 for each would take more than half of [`Settings::max_table_bytes`], each of these rules has a share of
//! that half, by its `weight`, for all its limits together, and [`RuleSet::narrowed`] says so. The other half is for
//! tables that linger, and for later loads; each load takes at most half of what is free. An existing rule keeps its
//! size until new rules would have less than a quarter of their share. Then all of these rules begin anew, and
//! [`RuleSet::changes`] lists them; this happens about once while the number of rules doubles.
//!
//! # Bounds
//! A file has at most 1 MiB, 64 levels and 250,000 values; aliases count as often as they are used. Tables are
//! allocated when rules are loaded. Together with lingering ones they take at most [`Settings::max_table_bytes`]; if
//! there is no room, the table that has lingered longest is [forgotten](RuleSet::forgotten). Requests are bounded by
//! [`Settings::max_descriptors`], `max_entries` and `max_key_bytes`.

mod answer;
mod before;
mod cache;
mod carry;
mod compile;
mod counter;
mod debt;
mod decide;
mod error;
mod expression;
mod file;
mod file_source;
mod forgotten;
mod forward;
mod forwards;
mod full;
mod hidden;
mod identifier;
mod linger;
mod loss;
mod lowered;
mod manifest;
mod match_error;
mod meant;
mod memory;
mod narrowed;
mod pace;
mod pattern;
mod pool;
mod position;
mod ranges;
mod receipt;
mod reclaim;
mod request;
mod retriever;
mod room;
mod rule;
mod rule_counts;
mod rule_id;
mod rule_set;
mod series;
mod settings;
mod share;
mod source;
mod state;
mod stem;
mod texts;
mod tree;
mod unit;
mod value;
mod vet;
mod worst;
mod yaml;
mod zone;

pub use answer::{Answer, Code, CurrentLimit, Status};
pub use cache::{LoadStatus, RuleCache};
pub use carry::LimitChange;
pub use decide::{
    Act, Claim, Claimed, DecisionMaker, FoundElsewhere, FoundLimit, Manner, PacedAnswer, Question,
};
pub use error::{Problem, RuleError};
pub use file::{Accuracy, Metadata, OnError};
pub use file_source::FileSource;
pub use forgotten::Forgotten;
pub use forward::{Forward, ForwardEntry, ForwardError, ForwardPart, ForwardSource};
pub use full::{FullReport, NoCell, OnFull};
pub use loss::Loss;
pub use lowered::Lowered;
pub use manifest::Manifest;
pub use match_error::MatchError;
pub use narrowed::Narrowed;
pub use pace::{Pace, PaceError};
pub use pool::{DomainPool, HeadroomRefusal};
pub use position::Position;
pub use receipt::Receipt;
pub use request::{Descriptor, Override, Request, RequestError};
pub use retriever::{Refresh, Retriever, Timing};
pub use rule::{Limit, Rule};
pub use rule_counts::RuleCounts;
pub use rule_set::RuleSet;
pub use series::{Series, SeriesStatus};
pub use settings::Settings;
pub use source::{Changed, RuleSource, RuleText};
pub use state::{StateError, StateSummary};
pub use unit::{Unit, UnknownUnit};
pub use value::DescriptorEntry;
pub use worst::WorstClient;
