"""Three brokers that reach each other over SASL_SSL, over a real ZooKeeper, with real clients."""

import json
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import decode_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningBroker, RunningCluster, Secured, Silence
from tests.support.zookeeper_server import zookeeper_client

pytest.importorskip("confluent_kafka")
pytest.importorskip("cryptography")
pytest.importorskip("kazoo.client")
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.testing.certificates import Certificates

pytestmark = pytest.mark.slow

LOOK_S = 10
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROTOCOLS = {"CLIENTS": "SASL_PLAINTEXT", "BROKERS": "SASL_SSL", "CONTROL": "SSL"}


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": PROTOCOLS["CLIENTS"],
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def secured(folder: Path) -> Secured:
    """Brokers log in by SCRAM, the controller shows a certificate, and administrators use PLAIN."""
    made = Certificates(folder)
    names = "listener.name."
    settings = {
        "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{names}brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{names}clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{names}brokers.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} required username="broker" password="of all";'
        ),
        f"{names}clients.plain.sasl.jaas.config": f'{PLAIN} required user_admin="a secret";',
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "delegation.token.secret.key": "sealed",
        "super.users": "User:broker;User:CN=localhost;User:admin",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.location": str(made.authority),
        f"{names}control.ssl.client.auth": "required",
        # Nobody but the one that is killed is to lose its session on a busy host.
        "zookeeper.session.timeout.ms": "9000",
    }
    return Secured(
        settings=settings,
        client=login("admin", "a secret"),
        prepare=partial(make_first_user, folder / "password"),
    )


