"""A group's own settings: they hold for its members, from their next heartbeat on."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.config.group import GroupConfig
from tests.support.consumer_groups import SESSION_MS, ConsumerRunner
from tests.support.groups import GROUP

LONGER_MS = SESSION_MS + 10_000


@pytest.fixture
def runner() -> ConsumerRunner:
    return ConsumerRunner()


def test_members_are_told_their_groups_heartbeat_interval(runner: ConsumerRunner) -> None:
    runner.group_configs[GROUP] = GroupConfig(consumer_heartbeat_interval_ms=7000)
    assert runner.enter("m").heartbeat_interval_ms == 7000
    assert runner.enter("n", group_id="other").heartbeat_interval_ms == 5000


def test_another_interval_is_sent_with_the_next_heartbeat(runner: ConsumerRunner) -> None:
    assert runner.enter("m").heartbeat_interval_ms == 5000
    runner.group_configs[GROUP] = GroupConfig(consumer_heartbeat_interval_ms=7000)
    assert runner.beat("m").heartbeat_interval_ms == 7000
    del runner.group_configs[GROUP]
    assert runner.beat("m").heartbeat_interval_ms == 5000


def test_a_longer_session_begins_with_the_next_heartbeat(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.group_configs[GROUP] = GroupConfig(consumer_session_timeout_ms=LONGER_MS)
    runner.advance(SESSION_MS - 1)
    assert runner.beat("m").error is ErrorCode.NONE
    runner.advance(LONGER_MS - 1)
    assert set(runner.group.members) == {"m"}
    runner.advance(1)
    assert runner.state == "Empty"


def test_who_sends_no_heartbeat_is_held_to_the_session_that_it_has(runner: ConsumerRunner) -> None:
    runner.group_configs[GROUP] = GroupConfig(consumer_session_timeout_ms=LONGER_MS)
    runner.enter("m")
    del runner.group_configs[GROUP]
    runner.advance(LONGER_MS - 1)
    assert runner.beat("m").error is ErrorCode.NONE
    runner.advance(SESSION_MS)
    assert runner.state == "Empty"


def test_a_groups_session_holds_after_a_restart(runner: ConsumerRunner) -> None:
    runner.group_configs[GROUP] = GroupConfig(consumer_session_timeout_ms=LONGER_MS)
    runner.enter("m")
    runner.restart()
    runner.advance(LONGER_MS - 1)
    assert set(runner.group.members) == {"m"}
    runner.advance(1)
    assert runner.state == "Empty"
