"""Ottla: Apache Kafka's log, in Python.

`ottla.open` gives a log in your own process:

    >>> with ottla.open(":memory:") as log:
    ...     log.create_topic("orders")
    ...     _ = log.append("orders", b"tea", key=b"table 4")
    ...     for record in log.read("orders"):
    ...         print(record.offset, record.value)
    0 b'tea'

`ottla.Producer`, `ottla.Consumer`, `ottla.SimpleConsumer` and `ottla.Admin` work on such a log, on
a data directory, and on brokers at HOST:PORT; `ottla.aio` has them for an event loop.
`ottla.testing` is a broker for tests, and `ottla.table` reads what `ottla load` wrote. Names are
imported when they are first used, so that `import ottla` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla import aio as aio
    from ottla import table as table
    from ottla import testing as testing
    from ottla.base.errors import (
        ApiError,
        CorruptionError,
        OttlaError,
        StorageError,
        UnknownNameError,
        UnreachableError,
        UserError,
    )
    from ottla.base.partitions import TopicPartition
    from ottla.client.admin import Admin
    from ottla.client.administration.config_values import ResourceKind
    from ottla.client.administration.security_values import (
        AclBinding,
        AclBindingFilter,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.deserializers import AvroDeserializer
    from ottla.client.consumer.errors import CommitFailedError
    from ottla.client.consumer.records import ConsumerRecord
    from ottla.client.consumer.simple import FetchPosition, SimpleConsumer
    from ottla.client.groups import GroupMetadata
    from ottla.client.producing.core import TransactionError
    from ottla.client.producing.producer import Producer
    from ottla.client.producing.serializers import AvroSerializer
    from ottla.client.refusals import RefusedError
    from ottla.embedded.followed import FollowedLog
    from ottla.embedded.log import Log, RecordMetadata, open
    from ottla.record.builder import RecordBatchBuilder
    from ottla.record.record import Record
    from ottla.storage.reading.read_only_directory import open_for_reading

__version__ = "0.1.0"

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "ApiError",
    "AvroDeserializer",
    "AvroSerializer",
    "CommitFailedError",
    "Consumer",
    "ConsumerRecord",
    "CorruptionError",
    "FetchPosition",
    "FollowedLog",
    "GroupMetadata",
    "Log",
    "OttlaError",
    "Producer",
    "Record",
    "RecordBatchBuilder",
    "RecordMetadata",
    "RefusedError",
    "ResourceKind",
    "SimpleConsumer",
    "StorageError",
    "TopicPartition",
    "TransactionError",
    "UnknownNameError",
    "UnreachableError",
    "UserError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "open",
    "open_for_reading",
]

_HOME = {
    "AclBinding": "ottla.client.administration.security_values",
    "AclBindingFilter": "ottla.client.administration.security_values",
    "Admin": "ottla.client.admin",
    "ApiError": "ottla.base.errors",
    "AvroDeserializer": "ottla.client.consumer.deserializers",
    "AvroSerializer": "ottla.client.producing.serializers",
    "CommitFailedError": "ottla.client.consumer.errors",
    "Consumer": "ottla.client.consumer.consumer",
    "ConsumerRecord": "ottla.client.consumer.records",
    "CorruptionError": "ottla.base.errors",
    "FetchPosition": "ottla.client.consumer.simple",
    "FollowedLog": "ottla.embedded.followed",
    "GroupMetadata": "ottla.client.groups",
    "Log": "ottla.embedded.log",
    "OttlaError": "ottla.base.errors",
    "Producer": "ottla.client.producing.producer",
    "Record": "ottla.record.record",
    "RecordBatchBuilder": "ottla.record.builder",
    "RecordMetadata": "ottla.embedded.log",
    "RefusedError": "ottla.client.refusals",
    "ResourceKind": "ottla.client.administration.config_values",
    "SimpleConsumer": "ottla.client.consumer.simple",
    "StorageError": "ottla.base.errors",
    "TopicPartition": "ottla.base.partitions",
    "TransactionError": "ottla.client.producing.core",
    "UnknownNameError": "ottla.base.errors",
    "UnreachableError": "ottla.base.errors",
    "UserError": "ottla.base.errors",
    "UserScramCredentialDeletion": "ottla.client.administration.security_values",
    "UserScramCredentialUpsertion": "ottla.client.administration.security_values",
    "open": "ottla.embedded.log",
    "open_for_reading": "ottla.storage.reading.read_only_directory",
}


_MODULES = ("aio", "table", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ottla.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, for completion and `help`."""
    return sorted({*(one for one in globals() if one.startswith("__")), *__all__, *_MODULES})