def make_first_user(password: Path, zookeeper: str) -> None:
    password.write_text("of all\n")
    words = ["users", "set", f"zookeeper://{zookeeper}", "broker", "--password-file", str(password)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("secured")
    with RunningCluster(folder, secured=secured(folder / "certificates")) as running:
        yield running


def done(futures: dict[Any, Any]) -> None:
    for one in futures.values():
        one.result(PATIENCE_S)


def send(settings: dict[str, str], topic: str, values: range) -> None:
    """With acks=all, until each is acknowledged."""
    refused: list[Any] = []
    producer = Producer({**settings, "enable.idempotence": True}, logger=Silence())
    for value in values:
        producer.produce(
            topic,
            str(value),
            partition=0,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert refused == []


def read(settings: dict[str, str], topic: str, count: int, partition: int = 0) -> list[int]:
    """What was committed."""
    reading = {"group.id": "readers", "auto.offset.reset": "earliest", **settings}
    consumer = Consumer(reading, logger=Silence())
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[int] = []

    def has_all() -> bool:
        found.extend(
            int(one.value()) for one in consumer.consume(count, timeout=0.2) if not one.error()
        )
        return len(found) >= count

    wait_until(has_all, lambda: f"only {len(found)} of {count} records")
    consumer.close()
    return found


def test_brokers_register_every_listener_with_its_protocol(cluster: RunningCluster) -> None:
    with zookeeper_client(cluster.zookeeper.address) as zookeeper:
        for broker in cluster.brokers.values():
            content, _ = zookeeper.get(paths.broker_path(broker.id))
            found = decode_broker(broker.id, content)
            assert {one.listener: one.security_protocol for one in found.endpoints} == PROTOCOLS
            clients = found.endpoint("CLIENTS")
            assert clients is not None
            assert clients.port == broker.port


def make_user(cluster: RunningCluster, name: str, password: str) -> dict[str, str]:
    """With a password for SCRAM; the settings of its clients, but for brokers' addresses."""
    admin = cluster.admin()
    iterations = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    upsertion = UserScramCredentialUpsertion(name, iterations, password.encode())
    done(admin.alter_user_scram_credentials([upsertion]))
    return login(name, password, "SCRAM-SHA-512")


def allow(cluster: RunningCluster, user: str, topic: str, operation: AclOperation) -> AclBinding:
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin = cluster.admin()
    done(admin.create_acls([rule]))
    return rule


def error_of(settings: dict[str, str], topic: str) -> int | None:
    """What comes of asking brokers for a topic."""
    admin = AdminClient(settings, logger=Silence())
    try:
        found = admin.list_topics(topic, timeout=LOOK_S).topics[topic]
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None if found.error is None else found.error.code()


def wait_for(cluster: RunningCluster, user: dict[str, str], topic: str, code: int | None) -> None:
    """Until every broker answers so: a user, or a rule, is known everywhere a moment later."""
    for broker in cluster.brokers.values():
        settings = {**user, "bootstrap.servers": broker.address}
        wait_until(
            lambda: error_of(settings, topic) == code,  # noqa: B023
            lambda: f"broker {broker.id}: {error_of(settings, topic)} {cluster.logs()}",  # noqa: B023
        )


def test_a_user_made_through_the_cluster_writes_with_all_and_outlives_a_broker(
    cluster: RunningCluster,
) -> None:
    admin = cluster.admin()
    done(admin.create_topics([NewTopic("orders", 1, 3)]))
    leader, _ = cluster.wait_in_sync("orders")[0]
    user = make_user(cluster, "ana", "of ana")
    for operation in (AclOperation.READ, AclOperation.WRITE):
        allow(cluster, "ana", "orders", operation)
    wait_for(cluster, user, "orders", None)
    ana = {"bootstrap.servers": cluster.bootstrap, **user}
    send(ana, "orders", range(100))
    cluster.brokers[leader].kill()
    cluster.wait_led("orders", without=leader)
    send(ana, "orders", range(100, 200))
    cluster.brokers[leader].begin()
    cluster.brokers[leader].wait_ready()
    cluster.wait_in_sync("orders")
    wait_for(cluster, user, "orders", None)
    assert read(cluster.client_settings(), "orders", 200) == list(range(200))


def test_what_no_rule_allows_is_denied_on_each_broker(cluster: RunningCluster) -> None:
    admin = cluster.admin()
    done(admin.create_topics([NewTopic("payroll", 1, 3)]))
    cluster.wait_in_sync("payroll")
    bob = make_user(cluster, "bob", "of bob")
    wait_for(cluster, bob, "payroll", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    rule = allow(cluster, "bob", "payroll", AclOperation.DESCRIBE)
    wait_for(cluster, bob, "payroll", None)
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation")
    fields = [getattr(rule, one) for one in names]
    done(admin.delete_acls([AclBindingFilter(*fields, rule.permission_type)]))
    wait_for(cluster, bob, "payroll", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    theirs = AdminClient({"bootstrap.servers": cluster.bootstrap, **bob}, logger=Silence())
    with pytest.raises(KafkaException) as caught:
        done(theirs.create_topics([NewTopic("mine", 1, 3)]))
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_transaction_is_committed_on_the_partitions_of_every_broker(
    cluster: RunningCluster,
) -> None:
    """Of three leaders two get their markers from another broker."""
    admin, settings = cluster.admin(), cluster.client_settings()
    done(
        admin.create_topics(
            [NewTopic("paid", 3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])]
        )
    )
    cluster.wait_in_sync("paid")
    producer = Producer({**settings, "transactional.id": "payments"}, logger=Silence())
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("paid", str(partition), partition=partition)
    producer.commit_transaction(PATIENCE_S)
    for partition in range(3):
        assert read(settings, "paid", 1, partition) == [partition]
    # A broker that stops asks the controller first, over the listener of brokers.
    stopping = cluster.brokers[2]
    assert stopping.stop() == 0
    assert "without a controlled shutdown" not in stopping.output.read_text()
    stopping.begin()
    stopping.wait_ready()
    cluster.wait_in_sync("paid")


def test_a_token_lets_its_owner_in_at_each_broker(cluster: RunningCluster) -> None:
    admin = login("admin", "a secret")
    with ottla.Admin(cluster.bootstrap, admin) as asked:
        token = asked.create_delegation_token()
    by_token = login(token.token_id, "", "SCRAM-SHA-512")
    by_token["sasl.jaas.config"] = (
        f'{SCRAM} required username="{token.token_id}" '
        f'password="{b64encode(token.secret).decode()}" tokenauth="true";'
    )

    def lets_in(broker: RunningBroker) -> bool:
        try:
            with ottla.Admin(broker.address, by_token) as theirs:
                return bool(theirs.describe_cluster().brokers)
        except ottla.UserError:
            return False

    for broker in cluster.brokers.values():
        wait_until(lambda: lets_in(broker), "a broker has not heard of the token")  # noqa: B023


def test_commands_show_a_secured_cluster_to_those_who_log_in(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    settings = tmp_path / "admin.properties"
    admin = login("admin", "a secret")
    settings.write_text("".join(f"{name}={text}\n" for name, text in admin.items()))
    words = ["cluster", "status", cluster.bootstrap, "--json", "--command-config", str(settings)]
    result = CliRunner().invoke(cli, words)
    found = [json.loads(one) for one in result.stdout.splitlines()]
    brokers = [one["broker"] for one in found if one["type"] == "broker"]
    assert sorted(brokers) == sorted(cluster.brokers), result.output
    words = ["users", "list", cluster.bootstrap, "--json", "--command-config", str(settings)]
    result = CliRunner().invoke(cli, words)
    assert "broker" in {json.loads(one)["user"] for one in result.stdout.splitlines()}
