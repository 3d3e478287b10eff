"""What a run of somebody's suite is judged by."""

from pathlib import Path

import pytest

from tests.compat.suites.suite import outcomes_of_junit, report


def test_suite_whose_tests_all_pass_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("a suite", {"one": "passed", "two": "skipped: needs TLS"}, {}) == 0

    assert capsys.readouterr().out == (
        "two: skipped: needs TLS\na suite: 1 passed, 0 failed, 1 skipped\n"
    )


def test_failure_without_a_reason_is_named_and_fails_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report("a suite", {"one": "failed"}, {}) == 1

    assert "FAILED one\n" in capsys.readouterr().out


def test_failure_with_a_reason_is_reported_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("a suite", {"one": "failed"}, {"one": "needs three brokers"}) == 0

    assert "one: needs three brokers\n" in capsys.readouterr().out


def test_gap_that_passes_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("a suite", {"one": "passed"}, {"one": "needs three brokers"}) == 1

    assert "passes, but is listed as a gap: one\n" in capsys.readouterr().out


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_unsteady_test_may_pass_or_fail(outcome: str) -> None:
    assert report("a suite", {"one": outcome}, {}, {"one": "waits for 10 ms only"}) == 0


def test_reason_for_a_test_that_was_not_run_fails_the_run() -> None:
    assert report("a suite", {"one": "passed"}, {"another": "needs three brokers"}) == 1


def test_suite_that_ran_nothing_fails() -> None:
    assert report("a suite", {}, {}) == 1


def test_outcomes_are_read_from_junit(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(
        '<testsuites><testsuite><testcase name="good"/>'
        '<testcase name="bad"><failure message="no"/></testcase>'
        '<testcase name="worse"><error message="no"/></testcase>'
        '<testcase name="left out"><skipped message="needs TLS"/></testcase>'
        "</testsuite></testsuites>"
    )

    assert outcomes_of_junit(results) == {
        "good": "passed",
        "bad": "failed",
        "worse": "failed",
        "left out": "skipped: needs TLS",
    }


def test_class_distinguishes_tests_of_one_name(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(
        '<testsuite><testcase classname="Producer" name="ends"/>'
        '<testcase classname="Consumer" name="ends"><failure/></testcase></testsuite>'
    )

    assert outcomes_of_junit(results, with_class=True) == {
        "Producer: ends": "passed",
        "Consumer: ends": "failed",
    }
