"""Thousands of damages to small directories of several ages, on a disk in memory.

Whatever is done, each record is served, or what is lost is named; and what is sound stays on the
disk. `python -m tests.crash.test_many_damages FIRST COUNT` tries more seeds, at some milliseconds
each. `test_damage` tries fewer, with more kinds of files, and with every command that reads.
"""

import itertools
import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

import pytest

from ottla.base.errors import CorruptionError, OttlaError
from ottla.base.files import join, parent_directory
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.record import read_records
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.testing import CrashMode, FakeFileSystem
from tests.crash.checking import all_files
from tests.crash.flips import listening
from tests.support.brokers import NOW_MS, batch, disk, open_broker

DIRECTORY = "/d"
SMALL = {"segment.bytes": "250", "index.interval.bytes": "60"}
PARTITIONS = [("one", 0), ("two", 0), ("two", 1)]
SEED_COUNT = 60
"""As many without `--crash-seconds`."""

Files = dict[str, bytes | None]
"""By path; `None` is a folder where a file belongs."""
Rows = dict[int, bytes]


class Age(StrEnum):
    """How often a broker has used the directory, and how the last one ended."""

    CLEAN = "stopped"
    YOUNG = "killed in its first minute"
    OLD = "killed some time after its checkpoints"
    AGAIN = "killed again after a recovery"


@dataclass(frozen=True, slots=True)
class Directory:
    files: dict[str, bytes]
    rows: dict[tuple[str, int], Rows]
    stored: list[tuple[str, int, bytes]]
    """Each batch that is stored: its file, its position and its bytes."""


@cache
def directory_of(age: Age) -> Directory:
    files = disk(DIRECTORY)
    broker = open_broker(files, ids=itertools.count(1000, 7919))
    broker.admin.create_topic(NewTopic(name="one", partition_count=1, overrides=SMALL))
    broker.admin.create_topic(NewTopic(name="two", partition_count=2, overrides=SMALL))
    rows: dict[tuple[str, int], Rows] = {key: {} for key in PARTITIONS}
    write(broker, rows, 7)
    if age is Age.OLD:
        for one in broker.directories:
            for log in one.logs.values():
                log.writer.flush()
            one.checkpoints.write()
        write(broker, rows, 4)
    if age is Age.AGAIN:
        files = files.crash(CrashMode.KEEP)
        broker = open_broker(files, ids=itertools.count(2000, 7919))
        write(broker, rows, 4)
    if age is Age.CLEAN:
        broker.close()
    found = all_files(files.crash(CrashMode.KEEP), DIRECTORY)
    stored = []
    for path, content in found.items():
        position = 0
        for one in iter_batches(content) if path.endswith(".log") else ():
            stored.append((path, position, content[position : position + one.size]))
            position += one.size
    return Directory(found, rows, stored)


def write(broker: Broker, rows: dict[tuple[str, int], Rows], count: int) -> None:
    for _ in range(count):
        for key in PARTITIONS:
            value = b"%s-%d-%d" % (key[0].encode(), key[1], len(rows[key]))
            rows[key][len(rows[key])] = value
            broker.appends.append(broker.topics.partition(*key), batch(value), now_ms=NOW_MS)
        broker.appends.write_out()


# Damage


def damage(chance: random.Random, files: Files) -> list[str]:
    """Damages files once or twice; returns the paths that it has touched."""
    touched: list[str] = []
    for _ in range(chance.choice([1, 1, 1, 2])):
        while True:
            path = chance.choice(kinds(files)[chance.choice(sorted(kinds(files)))])
            done = chance.choice(DEEDS)(chance, files, path)
            if done:
                touched += done
                break
    return touched


def kinds(files: Files) -> dict[str, list[str]]:
    """The paths by kind of file: those of a log's files are chosen more often."""
    found: dict[str, list[str]] = {}
    for path, content in sorted(files.items()):
        if content is not None:
            name = path.rpartition("/")[2]
            kind = name.lstrip("0123456789") if name[:20].isdigit() else name
            found.setdefault(kind, []).append(path)
            if kind == ".log":
                found["last .log"] = [*found.get("last .log", []), path][-len(PARTITIONS) :]
    return found


Deed = Callable[[random.Random, Files, str], list[str]]


def content_of(files: Files, path: str) -> bytearray:
    return bytearray(files[path] or b"")


def delete(_: random.Random, files: Files, path: str) -> list[str]:
    del files[path]
    return [path]


def delete_segment(_: random.Random, files: Files, path: str) -> list[str]:
    name = path.rpartition("/")[2]
    gone = [one for one in files if one.startswith(path[: -len(name)] + name[:20])]
    for one in gone if name[:20].isdigit() else ():
        del files[one]
    return gone if name[:20].isdigit() else []


