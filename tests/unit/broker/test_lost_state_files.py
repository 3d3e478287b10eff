"""Files of settings, quotas, users and adopted topics that are gone: a start names them."""

import itertools
from typing import Any

import pytest

from ottla.base.errors import RefusalError
from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.storage.files.filenames import MARKS
from ottla.testing import CrashMode
from ottla.testing.crash_points import CrashPoint, every_crash_point
from tests.support.brokers import disk, open_broker
from tests.unit.broker.security.test_security import AUTHORIZER, rule
from tests.unit.broker.test_revised_state import in_turns_of

CLUSTER, SECURITY, ADOPTION, PRODUCER_IDS = MARKS
REFUSED = (CLUSTER, SECURITY, ADOPTION)


def opened(files: FileSystem, *paths: str) -> Broker:
    return open_broker(files, *paths, ids=itertools.count(1000), authorizer_class_name=AUTHORIZER)


def set_quota(broker: Broker) -> None:
    quota = QuotaAlteration(names=(("client-id", "a"),), limits={"producer_byte_rate": 1024.0})
    assert broker.admin.alter_quotas([quota], lambda one: one) == [None]


def create_rule(broker: Broker) -> None:
    broker.security.create_acls([rule("t")])


def hold_topic(broker: Broker) -> None:
    broker.adoption.hold("t", "nobody knows its settings")


WRITERS = {
    CLUSTER: set_quota,
    SECURITY: create_rule,
    ADOPTION: hold_topic,
    PRODUCER_IDS: Broker.allocate_producer_id,
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("in_turns", [False, True])
def test_a_start_refuses_a_directory_that_has_lost_one(name: str, in_turns: bool) -> None:
    files = disk("/d", "/e")
    broker = opened(files, "/d", "/e")
    if in_turns:
        with in_turns_of(lambda _: None):
            WRITERS[name](broker)
    else:
        WRITERS[name](broker)
    broker.close()
    files = files.crash(CrashMode.STRICT)
    files.remove(f"/e/{name}")
    with pytest.raises(RefusalError, match=f"/e/{name} is missing, though {MARKS[name]} says"):
        opened(files, "/d", "/e")
    files.remove(f"/e/{MARKS[name]}")
    opened(files, "/d", "/e").close()


@pytest.mark.parametrize("name", REFUSED)
def test_a_directory_of_an_older_version_is_protected_from_its_first_start_on(name: str) -> None:
    files = disk("/d")
    broker = opened(files)
    WRITERS[name](broker)
    broker.close()
    files.remove(f"/d/{MARKS[name]}")
    opened(files).close()
    files.remove(f"/d/{name}")
    with pytest.raises(RefusalError, match=f"/d/{name} is missing"):
        opened(files)


def test_a_directory_without_changes_has_no_mark() -> None:
    files = disk("/d")
    opened(files).close()
    assert not {*files.list("/d")}.intersection(MARKS.values())


def change_all(files: FileSystem, done: list[Any]) -> None:
    broker = opened(files)
    for name, change in WRITERS.items():
        with in_turns_of(lambda _: None):
            change(broker)
        done.append(name)
    broker.close()


def check_crash(point: CrashPoint) -> None:
    """No start takes for lost what a crash has cut off, and what was answered is protected."""
    names = point.file_system.list("/d")
    assert {MARKS[name] for name in point.acknowledged} <= {*names}, point
    opened(point.file_system).close()
    for name in REFUSED:
        files = point.file_system.crash(CrashMode.KEEP)
        if files.status(f"/d/{name}") is not None:
            files.remove(f"/d/{name}")
            with pytest.raises(RefusalError, match=f"/d/{name} is missing"):
                opened(files)


@pytest.mark.slow
def test_whenever_the_broker_crashes_nothing_is_missed_but_what_is_gone() -> None:
    points = every_crash_point(change_all, make_file_system=lambda: disk("/d"), seeds=1)
    assert sum(1 for _ in map(check_crash, points)) > 50
