"""What is changed at one broker of a KRaft cluster holds at the others: users, quotas, rules and
tokens; and what becomes of partitions that have lost every replica in sync.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.base.addresses import parse_address
from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.brokers import batch
from tests.support.grounds import QUORUM
from tests.support.logins import PASSWORD, USER, authenticate, log_in, plain_text, shake_hands
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningCluster, Secured
from tests.support.serving import WireClient

pytest.importorskip("confluent_kafka")
from confluent_kafka.admin import NewTopic

pytestmark = pytest.mark.slow

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
ORDERS = 3
"""Partitions, of which each broker leads one."""


def login(user: str, password: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


ADMIN = login("admin", "a secret", "PLAIN")
ANA = login(USER, PASSWORD, "SCRAM-SHA-256")
SECURED = Secured(
    settings={
        "listener.security.protocol.map": (
            "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT,CONTROL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": (
            f'{PLAIN} required user_admin="a secret";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "delegation.token.secret.key": "sealed",
        # Brokers and controllers, on listeners that no client uses.
        "super.users": "User:ANONYMOUS;User:admin",
    },
    client=ADMIN,
    prepare=lambda _: None,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("quorum")
    with RunningCluster(folder, secured=SECURED, grounds=QUORUM) as running:
        yield running


def at(cluster: RunningCluster, broker: int, who: dict[str, str] = ADMIN) -> ottla.Admin:
    """An administrator who asks this broker first."""
    return ottla.Admin(cluster.brokers[broker].address, who)


def create(
    cluster: RunningCluster, name: str, replicas: list[list[int]], config: Any = None
) -> None:
    topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=config or {})
    admin = cluster.admin()
    (made,) = admin.create_topics([topic]).values()
    made.result(PATIENCE_S)


def everywhere(cluster: RunningCluster, holds: Callable[[int], bool]) -> None:
    for broker in cluster.brokers:
        wait_until(lambda: holds(broker), f"broker {broker} has not heard of it")  # noqa: B023


def produced(cluster: RunningCluster, broker: int, size: int = 1) -> tuple[int, int]:
    """Ana writes to the partition that a broker leads: the error, and how long she is to wait."""
    data = PartitionProduceData(index=broker - 1, records=batch(b"x" * size))
    topic = TopicProduceData(name="orders", partition_data=[data])
    with WireClient(parse_address(cluster.brokers[broker].address)) as client:
        log_in(client, "SCRAM-SHA-256")
        answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 9)
    (partition,) = answer.responses[0].partition_responses
    return partition.error_code, answer.throttle_time_ms


def test_a_user_a_rule_and_a_quota_of_one_broker_hold_at_each_of_them(
    cluster: RunningCluster,
) -> None:
    with at(cluster, 1) as admin:
        made = ottla.UserScramCredentialUpsertion(
            user=USER, mechanism="SCRAM-SHA-256", password=PASSWORD
        )
        admin.alter_user_scram_credentials([made])
    create(cluster, "orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.wait_in_sync("orders", partitions=ORDERS)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    everywhere(cluster, lambda broker: lets_in(cluster, broker, ANA))
    assert [produced(cluster, one)[0] for one in cluster.brokers] == [denied] * 3
    rule = ottla.AclBinding(name="orders", principal=f"User:{USER}", operation="WRITE")
    with at(cluster, 2) as admin:
        admin.create_acls([rule])
    everywhere(cluster, lambda broker: produced(cluster, broker)[0] == 0)
    with at(cluster, 3) as admin:
        admin.alter_quotas({"user": USER}, {"producer_byte_rate": 1000})
    everywhere(cluster, lambda broker: produced(cluster, broker, 100_000)[1] > 0)
    with at(cluster, 3) as admin:
        admin.delete_acls([ottla.AclBindingFilter(name="orders")])
    everywhere(cluster, lambda broker: produced(cluster, broker)[0] == denied)


def lets_in(cluster: RunningCluster, broker: int, who: dict[str, str]) -> bool:
    try:
        with at(cluster, broker, who) as theirs:
            return bool(theirs.describe_cluster().brokers)
    except ottla.UserError:
        return False


def test_a_token_is_made_renewed_used_and_ended_at_different_brokers(
    cluster: RunningCluster,
) -> None:
    with at(cluster, 1) as admin:
        token = admin.create_delegation_token()
    by_token = login(token.token_id, "", "SCRAM-SHA-256") | {
        "sasl.jaas.config": (
            f'{SCRAM} required username="{token.token_id}" '
            f'password="{b64encode(token.secret).decode()}" tokenauth="true";'
        )
    }
    everywhere(cluster, lambda broker: lets_in(cluster, broker, by_token))
    with at(cluster, 2) as admin:
        until_ms = admin.renew_delegation_token(token.secret, 3_600_000)

    def told(broker: int) -> list[int]:
        with at(cluster, broker) as admin:
            return [one.expires_ms for one in admin.describe_delegation_token()]

    everywhere(cluster, lambda broker: told(broker) == [until_ms])
    with at(cluster, 3) as admin:
        admin.expire_delegation_token(token.secret)
    everywhere(cluster, lambda broker: not lets_in(cluster, broker, by_token))
    assert told(1) == []


def test_a_move_that_may_not_change_the_number_of_replicas_does_not(
    cluster: RunningCluster,
) -> None:
    create(cluster, "moved", [[1, 2]])
    cluster.wait_in_sync("moved", 2)

    def moved(replicas: list[int], *, may_change: bool) -> int:
        wanted = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="moved", partitions=[wanted])],
            allow_replication_factor_change=may_change,
        )
        with WireClient(parse_address(cluster.brokers[3].address)) as client:
            shake_hands(client, "PLAIN")
            authenticate(client, plain_text("admin", "a secret"))
            answer = client.ask(request, 1)
        ((one,),) = (topic.partitions for topic in answer.responses)
        error: int = one.error_code
        return error

    assert moved([1, 2, 3], may_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert moved([2, 3], may_change=False) == 0
    wait_until(lambda: sorted(cluster.leaders("moved")[0][1]) == [2, 3], "it has not moved")
    assert moved([1, 2, 3], may_change=True) == 0
    cluster.wait_in_sync("moved", 3)


def test_a_partition_without_a_replica_in_sync_is_led_by_another_when_people_want_that(
    cluster: RunningCluster,
) -> None:
    place = TopicPartition("lost", 0)
    create(cluster, "lost", [[1, 2]], {"min.insync.replicas": "1"})
    cluster.wait_in_sync("lost", 2)
    write(cluster, ["both have it"])
    cluster.brokers[2].stop()
    wait_until(lambda: cluster.leaders("lost")[0][1] == [1], "broker 2 is still in sync")
    write(cluster, ["only broker 1 has it"])
    cluster.brokers[1].kill()
    cluster.brokers[2].begin()
    cluster.brokers[2].wait_ready()
    wait_until(lambda: leader_at_3(cluster, place) == -1, "somebody leads")
    with at(cluster, 3) as admin:
        with pytest.raises(ottla.RefusedError):
            admin.elect_leaders([place])
        admin.elect_leaders([place], unclean=True)
    wait_until(lambda: leader_at_3(cluster, place) == 2, "broker 2 does not lead")
    write(cluster, ["after it"])
    cluster.brokers[1].begin()
    cluster.brokers[1].wait_ready()
    cluster.wait_in_sync("lost", 2)
    with ottla.Consumer(cluster.bootstrap, settings=ADMIN) as reader:
        reader.assign([place])
        reader.seek_to_beginning()
        found: list[Any] = []
        wait_until(lambda: found.extend(reader.poll_many(timeout=1)) or len(found) >= 2)
    assert [one.value for one in found] == [b"both have it", b"after it"]


def leader_at_3(cluster: RunningCluster, place: TopicPartition) -> int:
    with at(cluster, 3) as admin:
        (topic,) = admin.describe_topics([place.topic])
    return int(topic.partitions[place.partition].leader)


def write(cluster: RunningCluster, values: list[str]) -> None:
    with ottla.Producer(cluster.bootstrap, settings={**ADMIN, "acks": "all"}) as producer:
        for value in values:
            producer.send("lost", value.encode())
