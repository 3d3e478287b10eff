"""Three `ottla serve` processes, with a ZooKeeper or by themselves, which tests kill, pause and
start again.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.base.addresses import Address, parse_address
from ottla.base.errors import ApiError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid, uuid_text
from ottla.broker.metadata.formatting import FormatOptions, format_directories
from ottla.client.administration.admin import Admin
from ottla.client.administration.quorum_status import quorum_status
from ottla.client.connecting.cluster import ClientSettings, SocketTransport
from ottla.metadata.deciding.features import feature_records, new_features
from ottla.runtime.opening import new_id
from tests.integration.cli.support import ENVIRONMENT
from tests.support.grounds import ONE_MACHINE, Grounds, ZooKeeperService
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.places import HERE, Place
from tests.support.ports import free_port
from tests.support.server_properties import write_properties
from tests.support.zookeeper_server import LONG_TICK_MS

SESSION_MS = 5000
CONTROLLER = "controller"
"""Of the settings by which a broker joins: where a node of a quorum listens as a controller."""
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": "6000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}

Leaders = dict[int, tuple[int, list[int]]]
"""Of each partition the leader, -1 for none, and the ISR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """Brokers that listen for clients, for each other, and for the controller.

    `settings` are all brokers', `client` those of a client that may do everything. `prepare` is
    called with ZooKeeper's address before a broker starts.
    """

    settings: Mapping[str, str]
    client: Mapping[str, str]
    prepare: Callable[[str], None]


def over(zookeeper: ZooKeeperService) -> dict[str, str]:
    """The settings by which a broker joins a cluster over ZooKeeper."""
    return {"zookeeper.connect": zookeeper.address}


def format_node(
    directory: Path, node_id: int, cluster_id: str, features: Mapping[str, int] | None = None
) -> None:
    """The directory of a node whose voters are in the settings, or that asks to become one."""
    options = FormatOptions(
        node_id=node_id,
        cluster_id=cluster_id,
        records=feature_records(features or new_features()),
        now_ms=time.time_ns() // 1_000_000,
        new_id=new_id,
    )
    format_directories([str(directory)], OsFileSystem(), options)


class RunningBroker:
    """One broker, on the same port and directory in every life.

    `joins` are the settings by which it finds its cluster. With `Secured` the listeners are
    CLIENTS, at `address`, BROKERS and CONTROL; a node of a quorum also has CONTROLLER.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        joins: Mapping[str, str],
        more: Mapping[str, str],
        secured: Secured | None = None,
        place: Place = HERE,
    ) -> None:
        self.id = broker_id
        self.host = place.host
        self.port = free_port()
        self._listeners = [f"PLAINTEXT://{self.address}"]
        if (controller := joins.get(CONTROLLER)) is not None:
            self._listeners.append(f"CONTROLLER://{controller}")
        self.directory = directory
        self.output = directory.with_suffix(".log")
        settings = {
            **SETTINGS,
            "broker.id": str(broker_id),
            **{name: text for name, text in joins.items() if name != CONTROLLER},
            **{name: text.replace("{id}", str(broker_id)) for name, text in more.items()},
        }
        self._command = [*place.command, sys.executable, "-m", "ottla", "serve", str(directory)]
        if secured is not None:
            own = [f"{name}://{self.host}:{free_port()}" for name in ("BROKERS", "CONTROL")]
            settings |= secured.settings
            self._listeners = [f"CLIENTS://{self.address}", *own, *self._listeners[1:]]
            settings |= {
                "inter.broker.listener.name": "BROKERS",
                "control.plane.listener.name": "CONTROL",
            }
        file = directory.with_suffix(".properties")
        file.parent.mkdir(parents=True, exist_ok=True)
        self._command += ["--config", str(write_properties(file, settings))]
        self.arguments: Sequence[str] = ()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def put_behind(self, proxy: str) -> str:
        """Before `begin`: the address of another listener, whose clients learn the proxy's."""
        listener = f"{self.host}:{free_port()}"
        advertised = f"PLAINTEXT://{self.address},PLAINTEXT_2://{proxy}"
        protocols = "PLAINTEXT:PLAINTEXT,PLAINTEXT_2:PLAINTEXT,CONTROLLER:PLAINTEXT"
        self._listeners.append(f"PLAINTEXT_2://{listener}")
        more = (f"advertised.listeners={advertised}", f"listener.security.protocol.map={protocols}")
        self.arguments = [*self.arguments, *(word for one in more for word in ("-o", one))]
        return listener

    def begin(self) -> None:
        listeners = ["-o", f"listeners={','.join(self._listeners)}"]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self._command, *listeners, *self.arguments],
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
            )

    def wait_ready(self) -> None:
        wait_until(self._is_ready, f"broker {self.id} is not ready")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        return f"pid={self.process.pid} " in self.output.read_text()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.is_running:
            self.kill()


