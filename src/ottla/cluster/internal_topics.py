"""Topics that a member has its controller create when they are used for the first time."""

from collections.abc import Mapping

from ottla.base.partitions import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.broker.shares.coordinator import share_state_topic
from ottla.broker.tiering.remote_log_metadata import new_metadata_topic
from ottla.config.broker import BrokerConfig
from ottla.config.tiering import metadata_topic_config
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ottla.storage.files.filenames import REMOTE_LOG_METADATA


def _creatable(new: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=new.name,
        num_partitions=new.partition_count,
        replication_factor=new.replication_factor,
        configs=[CreatableTopicConfig(name=key, value=one) for key, one in new.overrides.items()],
    )


def new_topic(name: str, config: BrokerConfig) -> CreatableTopic:
    """The request to create a topic that is used for the first time."""
    own: dict[str, Mapping[str, object]] = {
        CONSUMER_OFFSETS: {
            "partitions": config.offsets_topic_num_partitions,
            "factor": config.offsets_topic_replication_factor,
            "segment.bytes": config.offsets_topic_segment_bytes,
        },
        TRANSACTION_STATE: {
            "partitions": config.transaction_state_log_num_partitions,
            "factor": config.transaction_state_log_replication_factor,
            "segment.bytes": config.transaction_state_log_segment_bytes,
            "min.insync.replicas": config.transaction_state_log_min_isr,
        },
    }
    if name == REMOTE_LOG_METADATA:
        return _creatable(new_metadata_topic(metadata_topic_config(config)))
    if name == SHARE_GROUP_STATE:
        return _creatable(share_state_topic(config))
    found = own.get(name)
    if found is None:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    settings = {"cleanup.policy": "compact", **found}
    count, factor = settings.pop("partitions"), settings.pop("factor")
    assert isinstance(count, int)
    assert isinstance(factor, int)
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key, value=str(one)) for key, one in settings.items()],
    )
