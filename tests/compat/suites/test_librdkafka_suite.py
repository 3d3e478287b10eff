"""What of librdkafka's tests is run, and what their report says."""

import json

import pytest

from tests.compat.suites.librdkafka_suite import (
    ADMIN_SUBTESTS,
    LONG,
    ONE_BROKER,
    failures_in,
    outcome_of,
    runs_in,
)

TABLE = """
/* Declarations come first. */
_TEST_DECL(0005_order);
struct test tests[] = {
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0000_unittests,
          TEST_F_LOCAL,
          _THRES(.ucpu = 100.0, .scpu = 20.0)),
    _TEST(0005_order, 0),
    _TEST(0018_cgrp_term, 0, TEST_BRKVER(0, 9, 0, 0)),
    _TEST(0045_updates, 0),
    _TEST(0045_resubscribe, 0, TEST_BRKVER(0, 9, 0, 0)),
    _TEST(0045_topic_remove,
          0,
          TEST_BRKVER(0, 9, 0, 0),
          .scenario = "noautocreate"),
#if WITH_SOCKEM
    _TEST(0049_consume_conn_close, TEST_F_SOCKEM, TEST_BRKVER(0, 9, 0, 0)),
#endif
    _TEST(0081_admin, 0, TEST_BRKVER(0, 10, 2, 0)),
    _TEST(0139_offset_validation_mock, 0),
    /* Manual tests */
    _TEST(8000_idle, TEST_F_MANUAL),

    {NULL}};
"""


def test_tests_that_talk_to_a_broker_are_found_with_their_scenario() -> None:
    found = {run.titles: run.scenario for run in runs_in(TABLE) if not run.part}
    assert found == {
        ("0005_order",): "default",
        ("0018_cgrp_term",): "default",
        ("0045_topic_remove",): "noautocreate",
        ("0045_updates", "0045_resubscribe"): "default",
        ("0049_consume_conn_close",): "default",
    }


def test_test_of_the_admin_client_is_run_in_parts() -> None:
    parts = [run for run in runs_in(TABLE) if run.part]
    assert [run.part for run in parts] == list(ADMIN_SUBTESTS)
    assert parts[1].titles == ("0081_admin CreateTopics",)


def test_longest_tests_come_first() -> None:
    table = TABLE.replace("0049_consume_conn_close", f"{LONG[0]}_cooperative_rebalance")
    assert runs_in(table)[0].number == LONG[0]


def test_failure_is_reported_as_the_runner_reports_it() -> None:
    log = """[0m[31m### Test "0005_order" failed at 0005-order.c:9 ###
Expected 3, not 2
[<MAIN>] more
### Test "<MAIN>" failed at test.c:2286:main() ###
"""
    told = list(failures_in(log.replace("[0m", "\x1b[0m").replace("[31m", "\x1b[31m")))
    assert told == ['### Test "0005_order" failed at 0005-order.c:9 ###', "Expected 3, not 2"]


def test_three_replicas_become_one() -> None:
    asked = "test_create_topic_wait_exists(p, topic, 4, 3, 5000);"
    assert ONE_BROKER.sub(r"\1, 1\2)", asked) == asked.replace("4, 3", "4, 1")
    asked = "Test::create_topic(NULL, topic.c_str(), 1, 3);"
    assert ONE_BROKER.sub(r"\1, 1\2)", asked) == asked.replace("1, 3", "1, 1")
    partitions = "test_create_topic_wait_exists(NULL, topic, 3, 1, 5000);"
    assert ONE_BROKER.sub(r"\1, 1\2)", partitions) == partitions


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("PASSED", "passed"), ("FAILED", "failed"), ("SKIPPED", "skipped: too old")],
)
def test_outcome_is_what_the_report_says(state: str, outcome: str) -> None:
    told = json.dumps({"tests": {"0005_order": {"state": state, "extra": "too old"}}})
    assert outcome_of(told, "0005_order") == outcome


@pytest.mark.parametrize("told", ["", "{", '{"tests": {}}'])
def test_test_that_wrote_no_report_has_failed(told: str) -> None:
    assert outcome_of(told, "0005_order") == "failed"
