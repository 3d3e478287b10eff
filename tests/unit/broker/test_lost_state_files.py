"""A metadata log that is gone: a start names it, and goes on without it only when told to."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.errors import RefusalError
from ottla.base.files import FileSystem, join
from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.storage.files.filenames import METADATA_MARK
from ottla.testing import CrashMode
from ottla.testing.crash_points import CrashPoint, every_crash_point
from tests.support.brokers import disk, open_broker
from tests.support.metadata import lose_metadata
from tests.support.suspended import in_turns_of
from tests.unit.broker.security.test_security import AUTHORIZER, rule

MARK = join("/d", METADATA_MARK)


def opened(files: FileSystem, *paths: str) -> Broker:
    return open_broker(files, *paths, ids=itertools.count(1000), authorizer_class_name=AUTHORIZER)


def set_quota(broker: Broker) -> None:
    quota = QuotaAlteration(names=(("client-id", "a"),), limits={"producer_byte_rate": 1024.0})
    assert broker.admin.alter_quotas([quota], lambda one: one) == [None]


def create_rule(broker: Broker) -> None:
    broker.security.create_acls([rule("t")])


CHANGES: dict[str, Callable[[Broker], object]] = {
    "a quota": set_quota,
    "a rule": create_rule,
    "a producer id": lambda broker: broker.producer_ids.allocate(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("in_turns", [False, True])
def test_a_start_refuses_a_directory_that_has_lost_it(
    change: Callable[[Broker], object], in_turns: bool
) -> None:
    files = disk("/d", "/e")
    broker = opened(files, "/d", "/e")
    if in_turns:
        with in_turns_of(lambda _: None):
            change(broker)
    else:
        change(broker)
    broker.close()
    files = files.crash(CrashMode.STRICT)
    lose_metadata(files, with_mark=False)
    with pytest.raises(RefusalError, match="/d/__cluster_metadata-0 is missing, though"):
        opened(files, "/d", "/e")
    files.remove(MARK)
    opened(files, "/d", "/e").close()


def test_a_directory_without_changes_has_no_mark() -> None:
    files = disk("/d")
    opened(files).close()
    assert files.status(MARK) is None


def change_all(files: FileSystem, done: list[Any]) -> None:
    broker = opened(files)
    for name, change in CHANGES.items():
        with in_turns_of(lambda _: None):
            change(broker)
        done.append(name)
    broker.close()


def check_crash(point: CrashPoint) -> None:
    """No start takes for lost what a crash has cut off, and what was answered is protected."""
    files = point.file_system
    assert not point.acknowledged or files.status(MARK) is not None, point
    opened(files).close()
    if files.status(MARK) is not None:
        lose_metadata(files, with_mark=False)
        with pytest.raises(RefusalError, match="/d/__cluster_metadata-0 is missing"):
            opened(files)


@pytest.mark.slow
def test_whenever_the_broker_crashes_nothing_is_missed_but_what_is_gone() -> None:
    points = every_crash_point(change_all, make_file_system=lambda: disk("/d"), seeds=1)
    assert sum(1 for _ in map(check_crash, points)) > 50
