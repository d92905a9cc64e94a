//! The table of the kinds of limits that each place around the library has, with the tests that show it.

use crate::cells::Elsewhere::{self, Never, NoMeaning, Test};
use crate::cells::{CellRow, Tables};
use crate::verbs::{
    ANY_LIMIT, COUNTED, EXACT, GLOBAL, IN_THE_PROGRAM, LAYER, LEASED, REPLAY, SIMULATE,
};

/// The places around the library.
pub(crate) const AROUND: [&str; 7] =
    ["replay", "simulate", "middleware", "rules", "Redis exact", "Redis leased", "Redis async"];

const CHANGED: &str = "crates/redis/tests/changed.rs";
const REPLAY_RULES: &str = "crates/cli/tests/replay_rules.rs";
const BAD_INPUTS: &str = "crates/redis/tests/bad_inputs.rs";

const ONE_CLIENT: Elsewhere = NoMeaning("A simulation has one client.");
const NO_CHANGE: Elsewhere = NoMeaning(
    "A run applies each policy to all requests. To compare two quotas, run both policies.",
);
const NO_THREADS: Elsewhere = NoMeaning(
    "It serves threads that meet on one limit, but a run makes one decision after the other.",
);
const NO_CROWD: Elsewhere =
    NoMeaning("A run ends with its input and takes as much memory as that input has keys.");
const STORE_DECIDES: Elsewhere = NoMeaning(
    "Redis makes one decision after the other, and a node spends its lease of a key by one word.",
);
const STORE_FORGETS: Elsewhere = Never(
    "No client pays for another, on any node. A sketch would save the memory of unused keys, and Redis forgets those by \
     itself.",
);
const ALL_MODES: Elsewhere =
    Test(CHANGED, "a_changed_limit_gives_no_key_a_fresh_quota_in_any_mode");

/// The kinds of limits, each with its cells for the places [`AROUND`] the library.
const HOLDERS: [(&str, [Elsewhere; 7]); 9] = [
    (
        "one limit",
        [
            Test(REPLAY_RULES, "within_one_second_the_order_of_the_lines_counts"),
            Test(SIMULATE, "the_classic_patterns_have_their_known_counts"),
            Test(ANY_LIMIT, "every_kind_of_limit_decides_and_is_told_alike"),
            Test(
                "crates/rules/tests/lookup.rs",
                "a_rule_that_leaves_nothing_open_has_room_for_one_client_and_is_known_by_its_value",
            ),
            Test(EXACT, "three_nodes_admit_what_one_would"),
            Test(LEASED, "three_nodes_admit_exactly_the_limit_from_the_start"),
            Test(COUNTED, "three_nodes_learn_of_each_other_and_stop"),
        ],
    ),
    (
        "a limit for each key",
        [
            Test(REPLAY, "each_key_tells_requesters_apart_by_its_part_of_the_line"),
            ONE_CLIENT,
            Test(LAYER, "a_client_is_told_where_it_stands_until_it_is_denied_and_when_to_return"),
            Test(
                "crates/rules/tests/lookup.rs",
                "clients_are_told_apart_by_what_a_rule_leaves_open",
            ),
            Test(EXACT, "names_and_keys_never_meet"),
            Test(GLOBAL, "two_services_share_the_limits_of_one_redis"),
            Test(COUNTED, "a_key_that_was_not_asked_for_lately_is_decided_by_the_store"),
        ],
    ),
    (
        "tiers",
        [
            // In a replay, a tier is a rule for one value of a field.
            Test(REPLAY_RULES, "rules_are_reported_one_by_one_and_all_together"),
            ONE_CLIENT,
            Test(
                "crates/tower/tests/tiers.rs",
                "each_client_has_the_quota_of_its_plan_and_headers_tell_that_one",
            ),
            Test("crates/rules/tests/matching.rs", "values_have_a_limit_each_unless_it_is_shared"),
            // Over Redis, a tier is a limiter of the same name under another policy, so one limit has several policies.
            ALL_MODES,
            ALL_MODES,
            ALL_MODES,
        ],
    ),
    (
        "a quota that changes",
        [
            NO_CHANGE,
            NO_CHANGE,
            Test(ANY_LIMIT, "a_quota_that_changes_is_told_as_it_is_now"),
            Test(
                "crates/rules/tests/requota.rs",
                "a_raised_limit_gives_the_difference_and_a_lowered_one_takes_it",
            ),
            ALL_MODES,
            ALL_MODES,
            ALL_MODES,
        ],
    ),
    (
        "stripes",
        [
            NO_THREADS,
            NO_THREADS,
            Test(ANY_LIMIT, "every_kind_of_limit_decides_and_is_told_alike"),
            Never(
                "A reload may change the quota of a rule, and its denials may count: both need one word for the whole \
                 limit. A service spends its time on sockets and not on that word.",
            ),
            STORE_DECIDES,
            STORE_DECIDES,
            STORE_DECIDES,
        ],
    ),
    (
        "lease",
        [
            NO_THREADS,
            NO_THREADS,
            IN_THE_PROGRAM,
            NoMeaning(
                "A service without Redis has the words of its limits in its own memory. Over Redis, its rules hold leases: \
                 see Redis leased.",
            ),
            NoMeaning("Use mode leased, which takes leases."),
            Test(LEASED, "units_that_are_returned_can_be_had_by_others"),
            NoMeaning("Use mode leased, which takes leases."),
        ],
    ),
    (
        "sketch",
        [
            NO_CROWD,
            ONE_CLIENT,
            Test(ANY_LIMIT, "every_kind_of_limit_decides_and_is_told_alike"),
            Never(
                "A sketch wrongly refuses some of the clients, and a rule counts each client by itself. A full table does \
                 decide new clients by a sketch: see the last row.",
            ),
            STORE_FORGETS,
            STORE_FORGETS,
            STORE_FORGETS,
        ],
    ),
    (
        "snapshot",
        [
            NO_CROWD,
            NO_CROWD,
            IN_THE_PROGRAM,
            Test(
                "crates/rules/tests/state.rs",
                "what_was_spent_under_every_form_of_rule_is_spent_after_a_restart",
            ),
            // The store keeps limits while nodes come and go.
            Test(GLOBAL, "a_rule_that_changes_leaves_what_was_spent_in_redis"),
            Test(BAD_INPUTS, "bad_input_121_nodes_that_come_and_go_admit_no_more_than_the_limit"),
            Test(COUNTED, "a_key_that_was_not_asked_for_lately_is_decided_by_the_store"),
        ],
    ),
    (
        "more keys than there is room for",
        [
            NO_CROWD,
            ONE_CLIENT,
            Test(LAYER, "a_full_table_is_the_servers_fault"),
            Test(
                "crates/rules/tests/full.rs",
                "five_hundred_of_five_hundred_newcomers_are_served_by_a_full_table",
            ),
            Test(BAD_INPUTS, "bad_input_116_limits_that_are_evicted_begin_anew_and_are_reported"),
            Test(
                "crates/redis/src/leased/table.rs",
                "keys_keep_their_units_and_a_full_set_takes_no_more_until_they_end",
            ),
            Test(COUNTED, "a_key_that_was_not_asked_for_lately_is_decided_by_the_store"),
        ],
    ),
];

/// Returns the table.
pub(crate) fn section(tables: &mut Tables) -> String {
    let row =
        |(name, cells): &(&'static str, [Elsewhere; 7])| CellRow { name, cells: cells.to_vec() };
    tables.add(&AROUND, &HOLDERS.iter().map(row).collect::<Vec<_>>())
}
