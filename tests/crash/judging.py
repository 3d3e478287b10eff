"""Opens a damaged directory as all do who read one, and says what was wrong in silence.

For each partition either all that the original held is right, or what differs was named: by an
error, or by a line in the log that has the partition's name, or the damaged file's. Five kinds of
fault are left: records or offsets that are silently wrong or lost, a partition that is gone and not
named, a traceback, and a hang.
"""

import base64
import contextlib
import io
import json
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.broker.broker import Broker
from ottla.cli.main import main
from ottla.coordinator.requests import MemberClaim
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.record import read_records
from ottla.storage.files.filenames import BOOT_NOTE, CLUSTER_METADATA_DIRECTORY
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from tests.crash.flips import listening
from tests.crash.original import (
    SETTINGS,
    Content,
    Original,
    Producer,
    Row,
    Stop,
    TopicPartition,
    producers_of,
    what_is_kept,
)
from tests.support.brokers import at, open_broker

READ_SIZE = 400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Fault(StrEnum):
    WRONG = "wrong in silence"
    LOST = "lost in silence"
    UNNAMED = "a partition that is gone is not named"
    TRACEBACK = "a traceback"
    HANG = "a hang"


class HangError(BaseException):
    """Not an `Exception`, so that nobody takes it for a failure of the disk."""


