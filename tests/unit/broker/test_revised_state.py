"""States that several requests change, in turns, and that lie whole on every disk."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, replace_file
from ottla.base.turns import CURRENT, Turn, at_once
from ottla.broker.configs.cluster_file import CLUSTER_FILE, ClusterState, quota_entity
from ottla.broker.revised_state import StateFile
from ottla.broker.security.security_file import (
    SECURITY_FILE,
    SecurityState,
    read_security_file,
)
from ottla.testing import FakeFileSystem, every_crash_point
from tests.support.brokers import disk, open_broker
from tests.unit.broker.security.test_security import AUTHORIZER, rule

RULES = [rule(f"t-{number}") for number in range(1000)]


@contextmanager
def in_turns_of(suspend: Callable[[int], None]) -> Iterator[None]:
    """Suspends at every occasion, and says which it is."""
    turns, ticks = count(), count()
    turn = Turn(
        lambda: suspend(next(turns)),
        lambda: float(next(ticks)),
        max_elements=10**9,
        max_size=10**9,
    )
    token = CURRENT.set(turn)
    try:
        yield
    finally:
        CURRENT.reset(token)


def test_many_entries_are_written_in_many_turns() -> None:
    files = FakeFileSystem()
    security = open_broker(files, authorizer_class_name=AUTHORIZER).security
    turns: list[int] = []
    with in_turns_of(turns.append):
        security.create_acls(RULES)
    assert len(turns) > len(RULES), "reading and following go rule by rule"
    assert read_security_file(files, "/d").acls == tuple(RULES)
    assert security.authorizer is not None


def turns_of_a_change(at_moment: int) -> int:
    """Makes a change, and another one at one of its turns; returns how many turns it had."""
    files = FakeFileSystem()
    security = open_broker(files, authorizer_class_name=AUTHORIZER).security
    wanted = {*RULES[:5]}
    turns: list[int] = []

    def another(number: int) -> None:
        turns.append(number)
        if number == at_moment:
            wanted.add(rule("other"))
            with at_once():
                security.create_acls([rule("other")])

    with in_turns_of(another):
        security.create_acls(RULES[:5])
    assert set(security.state.acls) == wanted
    assert read_security_file(files, "/d") == security.state
    assert security.authorizer is not None
    assert security.authorizer._literal.keys() == {
        (pattern.resource_type, pattern.name) for pattern, _ in wanted
    }
    return len(turns)


def test_a_change_that_comes_in_between_is_kept() -> None:
    for moment in range(turns_of_a_change(-1)):
        turns_of_a_change(moment)


def test_what_is_left_out_goes_from_the_disk_with_the_next_change() -> None:
    files = FakeFileSystem()
    security = open_broker(files, authorizer_class_name=AUTHORIZER).security
    security.create_acls(RULES[:2])
    security._store.leave_out(replace(security.state, acls=tuple(RULES[:1])))
    assert len(read_security_file(files, "/d").acls) == 2
    security.create_acls(RULES[2:3])
    assert read_security_file(files, "/d").acls == (RULES[0], RULES[2])


def test_a_crash_leaves_the_old_state_or_the_new_and_what_was_answered() -> None:
    def workload(files: FileSystem, acknowledged: list[int]) -> None:
        security = open_broker(files, authorizer_class_name=AUTHORIZER).security
        for number in range(2):
            with in_turns_of(lambda _: None):
                security.create_acls([RULES[number]])
            acknowledged.append(number)

    for point in every_crash_point(workload, seeds=1):
        if point.file_system.status("/d") is not None:
            acls = read_security_file(point.file_system, "/d").acls
            assert acls in [tuple(RULES[:count]) for count in range(3)]
            assert len(acls) >= len(point.acknowledged)


def test_files_have_a_line_for_each_entry() -> None:
    files = FakeFileSystem()
    security = open_broker(files, authorizer_class_name=AUTHORIZER).security
    security.create_acls(RULES[:2])
    content = files.open(f"/d/{SECURITY_FILE.name}").pread(1000, 0).decode()
    assert [line[:20] for line in content.splitlines()] == [
        "{", ' "version": 2,', ' "revision": 1,', ' "acls": [', '  {"resource_type": ',
        '  {"resource_type": ', " ],", ' "scram_credentials"', ' "delegation_tokens"',
        ' "checksum": "' + content[-12:-6], "}",
    ]  # fmt: skip


CLUSTER = ClusterState(
    revision=3,
    broker_configs={"log.cleaner.threads": "2"},
    quotas={quota_entity({"client-id": "a"}): {"producer_byte_rate": 1024.0}},
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "state"),
    [(CLUSTER_FILE, CLUSTER), (SECURITY_FILE, SecurityState(revision=3, acls=tuple(RULES[:2])))],
    ids=["settings and quotas", "users and rules"],
)
def test_no_flipped_bit_and_no_cut_is_read_as_another_state(
    file: StateFile[Any], state: ClusterState | SecurityState
) -> None:
    files = disk("/d")
    content = b"".join(file.parts(state))
    harmed = [content[:size] for size in range(len(content))]
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            harmed.append(bytes(flipped))
    for one in harmed:
        replace_file(files, f"/d/{file.name}", one)
        with pytest.raises(CorruptionError, match=file.name):
            file.read(files, "/d")
    replace_file(files, f"/d/{file.name}", content)
    assert file.read(files, "/d") == state
