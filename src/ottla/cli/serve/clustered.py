"""`ottla serve` with `zookeeper.connect`: a broker of a cluster."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final

from ottla.base.addresses import Address
from ottla.base.clock import Clock
from ottla.base.errors import CorruptionError, UserError
from ottla.base.events import OnEvent
from ottla.base.files import OsFileSystem
from ottla.broker.broker import Broker
from ottla.cli.serve.broker_connections import BrokerConnections, broker_security
from ottla.cli.serve.places import Departure, advertised_endpoint, brokers_source
from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.cli.zookeeper_access import zookeeper_access
from ottla.cluster.joining import ClusterBroker
from ottla.cluster.place import Place
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import (
    Listener,
    client_listeners,
    inter_broker_listener,
)
from ottla.runtime.opening import InCluster, new_cluster_id, open_member
from ottla.storage.files.meta_properties import first_properties

if TYPE_CHECKING:
    from ottla.cli.serve.tables import TableSource
    from ottla.server.network.listener import Server

logger = logging.getLogger(__name__)

UNSAFE_WITHOUT: Final = frozenset({"zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"})
"""Security settings that must not be ignored silently."""


class Clustered:
    """A broker and its cluster, from `open_broker` to `close`."""

    def __init__(self, config: BrokerConfig, paths: Sequence[str], clock: Clock) -> None:
        """Raises `UserError` for settings with which a broker cannot be in a cluster."""
        _check(config)
        self._config = config
        self._paths = paths
        self._clock = clock
        self._departure = Departure()
        known = None
        with suppress(CorruptionError):  # whoever opens the directories says so
            known = first_properties(paths, OsFileSystem())
        self._cluster = ClusterBroker(
            config,
            known,
            clock,
            new_cluster_id,
            lambda line: logger.warning("%s", line),
            zookeeper_access(config),
        )

    def open_broker(
        self, values: Mapping[str, str], progress: RecoveryProgress, on_event: OnEvent
    ) -> Broker:
        """Joins the cluster, and opens the directories with the broker id that it has there."""
        self._cluster.join()
        try:
            return open_member(
                self._paths,
                {**values, "broker.id": str(self._cluster.broker_id)},
                InCluster(self._cluster.cluster_id, self._cluster.membership),
                clock=self._clock,
                on_progress=progress,
                on_event=on_event,
            )
        except BaseException:
            self._cluster.stop()
            raise

    def start(
        self,
        broker: Broker,
        listeners: Sequence[Listener],
        server: "Server",
        lock: AbstractContextManager[object],
    ) -> None:
        """Registers the broker, once its server listens."""
        own = inter_broker_listener(broker.settings.config, listeners)
        control = _control_listener(broker.settings.config, listeners) or own
        timeout_s = self._config.replica_socket_timeout_ms / 1000
        connect = BrokerConnections(lambda: broker.settings.config, own, timeout_s)
        pairs = zip(listeners, server.addresses, strict=True)
        place = Place(
            lock=lock,
            wake=server.wake,
            connect=connect,
            listener=own.name,
            control_connect=BrokerConnections(lambda: broker.settings.config, control, timeout_s),
            control_listener=control.name,
            endpoints=tuple(advertised_endpoint(listener, address) for listener, address in pairs),
        )
        self._cluster.start(broker, place)

    def when_usable(self, announce: Callable[[], None]) -> None:
        announce()

    def table_source(self, addresses: Sequence[Address]) -> "TableSource":
        return brokers_source(addresses, self._cluster.broker_id)

    def before_last_answer(self, finish: Callable[[], None]) -> None:
        """Called while the server still answers, after leaderships were handed over."""
        self._departure.finish = finish

    def stop(self, server: "Server") -> None:
        """Hands leaderships over while the server still serves, then stops the broker; once."""
        self._departure.begin(self._cluster.leave, server)

    def leave_without_disks(self) -> None:
        """Does nothing: `close` ends the session, and the broker's node in ZooKeeper with it."""

    def close(self) -> None:
        self._cluster.stop()


def _control_listener(config: BrokerConfig, listeners: Sequence[Listener]) -> Listener | None:
    """`client_listeners` has checked that a listener has that name."""
    wanted = (config.control_plane_listener_name or "").upper()
    return next((one for one in listeners if one.name == wanted), None)


def _check(config: BrokerConfig) -> None:
    """Raises `UserError` for settings that brokers of a cluster do not support here."""
    listeners = client_listeners(config)
    listener = inter_broker_listener(config, listeners)
    wanted = config.security_inter_broker_protocol
    if not config.inter_broker_listener_name and listener.protocol != wanted:
        names = ", ".join(one.name for one in listeners)
        raise UserError(
            f"security.inter.broker.protocol={wanted}: no listener has that protocol; set "
            f"inter.broker.listener.name to the one over which brokers reach each other ({names})"
        )
    for one in (listener, _control_listener(config, listeners)):
        if one is not None:
            broker_security(config, one)
    for name in UNSAFE_WITHOUT & config.given.keys():
        if config.given[name].strip().lower() == "true":
            raise UserError(
                f"{name}=true: certificates are not checked for revocation; remove the setting, "
                f"and let only brokers reach ZooKeeper"
            )
