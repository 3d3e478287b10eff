"""Whatever is done to a directory's files: what it held is right, or what is not is named.

`python -m tests.crash.test_damage FIRST [COUNT]` tries damages by their seeds, and prints what they
are and which faults come of them.
"""

import itertools
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.startup import opening
from ottla.cli.records import json_lines
from ottla.coordinator.offsets.committed_offsets import FetchedOffset
from ottla.coordinator.shard import GroupCoordinatorShard
from ottla.metadata.records import (
    ClientQuotaRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    UserScramCredentialRecord,
)
from ottla.metadata.replay import REPLAYS, MetadataReplay
from ottla.record.record import Record
from ottla.search.sources import FileRecords
from ottla.storage.log.reader import LogReader
from tests.crash import judging
from tests.crash.damage import damage
from tests.crash.judging import Fault, Verdict, judge
from tests.crash.original import Original, Stop, build
from tests.crash.other_readers import JUDGES

SEED_COUNT = 16
"""As many without `--crash-seconds`, from the first on; all stops alike."""
BOUND_S = 60.0
"""Far longer than anything takes that does not wait forever."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[Stop, Original]:
    place = tmp_path_factory.mktemp("originals")
    return {stop: build(place / stop.name, stop) for stop in Stop}


def tried(originals: dict[Stop, Original], place: Path, seed: int) -> tuple[str, Verdict]:
    """A seed's damage, after a clean stop or a kill; returns what it was and what came of it."""
    original = originals[list(Stop)[seed % len(Stop)]]
    copy = place / "data"
    shutil.copytree(original.path, copy)
    also = list(JUDGES.items())[seed // len(Stop) % len(JUDGES)]
    try:
        done = damage(copy, seed)
        verdict = judge(copy, original, done, bound_s=BOUND_S, also=also)
        return f"{original.stop}, {'; '.join(done)}", verdict
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(place / "elsewhere", ignore_errors=True)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.slow
def test_an_undamaged_directory_is_as_it_was_written(
    originals: dict[Stop, Original], stop: Stop, tmp_path: Path
) -> None:
    copy = tmp_path / "data"
    shutil.copytree(originals[stop].path, copy)
    verdict = Verdict()
    for others in JUDGES.values():
        others(copy, originals[stop], ["undamaged"], verdict)
    verdict.faults += judge(copy, originals[stop], ["undamaged"], bound_s=BOUND_S).faults
    assert verdict.faults == []


@pytest.mark.slow
def test_no_damage_is_silence(
    originals: dict[Stop, Original], tmp_path: Path, crash_seconds: float
) -> None:
    until = time.monotonic() + crash_seconds
    for seed in itertools.count():
        if seed >= SEED_COUNT and time.monotonic() >= until:
            return
        done, verdict = tried(originals, tmp_path, seed)
        assert not verdict.faults, f"seed {seed}: {done}: {verdict.faults}"


# The judge is judged: what it must not miss is done to it.


def cut_records(monkeypatch: pytest.MonkeyPatch) -> None:
    read = FileRecords.records

    def without_the_third(*arguments: Any) -> Iterator[Record]:
        return (one for number, one in enumerate(read(*arguments)) if number != 2)

    monkeypatch.setattr(FileRecords, "records", without_the_third)


def change_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_member", lambda name, *_: {name: "x"})


def cut_what_clients_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = judging.read_records
    monkeypatch.setattr(judging, "read_records", lambda batch: list(read(batch))[1:])


def change_what_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = GroupCoordinatorShard.fetch_offsets

    def one_less(self: GroupCoordinatorShard, *arguments: Any) -> dict[Any, FetchedOffset]:
        found = fetch(self, *arguments)
        for key, one in found.items():
            assert one.committed is not None
            less = replace(one.committed, offset=one.committed.offset - 1)
            found[key] = FetchedOffset(committed=less)
        return found

    monkeypatch.setattr(GroupCoordinatorShard, "fetch_offsets", one_less)


def forget_what_was_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogReader, "aborted_transactions", lambda *_: [])


def forget_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "producers_of", lambda _: {})


def lose_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had never been there: nothing is refused, and an empty one is made."""
    monkeypatch.setattr(opening, "find_lost", lambda *_: set())


def forget_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPLAYS, ClientQuotaRecord, MetadataReplay._pass_over)


def forget_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPLAYS, UserScramCredentialRecord, MetadataReplay._pass_over)


def forget_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPLAYS, DelegationTokenRecord, MetadataReplay._pass_over)


def repeat_producer_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPLAYS, ProducerIdsRecord, MetadataReplay._pass_over)
    monkeypatch.setattr(opening, "_highest_producer_id", lambda *_: 0)


def raise_what_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Iterator[Record]:
        raise ZeroDivisionError

    monkeypatch.setattr(FileRecords, "records", failing)


def wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileRecords, "records", lambda *_: threading.Event().wait())


@pytest.mark.parametrize(
    ("mutation", "fault"),
    [
        (cut_records, Fault.LOST),
        (change_records, Fault.WRONG),
        (cut_what_clients_read, Fault.LOST),
        (change_what_was_committed, Fault.LOST),
        (forget_what_was_aborted, Fault.WRONG),
        (forget_producers, Fault.WRONG),
        (lose_a_partition, Fault.UNNAMED),
        (forget_quotas, Fault.LOST),
        (forget_users, Fault.LOST),
        (forget_tokens, Fault.LOST),
        (repeat_producer_ids, Fault.WRONG),
        (raise_what_is_nobodys, Fault.TRACEBACK),
        (wait_for_ever, Fault.HANG),
    ],
)
@pytest.mark.slow
def test_the_judge_misses_no_fault(
    originals: dict[Stop, Original],
    mutation: Callable[[pytest.MonkeyPatch], None],
    fault: Fault,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = originals[Stop.CLEAN]
    copy = tmp_path / "data"
    shutil.copytree(original.path, copy)
    if mutation is lose_a_partition:
        shutil.rmtree(copy / "packed-0")
    mutation(monkeypatch)
    bound_s = 2.0 if mutation is wait_for_ever else BOUND_S
    verdict = judge(copy, original, ["undamaged"], bound_s=bound_s)
    assert fault in {found for found, _ in verdict.faults}


def main(first: int, count: int) -> None:
    faulty = 0
    with tempfile.TemporaryDirectory() as place:
        originals = {stop: build(Path(place) / stop.name, stop) for stop in Stop}
        for seed in range(first, first + count):
            done, verdict = tried(originals, Path(place), seed)
            faulty += bool(verdict.faults)
            if verdict.faults or count == 1:
                print(f"seed {seed}: {done}")
            for fault, text in verdict.faults[:4]:
                print(f"    {fault}: {text}", flush=True)
    print(f"{count} seeds from {first} on, {faulty} with faults")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
