"""What of librdkafka's tests is run, and what their report says."""

import json

import pytest

from tests.compat.suites.librdkafka_suite import ADMIN_SUBTESTS, ONE_BROKER, cases_in, outcome_of

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
    _TEST(0045_topic_remove,
          0,
          TEST_BRKVER(0, 9, 0, 0),
          .scenario = "noautocreate"),
#if WITH_SOCKEM
    _TEST(0049_consume_conn_close, TEST_F_SOCKEM, TEST_BRKVER(0, 9, 0, 0)),
#endif
    _TEST(0081_admin, 0, TEST_BRKVER(0, 10, 2, 0)),
    /* Manual tests */
    _TEST(8000_idle, TEST_F_MANUAL),

    {NULL}};
"""


def test_tests_that_talk_to_a_broker_are_found_with_their_scenario() -> None:
    found = {test.title: test.scenario for test in cases_in(TABLE) if not test.part}
    assert found == {
        "0005_order": "default",
        "0018_cgrp_term": "default",
        "0045_topic_remove": "noautocreate",
        "0049_consume_conn_close": "default",
    }


def test_test_of_the_admin_client_is_run_in_parts() -> None:
    assert [test.part for test in cases_in(TABLE) if test.part] == list(ADMIN_SUBTESTS)


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
