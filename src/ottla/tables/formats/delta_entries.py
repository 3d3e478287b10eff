"""The entries of a Delta log as JSON: what a commit is there, and what is read from them."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any
from urllib.parse import quote

from ottla.codec.crc32c import crc32c
from ottla.tables.columns.statistics import LeafStatistics, Path, nested, shortened
from ottla.tables.entries import DataFile, whole_files
from ottla.tables.formats.transaction_log import Change, column_statistics, partition_values

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
COMMITS = "ottla"
"""The application id whose version is the number of the last commit."""

WIDENING = "ottla-widening"
"""The application id whose version is the number of the last commit that began to widen types."""

FACTS = "ottla"
"""In `commitInfo`: the facts of a commit, and the number of actions in its entry."""

COLUMNS_BEFORE = "ottla-columns-before"
"""In `commitInfo` of a transaction that only replaces columns: the previous columns."""

_TEXT_SIZE = 32
"""The characters of the bounds of a text, as in Delta's writers."""


def entry_path(version: int) -> str:
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def parsed_actions(content: bytes) -> Iterator[dict[str, Any]]:
    """The actions of an entry; raises `ValueError`."""
    for line in content.splitlines():
        action = json.loads(line)
        if not isinstance(action, dict):
            raise ValueError("not an action of a log")
        yield action


