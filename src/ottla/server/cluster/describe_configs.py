"""DescribeConfigs, 0 to 4: settings, including those of topics without a partition on this broker.

Those are first read from ZooKeeper. Kafka's counterpart: `ConfigHelper` over `ZkConfigRepository`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns
from ottla.broker.configs.resources import ResourceType
from ottla.broker.topics.topic_rules import stored_config
from ottla.broker.topics.topics import Topic
from ottla.controller.settings import read_settings
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from ottla.server.cluster.applying import membership_of, replicas_of
from ottla.server.handlers.describe_configs import describe
from ottla.server.request_context import LongPendingAnswer, PendingResponse, RequestContext
from ottla.storage.files.topic_file import TopicEntry


def handle(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | PendingResponse:
    context.may_take_long()
    broker, cache = context.broker, replicas_of(context).metadata
    elsewhere = [
        one.resource_name
        for one in in_turns(request.resources)
        if one.resource_type == ResourceType.TOPIC
        and one.resource_name in cache.topics
        and broker.topics.find(one.resource_name) is None
    ]
    if not elsewhere:
        return describe(request, context, broker.topics.get)
    reading = membership_of(context).run(
        lambda: read_settings(f"topics/{one}" for one in elsewhere)
    )

    def go_on(at: Timestamps) -> DescribeConfigsResponse:
        found = reading.result or {}

        def find(name: str) -> Topic:
            topic = broker.topics.find(name)
            if topic is not None:
                return topic
            overrides = found.get(f"topics/{name}")
            if overrides is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            entry = TopicEntry(
                name=name,
                topic_id=cache.topic_ids.get(name, ZERO_UUID),
                partition_count=len(cache.topics[name]),
                overrides=overrides,
                revision=1,
            )
            config, _ = stored_config(broker.config.topic_defaults, overrides)
            return Topic(entry, config)

        return describe(request, context.later(at), find)

    return LongPendingAnswer(reading, go_on)
