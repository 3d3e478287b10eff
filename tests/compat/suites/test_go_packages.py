"""How the outcomes of Go's tests are read."""

import json

from tests.compat.suites.go_packages import outcomes_of_events, words_of_failed


def _lines(*events: tuple[str, str] | tuple[str, str, str]) -> list[str]:
    names = ("Action", "Test", "Output")
    return [json.dumps(dict(zip(names, event, strict=False))) for event in events]


def test_each_test_has_its_outcome() -> None:
    lines = _lines(("run", "One"), ("pass", "One"), ("run", "Two"), ("fail", "Two"))

    assert outcomes_of_events(lines) == {"One": "passed", "Two": "failed"}


def test_subtests_stand_for_the_test_that_holds_them() -> None:
    lines = _lines(
        ("run", "All"),
        ("run", "All/one"),
        ("pass", "All/one"),
        ("fail", "All/two"),
        ("fail", "All"),
    )

    assert outcomes_of_events(lines) == {"All/one": "passed", "All/two": "failed"}


def test_test_that_never_ended_has_failed() -> None:
    assert outcomes_of_events(_lines(("run", "One"))) == {"One": "failed"}


def test_skipped_test_says_what_it_said() -> None:
    lines = _lines(
        ("run", "One"),
        ("output", "One", "=== RUN   One\n"),
        ("output", "One", "    one_test.go:12: needs five brokers\n"),
        ("output", "One", "--- SKIP: One (0.00s)\n"),
        ("skip", "One"),
    )

    assert outcomes_of_events(lines) == {"One": "skipped: needs five brokers"}


def test_test_skipped_without_a_word_is_skipped_by_itself() -> None:
    lines = _lines(("run", "One"), ("output", "One", "    one_test.go:12: \n"), ("skip", "One"))

    assert outcomes_of_events(lines) == {"One": "skipped: by itself"}


def test_what_is_said_of_a_package_is_no_test() -> None:
    assert outcomes_of_events([json.dumps({"Action": "fail", "Package": "a"})]) == {}


def test_what_failed_tests_said_is_told_with_their_names() -> None:
    lines = _lines(
        ("output", "One", "of no interest\n"),
        ("pass", "One"),
        ("output", "Two", "want 3, got 2\n"),
        ("fail", "Two"),
    )

    assert words_of_failed(lines) == "Two: want 3, got 2\n"
