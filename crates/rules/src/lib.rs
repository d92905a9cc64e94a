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
//! Files of envoyproxy/ratelimit mean the same here: `domain`, `descriptors`, `key`, `value` (with `*`), `rate_limit`
//! (`unit`, `requests_per_unit`, `unlimited`, `name`, `replaces`), `shadow_mode`, `quota_mode`, `share_threshold`,
//! `detailed_metric`, `value_to_metric` and `metadata`. Matching is the same as well: per entry the exact value, then
//! patterns in the order of the file, then the key alone; without backtracking; a limit counts at a descriptor's last
//! entry. Networks and regular expressions are added: see [below](#values). The following keys are added under
//! `rate_limit`:
//!
//! | Key | Means |
//! |---|---|
//! | `rate: 100 req/min` | in place of `requests_per_unit` and `unit`, as a policy's rate is written; in it a month or a year is one of the calendar |
//! | `window: 30s` | in place of `unit`: any length, as a policy's period |
//! | `algorithm: gcra` | any of a [`tollgate::Policy`], see below. Without it: fixed windows of the UTC clock |
//! | `burst: 20` | the most at once, under `gcra` |
//! | `mode: soft 5%` | admits that much more; `hard` is the default. `elastic` borrows what it denies, see [below](#pools) |
//! | `count_rejected: true` | a denied request is charged as well |
//! | `penalty: 10m after 5` | the fifth denial in a row refuses everything for ten minutes |
//! | `queue: 50`, `wait: 450ms` | under `gcra`: so many units may wait for their turn, and none longer. See [below](#queues) |
//! | `debt: 100x` | a charge that does not fit is remembered to 100 times the limit, beyond it. See [below](#usage) |
//! | `time_zone: Europe/Berlin` | beside windows of the calendar, or fixed windows of whole days: they begin at midnight there. See [below](#time-zones) |
//!
//! and next to it:
//!
//! | Key | Means |
//! |---|---|
//! | `limits: [..]` | several in place of `rate_limit`, each as that; all or nothing |
//! | `cidr: 10.0.0.0/8`, `regex: '/users/[0-9]+'` | in place of `value`: all addresses of a network, all values of a form. See below |
//! | `usage: true`, `usage: false` | `true`: costs are known only after they were used, and are charged in full. `false`: they are not, and the log does not ask. See [below](#usage) |
//! | `capacity: 100000` | the clients that are limited at one time: 14 to 16 bytes each. Without it 65,536, or the rule's share of the memory, see [below](#memory) |
//! | `weight: 4` | in place of `capacity`: four times the clients of a rule that says nothing, or four shares of the memory |
//! | `on_full: spill` | what becomes of a client when the table is full of others: `spill` decides it by a count that it shares with others, never above its limit; `deny` refuses it; `allow` admits it. See [`OnFull`] |
//! | `prefix_v6: 56` | so many bits of an IPv6 address tell clients apart; 64 where nothing is said, 128 counts each address. See below |
//! | `prefix_v4: 24` | the same for IPv4 addresses; all 32 bits where nothing is said |
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
//! Beside `domain` and `descriptors` a file may have a `pool` ([below](#pools)), and `forward_auth`: what a request becomes
//! which a proxy forwards for a decision ([`RuleSet::forwards`]). Each of its descriptors names for each key the part of
//! the request: `address`, `method`, `host` or `path`, also `of` a header that is named; `header x-user`; `text web`; and
//! with `else anonymous` what stands for a part that is absent. A descriptor that no rule matches is told with those
//! entries that can never match.
//!
//! `mode: soft`, `count_rejected` and `penalty` become words of a [`tollgate::Policy`]: words that the core does not
//! support yet are refused, with their place in the file. Merge keys and aliases of YAML are supported.
//!
//! # Values
//! Of a descriptor's entries with one key, the first of these that matches is chosen, and no other is tried:
//!
//! 1. `value: alice`, if the texts are equal;
//! 2. `cidr: 10.0.0.0/8`, the longest prefix first, whatever its place in the file. The value must be an IPv4 or IPv6
//!    address, in any spelling, or a network of which no part lies outside. An IPv4-mapped address is the IPv4 address;
//!    an address with a port, a zone or brackets is none. The bits behind the prefix must be 0;
//! 3. `value: '/api/*'`, in the order of the file, also those with a `*` in `key`;
//! 4. `regex: '/users/[0-9]+'`, in the order of the file. It must match the whole value, in time linear in its length
//!    (the syntax of the crate `regex`: no backreferences, no look-around). One takes 256 KiB at most when compiled, as
//!    much again where its key has several, and there are 256 at most in all files together. Of what was searched a
//!    thread remembers 32 KiB for one, and 1 MiB for all of a key;
//! 5. the key alone.
//!
//! `cidr` and `regex` stand beside a `key` without `*`. Each value that they match has a limit of its own, and IPv6
//! addresses one for each network as below; with `share_threshold` all values together have one.
//!
//! A `value` that looks like a network (`value: 10.0.0.0/8`) is refused ([`MatchError`]), because no address is that
//! text. Only under the key `masked_remote_address` it is accepted, because Envoy writes networks there; elsewhere
//! `regex: '10\.0\.0\.0/8'` is that text and no other.
//!
//! An entry that can never match, because one that is tried before it matches all that it would, is in force in vain:
//! `'/api/v1/*'` after `'/api/*'`, a regular expression after an equal one, all after a `*`. Envoyproxy/ratelimit loads
//! such a file, so it is loaded here: [`RuleSet::hidden`] names each with what hides it, `tollgate serve` logs a
//! warning, and `tollgate check` refuses. Only what is certain is told, of the first million pairs of entries.
//!
//! What finding a rule costs, by `cargo bench -p tollgate-rules`, in whole questions ([`DecisionMaker::peek`]) and as a
//! multiple of one that finds an exact value among 1,000, in one run on a busy machine of two cores:
//!
//! | A key has | found last | not found |
//! |---|---|---|
//! | 1,000 exact values | 1 | 0.5 |
//! | 1,000 networks | 1.3: a hash for each length of a prefix, however many there are | 0.5 |
//! | 100 patterns | 3.1: one after the other, in the order of the file | 1.2 |
//! | 100 regular expressions | 3.0: all at once (one alone takes 2.1) | 1.2 |
//!
//! # Queues
//! A limit with a `queue`, a `wait` or both gives a request that does not fit now a place: it is admitted, and
//! [`Answer::wait`] says how long it has to wait before it goes. Requests go in the order of their calls, at the rate of
//! the limit. Under several limits the longest wait counts, and all give a place or none. Whatever asks must keep
//! the wait: what cannot, asks by [`Act::CheckNow`], and is denied where it would have to wait. A caller that gives up
//! gives its place back by the [`Receipt`] of [`Act::Reserve`]. See [`DecisionMaker::act`] for rules in shadow and quota
//! mode. Limits that are kept elsewhere have queues as well: see [`Claim::wait`].
//!
//! # Usage
//! The tokens of a language model are known after the response. A rule with `usage: true` answers a question of cost 0 by
//! whether anything is left, and charges every cost whether it fits or not, into debt: under `gcra` it drains before a
//! question is admitted again; the end of a fixed window forgets it, and in a sliding one it weighs in the next. A debt is
//! remembered to 100 times the limit, or as much of 50, 20, 10, 5, 2 or 1 times as a client's word has room for; `debt: 1000x`
//! in the limit says otherwise, and `debt: none` leaves it at the burst once more under `gcra`, and in a window at nothing,
//! as it is for rules that do not say `usage: true`, for segmented windows and for logs. What goes beyond is told
//! ([`Status::uncharged`]), counted ([`RuleCounts::uncharged`]) and, once for each rule, for the log
//! ([`Status::is_first_uncharged`]). A client in the spill of a full table owes at most twice the burst. What was used is charged also if another rule denies the request; and a cost for which nothing had been
//! left is denied as well, so that a caller that asks no questions is limited, too. Requests between the question and the
//! cost that it announces are not known to the limit: as many as are under way at once may go beyond it. With `quota_mode`
//! costs are charged in the same way, and a request is denied once all such limits are used up. A rule with `usage` has no
//! `queue`, no `wait` and no `mode: elastic`.
//!
//! A message does not say whether its cost was used already. The rule says it, or [`compat`](Settings::compat) does; earlier
//! requests never change it. If neither says it, a cost that does not fit is denied and charged nowhere.
//! [`RuleCounts::denied_costs`] counts the units of such costs above 1. [`Status::is_first_denied_cost`] marks the first one from
//! Envoy for the log, unless the rule says `usage: false`. Under `compat` a limit charges what it denies, into a debt as above,
//! if its rule says no more than envoyproxy/ratelimit can read.
//!
//! With [`Act::CheckEnvoy`] a cost of 0 is a question to any limit. It is denied once nothing is left; under `compat` it is denied
//! once the limit is exceeded. Two kinds of limits do not remember that they are exceeded, and deny once nothing is left: those
//! that have no room for a debt, and those with `accuracy: async` that are kept elsewhere.
//!
//! A limit that comes with a request obeys the `usage` of the rule that it replaces. If limits are kept elsewhere it is kept
//! there, too, and each decision asks there: [`Claimed::OwnLimit`].
//!
//! Hits that are given back (`is_negative_hits`, [`Descriptor::is_negative`]) are given back before anything else of the
//! request is decided, whatever comes of it, and are never over a limit: see [`tollgate::Entry::uncharge`] for how
//! much of what. Nothing comes back to a client that has no cell, during a penalty, or of a window that is over;
//! [`Status::uncharged`] tells how much of it, and [`RuleCounts::negative`] and [`RuleCounts::given_back`] count it. What is
//! not known is which client asks: a caller that may ask may give back all that a limit was charged, and no more.
//!
//! # Pools
//! Beside `domain` and `descriptors` a file may have `pool: {unit: second, requests_per_unit: 500, burst: 100}` (or a
//! `window`; without `burst` that of `requests_per_unit`): what all limits of the domain with `mode: elastic` together may
//! borrow when the server is idle. What such a limit denies for now ([`tollgate::DenialReason::OverLimit`]) the pool is asked
//! for, and [`Status::is_borrowed`] says that it lent it. The limit is charged nothing then, and its figures stay.
//!
//! What can be spared is known where the work is done. The program there reports its headroom, from 0 for none to 1 for
//! all: [`RuleCache::report_headroom`]. `tollgate-controllers` computes it from latencies or drops. A report counts for the
//! time that it names; before the first one and after its time nothing is lent. In any interval of length W the pool lends
//! at most `h * (burst + rate * W)`, h being the largest headroom in force in it ([`tollgate_elastic::SparePool`]).
//!
//! * All or nothing: a loan goes back if another limit denies the request, and by the [`Receipt`] of [`Act::Reserve`]. Under
//!   [`compat`](Settings::compat) each descriptor borrows by itself.
//! * A rule in shadow mode takes nothing from the pool, which others need: it says what it would borrow. A rule in quota
//!   mode that can borrow has room. [`Act::Charge`] charges the limit.
//! * A question ([`Act::Peek`]) asks the pool for each limit alone: what two limits of a request would borrow together may
//!   be more than there is.
//! * A limit that borrows has no `queue` and `wait`, and gives no places for a caller's own wait; and no `count_rejected` and
//!   `penalty`. A limit in Redis does not borrow: it is refused there when rules are loaded.
//! * A pool keeps what it has lent, and its headroom, over loads that leave its quota as it is. Otherwise it begins anew, with
//!   headroom 0, and [`RuleSet::changes`] reports it; so does a pool that was gone and comes back.
//!
//! # Time zones
//! Days, weeks (which begin on Thursday, as those of UTC here) and windows of the calendar of a limit with a `time_zone`
//! begin at midnight there, whatever clocks do: a day has 23 or 25 hours then. The name is one of the IANA's list, whose rules are
//! part of the program. A wait until the next window is exact, but for the hours after clocks were set back within a
//! window of several days: then it is too short by that change. Where the zone of a limit changes, what was spent stays
//! spent until the window in which it was spent is over. The cache's clock must be one of Unix time. Limits in Redis
//! have windows of UTC: a `time_zone` is refused there when rules are loaded.
//!
//! # Addresses
//! A client with one IPv6 address has at least 2^64 of them. So where a rule leaves a value open, and the value
//! parses as an IPv6 address, its network counts in place of it, whatever its key is called: all addresses of one
//! /64, or of one `prefix_v6`, are one client. An IPv4 address counts in full, and an IPv4-mapped one
//! (`::ffff:192.0.2.1`) as the IPv4 address; `prefix_v4: 24` makes all of one /24 one client. Rules are matched by the value as it is, and under [`Settings::compat`]
//! it is also counted as it is, unless the rule has a `prefix_v6` (or `prefix_v4`, for IPv4). An address with a port, a zone or brackets is
//! treated as plain text.
//!
//! # What differs from envoyproxy/ratelimit
//! * IPv6 clients count by their /64 (see above).
//! * A denied request is charged nowhere. With [`Settings::compat`] each descriptor is decided on its own instead,
//!   and a denied one is charged as well.
//! * Key and value are never joined: `a_b` with `c` and `a` with `b_c` are different.
//! * Series of metrics for values of requests (`detailed_metric`, `value_to_metric`) are bounded: see [`Series`].
//! * `value: 10.0.0.0/8` is refused (see above).
//! * A request that has to wait for its turn is denied over Envoy's protocol, because Envoy cannot wait.
//! * More than 2,248,262,313 requests per second cannot be counted exactly: that many are counted, and the load says so
//!   ([`RuleSet::lowered`]). A limit that comes with a request is lowered alike, and its answer tells the lower number. With an
//!   algorithm other than a fixed window such a rate is refused.
//! * Duplicate keys in one map are refused, and so is a second document in one file.
//!
//! # Values in metrics
//! The counts of a rule ([`Rule::counts`]) are those of all its clients. `detailed_metric: true` at a rule counts its hits
//! also by the keys and values of requests, at all its levels ([`Rule::series`]); `value_to_metric: true` at a descriptor
//! by the value of this level, also for rules below it, where `detailed_metric` is not set. A value that all share
//! (`share_threshold`) stays the pattern. Names are those of envoyproxy/ratelimit. They may contain what clients sent, and
//! there are at most [`Settings::max_series`] of them, the first to come, of 256 bytes; other hits are counted as `other`.
//!
//! # Reloading
//! [`Retriever`] reads again when a [`RuleSource`] signals a change, and every 30 s. If one file is bad, all of the
//! last good rules stay. A limit keeps what was spent, even when its quota changes, if the core can change it in
//! place ([`tollgate::KeyedLimiter::set_quota`]). Otherwise (another `capacity`, `prefix_v4` or `prefix_v6`; `on_full` to or from
//! `deny`; `mode`, `count_rejected` or `penalty`; a very different quota) it starts empty, and [`RuleSet::changes`]
//! reports it. Rules can come from anywhere: implement [`RuleSource`]. (`tollgate-service` has one for a hash in
//! Redis.)
//!
//! A file that is half-written, or removed and written anew, restores no credit. What was spent under a limit whose
//! rule is gone lingers for [`Settings::linger_rules`], and the rule takes it again if it comes back (the same
//! domain, keys and values). Meanwhile the remaining rules decide; but a domain that had limits, and of which no rule
//! is left, keeps its last good rules, unless [`Settings::allow_empty`] is set; an empty directory therefore keeps
//! all of them. One loss remains: a limit that is lowered and raised again counts at most the lower limit as spent,
//! so a file whose last number is truncated restores the difference. Write a new file and rename it.
//!
//! # Memory
//! A rule with a `capacity` has tables for so many clients, and one whose values are all given for one client. Every other
//! rule has tables for 65,536 clients, times its `weight`, or for [`Settings::default_capacity`]. If 65,536 for each would take
//! more than half of [`Settings::max_table_bytes`], each of these rules has a share of that half, by its `weight`, for all
//! its limits together, and [`RuleSet::narrowed`] says so. The other half is for tables that linger, and for later loads, of
//! which each takes at most half of what is free. A rule that was there before keeps its size until new rules would have less
//! than a quarter of their share. Then all of these rules begin anew, and [`RuleSet::changes`] lists them; this happens about
//! once while the number of rules doubles.
//!
//! # Bounds
//! A file has at most 1 MiB, 64 levels and 250,000 values; aliases count as often as they are used. Tables are
//! allocated when rules are loaded, [`Settings::max_table_bytes`] at most, lingering ones included: if there is no
//! room, the one that has lingered longest is [forgotten](RuleSet::forgotten). Requests are bounded by
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
