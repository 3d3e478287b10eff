"""Commands that read a damaged directory by other code than `records` and a broker do.

A damage is tried with one of them in turn, since each takes as long as the rest of a judgement.
What one prints without a warning, with exit code 0, must be what the original holds.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.record import read_records
from tests.crash.judging import Comparing, Fault, Judge, Seen, Verdict, row_of, run
from tests.crash.original import GROUPS, Content, Original, Row, TopicPartition

TOPICS = ("plain", "packed", "dealt", "moved", "compacted")
AT_REST = (
    ("quotas", "list"),
    ("users", "list"),
    ("acls", "list"),
    ("configs", "get", "--brokers"),
    ("configs", "get", "--broker", "1"),
    ("configs", "get", "--group", GROUPS[0]),
    *(("configs", "get", topic) for topic in TOPICS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a command made of a topic: its exit code, records as JSON, and what it said."""

    topic: str
    code: int
    lines: list[str]
    told: str
    is_committed: bool
    """Whether records of aborted transactions are left out."""
    recovery: str = ""
    """What was said as the command recovered the directory, if it was killed: that is said once."""


def exported(path: Path, place: Path) -> Iterator[Printed]:
    for topic in TOPICS:
        file = place / f"{topic}.json"
        code, out, err = run("export", str(path), topic, "-q", "-o", str(file))
        lines = file.read_text().splitlines() if file.exists() else []
        yield Printed(topic=topic, code=code, lines=lines, told=out + err, is_committed=True)


def consumed(path: Path, _: Path) -> Iterator[Printed]:
    for topic in TOPICS:
        code, out, err = run("consume", str(path), topic, "--format", "json")
        lines = out.splitlines()
        yield Printed(topic=topic, code=code, lines=lines, told=err, is_committed=True)


def queried(path: Path, _: Path) -> Iterator[Printed]:
    columns = 'partition, "offset", timestamp, key, value'
    for topic in TOPICS:
        code, out, err = run("sql", str(path), f"select {columns} from {topic}", "--json")
        lines = out.splitlines()
        yield Printed(topic=topic, code=code, lines=lines, told=err, is_committed=True)


def mirrored(path: Path, place: Path) -> Iterator[Printed]:
    return _read_copy(place / "copy", run("mirror", str(path), str(place / "copy")))


def snapped(path: Path, place: Path) -> Iterator[Printed]:
    made = run("snapshot", "create", str(path), "one", "--in", str(place))
    return (replace(one, recovery=made[2]) for one in _read_copy(place / "one", made))


def _read_copy(copy: Path, made: tuple[int, str, str]) -> Iterator[Printed]:
    """A copy of a damaged directory may be as damaged, and says so when it is read."""
    code, out, told = made
    for topic in TOPICS:
        lines: list[str] = []
        if not code:
            code, out, err = run("records", str(copy), "--topic", topic, "--json")
            lines, told = out.splitlines(), told + err
        yield Printed(topic=topic, code=code, lines=lines, told=told + out, is_committed=False)
        code = made[0]


def loaded(path: Path, place: Path) -> Iterator[Printed]:
    for topic in ("plain", "dealt"):
        table = str(place / topic)
        code, out, told = run("load", str(path), topic, "--into", table, "--engine", "local")
        lines: list[str] = []
        if not code:
            code, out, err = run("table", "read", table, "--json")
            lines, told = list(map(_in_base64, out.splitlines())), told + err
        yield Printed(topic=topic, code=code, lines=lines, told=told, is_committed=True)


def _in_base64(line: str) -> str:
    """A table has bytes where a log has them, whether they are text or not."""
    return line.replace('"key":', '"key_base64":').replace('"value":', '"value_base64":')


