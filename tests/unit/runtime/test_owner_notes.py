"""The notes in a data directory: which listener commands connect to, and what is being done."""

from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.config.broker import broker_config
from ottla.config.listeners import client_listeners
from ottla.runtime.owner_notes import WorkNotes, addresses_for_commands
from ottla.storage.directory.owner_note import owner_of
from ottla.testing import FakeClock

THREE = {
    "listeners": "OUTSIDE://a:1,PLAIN://b:2,INSIDE://c:3",
    "listener.security.protocol.map": "OUTSIDE:SSL,PLAIN:PLAINTEXT,INSIDE:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        ({}, ["b", "c"]),
        ({"inter.broker.listener.name": "INSIDE"}, ["c", "b"]),
        ({"inter.broker.listener.name": "OUTSIDE"}, ["a"]),
        ({"security.inter.broker.protocol": "SSL"}, ["a"]),
    ],
)
def test_commands_connect_to_the_brokers_listener_and_to_those_that_speak_alike(
    values: dict[str, str], hosts: list[str]
) -> None:
    config = broker_config(THREE | values)
    listeners = client_listeners(config)
    found = addresses_for_commands(config, listeners, [one.address for one in listeners])
    assert [host for host, _ in found] == hosts


def test_work_is_noted_once_a_second_where_the_directory_is_held(tmp_path: Path) -> None:
    files, clock = OsFileSystem(), FakeClock()
    held, free = tmp_path / "held", tmp_path / "free"
    held.mkdir()
    free.mkdir()
    lock = files.lock(str(held / ".lock"))
    assert lock is not None

    def doing() -> str:
        owner = owner_of(files, str(held))
        assert owner is not None
        return owner.doing

    with WorkNotes([str(held), str(free)], "mirror", clock) as notes:
        notes.note("orders-0 (1 of 2)")
        notes.note("orders-1 (2 of 2)")
        assert doing() == "orders-0 (1 of 2)"
        clock.advance(1000)
        notes.note("orders-1 (2 of 2)")
        assert doing() == "orders-1 (2 of 2)"
        notes.note_at_once("up to date")
        assert doing() == "up to date"
    assert [one.name for one in tmp_path.glob("*/*")] == [".lock"]
    lock.release()
