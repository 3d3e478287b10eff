"""`ottla serve` in place of the Kafka that kafka-python's fixtures start: TLS and logins."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import py

import ottla
from tests.compat.suites.secured_broker import OPEN_TO_ALL, PLAIN_LOGIN
from tests.integration.cli.support import serving
from tests.support.ports import free_port
from tests.support.server_properties import write_properties


def use_ottla(fixture: Any, replicas: int) -> None:
    """Has the suite's class of fixtures start Ottla, and its topics have so many replicas."""
    fixture.replicas = property(lambda _: replicas, lambda *_: None)
    for method in (open_broker, stop, dump_logs, get_topic_names):
        setattr(fixture, method.__name__.removesuffix("_broker"), method)


def open_broker(self: Any) -> None:
    if self.external:
        return
    if self.tmp_dir is None:
        self.tmp_dir = py.path.local.mkdtemp()
    data_dir = Path(self.tmp_dir.strpath) / "data"
    self.port = free_port()
    settings = {
        **OPEN_TO_ALL,
        "num.partitions": str(self.partitions),
        "listeners": f"{self.transport}://127.0.0.1:{self.port}",
        "advertised.listeners": f"{self.transport}://localhost:{self.port}",
        "sasl.enabled.mechanisms": self.sasl_mechanism or "PLAIN",
        **dict(line.split("=", 1) for line in self._ssl_config().splitlines()),
    }
    if self.sasl_mechanism == "PLAIN":
        settings[f"listener.name.{self.transport.lower()}.plain.sasl.jaas.config"] = (
            f'{PLAIN_LOGIN} required user_{self.broker_user}="{self.broker_password}";'
        )
    elif self.sasl_mechanism:
        password = ottla.UserScramCredentialUpsertion(
            user=self.broker_user, mechanism=self.sasl_mechanism, password=self.broker_password
        )
        with ottla.open(data_dir) as log, ottla.Admin(log) as admin:
            admin.alter_user_scram_credentials([password])
    file = write_properties(Path(self.tmp_dir.strpath) / "server.properties", settings)
    self.served = ExitStack()
    self.served.enter_context(serving(None, "--data-dir", str(data_dir), "--config", str(file)))
    self.child = self
    self.running = True


def stop(self: Any) -> None:
    if self.running and not self.external:
        self.running = False
        self.served.close()


def dump_logs(self: Any) -> None:
    """What Ottla says goes to the errors of its process."""


def get_topic_names(self: Any) -> list[str]:
    settings = {
        "security.protocol": self.transport,
        "sasl.mechanism": self.sasl_mechanism,
        "sasl.username": self.broker_user,
        "sasl.password": self.broker_password,
    }
    with ottla.Admin(self.bootstrap_server(), settings) as admin:
        return list(admin.list_topics())