def _judge_rows(
    read: Callable[[Path, Path], Iterator[Printed]],
    path: Path,
    original: Original,
    damaged: list[str],
    verdict: Verdict,
) -> None:
    place = path.parent / "elsewhere"
    place.mkdir(exist_ok=True)
    for one in read(path, place):
        verdict.named.append(one.recovery)
        where = f"{read.__name__} {one.topic}"
        if one.code:
            if not one.told.strip():
                verdict.add(Fault.UNNAMED, f"{where} ended with {one.code} without a word")
            continue
        rows: dict[TopicPartition, dict[int, Row]] = {}
        for line in one.lines:
            record = json.loads(line)
            row = row_of(record)
            rows.setdefault((one.topic, record["partition"]), {})[row.offset] = row
        for key, content in original.partitions.items():
            if key[0] == one.topic:
                seen = Seen(rows={key: rows.get(key, {})}, named=[one.told])
                wanted = _committed(content) if one.is_committed else content
                Comparing(where, original, seen, damaged, verdict).compare_rows(key, wanted)


def _committed(content: Content) -> Content:
    """Without the records of aborted transactions, which have two each."""
    gone = {offset for _, first in content.aborted for offset in (first, first + 1)}
    rows = {offset: row for offset, row in content.rows.items() if offset not in gone}
    return Content(rows=rows)


def _judge_groups(path: Path, original: Original, damaged: list[str], verdict: Verdict) -> None:
    seen = Seen()
    for group in GROUPS:
        code, out, err = run("groups", "describe", str(path), group, "--json")
        seen.named += [err, out if code else ""]
        if not code:
            places = json.loads(out)["by_partition"]
            seen.committed[group] = places[0]["committed"] if places else None
    Comparing("groups describe", original, seen, damaged, verdict).compare_committed()


def _judge_settings(path: Path, original: Original, _: list[str], verdict: Verdict) -> None:
    for command in AT_REST:
        code, out, err = _settings(path, command)
        wanted = _settings_of_original(original.path, command)
        if not code and not err.strip() and out != wanted:
            verdict.add(Fault.LOST, f"{' '.join(command)}: {out} and not {wanted}")


@cache
def _settings_of_original(path: Path, command: tuple[str, ...]) -> str:
    return _settings(path, command)[1]


def _settings(path: Path, command: tuple[str, ...]) -> tuple[int, str, str]:
    noun, verb, *options = command
    code, out, err = run(noun, verb, str(path), *options, "--json")
    return code, out.replace(str(path), "DIR"), err


def _judge_audit(path: Path, original: Original, damaged: list[str], verdict: Verdict) -> None:
    """A table of what the original held: whoever calls the log equal has found all of it there."""
    for topic in ("plain", "dealt"):
        table = _table_of_original(original.path, topic)
        code, out, err = run("audit", str(path), topic, "--table", str(table), "--all")
        if code and not (out + err).strip():
            verdict.add(Fault.UNNAMED, f"audit {topic} ended with {code} without a word")
        for key, content in original.partitions.items():
            if key[0] == topic and not code:
                rows = _stored(path / f"{topic}-{key[1]}")
                seen = Seen(rows={key: rows}, named=[err])
                Comparing("audit", original, seen, damaged, verdict).compare_rows(key, content)


@cache
def _table_of_original(path: Path, topic: str) -> Path:
    table = path.parent / f"table-of-{path.name}-{topic}"
    code, out, err = run("load", str(path), topic, "--into", str(table), "--engine", "local")
    assert code == 0, out + err
    return table


def _stored(partition: Path) -> dict[int, Row]:
    """The records that lie in a partition's segments, each batch as its checksum has it."""
    rows: dict[int, Row] = {}
    for file in sorted(partition.glob("*.log")):
        with contextlib.suppress(InvalidBatchError):
            for batch in iter_batches(file.read_bytes(), allow_torn_tail=True):
                batch.check()
                for one in [] if batch.is_control else read_records(batch):
                    rows[one.offset] = Row(one.offset, one.timestamp_ms, one.key, one.value)
    return rows


def _rows_judge(read: Callable[[Path, Path], Iterator[Printed]]) -> Judge:
    def judge(path: Path, original: Original, damaged: list[str], verdict: Verdict) -> None:
        _judge_rows(read, path, original, damaged, verdict)

    return judge


JUDGES: dict[str, Judge] = {
    "settings at rest": _judge_settings,
    "groups": _judge_groups,
    "audit": _judge_audit,
    **{
        one.__name__: _rows_judge(one)
        for one in (consumed, exported, queried, mirrored, snapped, loaded)
    },
}
