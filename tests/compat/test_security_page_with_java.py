"""The broker of docs/security.md, made word for word, and Kafka's Java client with its settings."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat.java import array_list, duration, java_class, kafka, needs_java_client, wait
from tests.compat.java_clients import closing, record
from tests.docs.walking import walk
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    needs_java_client,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
AS_ANA = "as ana in Java: localhost:9093"
"""Stands on the page for the client, so that it comes while the broker is there."""

SERIALIZERS = "org.apache.kafka.common.serialization.String"


class Client:
    """Takes the page's `client.properties` as it is, but for the folder that it is in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.answer = ""

    def run(self, program: str) -> str:
        if program.startswith(AS_ANA.partition(":")[0]):
            self._come(program.partition(":")[2].strip())
            return ""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return done.stdout

    def _come(self, address: str) -> None:
        producer = kafka("clients.producer.KafkaProducer")(self._settings(address))
        with closing(producer):
            wait(producer.send(record("logs-web", "from Java")))
            with pytest.raises(kafka("common.errors.TopicAuthorizationException")):
                wait(producer.send(record("orders", "not allowed")))
        consumer = kafka("clients.consumer.KafkaConsumer")(self._settings(address))
        with closing(consumer):
            consumer.subscribe(array_list(["orders"]))
            consumer.poll(duration(1))
            orders = kafka("common.TopicPartition")("orders", 0)
            assert int(consumer.endOffsets(array_list([orders]))[orders]) == 0
            logs = array_list([kafka("common.TopicPartition")("logs-web", 0)])
            consumer.unsubscribe()
            consumer.assign(logs)
            consumer.seekToBeginning(logs)
            with pytest.raises(kafka("common.errors.TopicAuthorizationException")):
                consumer.poll(duration(PATIENCE_S))
        self.answer = "done"

    def _settings(self, address: str) -> Any:
        settings = java_class("java.util.Properties")()
        reader = java_class("java.io.FileReader")(str(self._folder / "client.properties"))
        settings.load(reader)
        reader.close()
        store = "ssl.truststore.location"
        settings.setProperty(store, str(self._folder / str(settings.getProperty(store))))
        settings.setProperty("bootstrap.servers", address)
        settings.setProperty("group.id", "billing")
        for kind, name in (("key", "Serializer"), ("value", "Serializer")):
            settings.setProperty(f"{kind}.serializer", f"{SERIALIZERS}{name}")
            settings.setProperty(f"{kind}.deserializer", f"{SERIALIZERS}Deserializer")
        return settings


def test_a_client_in_java_does_what_the_page_allows_ana(tmp_path: Path) -> None:
    client = Client(tmp_path)
    text = PAGE.read_text()
    end = text.index("| login | users | notes |")
    walk(f"{text[:end]}\n```python\n{AS_ANA}\n```\n", tmp_path, client.run)
    assert client.answer == "done"
