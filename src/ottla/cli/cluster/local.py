"""A cluster on one machine: the file in which `ottla cluster up` describes it, and starting and
stopping its processes.
"""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.values import dataclass
from ottla.cli.background import Background, log_path_of
from ottla.cli.cluster.quorate import quorum_settings
from ottla.cli.cluster.secured import PROTOCOL, LocalSecurity
from ottla.cli.cluster.zookeeper import LOCAL, answers, start_zookeeper
from ottla.cli.target import CLUSTER_FILE, client_settings_of
from ottla.storage.directory.owner_note import Owner, owner_of

VERSION: Final = 1
LOOK_S: Final = 0.05
ERROR_PREFIX: Final = "ottla: "
HEARD_S: Final = 60.0
"""How long brokers may take to learn of each other from the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBroker:
    """A broker of the cluster; `port` is 0 until it has run once, and `controller_port` where it
    is no controller of a KRaft cluster.
    """

    broker: int
    directory: str
    port: int = 0
    controller_port: int = 0

    @property
    def owner(self) -> Owner | None:
        """The process that runs on the directory now, if any."""
        return owner_of(OsFileSystem(), self.directory) if os.path.isdir(self.directory) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalZooKeeper:
    """The cluster's ZooKeeper: `pid` and `port` of one that it runs itself, or the `connect` of
    another; a KRaft cluster has none.
    """

    connect: str = ""
    pid: int | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    folder: Path
    zookeeper: LocalZooKeeper
    brokers: tuple[LocalBroker, ...]
    settings: Mapping[str, str]
    is_secured: bool = False
    quorum: str = ""
    """The cluster id of a KRaft cluster; empty over ZooKeeper."""

    @property
    def controllers(self) -> list[str]:
        """Where the controllers of a KRaft cluster listen."""
        return [f"{LOCAL}:{one.controller_port}" for one in self.brokers if one.controller_port]

    @property
    def security(self) -> LocalSecurity | None:
        if not self.is_secured:
            return None
        return LocalSecurity(self.folder, has_zookeeper=not self.quorum)

    @property
    def zookeeper_runs(self) -> bool:
        """Whether the ZooKeeper that the cluster runs itself is up."""
        port = self.zookeeper.port
        return port is not None and answers(port, self.security)

    @property
    def addresses(self) -> list[str]:
        return [f"{LOCAL}:{one.port}" for one in self.brokers if one.port]

    def save(self) -> None:
        """Writes the file by a rename, so that a crash leaves the old one."""
        content = {
            "version": VERSION,
            "zookeeper": asdict(self.zookeeper),
            "brokers": [asdict(one) for one in self.brokers],
            "settings": dict(self.settings),
            "addresses": self.addresses,
            "is_secured": self.is_secured,
            "quorum": self.quorum,
        }
        path = self.folder / CLUSTER_FILE
        written = path.with_suffix(".tmp")
        written.write_text(json.dumps(content, indent=2) + "\n")
        written.replace(path)


def read_cluster(folder: Path) -> LocalCluster | None:
    """Returns `None` if no cluster was made here; raises `UserError` for a file that does not
    describe one.
    """
    path = folder / CLUSTER_FILE
    try:
        content = json.loads(path.read_text())
        return LocalCluster(
            folder=folder,
            zookeeper=LocalZooKeeper(**content["zookeeper"]),
            brokers=tuple(LocalBroker(**one) for one in content["brokers"]),
            settings=content["settings"],
            is_secured=content.get("is_secured", False),
            quorum=content.get("quorum", ""),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is not what ottla cluster up writes: {error}") from error


def settings_of(count: int, *, has_zookeeper: bool) -> dict[str, str]:
    """Returns settings with which a cluster of three or more brokers survives the loss of one."""
    session = "zookeeper.session.timeout.ms" if has_zookeeper else "broker.session.timeout.ms"
    factor, in_sync = str(min(3, count)), str(min(2, count))
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        session: "6000",
    }


# Starting


def start_own_zookeeper(cluster: LocalCluster) -> LocalZooKeeper:
    """Returns the running ZooKeeper, or starts one on the same folder; raises `UserError`."""
    known = cluster.zookeeper
    if cluster.zookeeper_runs:
        return known
    pid, port = start_zookeeper(cluster.folder / "zookeeper", known.port, cluster.security)
    return LocalZooKeeper(connect=f"{LOCAL}:{port}", pid=pid, port=port)


def refusal_of(last_lines: str) -> str:
    """The line by which a command has ended, without its progress; all if there is none."""
    found = [one for one in last_lines.splitlines() if one.startswith(ERROR_PREFIX)]
    return found[-1].removeprefix(ERROR_PREFIX) if found else last_lines


def start_brokers(cluster: LocalCluster) -> tuple[LocalBroker, ...]:
    """Starts the brokers that are not running, all at once, and returns all of them when they are
    ready.

    Raises `UserError` with the last lines of the log of a broker that does not get ready.
    """
    starting: dict[int, Background] = {}
    failures = []
    try:
        for one in cluster.brokers:
            if one.owner is None:
                starting[one.broker] = _serve(one, cluster)
        while starting:
            broker = next(iter(starting))
            if not starting[broker].ready_line():
                why = refusal_of(starting[broker].failure()[1])
                failures.append(f"broker {broker} does not start: {why}")
            del starting[broker]
    except BaseException:
        for process in starting.values():
            process.stop()
        raise
    if failures:
        raise UserError("\n".join(failures))
    return tuple(_with_port(one) for one in cluster.brokers)


def _serve(one: LocalBroker, cluster: LocalCluster) -> Background:
    name = "PLAINTEXT" if cluster.security is None else PROTOCOL
    joins: Mapping[str, str] = {
        "broker.id": str(one.broker),
        "zookeeper.connect": cluster.zookeeper.connect,
        "listeners": f"{name}://{LOCAL}:{one.port}",
    }
    if cluster.quorum:
        joins = quorum_settings(cluster, one)
    settings = {**cluster.settings, **joins}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    arguments = [one.directory]
    if cluster.security is not None:
        # Other users of the machine can read a command line, so it must not hold passwords.
        arguments += ["--config", str(cluster.security.broker_settings)]
    return Background([*arguments, *options], log_path_of(one.directory))


def _with_port(one: LocalBroker) -> LocalBroker:
    owner = one.owner
    if owner is None or not owner.addresses:
        return one
    port = int(owner.addresses[0].rpartition(":")[2])
    return replace(one, port=port)


def wait_until_known(cluster: LocalCluster) -> None:
    """Waits until each broker and the controller know all brokers.

    A topic that is created earlier may find too few brokers for its replicas. Raises `UserError`
    after `HEARD_S`.
    """
    until_s = time.monotonic() + HEARD_S
    for one in cluster.brokers:
        while lacking := _unknown_to(one, cluster):
            if time.monotonic() >= until_s:
                raise UserError(
                    f"broker {one.broker} has not heard of {lacking} in {HEARD_S:.0f} s; "
                    f"its log is in {one.directory}"
                )
            time.sleep(LOOK_S)


def _unknown_to(one: LocalBroker, cluster: LocalCluster) -> str:
    """Describes what a broker does not know yet; empty if it knows all."""
    from ottla.client.administration.admin import Admin

    try:
        with Admin(f"{LOCAL}:{one.port}", client_settings_of(cluster.folder)) as admin:
            found = admin.describe_cluster(broker=one.broker)
    except UserError:
        return "its cluster"
    if found.controller_id not in found.brokers:
        return "a controller"
    missing = {each.broker for each in cluster.brokers} - found.brokers.keys()
    return f"broker {min(missing)}" if missing else ""


# Stopping


def stop_brokers(cluster: LocalCluster, patience_s: float) -> list[int]:
    """Stops brokers one after the other, so that each can hand its leaderships over; those that
    are their own controllers together, because no majority would be left to let the last ones go.

    Returns those still running.
    """
    deadline_s = time.monotonic() + patience_s
    running = [(one, owner) for one in cluster.brokers if (owner := one.owner) is not None]
    parts = [running] if cluster.quorum else [[one] for one in running]
    left = []
    for part in parts:
        for _, owner in part:
            with suppress(ProcessLookupError):
                os.kill(owner.pid, signal.SIGTERM)
        for broker, owner in part:
            while (now := broker.owner) is not None and now.pid == owner.pid:
                if time.monotonic() >= deadline_s:
                    left.append(broker.broker)
                    break
                time.sleep(LOOK_S)
    return left


def stop_zookeeper(cluster: LocalCluster) -> None:
    """Stops the cluster's own ZooKeeper, if the process with its id still listens on its port."""
    pid = cluster.zookeeper.pid
    if pid is None or not cluster.zookeeper_runs:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    while cluster.zookeeper_runs:
        time.sleep(LOOK_S)


def new_brokers(folder: Path, numbers: Sequence[int]) -> tuple[LocalBroker, ...]:
    return tuple(
        LocalBroker(broker=one, directory=str(folder / f"broker-{one}")) for one in numbers
    )