class RunningCluster:
    """In a `with` statement; `brokers` are by id."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        secured: Secured | None = None,
        arguments: Sequence[str] = (),
        grounds: Grounds = ONE_MACHINE,
        proxies: Sequence[str] = (),
        **more: str,
    ) -> None:
        """`arguments` are all brokers', `more` their settings, in which `{id}` is a broker's id;
        each has one of the `proxies`.
        """
        self._folder = folder
        self._count = count
        self._secured = secured
        self._arguments = arguments
        self._grounds = grounds
        self._proxies = dict(enumerate(proxies, 1))
        self.behind_proxies: list[str] = []
        self._more = {name.replace("_", "."): text for name, text in more.items()}
        self._stack = ExitStack()
        self.zookeeper: ZooKeeperService
        self.brokers: dict[int, RunningBroker] = {}
        self.controllers: list[Address] = []

    def __enter__(self) -> "RunningCluster":
        with ExitStack() as stack:
            if self._grounds.has_zookeeper:
                zookeeper = self._grounds.zookeeper(self._folder / "zookeeper", LONG_TICK_MS)
                self.zookeeper = stack.enter_context(zookeeper)
                if self._secured is not None:
                    self._secured.prepare(self.zookeeper.address)
                joins = {one: over(self.zookeeper) for one in self._ids}
            else:
                joins = self._quorum()
            for broker_id in self._ids:
                directory = self._directory(broker_id)
                place = self._grounds.of_broker(broker_id)
                one = RunningBroker(
                    broker_id,
                    directory,
                    joins[broker_id],
                    self._more,
                    self._secured,
                    place,
                )
                one.arguments = self._arguments
                if broker_id in self._proxies:
                    self.behind_proxies.append(one.put_behind(self._proxies[broker_id]))
                self.brokers[broker_id] = one
                stack.callback(one.close)
                one.begin()
            for one in self.brokers.values():
                one.wait_ready()
            wait_until(self._is_whole, "the brokers do not know each other")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _ids(self) -> range:
        return range(1, self._count + 1)

    def _directory(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}"

    def _quorum(self) -> dict[int, dict[str, str]]:
        """Formats the directories of a quorum of which all nodes are voters."""
        cluster_id = uuid_text(Uuid(bytes(range(16))))
        controllers = {
            one: f"{self._grounds.of_broker(one).host}:{free_port()}" for one in self._ids
        }
        for one in self._ids:
            format_node(self._directory(one), one, cluster_id)
        voters = ",".join(f"{one}@{address}" for one, address in controllers.items())
        self.controllers = [parse_address(one) for one in controllers.values()]
        return {
            one: {
                CONTROLLER: address,
                "process.roles": "broker,controller",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "broker.session.timeout.ms": str(SESSION_MS),
                "broker.heartbeat.interval.ms": "500",
            }
            for one, address in controllers.items()
        }

    @property
    def has_zookeeper(self) -> bool:
        return self._grounds.has_zookeeper

    @property
    def bootstrap(self) -> str:
        return ",".join(one.address for one in self.brokers.values())

    def logs(self) -> str:
        return "\n".join(
            f"broker {one.id}:\n{one.output.read_text()[-4000:]}" for one in self.brokers.values()
        )

    # What clients see

    def client_settings(self, bootstrap: str = "") -> dict[str, str]:
        """A client's of librdkafka, of one broker or of all."""
        more = {} if self._secured is None else self._secured.client
        return {"bootstrap.servers": bootstrap or self.bootstrap, **more}

    def admin(self, bootstrap: str = "") -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client_settings(bootstrap), logger=Silence())

    def _is_whole(self) -> bool:
        """Whether each broker itself says that it knows all, and the controller."""
        for one in self.brokers.values():
            try:
                with self._asking(one) as admin:
                    found = admin.describe_cluster(broker=one.id)
            except UserError:
                return False
            if found.brokers.keys() != self.brokers.keys():
                return False
            if found.controller_id not in self.brokers:
                return False
        return True

    def _asking(self, one: RunningBroker) -> Admin:
        return Admin(one.address, {} if self._secured is None else self._secured.client)

    def wait_active_controller(self, *, without: int | None = None) -> int:
        """The leader of the quorum, as any controller that answers says."""

        def found() -> int | None:
            with suppress(UserError):
                status = quorum_status(self.controllers, SocketTransport(ClientSettings()))
                return None if status.leader == without else status.leader
            return None

        leader: int = wait_until(found, lambda: f"no other controller leads: {self.logs()}")
        return leader

    def leaders(self, topic: str) -> Leaders:
        """As any broker that answers says; empty where none does, or nobody knows the topic."""
        from confluent_kafka import KafkaException

        try:
            found = self.admin().list_topics(topic, timeout=5).topics[topic]
        except KafkaException:
            return {}
        return {index: (one.leader, one.isrs) for index, one in found.partitions.items()}

    def wait_led(self, topic: str, *, without: int | None = None) -> Leaders:
        """Until each partition has a leader, and none of them is that broker."""

        def led() -> Leaders | None:
            found = self.leaders(topic)
            is_led = found and all(one not in (-1, without) for one, _ in found.values())
            return found if is_led else None

        found: Leaders = wait_until(led, f"{topic} has no leaders: {self.logs()}")
        return found

    def wait_led_by(self, topic: str, broker: int) -> None:
        wait_until(
            lambda: {leader for leader, _ in self.leaders(topic).values()} == {broker},
            lambda: f"{topic} is led by others: {self.leaders(topic)} {self.logs()}",
        )

    def wait_in_sync(self, topic: str, count: int = 3, partitions: int | None = None) -> Leaders:
        """Until every broker that runs says so: clients may ask any of them next."""
        found: Leaders = {}
        for one in self.brokers.values():
            if one.is_running:
                found = wait_until(
                    lambda: self._in_sync(one, topic, count, partitions),  # noqa: B023
                    lambda: f"{topic} is not in sync: {self.leaders(topic)} {self.logs()}",
                )
        return found

    def _in_sync(
        self, one: RunningBroker, topic: str, count: int, partitions: int | None
    ) -> Leaders:
        """As the broker knows them; empty where they are not in sync, or not as many."""
        try:
            with self._asking(one) as admin:
                (described,) = admin.describe_topics([topic], broker=one.id)
        except (UserError, ApiError):
            return {}
        found = {each.partition: (each.leader, [*each.in_sync]) for each in described.partitions}
        is_so = all(leader != -1 and len(isr) == count for leader, isr in found.values())
        return found if is_so and partitions in (None, len(found)) else {}


class Silence:
    """Takes what librdkafka would print of brokers that are killed."""

    def log(self, *_: object) -> None: ...
