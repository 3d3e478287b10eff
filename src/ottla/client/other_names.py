"""Calls of confluent-kafka and kafka-python that have another name here: the error says which.

Where the two agree, the names here are theirs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

PRODUCER = MappingProxyType(
    {
        "list_topics": "use partitions_for(TOPIC), or ottla.Admin(target).list_topics()",
        "poll": "none is needed: callbacks run in the producer's thread",
    }
)
SENDING = MappingProxyType(
    {
        "add_callback": "use add_done_callback(f), or produce(..., on_delivery=f)",
        "add_errback": "use add_done_callback(f), or produce(..., on_delivery=f)",
        "failed": "use exception() is not None",
        "is_done": "use done()",
        "succeeded": "use done() and exception() is None",
    }
)
CONSUMER = MappingProxyType(
    {
        "get_watermark_offsets": "use beginning_offsets([PARTITION]) and end_offsets([PARTITION])",
        "highwater": "use end_offsets([PARTITION]), or lag(PARTITION)",
        "incremental_assign": "use assign(PARTITIONS) with all of them",
        "incremental_unassign": "use assign(PARTITIONS) with those that are left",
        "list_topics": "use topics() and partitions_for_topic(TOPIC)",
        "store_offsets": "use enable.auto.commit=false and commit_async(RECORD)",
        "unassign": "use unsubscribe()",
    }
)


class OtherNames:
    """A class that answers other clients' names with its own."""

    __slots__ = ()

    _other_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # A type checker shall know what there is.

        def __getattr__(self, name: str) -> object:
            kind = type(self)
            hint = kind._other_names.get(name)
            text = f"ottla.{kind.__name__} has no {name!r}"
            error = AttributeError(f"{text}: {hint}" if hint else text)
            error.name, error.obj = name, self
            raise error
