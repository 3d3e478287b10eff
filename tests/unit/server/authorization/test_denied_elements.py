"""What is denied as a whole is answered without its handler, which might change something."""

from typing import Any

import pytest

from ottla.codec.schema import Message
from ottla.metadata.acls import Operation, PatternType
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.server.authorization.guards import guarded
from ottla.server.dispatching.request_context import RequestContext
from tests.support.brokers import at
from tests.unit.server.authorization import token_rows
from tests.unit.server.authorization.judge import Judge
from tests.unit.server.authorization.row import (
    GROUP,
    TOPIC,
    TOPIC_DENIED,
    TOPIC_ID,
    G,
    Need,
    Row,
    T,
    acl,
    error_codes,
)
from tests.unit.server.authorization.rows import ROWS

SHOW_THE_REST = {
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
}
"""Their handlers change nothing, and answer more than the elements."""

ASK_ABOUT_EACH = {ApiKey.SHARE_FETCH}
"""Their handlers ask about each topic, also those of sessions."""

CASES = [
    pytest.param(row, need, id=f"{key.name}-{at}-{need[0].name}-{need[1].name}")
    for key, rows in ROWS.items()
    for at, row in enumerate(rows)
    for need in row.needs
    if row.shows is None and key not in SHOW_THE_REST | ASK_ABOUT_EACH | set(token_rows.ROWS)
]


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


def test_no_page_of_topics_ends_at_one_that_is_hidden(judge: Judge) -> None:
    """The cursor at the next topic would give its name away."""
    broker = judge.broker
    broker.admin.create_topic(NewTopic(name=f"{TOPIC}-hidden"))
    assert broker.security.authorizer is not None
    broker.security.authorizer.change([acl((Operation.DESCRIBE, T))])
    request = DescribeTopicPartitionsRequest(cursor=None, response_partition_limit=1)
    answer = judge.asker.ask(request, 0)
    assert ([one.name for one in answer.topics], answer.next_cursor) == ([TOPIC], None)


@pytest.mark.parametrize("is_all_first", [True, False])
def test_a_group_that_is_named_twice_shows_no_offsets_of_hidden_topics(
    judge: Judge, is_all_first: bool
) -> None:
    """Once with a topic that is denied, and once for all that the group has committed."""
    judge.prepare()
    assert judge.broker.security.authorizer is not None
    judge.broker.security.authorizer.change([acl((Operation.DESCRIBE, G))])
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    wanted = [
        OffsetFetchRequestGroup(group_id=GROUP, topics=None),
        OffsetFetchRequestGroup(group_id=GROUP, topics=topics),
    ]
    request = OffsetFetchRequest(groups=wanted if is_all_first else wanted[::-1])
    answers = judge.asker.ask(request, 8).groups
    everything, one = answers if is_all_first else answers[::-1]
    assert everything.topics == []
    assert error_codes(one) == {0, TOPIC_DENIED}


def test_an_expression_finds_no_topic_that_the_member_may_not_describe(judge: Judge) -> None:
    """What it is assigned would say, letter by letter, what hidden topics are called."""
    judge.prepare()
    broker, group = judge.broker, acl((Operation.READ, G), pattern_type=PatternType.PREFIXED)
    assert broker.security.authorizer is not None
    broker.security.authorizer.change([group])
    request = ConsumerGroupHeartbeatRequest(
        group_id=f"{GROUP[:-2]}-by-expression",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_regex=f"{TOPIC[0]}.*",
        topic_partitions=[],
    )
    answer = judge.asker.ask(request, 1)
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, [])
    broker.security.authorizer.change([group, acl((Operation.DESCRIBE, T))])
    request.member_epoch = answer.member_epoch
    (assigned,) = judge.asker.ask(request, 1).assignment.topic_partitions
    assert assigned.topic_id == TOPIC_ID


def never(request: Message, context: RequestContext, *_: Any) -> None:
    raise AssertionError(f"the handler is asked {request}")


@pytest.mark.parametrize(("row", "need"), CASES)
def test_nothing_that_is_denied_reaches_a_handler(judge: Judge, row: Row, need: Need) -> None:
    assert judge.broker.security.authorizer is not None
    judge.broker.security.authorizer.change([acl(one) for one in row.needs if one != need])
    request = row.request()
    api_key = ApiKey(request.API_KEY or 0)
    header = RequestHeader(api_key, row.version, 1, "test")
    context = RequestContext(judge.broker, at(0), header, judge.asker.client, False)
    answer = guarded(api_key, never, judge.broker.security.authorizer)(request, context)
    assert row.is_denied(answer, need)
