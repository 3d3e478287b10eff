"""One error in all places of an answer, for each API and version that the broker answers."""

import random
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.codec.primitives import Output
from ottla.codec.schema import reader, writer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class, response_class
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.dispatching.apis import APIS
from ottla.testing.error_responses import error_response
from tests.support.random_messages import random_message

ERROR = ErrorCode.NOT_CONTROLLER

WITHOUT: frozenset[ApiKey] = frozenset()


def codes(value: Any, version: int) -> list[int]:
    """All error codes in a message of a version."""
    if isinstance(value, list):
        return [code for one in value for code in codes(one, version)]
    found = []
    for field in getattr(value, "FIELDS", ()):
        if field.is_in(version):
            own = getattr(value, field.name)
            found += [own] if field.name.endswith("error_code") else codes(own, version)
    return found


@pytest.mark.parametrize("key", list(APIS))
def test_an_answer_of_each_version_is_an_error_that_can_be_sent(key: ApiKey) -> None:
    for version in range(APIS[key].oldest, APIS[key].newest + 1):
        request = random_message(request_class(key), version, random.Random(key))
        if key in WITHOUT:
            with pytest.raises(UserError, match="has no place for an error"):
                error_response(key, version, request, ERROR)
            continue
        answer = error_response(key, version, request, ERROR)
        assert set(codes(answer, version)) <= {int(ERROR)}
        output = Output()
        writer(response_class(key), version)(answer, output)
        sent, _ = reader(response_class(key), version)(output.read_all(), 0)
        assert sent == answer


def test_each_partition_of_a_produce_has_the_error_under_its_own_name() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=3)])
            for name in ("a", "b")
        ]
    )
    answer: Any = error_response(ApiKey.PRODUCE, 9, request, ERROR)
    found = [
        (topic.name, one.index, one.error_code)
        for topic in answer.responses
        for one in topic.partition_responses
    ]
    assert found == [("a", 3, ERROR), ("b", 3, ERROR)]


def test_a_fetch_says_it_for_the_session_and_for_each_partition() -> None:
    partition = FetchPartition(partition=5)
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])])
    answer: Any = error_response(ApiKey.FETCH, 11, request, ERROR)
    (topic,) = answer.responses
    (one,) = topic.partitions
    assert (topic.topic, one.partition_index) == ("t", 5)
    assert (answer.error_code, one.error_code) == (ERROR, ERROR)
