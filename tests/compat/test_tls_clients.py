"""Other clients over TLS, with certificates of both sides: each reads what it has produced."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.metadata.deciding.topics import NewTopic
from tests.compat.java import needs_java_client
from tests.compat.java_clients import read_values, record, send_all
from tests.compat.node_clients import NODE, absence
from tests.support.certificates import authority, client_context, pkcs12_store
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

VALUES = [b"value %d " % number * 50 for number in range(200)]
TOPIC = "records"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker is, and the files that a client needs to get in."""

    port: int
    trusted: Path
    certificate: Path
    key: Path

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A broker whose clients must show a certificate."""
    trusted = authority().write(tmp_path / "ca.pem")
    client = authority().client("ana", "Acme")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_text(client.certificate_pem)
    key.write_text(client.key_pem())
    broker = open_broker(
        tmp_path / "data",
        listeners="SSL://127.0.0.1:9093",
        ssl_client_auth="required",
        ssl_keystore_location=str(authority().server().write(tmp_path / "server.pem")),
        ssl_truststore_location=str(trusted),
    )
    broker.admin.create_topic(NewTopic(name=TOPIC))
    with serving(broker) as server:
        yield Place(server.address[1], trusted, certificate, key)


def by_librdkafka(place: Place) -> list[bytes | None]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = {
        "bootstrap.servers": place.address,
        "security.protocol": "ssl",
        "ssl.ca.location": str(place.trusted),
        "ssl.certificate.location": str(place.certificate),
        "ssl.key.location": str(place.key),
    }
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": "g"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes | None] = []
    try:
        while len(found) < len(VALUES):
            found += [one.value() for one in consumer.consume(100, PATIENCE_S)]
    finally:
        consumer.close()
    return found


def by_kafka_python(place: Place) -> list[bytes | None]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    settings = {
        "bootstrap_servers": place.address,
        "security_protocol": "SSL",
        "ssl_cafile": str(place.trusted),
        "ssl_certfile": str(place.certificate),
        "ssl_keyfile": str(place.key),
    }
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(TOPIC, value, partition=0)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(**settings, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, 0)])
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    return found


def by_aiokafka(place: Place) -> list[bytes | None]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    context = client_context(authority())
    context.load_cert_chain(place.certificate, place.key)
    settings = {
        "bootstrap_servers": place.address,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def session() -> list[bytes | None]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send(TOPIC, value, partition=0)
            await producer.flush()
        async with AIOKafkaConsumer(TOPIC, auto_offset_reset="earliest", **settings) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(session(), PATIENCE_S))


def by_kcat(place: Place) -> list[bytes | None]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    options = [
        part
        for setting in (
            "security.protocol=ssl",
            f"ssl.ca.location={place.trusted}",
            f"ssl.certificate.location={place.certificate}",
            f"ssl.key.location={place.key}",
        )
        for part in ("-X", setting)
    ]
    kcat = ["kcat", "-b", place.address, *options, "-t", TOPIC]
    run = {"check": True, "timeout": PATIENCE_S, "capture_output": True}
    subprocess.run([*kcat, "-P", "-p", "0"], input=b"\n".join(VALUES), **run)  # type: ignore[call-overload]
    done = subprocess.run([*kcat, "-C", "-q", "-o", "beginning", "-e"], **run)  # type: ignore[call-overload]
    return list(done.stdout.splitlines())


KAFKAJS = """
const { Kafka, logLevel } = require("kafkajs");
const fs = require("fs");
const [address, ca, cert, key, count] = process.argv.slice(1);
const text = (path) => fs.readFileSync(path, "utf8");
const kafka = new Kafka({
  brokers: [address], logLevel: logLevel.NOTHING,
  ssl: { ca: [text(ca)], cert: text(cert), key: text(key) },
});
async function main() {
  const values = fs.readFileSync(0, "utf8").split("\\n");
  const producer = kafka.producer();
  await producer.connect();
  const messages = values.map((value) => ({ value, partition: 0 }));
  await producer.send({ topic: "records", messages });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: "g" });
  await consumer.connect();
  await consumer.subscribe({ topics: ["records"], fromBeginning: true });
  const found = [];
  await new Promise((done) => consumer.run({ eachMessage: async ({ message }) => {
    found.push(message.value.toString());
    if (found.length === values.length) done();
  } }));
  await consumer.disconnect();
  process.stdout.write(found.join("\\n"));
}
main();
"""


def by_kafkajs(place: Place) -> list[bytes | None]:
    if absence() is not None:
        pytest.skip(str(absence()))
    files = map(str, (place.trusted, place.certificate, place.key))
    done = subprocess.run(
        ["node", "--no-deprecation", "-e", KAFKAJS, place.address, *files],
        input=b"\n".join(VALUES),
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        cwd=NODE,
    )
    return list(done.stdout.split(b"\n"))


@pytest.mark.slow
@needs_java_client
def test_javas_client_reads_what_it_has_produced(place: Place) -> None:
    """With a truststore of PEM and a keystore of PKCS12, as its users have them."""
    store = place.trusted.with_name("client.p12")
    store.write_bytes(pkcs12_store(authority().client("ana", "Acme"), "sesame"))
    settings = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(place.trusted),
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_location": str(store),
        "ssl_keystore_password": "sesame",
        "ssl_key_password": "sesame",
    }
    values = [value.decode() for value in VALUES]
    send_all(place.address, [record(TOPIC, value) for value in values], **settings)
    assert read_values(place.address, TOPIC, **settings) == values


@pytest.mark.slow
@pytest.mark.parametrize(
    "session", [by_librdkafka, by_kafka_python, by_aiokafka, by_kcat, by_kafkajs]
)
def test_a_client_with_a_certificate_reads_what_it_has_produced(
    place: Place, session: Callable[[Place], list[bytes | None]]
) -> None:
    assert session(place) == VALUES
