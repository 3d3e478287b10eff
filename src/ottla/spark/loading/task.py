"""What Spark's processes must know of a load, in one text that travels as an option."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ottla.spark.loading.quarantine import OnError
from ottla.spark.tables.layout import Partitioning, parse_partitioning, partitioning_fields
from ottla.spark.tables.manifest import OffsetRange
from ottla.spark.values.decoder import Decoding, ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTask:
    """`ranges` by partition, of which a task reads `rows_per_task` offsets at the most.

    `table` is a directory or an address, `directory` where the load's files go, relative to it.
    """

    read_options: Mapping[str, str]
    topic: str
    table: str
    directory: str
    commit_id: int
    ranges: Mapping[int, OffsetRange]
    rows_per_task: int
    decoding: Decoding | None = None
    on_error: OnError = OnError.FAIL
    compression: str = "zstd"
    partitioning: Partitioning | None = None


def format_task(task: LoadTask) -> str:
    fields = asdict(task)
    fields["on_error"] = task.on_error.value
    fields["partitioning"] = partitioning_fields(task.partitioning)
    if task.decoding is not None:
        fields["decoding"]["format"] = task.decoding.format.value
    return json.dumps(fields)


def parse_task(text: str) -> LoadTask:
    """The inverse of `format_task`."""
    fields = json.loads(text)
    decoding = fields["decoding"]
    if decoding is not None:
        decoding = Decoding(**{**decoding, "format": ValueFormat(decoding["format"])})
    ranges = {int(number): OffsetRange(**one) for number, one in fields["ranges"].items()}
    parsed = {
        "decoding": decoding,
        "ranges": ranges,
        "on_error": OnError(fields["on_error"]),
        "partitioning": parse_partitioning(fields["partitioning"]),
    }
    return LoadTask(**{**fields, **parsed})
