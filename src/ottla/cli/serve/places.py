"""Where the broker of `ottla serve` belongs, and what it does there."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from ottla.base.events import OnEvent

if TYPE_CHECKING:
    from ottla.base.addresses import Address
    from ottla.base.clock import Clock
    from ottla.broker.broker import Broker
    from ottla.cli.serve.recovery_progress import RecoveryProgress
    from ottla.cli.serve.tables import TableSource
    from ottla.config.broker import BrokerConfig
    from ottla.config.listeners import Listener
    from ottla.metadata.brokers import Endpoint
    from ottla.server.network.listener import Server


class Place(Protocol):
    """Where a broker belongs: nowhere, to a cluster over ZooKeeper, or to a KRaft cluster."""

    def open_broker(
        self, values: Mapping[str, str], progress: "RecoveryProgress", on_event: OnEvent
    ) -> "Broker":
        """Raises `UserError`."""

    def start(
        self,
        broker: "Broker",
        listeners: Sequence["Listener"],
        server: "Server",
        lock: AbstractContextManager[object],
    ) -> None:
        """Called when the server listens, and before it serves; raises `UserError`."""

    def when_usable(self, announce: Callable[[], None]) -> None:
        """Has it said that the broker answers clients, now or later in any thread."""

    def table_source(self, addresses: Sequence["Address"]) -> "TableSource":
        """Where tables of the broker's topics are loaded from."""

    def before_last_answer(self, finish: Callable[[], None]) -> None:
        """`finish` is called while the server still answers, before it stops."""

    def stop(self, server: "Server") -> None:
        """Stops the server, once others have what it led; returns at once."""

    def leave_without_disks(self) -> None:
        """Called when the server has stopped because no log directory is left: others lead soon
        what it led.
        """

    def close(self) -> None:
        """Called when the server has stopped; raises what has stopped it."""


class Departure:
    """Leaves a cluster once, in a thread, while the server still serves."""

    def __init__(self) -> None:
        self._is_begun = False
        self.finish: Callable[[], None] = lambda: None
        """Called while the server still answers, after leaderships were handed over."""

    def begin(self, leave: Callable[[], None], server: "Server") -> None:
        """Returns at once; the server stops when `leave` and `finish` have returned."""
        if self._is_begun:
            return
        self._is_begun = True

        def go() -> None:
            leave()
            self.finish()
            server.stop()

        Thread(target=go, name="ottla-leaving", daemon=True).start()


class Alone:
    """The place of a broker by itself."""

    def __init__(self, paths: Sequence[str], clock: "Clock") -> None:
        self._paths = paths
        self._clock = clock

    def open_broker(
        self, values: Mapping[str, str], progress: "RecoveryProgress", on_event: OnEvent
    ) -> "Broker":
        from ottla.runtime.opening import open_broker

        return open_broker(
            self._paths, values, clock=self._clock, on_progress=progress, on_event=on_event
        )

    def start(
        self,
        broker: "Broker",
        listeners: Sequence["Listener"],
        server: "Server",
        lock: AbstractContextManager[object],
    ) -> None:
        """Does nothing: the broker is registered nowhere."""

    def when_usable(self, announce: Callable[[], None]) -> None:
        announce()

    def table_source(self, addresses: Sequence["Address"]) -> "TableSource":
        """Where tables of the broker's topics are loaded from."""
        from ottla.cli.serve.tables import directories_source

        return directories_source(self._paths)

    def before_last_answer(self, finish: Callable[[], None]) -> None:
        """Does nothing; files may be read after it."""

    def stop(self, server: "Server") -> None:
        server.stop()

    def leave_without_disks(self) -> None:
        """Does nothing: nobody else could lead."""

    def close(self) -> None:
        """Does nothing: the broker is registered nowhere."""


# What members of both kinds of clusters have


def brokers_source(addresses: Sequence["Address"], broker_id: int) -> "TableSource":
    """Loads through brokers: directories here have some of the partitions, and uncommitted
    records.
    """
    from ottla.base.addresses import address_text
    from ottla.cli.serve.tables import TableSource
    from ottla.runtime.owner_notes import LOOPBACK

    texts = (address_text(LOOPBACK.get(host, host), port) for host, port in addresses)
    return TableSource(",".join(texts), broker_id)


def advertised_endpoint(listener: "Listener", address: "Address") -> "Endpoint":
    """Returns a listener's advertised endpoint, or the address on which it listens."""
    from ottla.config.listeners import EVERY_ADDRESS
    from ottla.metadata.brokers import Endpoint

    host, port = listener.advertised or address
    if host in (EVERY_ADDRESS, "::"):
        host = socket.getfqdn()
    return Endpoint(
        listener=listener.name, host=host, port=port, security_protocol=listener.protocol
    )


def place_of(config: "BrokerConfig", paths: Sequence[str], clock: "Clock") -> Place:
    if config.is_quorate:
        from ottla.cli.serve.quorate import Quorate

        return Quorate(config, paths, clock)
    if not config.zookeeper_connect:
        return Alone(paths, clock)
    # A broker without a cluster does not need these modules.
    from ottla.cli.serve.clustered import Clustered

    return Clustered(config, paths, clock)