def delete_from(_: random.Random, files: Files, path: str) -> list[str]:
    """This segment and all after it."""
    if not path.endswith(".log"):
        return []
    place = parent_directory(path)
    gone = [one for one in files if one >= path and parent_directory(one) == place]
    gone = [one for one in gone if one.endswith((".log", "index")) and INTEGRITY not in one]
    for one in gone:
        del files[one]
    return gone


def delete_partition(_: random.Random, files: Files, path: str) -> list[str]:
    place = parent_directory(path)
    if place == DIRECTORY:
        return []
    for one in [one for one in files if one.startswith(place + "/")]:
        del files[one]
    return [place]


def cut(chance: random.Random, files: Files, path: str) -> list[str]:
    content = content_of(files, path)
    if not content:
        return []
    size = chance.choice([0, len(content) - 1, len(content) // 2, chance.randrange(len(content))])
    files[path] = bytes(content[:size])
    return [path]


def cut_batches(chance: random.Random, files: Files, path: str) -> list[str]:
    content = content_of(files, path)
    sizes = list(itertools.accumulate(one.size for one in whole_batches(path, content)))[:-1]
    if not sizes:
        return []
    files[path] = bytes(content[: chance.choice(sizes)])
    return [path]


def whole_batches(path: str, content: bytearray) -> list[object]:
    try:
        return list(iter_batches(bytes(content))) if path.endswith(".log") else []
    except InvalidBatchError:
        return []


def zero(chance: random.Random, files: Files, path: str) -> list[str]:
    content = content_of(files, path)
    if not content:
        return []
    begin = chance.choice([chance.randrange(len(content)), max(0, len(content) - 70)])
    end = min(len(content), begin + chance.choice([1, 8, 70, 512]))
    content[begin:end] = bytes(end - begin)
    return store(files, path, content)


def flip(chance: random.Random, files: Files, path: str) -> list[str]:
    content = content_of(files, path)
    for _ in range(chance.choice([1, 1, 1, 2, 8]) if content else 0):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return store(files, path, content)


def extend(chance: random.Random, files: Files, path: str) -> list[str]:
    content = content_of(files, path)
    size = chance.choice([1, 7, 61, 300, 5000])
    content += chance.choice([bytes(size), chance.randbytes(size), content[-size:]])
    return store(files, path, content)


def store(files: Files, path: str, content: bytearray) -> list[str]:
    if content == files[path]:
        return []
    files[path] = bytes(content)
    return [path]


def swap_files(chance: random.Random, files: Files, path: str) -> list[str]:
    kind = next(paths for paths in kinds(files).values() if path in paths)
    other = chance.choice(kind)
    if files[other] == files[path]:
        return []
    files[path], files[other] = files[other], files[path]
    return [path, other]


def copy_file(chance: random.Random, files: Files, path: str) -> list[str]:
    kind = next(paths for paths in kinds(files).values() if path in paths)
    return store(files, path, content_of(files, chance.choice(kind)))


def folder(_: random.Random, files: Files, path: str) -> list[str]:
    files[path] = None
    return [path]


def plant_swap(chance: random.Random, files: Files, path: str) -> list[str]:
    """What a compaction that was cut off leaves: sound or not, beside what it replaces."""
    if not path.endswith(".log"):
        return []
    content = content_of(files, path)
    files[path + chance.choice([".swap", ".swap", ".swap", ".cleaned", ".deleted"])] = None
    (planted,) = [one for one in files if one.startswith(path + ".") and files[one] is None]
    files[planted] = bytes(content)
    deed = chance.choice([cut, zero, flip, extend, None])
    if deed is not None:
        deed(chance, files, planted)
    return [path, planted]


def plant(chance: random.Random, files: Files, path: str) -> list[str]:
    """A file or folder of another name."""
    name = path.rpartition("/")[2]
    moved = f"{chance.randrange(40):020d}{name[20:]}" if name[:20].isdigit() else name + ".old"
    planted = join(parent_directory(path), moved)
    if planted in files:
        return []
    files[planted] = chance.choice([None, b"", chance.randbytes(70), files[path]])
    return [planted]


DEEDS: list[Deed] = [
    delete, delete_segment, delete_from, delete_partition, cut, cut, cut_batches, cut_batches, zero,
    zero, flip, flip, extend, swap_files, copy_file, folder, plant_swap, plant_swap, plant,
]  # fmt: skip


# Judging


@dataclass(slots=True)
class Judging:
    """What the readers of one damaged directory were given and told."""

    original: Directory
    touched: list[str]
    told: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def is_boot_unknown(self) -> bool:
        """Whether it may have been a power failure, which leaves holes and torn ends."""
        return any(BOOT_NOTE in one for one in self.touched)

    def compare(self, where: str, key: tuple[str, int], rows: Rows) -> None:
        lacks = self.original.rows[key].keys() - rows.keys()
        if self.is_boot_unknown and lacks and min(lacks) > max(rows, default=-1):
            return  # nothing says any more how far a killed broker has written
        names = [f"{key[0]}-{key[1]}", *(one.rpartition("/")[2] for one in self.touched)]
        told = "\n".join(self.told)
        if rows != self.original.rows[key] and not any(name in told for name in names):
            text = f"{key} lacks {sorted(lacks)} or has others, and nothing is named"
            self.faults.append(f"{where}: {text}")


def judge(original: Directory, files: Files, touched: list[str]) -> list[str]:
    judging = Judging(original, touched)
    damaged = disk_of(files)
    steps = [read_at_rest, read_by_a_broker, read_by_a_broker]
    for step in steps:
        try:
            with listening(judging.told):
                damaged = step(damaged, judging)
        except Exception:
            judging.faults.append(f"{step.__name__}: {traceback.format_exc(limit=-4)}")
    if not judging.is_boot_unknown:
        check_what_stays(judging, files, all_files(damaged, DIRECTORY))
    return judging.faults


def check_what_stays(judging: Judging, files: Files, left: dict[str, bytes]) -> None:
    """No start may remove a batch that the damage has left as it was."""
    contents = [one for one in left.values() if one]
    for path, position, content in judging.original.stored:
        stays = (files.get(path) or b"")[position : position + len(content)] == content
        if stays and not any(content in one for one in contents):
            judging.faults.append(f"a sound batch of {path} at {position} was removed")


def disk_of(files: Files) -> FakeFileSystem:
    damaged = FakeFileSystem()
    for path, content in files.items():
        damaged.make_directory(parent_directory(path) if content is not None else path)
        if content is not None:
            damaged.open(path, create=True).pwrite(content, 0)
    return damaged


def read_at_rest(files: FakeFileSystem, judging: Judging) -> FakeFileSystem:
    rows: dict[tuple[str, int], Rows] = {key: {} for key in PARTITIONS}
    for key, found in rows.items():
        judging.told.clear()
        try:
            log = ReadOnlyLogDirectory(DIRECTORY, files).partition(*key)
            for one in log.records.read(log.log_start_offset):
                found[one.offset] = one.value or b""
        except (OttlaError, OSError) as error:
            judging.told.append(str(error))
        judging.compare("files", key, found)
    judging.told.clear()
    try:
        judging.told += [f"{one.path}: {one.reason}" for one in check(files, DIRECTORY).findings]
    except (OttlaError, OSError) as error:
        judging.told.append(str(error))
    for key, found in rows.items():
        judging.compare("log check", key, found)
    judging.told.clear()
    return files


def read_by_a_broker(files: FakeFileSystem, judging: Judging) -> FakeFileSystem:
    found: dict[tuple[str, int], Rows] = {key: {} for key in PARTITIONS}
    try:
        broker = open_broker(files)
    except OttlaError as error:
        judging.told.append(str(error))
        broker = None
    for key in PARTITIONS if broker is not None else ():
        try:
            read_as_client(broker.topics.partition(*key).log, found[key], judging.told)
        except OttlaError as error:
            judging.told.append(str(error))
    for key, rows in found.items():
        judging.compare("broker", key, rows)
    return files.crash(CrashMode.KEEP)


def read_as_client(log: PartitionLog, rows: Rows, told: list[str]) -> None:
    offset = log.log_start_offset
    while offset < min(log.log_end_offset, 100):
        try:
            found = log.reader.read(offset, 200, Isolation.HIGH_WATERMARK).records
            if found is None:
                return
            for one in iter_batches(found.read(), allow_torn_tail=True):
                one.check()
                rows |= {
                    record.offset: record.value or b""
                    for record in read_records(one)
                    if record.offset >= offset
                }
                offset = one.next_offset
        except (CorruptionError, InvalidBatchError, OttlaError) as error:
            told.append(f"{log.name}: {error}")
            offset += 1


def tried(seed: int) -> tuple[str, list[str]]:
    """A seed's damage, and what was wrong in silence."""
    chance = random.Random(seed)
    age = list(Age)[seed % len(Age)]
    original = directory_of(age)
    files: Files = dict(original.files)
    touched = damage(chance, files)
    return f"{age}: {touched}", judge(original, files, touched)


@pytest.mark.parametrize("age", Age)
def test_an_undamaged_directory_is_as_it_was_written(age: Age) -> None:
    original = directory_of(age)
    assert judge(original, dict(original.files), []) == []


@pytest.mark.slow
def test_no_damage_is_silence_and_nothing_sound_is_removed(crash_seconds: float) -> None:
    until = time.monotonic() + crash_seconds
    for seed in itertools.count():
        if seed >= SEED_COUNT and time.monotonic() >= until:
            return
        done, faults = tried(seed)
        assert faults == [], f"seed {seed}: {done}"


def main(first: int, count: int) -> None:
    faulty = 0
    for seed in range(first, first + count):
        done, faults = tried(seed)
        faulty += bool(faults)
        for fault in faults[:3]:
            print(f"seed {seed}: {done}\n    {fault}", flush=True)
    print(f"{count} seeds from {first} on, {faulty} with faults")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
