"""Where each test of studies runs, and what cannot be asked of a server.

In one process, and on a server with the tuner there, which is what ``Study(url=)`` does. What users hold
(`test_study`) runs on a server with the tuner in the client too.
"""

from __future__ import annotations

IN_PROCESS = "in process"
SERVER = "server"
CLIENT = "client"

# Whole files, with the reason.
FILES = {
    "test_agreement": "compares real workers with virtual time, which no server has",
    "test_branching_page": "runs a page of the documentation as it stands, in one process",
    "test_deadlines": "virtual time, and programs of their own; see BOTH for the rest",
    "test_kept": "memory of this process",
    "test_killed_proofs": "programs that are killed; tests/served kills servers and clients",
    "test_replay": "virtual time",
    "test_scripts": "programs of their own; tests/served/test_commands submits one",
    "test_start": "reads files; there is no study",
    "test_utilisation": "virtual time",
}
# Tests of these files that are for servers all the same.
BOTH = {
    "test_for_real_the_best_so_far_is_handed_over_and_loads",
    "test_for_real_a_deadline_before_the_first_result_is_a_clear_outcome",
}
# Single tests, with the reason.
TESTS = {
    # Virtual time.
    "test_results_on_the_way_count_also_those_of_a_trial_that_was_withdrawn": "virtual time",
    "test_a_deadline_is_not_passed_to_train_it_again": "virtual time",
    "test_a_study_says_what_it_expected_before_anything_runs": "arguments that a server is given instead",
    "test_a_space_that_is_refused_leaves_no_tuner_at_work": "virtual time",
    "test_a_trunk_keeps_checkpoints_where_branches_are_likely": "virtual time",
    "test_a_branch_without_a_checkpoint_says_what_is_trained_again": "virtual time",
    "test_branches_that_are_drawn_later_find_checkpoints_where_they_begin": "virtual time",
    "test_hyper_parameters_and_metrics_of_one_name_have_columns_of_their_own": "virtual time",
    "test_steps_beyond_what_32_bits_count": "virtual time",
    "test_studies_in_virtual_time_share_where_real_ones_would": "virtual time",
    "test_studies_in_virtual_time_are_tuned_together_on_the_workers_of_the_first": "virtual time",
    "test_a_study_that_asks_for_what_the_trainer_cannot_do_ends_alone": "virtual time",
    "test_a_plan_that_cannot_be_opened_does_not_hold_up_another_one": "virtual time",
    "test_virtual_time_keeps_nothing_wherever_its_home_is": "virtual time",
    # No plan is opened.
    "test_a_start_that_does_not_fit_is_named": "a plain loop, without a plan",
    "test_the_loop_in_the_documentation_gives_the_same_bits": "a plain loop, without a plan",
    "test_alone_returns_the_metrics_of_one_step_or_of_several": "a plain loop, without a plan",
    "test_alone_shows_the_users_own_traceback": "a plain loop, without a plan",
    "test_alone_refuses_steps_that_are_none": "a plain loop, without a plan",
    "test_bad_arguments_are_named": "refused before anything is asked of anyone",
    "test_importing_hippo_is_quick_because_heavy_packages_wait": "no study",
    "test_what_cannot_be_a_home_is_refused": "the home is the server's; hippo serve checks it",
    # Of one process alone.
    "test_studies_at_once_share_one_plan_and_one_pool": "tune_together; on a server all studies share",
    "test_one_whose_checkpoint_is_damaged_twice_is_a_result_without_a_model": "patches this process",
    "test_a_state_that_cannot_be_looked_at_is_not_kept": "patches this process",
    "test_nothing_of_a_closed_plan_is_kept": "memory of this process",
    "test_a_study_that_printed_nothing_leaves_no_log": "a server's workers, and their logs, outlive a study",
    "test_a_study_in_a_bucket_gives_the_same_and_is_looked_at_by_its_url": "hippo gc, on a home that is not "
    "served; tests/served/test_serving has a server in a bucket",
    "test_a_plan_that_no_study_uses_is_removed_from_the_bucket": "hippo gc, on a home that is not served",
    "test_a_bucket_that_is_not_there_is_told_before_anything_is_trained": "told by hippo serve, at its start",
}


def places_of(file: str, test: str) -> list[str]:
    """Return where a test runs."""
    if test in TESTS or (file in FILES and test not in BOTH):
        return [IN_PROCESS]
    return [IN_PROCESS, SERVER, CLIENT] if file == "test_study" else [IN_PROCESS, SERVER]