@dataclass(slots=True)
class Seen:
    """What one of the readers was given; `named` is all it was told."""

    rows: dict[TopicPartition, dict[int, Row]] = field(default_factory=dict)
    bounds: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    aborted: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    producers: dict[TopicPartition, dict[int, Producer]] = field(default_factory=dict)
    committed: dict[str, int | None] = field(default_factory=dict)
    overrides: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    producer_id: int | None = None
    refused: set[TopicPartition] = field(default_factory=set)
    named: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Verdict:
    faults: list[tuple[Fault, str]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """What was told as a command recovered the directory: a start does not say it again."""

    def add(self, fault: Fault, text: str) -> None:
        self.faults.append((fault, text))


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises `HangError` in what takes longer: also in a system call that waits."""
    assert threading.current_thread() is threading.main_thread()

    def interrupt(_: int, __: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, interrupt)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)  # the test's own bound, if it has one


Judge = Callable[[Path, Original, list[str], "Verdict"], None]


def judge(
    path: Path,
    original: Original,
    damaged: list[str],
    *,
    bound_s: float,
    also: tuple[str, Judge] | None = None,
) -> Verdict:
    """Reads with no broker first, since a broker repairs; then starts one twice.

    `also` is one more reader (`other_readers`).
    """
    verdict = Verdict()
    steps: list[tuple[str, Callable[[], None]]] = [
        ("records", lambda: _judge_records(path, original, damaged, verdict)),
        ("log check", lambda: _judge_check(path, verdict)),
        *([] if also is None else [(also[0], lambda: also[1](path, original, damaged, verdict))]),
        ("broker", lambda: _judge_broker(path, original, damaged, verdict)),
    ]
    for name, step in steps:
        try:
            with bounded(bound_s):
                step()
        except HangError:
            verdict.add(Fault.HANG, name)
        except Exception:
            verdict.add(Fault.TRACEBACK, f"{name}: {traceback.format_exc(limit=-6)}")
    return verdict


# The commands


def run(*arguments: str) -> tuple[int, str, str]:
    """A command in this process: what it ends with, and prints; an error that it does not
    know comes through."""
    # As a terminal: records are written as bytes.
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    named: list[str] = []
    code: int | str | None = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), listening(named):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    assert "a fault of ours" not in err.getvalue(), err.getvalue()
    out.seek(0)
    return code, out.read(), err.getvalue() + "\n".join(named)


def _judge_records(path: Path, original: Original, damaged: list[str], verdict: Verdict) -> None:
    for topic in sorted({topic for topic, _ in original.partitions}):
        code, out, err = run("records", str(path), "--topic", topic, "--json")
        rows: dict[TopicPartition, dict[int, Row]] = {}
        for line in out.splitlines():
            one = json.loads(line)
            row = Row(one["offset"], one["timestamp_ms"], _bytes(one, "key"), _bytes(one, "value"))
            rows.setdefault((topic, one["partition"]), {})[row.offset] = row
        for key, content in original.partitions.items():
            if key[0] != topic:
                continue
            seen = Seen(named=[err, out if code else ""])
            seen.rows[key] = rows.get(key, {})
            if code and not seen.rows[key] and topic in err:
                continue  # the command has ended with an error before it
            case = Comparing(f"records {topic}", original, seen, damaged, verdict)
            case.compare_rows(key, content)


def row_of(record: dict[str, Any]) -> Row:
    """A record that a command printed as JSON: its time is in milliseconds, or text."""
    timestamp_ms = record.get("timestamp_ms")
    if timestamp_ms is None:
        at_time = datetime.fromisoformat(record["timestamp"])
        timestamp_ms = (at_time - EPOCH) // timedelta(milliseconds=1)
    return Row(record["offset"], timestamp_ms, _bytes(record, "key"), _bytes(record, "value"))


def _bytes(member_of: dict[str, Any], name: str) -> bytes | None:
    """What is no text stands in base64, under a name that says so."""
    if (text := member_of.get(f"{name}_base64")) is not None:
        return base64.b64decode(text)
    return None if member_of[name] is None else str(member_of[name]).encode()


def _judge_check(path: Path, verdict: Verdict) -> None:
    code, out, err = run("log", "check", str(path))
    if code not in (0, 1, 2) or (code == 2 and not err) or (code == 1 and not out):
        verdict.add(Fault.TRACEBACK, f"log check ended with {code}: {out} {err}")


# The broker


def _judge_broker(path: Path, original: Original, damaged: list[str], verdict: Verdict) -> None:
    first = see(path, original)
    first.named += verdict.named
    Comparing("broker", original, first, damaged, verdict).run()
    second = see(path, original)
    # What the first start named and did is done; what it refused must not come back as empty.
    second.named += first.named
    Comparing("second start", original, second, damaged, verdict).run()


def see(path: Path, original: Original) -> Seen:
    seen = Seen()
    with listening(seen.named):
        try:
            broker = open_broker(
                OsFileSystem(),
                str(path),
                **{name.replace(".", "_"): value for name, value in SETTINGS.items()},
            )
        except (UserError, StorageError) as error:
            seen.named.append(str(error))
            seen.refused |= original.partitions.keys()
            return seen
        try:
            _look(broker, original, seen)
        finally:
            broker.close()
    return seen


def _look(broker: Broker, original: Original, seen: Seen) -> None:
    for key in original.partitions:
        try:
            log = broker.topics.partition(*key).log
            _read_as_client(log, key, seen)
            seen.bounds[key] = (log.log_start_offset, log.log_end_offset)
            found = log.reader.aborted_transactions(*seen.bounds[key])
            seen.aborted[key] = [(one.producer_id, one.first_offset) for one in found]
            seen.producers[key] = producers_of(log)
        except (ApiError, StorageError, CorruptionError) as error:
            seen.named.append(f"{key[0]}-{key[1]}: {error}" if _is_ours(error) else str(error))
            seen.refused.add(key)
    for topic in broker.topics:
        seen.overrides[topic.name] = dict(topic.overrides)
    seen.kept = what_is_kept(broker)
    with contextlib.suppress(ApiError):  # where the only directory is offline
        seen.producer_id = broker.producer_ids.allocate()
    _look_at_groups(broker, original, seen)


def _is_ours(error: Exception) -> bool:
    return not isinstance(error, ApiError) or error.code is ErrorCode.KAFKA_STORAGE_ERROR


def _look_at_groups(broker: Broker, original: Original, seen: Seen) -> None:
    try:
        broker.groups.load(at(0))
        broker.transactions.load(at(0))
    except (UserError, StorageError) as error:
        seen.named.append(str(error))
        return
    for group in original.committed:
        if not broker.groups.is_available(group):
            continue
        found = broker.groups.machines(at(0))[0].fetch_offsets(
            MemberClaim(group_id=group), [("plain", 0)]
        )
        committed = found["plain", 0].committed
        seen.committed[group] = None if committed is None else committed.offset


def _read_as_client(log: PartitionLog, key: TopicPartition, seen: Seen) -> None:
    """Checks as clients do; continues after what is refused, as somebody who seeks there would."""
    rows = seen.rows.setdefault(key, {})
    offset = log.log_start_offset
    end = min(log.log_end_offset, offset + 300)
    while offset < end:
        try:
            found = log.reader.read(offset, READ_SIZE, Isolation.HIGH_WATERMARK).records
            if found is None:
                return
            for batch in iter_batches(found.read(), allow_torn_tail=True):
                batch.check()
                if not batch.is_control:
                    for one in read_records(batch):
                        if one.offset >= offset:
                            row = Row(one.offset, one.timestamp_ms, one.key, one.value)
                            rows[one.offset] = row
                offset = max(offset, batch.next_offset)
        except (CorruptionError, InvalidBatchError, ApiError) as error:
            seen.named.append(f"{key[0]}-{key[1]} refused offset {offset}: {error}")
            offset += 1


# Comparing


@dataclass(frozen=True, slots=True)
class Comparing:
    """What one reader saw, compared with the original; `where` says which reader."""

    where: str
    original: Original
    seen: Seen
    damaged: list[str]
    verdict: Verdict

    @property
    def told(self) -> str:
        return "\n".join(self.seen.named)

    @property
    def may_lack_ends(self) -> bool:
        """Whether nothing says any more how far the logs of a killed broker were written."""
        is_noted = any(one.startswith(BOOT_NOTE) for one in self.damaged)
        return self.original.stop is not Stop.CLEAN and is_noted

    def is_named(self, key: TopicPartition) -> bool:
        """Whether the partition, or what was damaged, is named in what was told."""
        names = [f"{key[0]}-{key[1]}", *(one.split(":")[0] for one in self.damaged)]
        names += [name for one in self.damaged for name in re.findall(r" as ([^ ,]+)", one)]
        names += [one.split("swapped with ")[1] for one in self.damaged if "swapped with " in one]
        return any(name in self.told for name in names)

    def run(self) -> None:
        for key, content in self.original.partitions.items():
            if key not in self.seen.refused:
                self.compare_rows(key, content)
                self._compare_bounds(key, content)
            elif not self.is_named(key):
                text = f"{self.where}: {key} is refused: {self.told[-200:]}"
                self.verdict.add(Fault.UNNAMED, text)
        self.compare_committed()
        self._compare_settings()

    def compare_rows(self, key: TopicPartition, content: Content) -> None:
        if self.is_named(key):
            return
        rows = self.seen.rows.get(key, {})
        wrong = sorted(offset for offset, row in rows.items() if content.rows.get(offset) != row)
        missing = sorted(content.rows.keys() - rows.keys())
        if self.may_lack_ends and missing and max(rows, default=-1) < missing[0]:
            missing = []
        if wrong:
            self.verdict.add(Fault.WRONG, f"{self.where}: {key} has others at {wrong[:5]}")
        if missing:
            text = f"{self.where}: {key} lacks {missing[:5]}, {len(missing)} in all"
            self.verdict.add(Fault.LOST if rows else Fault.UNNAMED, text)

    def _compare_bounds(self, key: TopicPartition, content: Content) -> None:
        if self.is_named(key):
            return
        start, end = content.bounds
        found_start, found_end = self.seen.bounds[key]
        is_torn = self.may_lack_ends and found_end < end
        if found_start != start or (found_end != end and not is_torn):
            text = f"{self.where}: {key} has {found_start} to {found_end}, not {start} to {end}"
            self.verdict.add(Fault.LOST, text)
        aborted = self.seen.aborted[key]
        if content.aborted and not is_torn and aborted != content.aborted:
            self.verdict.add(Fault.WRONG, f"{self.where}: {key} has {aborted} as aborted")
        producers = self.seen.producers[key]
        if not is_torn and producers != content.producers:
            text = f"{self.where}: {key} has the producers {producers} and not {content.producers}"
            self.verdict.add(Fault.WRONG, text)

    def compare_committed(self) -> None:
        is_named = CONSUMER_OFFSETS in self.told or self.is_named((CONSUMER_OFFSETS, 0))
        for group, found in self.seen.committed.items():
            offset = self.original.committed[group]
            if self.may_lack_ends and found == offset - 100:
                continue  # the commit before it
            if found != offset and not is_named:
                text = f"{self.where}: {group} had committed {offset}, and has {found}"
                self.verdict.add(Fault.LOST, text)

    def _compare_settings(self) -> None:
        for topic, overrides in self.original.overrides.items():
            found = self.seen.overrides.get(topic, overrides)
            if found != overrides and CLUSTER_METADATA_DIRECTORY not in self.told:
                self.verdict.add(Fault.WRONG, f"{self.where}: {topic} has the settings {found}")
        for name, found in self.seen.kept.items():
            if found != self.original.kept[name] and name not in self.told:
                self.verdict.add(Fault.LOST, f"{self.where}: {name} has {found}")
        last, found = self.original.producer_id, self.seen.producer_id
        if found is not None and found <= last:
            self.verdict.add(
                Fault.WRONG, f"{self.where}: producer id {found} once more after {last}"
            )
