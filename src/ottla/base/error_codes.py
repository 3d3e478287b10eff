"""Kafka's error codes: the numbers in responses.

The names and numbers are the protocol's (`org.apache.kafka.common.protocol.Errors`); the sentences
are ours, and are what a client shows where a response has room for a message.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """One of Kafka's error codes; `description` is a sentence for people.

    A number that is not known here stands for UNKNOWN_SERVER_ERROR, as in Kafka (`Errors.forCode`).
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    CONTROLLER_ID_NOT_REGISTERED = 136

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode | None":
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None

    @property
    def description(self) -> str:
        """A sentence; for codes that Ottla never sends, the name in words."""
        return _DESCRIPTIONS.get(self) or self.name.replace("_", " ").capitalize() + "."


_DESCRIPTIONS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The broker met an error that it did not expect; see its log.",
    ErrorCode.NONE: "",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies outside the offsets that the log holds.",
    ErrorCode.CORRUPT_MESSAGE: "A record batch is damaged, or lacks a key that it needs.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker has no such topic or partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request took longer than it allowed.",
    ErrorCode.MESSAGE_TOO_LARGE: "A record batch is larger than max.message.bytes.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The name is not legal for a topic, or is internal.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "A record batch is larger than segment.bytes.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "There are fewer in-sync replicas than min.insync.replicas.",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1 (all).",
    ErrorCode.UNSUPPORTED_VERSION: "This broker does not speak that version of the request.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions must be 1 or more, and may only grow.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor exceeds the number of brokers.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replicas assigned do not fit the brokers.",
    ErrorCode.INVALID_CONFIG: "A setting is unknown or its value is out of bounds.",
    ErrorCode.INVALID_REQUEST: "The request contradicts itself.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The log's message format does not support this.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The producer's sequence number leaves a gap.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The producer's sequence number was seen before.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the newest one seen.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The log directory of this partition is offline: disk error.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch is older than the broker's.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch is newer than the broker's.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "This version of the request lacks this compression.",
    ErrorCode.INVALID_RECORD: "A record breaks a rule of its topic.",
    ErrorCode.INVALID_TIMESTAMP: "A record's timestamp is too far from the broker's clock.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker has no topic with that id.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "The broker does not know that fetch session.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session's epoch is not the next one.",
}
