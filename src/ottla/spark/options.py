"""The options of the data source `ottla`, read once and checked, before any task runs.

Names and meanings are those of Spark's own Kafka source where that has them; `path` and `columns`
are ours. An option that is not known is refused rather than passed over: a misspelt
`endingOffset` would otherwise read everything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.base.errors import UserError
from ottla.spark.manifest import OffsetRange
from ottla.spark.plan import LogPartition

EARLIEST = -2
LATEST = -1

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
"""The columns of Spark's own Kafka source, in its order and with its types."""

CLIENT_PREFIX = "kafka."
BOOTSTRAP_OPTION = "kafka.bootstrap.servers"

_KNOWN = (
    "path",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "includeHeaders",
    "columns",
)
_ENDS = {"earliest": EARLIEST, "latest": LATEST}
_TRUTHS = {"true": True, "false": False}

Offsets = int | Mapping[int, int]
"""One of `EARLIEST` and `LATEST` for all partitions, or an offset (or one of them) for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What one read is asked for. One of `path` and `client` says where the log is."""

    path: str | None
    client: Mapping[str, str] = field(default_factory=dict)
    topic: str
    starting: Offsets = EARLIEST
    ending: Offsets = LATEST
    min_partitions: int | None = None
    columns: tuple[str, ...]

    @property
    def spark_schema(self) -> str:
        return ", ".join(f"`{name}` {COLUMN_TYPES[name]}" for name in self.columns)


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Options as Spark hands them over, names in any case; raises `UserError`."""
    options = {name.lower(): value for name, value in given.items()}
    client = {
        name.removeprefix(CLIENT_PREFIX): options.pop(name)
        for name in sorted(options)
        if name.startswith(CLIENT_PREFIX)
    }
    known = {name.lower() for name in _KNOWN}
    for name in options:
        if name not in known:
            raise UserError(f"ottla has no option {name!r}; there are {', '.join(_KNOWN)}")
    path, topic = options.get("path"), options.get("subscribe")
    if (path is None) == ("bootstrap.servers" not in client):
        raise UserError(
            f"ottla reads a data directory (option path) or a broker (option {BOOTSTRAP_OPTION}); "
            f"give one of the two"
        )
    if not topic or "," in topic:
        raise UserError("option subscribe takes the name of one topic")
    return ReadOptions(
        path=path,
        client=client,
        topic=topic,
        starting=_parse_offsets("startingOffsets", options, topic, EARLIEST),
        ending=_parse_offsets("endingOffsets", options, topic, LATEST),
        min_partitions=_parse_count("minPartitions", options),
        columns=_parse_columns(options),
    )


def resolve_ranges(options: ReadOptions, log: Sequence[LogPartition]) -> dict[int, OffsetRange]:
    """The offsets to read of each partition; raises `UserError` for any that the log lacks."""
    _check_partitions(options, log)
    return {partition.partition: _resolve_range(options, partition) for partition in log}


def _resolve_range(options: ReadOptions, partition: LogPartition) -> OffsetRange:
    place = f"{partition.topic}-{partition.partition}"
    from_offset = _resolve(options.starting, partition)
    until_offset = _resolve(options.ending, partition)
    if from_offset < partition.start_offset:
        raise UserError(
            f"{place}: startingOffsets asks for {from_offset}, but the log starts at "
            f"{partition.start_offset}; what lies between has been removed"
        )
    if until_offset > partition.end_offset:
        raise UserError(
            f"{place}: endingOffsets asks for {until_offset}, but the committed records end "
            f"at {partition.end_offset}"
        )
    if until_offset < from_offset:
        raise UserError(f"{place}: the read would end at {until_offset}, before {from_offset}")
    return OffsetRange(from_offset=from_offset, until_offset=until_offset)


def _resolve(offsets: Offsets, partition: LogPartition) -> int:
    offset = offsets if isinstance(offsets, int) else offsets[partition.partition]
    match offset:
        case -2:
            return partition.start_offset
        case -1:
            return partition.end_offset
        case _:
            return offset


def _check_partitions(options: ReadOptions, log: Sequence[LogPartition]) -> None:
    there = {partition.partition for partition in log}
    for name, offsets in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        if isinstance(offsets, int):
            continue
        for fault, numbers in (
            ("says nothing about", there.difference(offsets)),
            ("names what the log has not:", set(offsets) - there),
        ):
            if numbers:
                partitions = ", ".join(str(number) for number in sorted(numbers))
                raise UserError(f"{name} {fault} partition {partitions} of {options.topic}")


def _parse_offsets(name: str, options: Mapping[str, str], topic: str, end: int) -> Offsets:
    """`earliest`, `latest` or JSON like `{"orders": {"0": 23, "1": -1}}`, as Spark's source has it.

    As there, a batch read cannot start at the latest offset, nor end at the earliest.
    """
    text = options.get(name.lower())
    if text is None:
        return end
    offsets: Offsets
    if text.lower() in _ENDS:
        offsets = _ENDS[text.lower()]
    else:
        offsets = _parse_offset_json(name, text, topic)
    wrong = LATEST if end == EARLIEST else EARLIEST
    if wrong in ([offsets] if isinstance(offsets, int) else offsets.values()):
        word = next(word for word, value in _ENDS.items() if value == wrong)
        raise UserError(f"option {name} cannot be {word} ({wrong}) in a batch read")
    return offsets


def _parse_offset_json(name: str, text: str, topic: str) -> dict[int, int]:
    try:
        topics = json.loads(text)
        if list(topics) == [topic]:
            offsets = {int(number): offset for number, offset in topics[topic].items()}
            if all(type(offset) is int and offset >= EARLIEST for offset in offsets.values()):
                return offsets
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(_offsets_fault(name, text, topic)) from error
    raise UserError(_offsets_fault(name, text, topic))


def _offsets_fault(name: str, text: str, topic: str) -> str:
    example = json.dumps({topic: {"0": 23}})
    return f"option {name} takes earliest, latest or JSON like {example}, not {text}"


def _parse_count(name: str, options: Mapping[str, str]) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise UserError(f"option {name} takes a number above 0, not {text!r}")
    return int(text)


def _parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = options.get("includeheaders", "false").lower()
    if with_headers not in _TRUTHS:
        raise UserError(f"option includeHeaders takes true or false, not {with_headers!r}")
    listed = options.get("columns")
    if listed is None:
        return tuple(name for name in COLUMN_TYPES if name != "headers" or _TRUTHS[with_headers])
    names = tuple(name.strip() for name in listed.split(","))
    for name in names:
        if name not in COLUMN_TYPES:
            raise UserError(f"there is no column {name!r}; there are {', '.join(COLUMN_TYPES)}")
    if len(set(names)) < len(names):
        raise UserError(f"option columns names a column twice: {listed}")
    return names
