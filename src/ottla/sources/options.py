"""The options of the data source `ottla`, parsed and checked before any task runs.

Names and meanings are those of Spark's own Kafka source if it has them; `path` and `columns` are
additions. An unknown option is an error: ignoring a misspelt `endingOffset` would read everything.
"""

import os
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.sources.bounds import (
    EARLIEST,
    FROM_EARLIEST,
    FROM_LATEST,
    LATEST,
    TO_LATEST,
    Bound,
    NoMatch,
    parse_bound,
    parse_no_match,
)
from ottla.sources.client_options import BOOTSTRAP_OPTION, CLIENT_PREFIX, parse_client_options
from ottla.sources.option_texts import parse_count, parse_truth
from ottla.sources.topic_choice import CHOICE_OPTIONS, TopicChoice, parse_choice
from ottla.storage.reading.opening import TierPlace

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

OPTIONS = (
    "path",
    *CHOICE_OPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "skipDamaged",
    "tier",
    "tier.config",
    "tier.key",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "columns",
    "isolation.level",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""All options except those of the client, which begin with `kafka.`."""

_OF_CATALOG = frozenset(
    {"provider", "owner", "comment", "collation", "location", "external", "is_managed_location"}
)
_TABLE_PREFIX = "option."
"""The prefix under which a catalog passes a table's options, additionally or instead."""

DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1000
DEFAULT_SILENCE_MS = 60 * 1000

_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]+:/")
NO_ADDRESS = (
    "logs are read from local directories and from brokers; mount other storage on the machines "
    "where the tasks run"
)

_TIME = lazy_pattern(r"(\d+)\s*(ms|s|m|min|h|d)?")
_TIME_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Isolation(Enum):
    """Whether records of open transactions are read and aborted ones are included."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """The limits of a micro-batch of a stream."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read. `paths` or `client` name the log.

    If both are given, records are read from the files, and the client commits to `group_id`.
    """

    paths: tuple[str, ...] = ()
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    group_id: str | None = None
    choice: TopicChoice
    starting: Bound | None = None
    ending: Bound | None = None
    no_match: NoMatch = NoMatch.ERROR
    isolation: Isolation = Isolation.READ_COMMITTED
    fail_on_data_loss: bool = True
    skip_damaged: bool = False
    tier: TierPlace | None = None
    """Where the segments are that the directories no longer have."""
    min_partitions: int | None = None
    max_records: int | None = None
    limits: TriggerLimits = TriggerLimits()
    silence_ms: int = DEFAULT_SILENCE_MS
    columns: tuple[str, ...]

    @property
    def spark_schema(self) -> str:
        return ", ".join(f"`{name}` {COLUMN_TYPES[name]}" for name in self.columns)

    @property
    def batch_bounds(self) -> tuple[Bound, Bound]:
        """Start and end of a batch read; raises `UserError` for bounds that a batch cannot have."""
        starting, ending = self.starting or FROM_EARLIEST, self.ending or TO_LATEST
        if starting.has(LATEST):
            raise UserError("option startingOffsets cannot be latest (-1) in a batch read")
        if ending.has(EARLIEST):
            raise UserError("option endingOffsets cannot be earliest (-2) in a batch read")
        return starting, ending

    @property
    def stream_start(self) -> Bound:
        """Start of a new stream; raises `UserError` if an end is given."""
        if self.ending is not None:
            raise UserError(f"a stream has no end: leave out option {self.ending.option}")
        return self.starting or FROM_LATEST


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Parses options as Spark passes them, names in any case; raises `UserError`."""
    options = given_options(given)
    _check_names(options)
    isolation = _parse_isolation(options)
    client = parse_client_options(options)
    client.pop("isolation.level", None)
    group_id = client.get("group.id")
    if (prefix := options.get("groupidprefix")) is not None and group_id is None:
        client["group.id"] = prefix
    paths = tuple(one.strip() for one in options.get("path", "").split(",") if one.strip())
    _check_place(paths, client, group_id)
    return ReadOptions(
        paths=paths,
        client=client,
        group_id=group_id,
        choice=parse_choice(options),
        starting=parse_bound("starting", options),
        ending=parse_bound("ending", options),
        no_match=parse_no_match(options),
        isolation=isolation,
        fail_on_data_loss=_truth("failOnDataLoss", options, default=True),
        skip_damaged=_parse_skip_damaged(options, paths),
        tier=_parse_tier(options, paths),
        min_partitions=_count("minPartitions", options),
        max_records=_count("maxRecordsPerPartition", options),
        limits=_parse_limits(options),
        silence_ms=_count("kafkaConsumer.pollTimeoutMs", options) or DEFAULT_SILENCE_MS,
        columns=_parse_columns(options),
    )


def given_options(given: Mapping[str, str]) -> dict[str, str]:
    """The user's options in lower case, without those that Spark's catalog adds to a table."""
    options = {name.lower(): value for name, value in given.items()}
    of_table = {
        name.removeprefix(_TABLE_PREFIX): value
        for name, value in options.items()
        if name.startswith(_TABLE_PREFIX)
    }
    return of_table | {
        name: value
        for name, value in options.items()
        if name not in _OF_CATALOG and not name.startswith(_TABLE_PREFIX)
    }


