"""What Spark's processes must know of a load, in one text that travels as an option."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ottla.spark.loading.quarantine import OnError
from ottla.spark.tables.manifest import OffsetRange
from ottla.spark.values.decoder import Decoding, ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTask:
    """`ranges` by partition; `quarantine` is the directory for records that cannot be decoded.

    A task reads `rows_per_task` offsets at the most.
    """

    read_options: Mapping[str, str]
    topic: str
    commit_id: int
    ranges: Mapping[int, OffsetRange]
    rows_per_task: int
    decoding: Decoding | None = None
    value_type: str = "binary"
    on_error: OnError = OnError.FAIL
    quarantine: str = ""


def format_task(task: LoadTask) -> str:
    fields = asdict(task)
    fields["on_error"] = task.on_error.value
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
    on_error = OnError(fields["on_error"])
    return LoadTask(**{**fields, "decoding": decoding, "ranges": ranges, "on_error": on_error})
