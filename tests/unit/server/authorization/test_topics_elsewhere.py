"""Topics of a cluster of which the broker that is asked has no partition."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl
from ottla.protocol.messages import create_topics, offset_commit, offset_fetch
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.lonely_member import LonelyMember
from tests.unit.server.authorization.row import (
    ANA,
    GROUP,
    HOST,
    TOPIC,
    TOPIC_DENIED,
    G,
    Op,
    T,
    acl,
    error_codes,
)

OTHER = 2


class Elsewhere:
    """A cluster of two, whose controller is asked about a topic that is on the other broker."""

    def __init__(self) -> None:
        self.member = LonelyMember(
            OTHER,
            authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
            super_users="User:ANONYMOUS",
        )
        assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[OTHER])
        wanted = create_topics.CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        request = create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=1)
        (made,) = self.member.request(request, 7).topics
        assert made.error_code == 0
        self.topic_id: Uuid = made.topic_id
        assert self.member.broker.topics.find(TOPIC) is None
        self.asker = Asker(self.member.broker, client=Client(ADDRESS, HOST, ANA))

    def ask(self, request: Message, version: int, *rules: Acl) -> Any:
        assert self.member.broker.security.authorizer is not None
        self.member.broker.security.authorizer.change(rules)
        return self.asker.ask(request, version)


@pytest.fixture(scope="module")
def elsewhere() -> Elsewhere:
    return Elsewhere()


def test_it_is_not_deleted_by_its_id(elsewhere: Elsewhere) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=elsewhere.topic_id)], timeout_ms=1
    )
    (answer,) = elsewhere.ask(request, 6).responses
    assert (answer.error_code, answer.name) == (TOPIC_DENIED, None)


@pytest.mark.parametrize("operation", [Op.READ, Op.DESCRIBE])
def test_its_offsets_are_not_read_by_its_id(elsewhere: Elsewhere, operation: Op) -> None:
    group = offset_fetch.OffsetFetchRequestGroup(
        group_id=GROUP,
        topics=[
            offset_fetch.OffsetFetchRequestTopics(
                topic_id=elsewhere.topic_id, partition_indexes=[0]
            )
        ],
    )
    request = offset_fetch.OffsetFetchRequest(groups=[group])
    assert TOPIC_DENIED in error_codes(elsewhere.ask(request, 10, acl((Op.READ, G))))
    group.topics[0].partition_indexes = [0]
    answer = elsewhere.ask(request, 10, acl((Op.READ, G)), acl((operation, T)))
    assert TOPIC_DENIED not in error_codes(answer)


def test_no_offsets_of_it_are_committed_by_its_id(elsewhere: Elsewhere) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0)
    request = offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                topic_id=elsewhere.topic_id, partitions=[partition]
            )
        ],
    )
    rules = (acl((Op.READ, G)), acl((Op.DESCRIBE, T)))
    assert error_codes(elsewhere.ask(request, 10, *rules)) == {TOPIC_DENIED}


def test_describe_alone_shows_where_it_is(elsewhere: Elsewhere) -> None:
    """Nobody needs CREATE for it, although the client would have a missing topic made."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True
    )
    (answer,) = elsewhere.ask(request, 12, acl((Op.READ, T))).topics
    assert (answer.error_code, answer.name) == (ErrorCode.NONE, TOPIC)
    (answer,) = elsewhere.ask(request, 12).topics
    assert (answer.error_code, answer.topic_id) == (TOPIC_DENIED, Uuid(bytes(16)))


def test_its_id_says_nothing_of_it(elsewhere: Elsewhere) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=elsewhere.topic_id)])
    (answer,) = elsewhere.ask(request, 12).topics
    assert (answer.error_code, answer.name, answer.partitions) == (TOPIC_DENIED, None, [])