def _check_names(options: Mapping[str, str]) -> None:
    known = {name.lower() for name in OPTIONS}
    for name in options:
        if name not in known and not name.startswith(CLIENT_PREFIX):
            raise UserError(f"ottla has no option {name!r}; there are {', '.join(OPTIONS)}")


def _parse_skip_damaged(options: Mapping[str, str], paths: tuple[str, ...]) -> bool:
    skip_damaged = _truth("skipDamaged", options, default=False)
    if skip_damaged and not paths:
        raise UserError("option skipDamaged is for segment files; a broker decides what it serves")
    return skip_damaged


def _parse_tier(options: Mapping[str, str], paths: tuple[str, ...]) -> TierPlace | None:
    address, keys = options.get("tier"), options.get("tier.key")
    config = options.get("tier.config")
    if address is not None and config is not None:
        raise UserError("options tier and tier.config both name a tier; leave one of them out")
    if address is None and keys is not None:
        raise UserError("option tier.key is for an encrypted tier; give option tier, its place")
    if address is None and config is None:
        return None
    if not paths:
        name = "tier" if config is None else "tier.config"
        raise UserError(
            f"option {name} is for a data directory (option path); a broker reads its own tier"
        )
    return TierPlace(address=address, keys=keys, config=config)


def _check_place(paths: tuple[str, ...], client: Mapping[str, str], group_id: str | None) -> None:
    for path in paths:
        check_path(path)
    has_broker = "bootstrap.servers" in client
    if paths and group_id is not None and not has_broker:
        raise UserError(
            f"the offsets of group {group_id} are in a broker: give {BOOTSTRAP_OPTION} and path, "
            f"or leave out kafka.group.id"
        )
    if (not paths and not has_broker) or (paths and has_broker and group_id is None):
        raise UserError(
            f"ottla reads a data directory (option path) or a broker (option {BOOTSTRAP_OPTION}); "
            f"give one of the two"
        )


def check_path(path: str) -> None:
    """Raises `UserError` for an address such as `hdfs://namenode/data`."""
    if _SCHEME.match(path) and not os.path.isdir(path):
        raise UserError(f"{path}: {NO_ADDRESS}")


def _parse_isolation(options: Mapping[str, str]) -> Isolation:
    isolations = {
        options[name].strip().lower()
        for name in ("isolation.level", "kafka.isolation.level")
        if name in options
    }
    try:
        found = {Isolation(one) for one in isolations}
    except ValueError:
        raise UserError(
            f"option isolation.level takes read_committed or read_uncommitted, "
            f"not {', '.join(sorted(isolations))}"
        ) from None
    if len(found) > 1:
        raise UserError("isolation.level and kafka.isolation.level differ; give one of them")
    return found.pop() if found else Isolation.READ_COMMITTED


def _parse_limits(options: Mapping[str, str]) -> TriggerLimits:
    limits = TriggerLimits(
        max_offsets=_count("maxOffsetsPerTrigger", options),
        min_offsets=_count("minOffsetsPerTrigger", options),
        max_delay_ms=_parse_delay(options),
    )
    if limits.max_offsets and limits.min_offsets and limits.min_offsets > limits.max_offsets:
        raise UserError(
            f"minOffsetsPerTrigger, {limits.min_offsets}, is above maxOffsetsPerTrigger, "
            f"{limits.max_offsets}"
        )
    return limits


def _parse_delay(options: Mapping[str, str]) -> int:
    """Parses a time as Spark writes it: milliseconds, or a number with a unit, such as `15m`."""
    text = options.get("maxtriggerdelay")
    if text is None:
        return DEFAULT_TRIGGER_DELAY_MS
    found = _TIME.fullmatch(text.strip().lower())
    if found is None:
        raise UserError(f"option maxTriggerDelay takes a time like 15m or 500ms, not {text!r}")
    return int(found[1]) * _TIME_UNITS_MS[found[2] or "ms"]


def _count(name: str, options: Mapping[str, str]) -> int | None:
    text = options.get(name.lower())
    return None if text is None else parse_count(name, text)


def _truth(name: str, options: Mapping[str, str], *, default: bool) -> bool:
    text = options.get(name.lower())
    return default if text is None else parse_truth(name, text)


def _parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _truth("includeHeaders", options, default=False)
    listed = options.get("columns")
    if listed is None:
        return tuple(name for name in COLUMN_TYPES if name != "headers" or with_headers)
    names = tuple(name.strip() for name in listed.split(","))
    for name in names:
        if name not in COLUMN_TYPES:
            raise UserError(f"there is no column {name!r}; there are {', '.join(COLUMN_TYPES)}")
    if len(set(names)) < len(names):
        raise UserError(f"option columns names a column twice: {listed}")
    return names
