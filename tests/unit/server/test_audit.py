"""Denials are logged, one line each, and no more than so many in a time."""

import logging

import pytest

from ottla.base.principal import Principal
from ottla.metadata.acls import Operation, ResourceType
from ottla.protocol.api_keys import ApiKey
from ottla.server.authorization.access import LINES_PER_WINDOW, AuditLog
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS
from tests.support.brokers import at

CLIENT = Client(ADDRESS, "10.0.0.9", Principal("User", "ana"))
TOPIC = (ResourceType.TOPIC, "orders")


def test_a_denial_names_who_wanted_what(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        AuditLog().denied(CLIENT, Operation.READ, TOPIC, ApiKey.FETCH, at(0.0))
    assert caplog.messages == [
        "principal User:ana from host 10.0.0.9 is denied READ on TOPIC 'orders', for request FETCH"
    ]


def test_a_name_of_any_length_makes_a_line_of_bounded_length(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = (ResourceType.TOPIC, "x" * 30_000)
    client = CLIENT._replace(principal=Principal("User", "y" * 30_000))
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        AuditLog().denied(client, Operation.READ, topic, ApiKey.FETCH, at(0.0))
    assert len(caplog.messages[0]) < 700
    assert "xxx...'" in caplog.messages[0]
    assert "yyy... from" in caplog.messages[0]


def test_a_flood_of_denials_is_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog()
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        for _ in range(LINES_PER_WINDOW + 500):
            audit.denied(CLIENT, Operation.READ, TOPIC, ApiKey.FETCH, at(1.0))
        assert len(caplog.messages) == LINES_PER_WINDOW
        audit.denied(CLIENT, Operation.READ, TOPIC, ApiKey.FETCH, at(20_000.0))
    assert caplog.messages[-2] == "500 more denials were not logged"
