"""A FIFO, a link, a socket or a folder in the place of any file: named, and nothing waits for it.

At most one partition is lost to it; what the whole directory depends on is refused by its name.
"""

import contextlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import OttlaError
from ottla.base.files import OsFileSystem
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.files.filenames import (
    BOOT_NOTE,
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
    INTEGRITY,
    LEADER_EPOCHS,
    LOCK,
    META_PROPERTIES,
    METADATA_MARK,
    PARTITION_METADATA,
)
from tests.crash.flips import listening
from tests.crash.judging import bounded, run
from tests.support.brokers import NOW_MS, batch, open_broker

BOUND_S = 30.0
COUNT = 5
FIRST = f"{0:020d}"
SMALL = {"segment.bytes": "200"}


def fifo(path: Path) -> None:
    os.mkfifo(path)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def link_loop(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_file(path: Path) -> None:
    other = path.with_name(path.name + ".other")
    other.write_bytes(b"content")
    path.symlink_to(other)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_bytes(b"content")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
        one.bind(path.name)


KINDS = [fifo, dangling_link, link_loop, link_to_a_file, folder, unix_socket]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics of several segments, and a group, stopped cleanly."""
    path = tmp_path_factory.mktemp("foreign") / "data"
    broker = open_broker(OsFileSystem(), str(path))
    for name in ("one", "two"):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1, overrides=SMALL))
        for number in range(COUNT):
            broker.appends.append(
                broker.topics.partition(name, 0), batch(b"%d" % number), now_ms=NOW_MS
            )
            broker.appends.write_out()
    broker.close()
    return path


OF_DIRECTORY = [
    META_PROPERTIES, CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_LOG_START,
    CHECKPOINT_CLEANER, CLEAN_SHUTDOWN, LOCK, BOOT_NOTE, "ottla-owner", "ottla-log-starts",
    "ottla-meta-properties", "ottla-replicas", "ottla-snapshot", "ottla-restoring", METADATA_MARK,
    CLUSTER_METADATA_DIRECTORY, f"{CLUSTER_METADATA_DIRECTORY}/quorum-state",
    f"{CLUSTER_METADATA_DIRECTORY}/{0:020}.log", "bootstrap.checkpoint",
    f"{CHECKPOINT_RECOVERY_POINT}.tmp", "two-0.00000000000000000000000000000000-delete",
]  # fmt: skip
OF_PARTITION = [
    f"one-0/{name}"
    for name in [
        INTEGRITY, LEADER_EPOCHS, PARTITION_METADATA, f"{FIRST}.log", f"{FIRST}.index",
        f"{FIRST}.timeindex", f"{FIRST}.txnindex", f"{FIRST}.snapshot", f"{FIRST}.log.swap",
        f"{FIRST}.log.cleaned", f"{FIRST}.log.deleted", f"{FIRST}.index.swap",
        f"{COUNT:020d}.snapshot", f"{LEADER_EPOCHS}.tmp", f"{INTEGRITY}.tmp",
    ]
]  # fmt: skip


Command = Callable[[], tuple[int, str, str]]


def commands(path: Path, place: Path, number: int) -> list[tuple[str, Command]]:
    """Two of the readers at rest, others for each number, and then what changes the directory."""
    readers: list[tuple[str, Command]] = [
        ("records", lambda: run("records", str(path), "--topic", "one", "--json")),
        ("doctor", lambda: run("doctor", str(path))),
        ("other records", lambda: run("records", str(path), "--topic", "two", "--json")),
        ("snapshot", lambda: run("snapshot", "create", str(path), "one", "--in", str(place / "s"))),
        ("open to read", lambda: opened(path, read_only=True)),
        ("mirror", lambda: run("mirror", str(path), str(place / "copy"))),
    ]
    return [
        ("log check", lambda: run("log", "check", str(path))),
        readers[number % len(readers)],
        readers[(number + 3) % len(readers)],
        ("open", lambda: opened(path, read_only=False)),
        ("open again", lambda: opened(path, read_only=False)),
    ]


def opened(path: Path, *, read_only: bool) -> tuple[int, str, str]:
    named: list[str] = []
    out = ""
    with listening(named):
        try:
            with ottla.open(str(path), read_only=read_only) as log:
                for topic in ("two", "one"):
                    rows = [one.value for one in log.read(topic)]
                    out += f"{topic} {len(rows)}\n"
        except (OttlaError, OSError) as error:
            return 1, out, "\n".join([*named, str(error)])
    return 0, out, "\n".join(named)


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", OF_DIRECTORY + OF_PARTITION)
@pytest.mark.slow
def test_what_is_no_file_is_named_and_costs_one_partition_at_most(
    original: Path, name: str, kind: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    shutil.copytree(original, path)
    if (path / name).is_dir():
        shutil.rmtree(path / name)
    (path / name).unlink(missing_ok=True)
    kind(path / name)
    number = (OF_DIRECTORY + OF_PARTITION).index(name) + KINDS.index(kind)
    for command, call in commands(path, tmp_path, number):
        with bounded(BOUND_S):
            code, out, err = call()
        assert "Traceback" not in err, (command, err)
        assert not code or err.strip() or out.strip(), (command, code)
        if command == "log check":
            assert name.rsplit("/", 1)[-1] in out + err, out + err
        if command.startswith("open"):
            assert code or f"one {COUNT}" in out or "one-0" in err, (command, code, out, err)
        if name in OF_PARTITION and command.startswith("open"):
            assert f"two {COUNT}" in out, (command, code, out, err)
        if name in OF_PARTITION and command == "other records":
            assert out.count("\n") == COUNT, (command, code, out, err)
