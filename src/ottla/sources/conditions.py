"""The conditions of Spark's own Kafka source (`kafka-error-conditions.json`), for the same errors
of this one."""

from ottla.base.errors import UserError

PARTITIONS_DELETED = "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
OFFSET_CHANGED = "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"
RANGE_NOT_READ = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
OFFSETS_NOT_ASSIGNED = "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"
TIMES_NOT_ASSIGNED = "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"
START_AFTER_END = "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"
NULL_TOPIC = "KAFKA_NULL_TOPIC_IN_DATA"


class ConditionError(UserError):
    """An error for which Spark's own source has the condition `condition`."""

    def __init__(self, text: str, condition: str) -> None:
        super().__init__(text)
        self.condition = condition
