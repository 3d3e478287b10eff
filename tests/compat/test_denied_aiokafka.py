"""aiokafka's client raises its own error for each right that a user is denied."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from ottla.metadata.acls import Operation, Permission, ResourceType
from ottla.metadata.deciding.topics import NewTopic
from ottla.server.network.listener import Server
from tests.support.logins import PASSWORD, USER, login_broker, rule
from tests.support.patience import PATIENCE_S
from tests.support.serving import serving

pytestmark = pytest.mark.slow

TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "kitchen", "till"
NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}
PLACE = aiokafka.TopicPartition(TOPIC, 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    broker = login_broker(
        tmp_path,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        allow_everyone_if_no_acl_found="true",
        transaction_state_log_num_partitions="1",
        offsets_topic_num_partitions="1",
    )
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=2))
    with serving(broker) as server:
        yield server


def add(server: Server, permission: Permission, operation: Operation, kind: ResourceType) -> None:
    with server.lock:
        added = rule(kind, NAMES[kind], operation, permission=permission)
        server._broker.security.create_acls([added])


class Client:
    """aiokafka's producers and consumers, logged in as one user."""

    def __init__(self, server: Server) -> None:
        self.server = server
        host, port = server.address
        self._login = {
            "bootstrap_servers": f"{host}:{port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }

    @contextlib.asynccontextmanager
    async def producer(self, transactional_id: str | None = None) -> AsyncIterator[Any]:
        made = aiokafka.AIOKafkaProducer(**self._login, transactional_id=transactional_id)
        try:
            await made.start()
            yield made
        finally:
            await made.stop()

    @contextlib.asynccontextmanager
    async def consumer(self) -> AsyncIterator[Any]:
        made = aiokafka.AIOKafkaConsumer(
            TOPIC, **self._login, group_id=GROUP, auto_offset_reset="earliest"
        )
        try:
            await made.start()
            yield made
        finally:
            await made.stop()


async def produces(client: Client) -> None:
    async with client.producer() as producer:
        await producer.send_and_wait(TOPIC, b"tea")


async def consumes(client: Client) -> None:
    async with client.consumer() as consumer:
        await consumer.getone()


async def begins_transactions(client: Client) -> None:
    async with client.producer(TRANSACTIONAL_ID):
        pass


async def commits_offsets_in_a_transaction(client: Client) -> None:
    async with client.producer(TRANSACTIONAL_ID) as producer, producer.transaction():
        await producer.send_offsets_to_transaction({PLACE: 0}, group_id=GROUP)


async def is_denied_in_the_midst_of_a_transaction(client: Client) -> None:
    async with client.producer(TRANSACTIONAL_ID) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"tea", partition=0)
        add(client.server, Permission.DENY, Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
        await producer.send_and_wait(TOPIC, b"cake", partition=1)


TOPIC_DENIED = TopicAuthorizationFailedError
GROUP_DENIED = GroupAuthorizationFailedError
TRANSACTION_DENIED = TransactionalIdAuthorizationFailed
DENIALS: list[tuple[ResourceType, Operation | None, Callable[[Client], Awaitable[None]], Any]] = [
    (ResourceType.TOPIC, Operation.DESCRIBE, produces, TOPIC_DENIED),
    (ResourceType.TOPIC, Operation.DESCRIBE, consumes, TOPIC_DENIED),
    (ResourceType.TOPIC, Operation.WRITE, produces, TOPIC_DENIED),
    (ResourceType.TOPIC, Operation.READ, consumes, TOPIC_DENIED),
    (ResourceType.GROUP, Operation.DESCRIBE, consumes, GROUP_DENIED),
    (ResourceType.GROUP, Operation.READ, consumes, GROUP_DENIED),
    (ResourceType.GROUP, Operation.DESCRIBE, commits_offsets_in_a_transaction, GROUP_DENIED),
    (ResourceType.GROUP, Operation.READ, commits_offsets_in_a_transaction, GROUP_DENIED),
    (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE, begins_transactions, TRANSACTION_DENIED),
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE, begins_transactions, TRANSACTION_DENIED),
    (
        ResourceType.TRANSACTIONAL_ID,
        None,
        is_denied_in_the_midst_of_a_transaction,
        TRANSACTION_DENIED,
    ),
]


@pytest.mark.parametrize(
    ("kind", "operation", "does", "error"),
    DENIALS,
    ids=lambda one: getattr(one, "name", None) or getattr(one, "__name__", "later"),
)
def test_a_right_that_is_denied_is_the_clients_own_error(
    server: Server,
    kind: ResourceType,
    operation: Operation | None,
    does: Callable[[Client], Awaitable[None]],
    error: type[Exception],
) -> None:
    """All else is allowed: without the denial the client would do what it does."""
    add(server, Permission.ALLOW, Operation.ALL, kind)
    if does is not is_denied_in_the_midst_of_a_transaction:
        asyncio.run(asyncio.wait_for(produces(Client(server)), PATIENCE_S))
        asyncio.run(asyncio.wait_for(does(Client(server)), PATIENCE_S))
    if operation is not None:
        add(server, Permission.DENY, operation, kind)
    with pytest.raises(error):
        asyncio.run(asyncio.wait_for(does(Client(server)), PATIENCE_S))
