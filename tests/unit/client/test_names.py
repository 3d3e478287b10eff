"""Names of our clients: those on which confluent-kafka and kafka-python agree, in both styles."""

import inspect
from typing import Any

import pytest

import ottla
import ottla.aio

OF_THREADS = {"streams"}
"""An event loop has no use for a consumer in each of several threads."""

WITHOUT_WAITING = {"address", "unknown_topic"}
"""Of an admin client, whose other methods are coroutines of one that is opened when it is asked."""


def methods(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("ours", "confluents", "kafka_pythons"),
    [
        (ottla.Producer, "Producer", "KafkaProducer"),
        (ottla.Consumer, "Consumer", "KafkaConsumer"),
        (ottla.Admin, "admin.AdminClient", "KafkaAdminClient"),
    ],
)
def test_what_two_clients_call_the_same_has_that_name(
    ours: Any, confluents: str, kafka_pythons: str
) -> None:
    theirs: Any = pytest.importorskip("confluent_kafka")
    pytest.importorskip("confluent_kafka.admin")
    for name in confluents.split("."):
        theirs = getattr(theirs, name)
    agreed = methods(theirs) & methods(getattr(pytest.importorskip("kafka"), kafka_pythons))
    assert len(agreed) > 5
    assert not agreed - methods(ours)


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_both_styles_have_the_same_names_and_arguments(name: str) -> None:
    ours, awaited = getattr(ottla, name), getattr(ottla.aio, name)
    wanted = methods(ours) - OF_THREADS - WITHOUT_WAITING
    assert not wanted - methods(awaited)
    for one in wanted:
        arguments = [
            list(inspect.signature(getattr(kind, one)).parameters) for kind in (ours, awaited)
        ]
        assert arguments[0] == arguments[1], one
