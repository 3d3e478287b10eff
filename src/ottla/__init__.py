"""Ottla: Apache Kafka's log, in Python.

`ottla.open` gives a log in your own process:

    >>> with ottla.open(":memory:") as log:
    ...     log.create_topic("orders")
    ...     _ = log.append("orders", b"tea", key=b"table 4")
    ...     for record in log.read("orders"):
    ...         print(record.offset, record.value)
    0 b'tea'

`ottla.Producer`, `ottla.Consumer`, `ottla.ShareConsumer`, `ottla.SimpleConsumer` and `ottla.Admin`
work on such a log, on a data directory, and on brokers at HOST:PORT; `ottla.aio` has them for an
event loop.
`ottla.testing` is a broker for tests, and `ottla.table` reads what `ottla load` wrote. Names are
imported when they are first used, so that `import ottla` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla import aio as aio
    from ottla import table as table
    from ottla import testing as testing
    from ottla.base.error_codes import ErrorCode
    from ottla.base.errors import (
        ApiError,
        CorruptionError,
        InvalidRecordsError,
        OttlaError,
        ProtocolError,
        RecordError,
        RefusalError,
        ShortageError,
        StorageError,
        UnknownNameError,
        UnreachableError,
        UserError,
    )
    from ottla.base.partitions import OffsetRange, TopicPartition
    from ottla.base.principal import Principal
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.config_values import ConfigEntry, ConfigOrigin
    from ottla.client.administration.descriptions import (
        ActiveProducer,
        GroupDescription,
        GroupMember,
        ListedGroup,
        ListedTransaction,
        PartitionActivity,
        PartitionDescription,
        PartitionLag,
        ShareGroupOffset,
        TopicActivity,
        TopicDescription,
    )
    from ottla.client.administration.group_offsets import Committed, GroupMetadata
    from ottla.client.administration.log_directories import (
        ClusterDescription,
        LogDirectoryDescription,
        MovingReplica,
    )
    from ottla.client.administration.quorum import ClusterFeature, FeatureDirection
    from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus
    from ottla.client.administration.quota_values import Quota
    from ottla.client.administration.replicas import Reassignment
    from ottla.client.administration.security_values import (
        AclBinding,
        AclBindingFilter,
        DelegationToken,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from ottla.client.administration.topics import ListedOffset
    from ottla.client.connecting.security import AuthenticationError
    from ottla.client.consumer.assignors import MemberSubscription, PartitionAssignor
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.deserializers import AvroDeserializer
    from ottla.client.consumer.errors import (
        ClosedError,
        CommitFailedError,
        LogTruncatedError,
        NoOffsetError,
    )
    from ottla.client.consumer.membership import FatalError
    from ottla.client.consumer.records import (
        ConsumerRecord,
        CorruptBatchError,
        DeserializationError,
    )
    from ottla.client.consumer.simple import FetchPosition, SimpleConsumer
    from ottla.client.producing.core import BufferFullError, TransactionError
    from ottla.client.producing.producer import Producer
    from ottla.client.producing.sender import DeliveryTimeoutError
    from ottla.client.producing.sending import Sending
    from ottla.client.producing.sent_record import SentRecord
    from ottla.client.producing.serializers import AvroSerializer, SerializationError
    from ottla.client.refusals import RefusedError, UnknownTopicError
    from ottla.client.sharing.base import Acknowledging
    from ottla.client.sharing.errors import (
        AcknowledgementError,
        AcknowledgementResult,
        LockLostError,
    )
    from ottla.client.sharing.records import ShareRecord
    from ottla.client.sharing.share_consumer import ShareConsumer
    from ottla.codec.compression import Compression
    from ottla.config.setting import SettingError
    from ottla.config.typed_settings import (
        AdminSettings,
        BrokerSettings,
        ConsumerSettings,
        ProducerSettings,
        ShareConsumerSettings,
        TopicSettings,
    )
    from ottla.coordinator.share.in_flight import InFlight
    from ottla.coordinator.share.records_in_flight import DeliveryState, ReturnReason
    from ottla.embedded.compacting import CompactedPartition
    from ottla.embedded.followed import FollowedLog
    from ottla.embedded.listening import Listening
    from ottla.embedded.log import Log, RecordMetadata, open
    from ottla.embedded.readable import ReadableLog
    from ottla.embedded.scanning import Scan, Tail, TopicRecord
    from ottla.record.batch import TimestampType
    from ottla.record.builder import RecordBatchBuilder
    from ottla.record.record import Record
    from ottla.runtime.loops import BlockingCallError
    from ottla.schema_registry.registry import UnknownSchemaError
    from ottla.storage.diagnosis.open_transactions import (
        CoordinatedTransaction,
        CoordinatorView,
        Holding,
        PartitionHeld,
    )
    from ottla.storage.reading.lost_offsets import LostOffsetsError
    from ottla.storage.reading.read_only_directory import LostPartitionError
    from ottla.storage.remote.remote_storage import MissingObjectError, TierError

__version__ = "0.1.0"

__all__ = [
    "AcknowledgementError",
    "AcknowledgementResult",
    "Acknowledging",
    "AclBinding",
    "AclBindingFilter",
    "ActiveProducer",
    "Admin",
    "AdminSettings",
    "ApiError",
    "AuthenticationError",
    "AvroDeserializer",
    "AvroSerializer",
    "BlockingCallError",
    "BrokerSettings",
    "BufferFullError",
    "ClosedError",
    "ClusterDescription",
    "ClusterFeature",
    "CommitFailedError",
    "Committed",
    "CompactedPartition",
    "Compression",
    "ConfigEntry",
    "ConfigOrigin",
    "Consumer",
    "ConsumerRecord",
    "ConsumerSettings",
    "CoordinatedTransaction",
    "CoordinatorView",
    "CorruptBatchError",
    "CorruptionError",
    "DelegationToken",
    "DeliveryState",
    "DeliveryTimeoutError",
    "DeserializationError",
    "ErrorCode",
    "FatalError",
    "FeatureDirection",
    "FetchPosition",
    "FollowedLog",
    "GroupDescription",
    "GroupMember",
    "GroupMetadata",
    "Holding",
    "InFlight",
    "InvalidRecordsError",
    "ListedGroup",
    "ListedOffset",
    "ListedTransaction",
    "Listening",
    "LockLostError",
    "Log",
    "LogDirectoryDescription",
    "LogTruncatedError",
    "LostOffsetsError",
    "LostPartitionError",
    "MemberSubscription",
    "MissingObjectError",
    "MovingReplica",
    "NoOffsetError",
    "OffsetRange",
    "OttlaError",
    "PartitionActivity",
    "PartitionAssignor",
    "PartitionDescription",
    "PartitionHeld",
    "PartitionLag",
    "Principal",
    "Producer",
    "ProducerSettings",
    "ProtocolError",
    "QuorumReplica",
    "QuorumStatus",
    "Quota",
    "ReadableLog",
    "Reassignment",
    "Record",
    "RecordBatchBuilder",
    "RecordError",
    "RecordMetadata",
    "RefusalError",
    "RefusedError",
    "ResourceKind",
    "ReturnReason",
    "Scan",
    "Sending",
    "SentRecord",
    "SerializationError",
    "SettingError",
    "ShareConsumer",
    "ShareConsumerSettings",
    "ShareGroupOffset",
    "ShareRecord",
    "ShortageError",
    "SimpleConsumer",
    "StorageError",
    "Tail",
    "TierError",
    "TimestampType",
    "TopicActivity",
    "TopicDescription",
    "TopicPartition",
    "TopicRecord",
    "TopicSettings",
    "TransactionError",
    "UnknownNameError",
    "UnknownSchemaError",
    "UnknownTopicError",
    "UnreachableError",
    "UserError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "open",
]

_NAMES = {
    "ottla.base.error_codes": "ErrorCode",
    "ottla.base.errors": (
        "ApiError CorruptionError InvalidRecordsError OttlaError ProtocolError RecordError "
        "RefusalError ShortageError "
        "StorageError UnknownNameError UnreachableError UserError"
    ),
    "ottla.base.partitions": "OffsetRange TopicPartition",
    "ottla.base.principal": "Principal",
    "ottla.client.administration.admin": "Admin",
    "ottla.client.administration.config_values": "ConfigEntry ConfigOrigin",
    "ottla.client.administration.descriptions": (
        "ActiveProducer GroupDescription GroupMember ListedGroup ListedTransaction "
        "PartitionActivity PartitionDescription PartitionLag ShareGroupOffset TopicActivity "
        "TopicDescription"
    ),
    "ottla.client.administration.log_directories": (
        "ClusterDescription LogDirectoryDescription MovingReplica"
    ),
    "ottla.client.administration.quorum": "ClusterFeature FeatureDirection",
    "ottla.client.administration.quorum_status": "QuorumReplica QuorumStatus",
    "ottla.client.administration.quota_values": "Quota",
    "ottla.client.administration.replicas": "Reassignment",
    "ottla.client.administration.security_values": (
        "AclBinding AclBindingFilter DelegationToken UserScramCredentialDeletion "
        "UserScramCredentialUpsertion"
    ),
    "ottla.client.administration.topics": "ListedOffset",
    "ottla.client.consumer.assignors": "MemberSubscription PartitionAssignor",
    "ottla.client.consumer.consumer": "Consumer",
    "ottla.client.consumer.deserializers": "AvroDeserializer",
    "ottla.client.consumer.errors": "ClosedError CommitFailedError LogTruncatedError NoOffsetError",
    "ottla.client.consumer.membership": "FatalError",
    "ottla.client.consumer.records": "ConsumerRecord CorruptBatchError DeserializationError",
    "ottla.client.consumer.simple": "FetchPosition SimpleConsumer",
    "ottla.client.administration.group_offsets": "Committed GroupMetadata",
    "ottla.client.producing.core": "BufferFullError TransactionError",
    "ottla.client.producing.producer": "Producer",
    "ottla.client.producing.sender": "DeliveryTimeoutError",
    "ottla.client.producing.sending": "Sending",
    "ottla.client.producing.sent_record": "SentRecord",
    "ottla.client.producing.serializers": "AvroSerializer SerializationError",
    "ottla.client.refusals": "RefusedError UnknownTopicError",
    "ottla.client.connecting.security": "AuthenticationError",
    "ottla.client.sharing.base": "Acknowledging",
    "ottla.client.sharing.errors": "AcknowledgementError AcknowledgementResult LockLostError",
    "ottla.client.sharing.records": "ShareRecord",
    "ottla.client.sharing.share_consumer": "ShareConsumer",
    "ottla.codec.compression": "Compression",
    "ottla.base.resource_kinds": "ResourceKind",
    "ottla.config.setting": "SettingError",
    "ottla.config.typed_settings": (
        "AdminSettings BrokerSettings ConsumerSettings ProducerSettings ShareConsumerSettings "
        "TopicSettings"
    ),
    "ottla.coordinator.share.in_flight": "InFlight",
    "ottla.coordinator.share.records_in_flight": "DeliveryState ReturnReason",
    "ottla.embedded.compacting": "CompactedPartition",
    "ottla.embedded.followed": "FollowedLog",
    "ottla.embedded.listening": "Listening",
    "ottla.embedded.log": "Log RecordMetadata open",
    "ottla.embedded.readable": "ReadableLog",
    "ottla.embedded.scanning": "Scan Tail TopicRecord",
    "ottla.record.batch": "TimestampType",
    "ottla.record.builder": "RecordBatchBuilder",
    "ottla.record.record": "Record",
    "ottla.runtime.loops": "BlockingCallError",
    "ottla.schema_registry.registry": "UnknownSchemaError",
    "ottla.storage.diagnosis.open_transactions": (
        "CoordinatedTransaction CoordinatorView Holding PartitionHeld"
    ),
    "ottla.storage.reading.lost_offsets": "LostOffsetsError",
    "ottla.storage.reading.read_only_directory": "LostPartitionError",
    "ottla.storage.remote.remote_storage": "MissingObjectError TierError",
}
"""Where the public names are: imported when one is used."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

_MODULES = ("aio", "table", "testing")

if not TYPE_CHECKING:  # A type checker would take any name for one that `__getattr__` finds.

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"ottla.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'ottla' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet, for completion and `help`."""
    return sorted({*(one for one in globals() if one.startswith("__")), *__all__, *_MODULES})