def written_actions(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """An entry of a log, as `parsed_actions` reads it."""
    return "".join(written(one) + "\n" for one in actions).encode()


def written(value: Any) -> str:
    r"""Something in a log as JSON, with its texts as they are.

    `deltalake` and polars read `\ud842\udfb7` as another character: arrow-rs joins the two halves
    of those beyond U+1FFFF wrongly, and files would be skipped that have the value.
    """
    return json.dumps(value, ensure_ascii=False)


def transactions_of(change: Change) -> dict[str, int]:
    """The versions that a commit sets, by application id."""
    versions = {COMMITS: change.commit_id, **change.next_offsets}
    if change.removed:
        # So that Delta rejects a restoration of columns that these files need.
        versions[WIDENING] = change.commit_id
    return versions


def facts_of(change: Change) -> dict[str, Any]:
    files = len(whole_files(change.added)) + len(whole_files(change.removed))
    return {"actions": len(transactions_of(change)) + files, "facts": dict(change.facts)}


def columns_sum(change: Change) -> int:
    """A checksum of a commit's columns, and of those in the names of directories."""
    columns = [*map(str, change.schema), *change.partition_columns]
    return crc32c("\n".join(columns).encode())


def entry_of(change: Change, columns: int | None = None) -> list[dict[str, Any]]:
    """The actions of a commit, which has no other columns than those before it.

    With `columns`, the `columns_sum`, the next writer need not ask the library about the table.
    """
    is_append = not change.removed and not change.change_data
    mode = {
        "mode": "Append",
        "partitionBy": written(list(change.partition_columns)),
    }
    known = {} if columns is None else {"columns": columns}
    info = {
        "timestamp": change.committed_ms,
        "operation": "WRITE" if is_append else "MERGE",
        "operationParameters": mode if is_append else {},
        "isBlindAppend": is_append,
        "engineInfo": "ottla",
        FACTS: {**facts_of(change), **known},
    }
    added = [_add(change, parts) for parts in whole_files(change.added)]
    versions = transactions_of(change).items()
    return [
        {"commitInfo": info},
        *({"add": one} for one in added),
        *({"remove": _remove(change, parts)} for parts in whole_files(change.removed)),
        *({"cdc": _changed(parts)} for parts in whole_files(change.change_data)),
        *({"txn": {"appId": name, "version": version}} for name, version in versions),
    ]


def _url(path: str) -> str:
    """A file's path as the library writes it: the texts must be equal for it to be removed."""
    return quote(path, safe="!$&'()+,/:;=@")


def _add(change: Change, parts: Sequence[DataFile]) -> dict[str, Any]:
    """An added file, with Delta's names."""
    return {
        "path": _url(parts[0].path),
        "partitionValues": partition_values(parts[0]),
        "size": parts[0].size,
        "modificationTime": change.committed_ms,
        "dataChange": change.has_new_rows,
        "stats": statistics_of(parts),
    }


def _remove(change: Change, parts: Sequence[DataFile]) -> dict[str, Any]:
    return {
        "path": _url(parts[0].path),
        "deletionTimestamp": change.committed_ms,
        "dataChange": change.has_new_rows,
        "extendedFileMetadata": True,
        "partitionValues": partition_values(parts[0]),
        "size": parts[0].size,
    }


def _changed(parts: Sequence[DataFile]) -> dict[str, Any]:
    """A file of the rows that a commit changed."""
    return {
        "path": _url(parts[0].path),
        "partitionValues": partition_values(parts[0]),
        "size": parts[0].size,
        "dataChange": False,
    }


def statistics_of(parts: Sequence[DataFile]) -> str:
    """The statistics with which readers skip files without matching rows, as JSON."""
    known = column_statistics(parts)
    bounds = {path: _json_bounds(*one.bounds) for path, one in known.items() if one.bounds}
    there = {path: one for path, one in bounds.items() if one is not None}
    return written(
        {
            "numRecords": sum(one.row_count for one in parts),
            "minValues": nested({path: lowest for path, (lowest, _) in there.items()}),
            "maxValues": nested({path: highest for path, (_, highest) in there.items()}),
            "nullCount": nested({path: one.null_count for path, one in known.items()}),
        }
    )


def parsed_statistics(action: Mapping[str, Any]) -> dict[Path, LeafStatistics]:
    """The statistics of an added file, of any writer."""
    nulls, lows, ups = (
        dict(_leaves((), action.get(name) or {})) for name in ("null_count", "min", "max")
    )
    return {
        path: LeafStatistics(
            null_count=null_count,
            bounds=None if None in (low := lows.get(path), up := ups.get(path)) else (low, up),
        )
        for path, null_count in nulls.items()
        if null_count is not None
    }


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for name, inner in value.items():
        yield from _leaves((*path, name), inner)


def _json_bounds(lowest: Any, highest: Any) -> tuple[Any, Any] | None:
    """Bounds as Delta writes them; `None` for those that it has not.

    `deltalake` takes a file whose bounds are missing for one without values, so few are left out.
    """
    match lowest:
        case datetime():
            return _time_bounds(lowest, highest)
        case str():
            return shortened((lowest, highest), _TEXT_SIZE)
        case bytes():
            return None
        case bool() | int():
            return lowest, highest
        case date():
            return lowest.isoformat(), highest.isoformat()
        case float():
            return (lowest, highest) if math.isfinite(lowest) and math.isfinite(highest) else None
        case Decimal():
            numbers = _outward(lowest, ROUND_FLOOR), _outward(highest, ROUND_CEILING)
            return None if None in numbers else numbers
    return None


def _outward(bound: Decimal, rounding: str) -> float | int | None:
    """A bound with its digits, or else a whole number beyond it: some readers read numbers as
    floats, and others no exponents. `None` if that could have more digits than the column.
    """
    number = float(bound)
    if "e" not in repr(number) and Decimal(repr(number)) == bound:
        return number
    whole = int(bound.to_integral_value(rounding))
    number = float(whole)
    if Decimal(number) != whole:
        end = -math.inf if rounding == ROUND_FLOOR else math.inf
        whole = int(math.nextafter(number, end))
    return whole if abs(whole) < Decimal(10) ** max(1, bound.adjusted() + 1) else None


def _time_bounds(lowest: datetime, highest: datetime) -> tuple[str, str]:
    # Statistics have milliseconds, like Kafka's timestamps; but for the last one of all.
    rest = -highest.microsecond % 1000
    if highest > datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=rest):
        return _time(lowest), _time(highest, "microseconds")
    return _time(lowest), _time(highest + timedelta(microseconds=rest))


def _time(time: datetime, unit: str = "milliseconds") -> str:
    return time.replace(tzinfo=None).isoformat(timespec=unit) + "Z"


def is_whole(content: bytes) -> bool:
    """Whether a log entry is complete: by its number of actions, or of others by its JSON."""
    try:
        actions = list(parsed_actions(content))
    except ValueError:
        return False
    info: Mapping[str, Any] = next(
        (one["commitInfo"] for one in actions if "commitInfo" in one), {}
    )
    if COLUMNS_BEFORE in info:
        return {"metaData", "txn"} <= {name for one in actions for name in one}
    if FACTS not in info:
        return bool(actions)
    counted = sum(bool({"add", "remove", "txn"} & one.keys()) for one in actions)
    return bool(counted == info[FACTS]["actions"])
