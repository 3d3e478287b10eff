"""The target of a console: a cluster, or data directories with or without a running broker.

A `Place` is what one visitor may see: if the console has sign-in, each user has a place with
connections in that user's name.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace

from ottla.base.addresses import Address
from ottla.base.errors import RefusalError, UserError
from ottla.base.values import dataclass
from ottla.client.administration.admin import Admin
from ottla.client.administration.doctor import local_directories
from ottla.client.connecting.cluster import ClientSettings, Cluster, SocketTransport
from ottla.client.connecting.read_only import open_to_read
from ottla.console.decoding import Decodings
from ottla.diagnosis.directories import Directories, read_directories, with_broker
from ottla.diagnosis.losses import OnLost, refuse_loss
from ottla.search.sources import ClusterRecords, FileRecords, SearchSource

IDLE_CONNECTIONS = 8
IDLE_S = 1.0
"""After which brokers without a connection are looked at, before a page waits for them; those with
one are always asked whether they still answer.
"""
PASSWORD_REFERENCE = "sasl.password=${env:PASSWORD}"
LOOK_AGAIN_S = 10.0
"""The delay before a broker that rejected the console's connection is tried again."""


class NoBrokerError(RefusalError):
    """The request needs a running broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTarget:
    """The target named in the command. `addresses` returns where a broker can be reached now."""

    text: str
    """The target as a user writes it in other commands."""
    options: tuple[str, ...] = ()
    """The options that a command on the target also needs; a password is a reference."""
    directories: tuple[str, ...]
    addresses: Callable[[], Sequence[Address]]
    settings: ClientSettings
    open_at_rest: Callable[[], AbstractContextManager[Cluster]]
    """Opens directories without a running broker, for one change."""
    decodings: Decodings = field(default_factory=Decodings)
    """How keys and values are decoded."""
    has_sign_in: bool = False
    """Whether each visitor signs in as a user of the broker."""


class Place:
    """What one visitor may see, and the connections for it, which are reused."""

    def __init__(self, target: ConsoleTarget, settings: ClientSettings) -> None:
        self.target = target
        self.settings = settings
        self.broker_refusal = ""
        """Why the running broker of a directory is not used."""
        self._refused_until = 0.0
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Cluster]] = []
        """Since when, and what."""
        self._transport = SocketTransport(settings)
        self._is_closed = False

    @property
    def is_directory(self) -> bool:
        return bool(self.target.directories)

    @property
    def user(self) -> str:
        """The user's name; empty without sign-in."""
        return self.settings.security.username

    @property
    def command_words(self) -> tuple[str, ...]:
        """What names the target and the user in a command to paste."""
        words = (self.target.text, *self.target.options)
        if not self.target.has_sign_in:
            return words
        security = self.settings.security
        named = ("-X", f"sasl.username={self.user}", "-X", PASSWORD_REFERENCE)
        if any(one.startswith("sasl.mechanism=") for one in self.target.options):
            return (*words, *named)
        return (*words, "-X", f"sasl.mechanism={security.mechanism}", *named)

    def close(self) -> None:
        """Closes idle connections; those in use are closed after their request."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, cluster in idle:
            cluster.close()

    # A broker

    @property
    def has_broker(self) -> bool:
        """Whether a broker is reachable; otherwise a directory is read from its files only."""
        if not self.is_directory:
            return True
        if time.monotonic() < self._refused_until:
            return False
        if not self.target.addresses():
            self.broker_refusal = ""
            return False
        try:
            with self.cluster() as cluster:
                cluster.node_ids()
        except UserError as error:
            self.broker_refusal = str(error)
            self._refused_until = time.monotonic() + LOOK_AGAIN_S
            return False
        self.broker_refusal = ""
        return True

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """A cluster connection for one request or one scan; raises `UserError`."""
        with self._lock:
            since_s, cluster = self._idle.pop() if self._idle else (0.0, None)
        if cluster is not None:
            is_idle = time.monotonic() - since_s > IDLE_S
            wait = self._transport.begin_look(cluster.unconnected() if is_idle else ())
            cluster.leave(self._transport.silent_of)
            wait()
        if cluster is None:
            addresses = self.target.addresses()
            if not addresses:
                raise NoBrokerError(
                    f"no broker runs on {self.target.text}; start one with ottla serve "
                    f"{self.target.text}"
                )
            cluster = Cluster(
                addresses, self.settings, sleep=time.sleep, topics=(), transport=self._transport
            )
            self._transport.begin_look(addresses if len(addresses) > 1 else ())()
            others = {*cluster.places()} - {*addresses}
            self._transport.begin_look(others)()
        try:
            yield cluster
        except BaseException:
            # A response to an interrupted scan may still arrive on the connection.
            cluster.close()
            raise
        with self._lock:
            is_kept = len(self._idle) < IDLE_CONNECTIONS and not self._is_closed
            if is_kept:
                self._idle.append((time.monotonic(), cluster))
        if not is_kept:
            cluster.close()

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An admin client for one request; raises `UserError`."""
        with self.cluster() as cluster:
            yield Admin(cluster)

    @contextmanager
    def broker(self) -> Iterator[Admin | None]:
        """As `admin`, for what only a broker tells; `None` if none is reachable."""
        if not self.has_broker:
            yield None
            return
        with self.admin() as admin:
            yield admin

    @contextmanager
    def reading(self, on_lost: OnLost = refuse_loss) -> Iterator[Admin]:
        """As `admin`; without a broker the files answer, and `on_lost` takes lines about damaged
        ones of groups and transactional ids.
        """
        if self.has_broker:
            with self.admin() as admin:
                yield admin
            return
        with open_to_read(self.target.directories, on_lost) as cluster:
            yield Admin(cluster)

    @contextmanager
    def changing(self) -> Iterator[Cluster]:
        """The broker, or the opened log of directories without one, for the block only."""
        opened = self.target.open_at_rest if self._is_at_rest else self.cluster
        with opened() as cluster:
            yield cluster

    @property
    def _is_at_rest(self) -> bool:
        return self.is_directory and not self.target.addresses()

    # Files

    def files(self, topic: str | None = None) -> Directories | None:
        """The directories, or those that hold a topic; `None` if they are not on this machine.

        They tell what Kafka's protocol does not carry: segments, what retention and compaction are
        about to do, and damage. All else is asked of `reading`.

        The files of a broker are read only if its response to this user names their directories: a
        user who may not see sizes may not see files either. Raises `UserError`.
        """
        if not self.is_directory:
            with self.admin() as admin:
                if topic is not None:
                    admin.partitions([topic])
                found = local_directories(admin, topic)
            # Topic settings are requested later, over another connection.
            return found and replace(found, topic_settings=self._topic_settings(), configs={})
        directories = read_directories(self.target.directories)
        if not self.has_broker:
            return directories
        with self.admin() as admin:
            own = admin.broker_settings()
        return with_broker(directories, self._topic_settings(), own)

    def _topic_settings(self) -> Callable[[str], dict[str, str]]:
        """Returns a function that requests each topic's settings once."""
        known: dict[str, dict[str, str]] = {}

        def ask(topic: str) -> dict[str, str]:
            if topic not in known:
                with self.admin() as admin:
                    known[topic] = admin.topic_settings(topic)
            return known[topic]

        return ask

    @contextmanager
    def records(self, *, read_committed: bool, fetch_size: int) -> Iterator[SearchSource]:
        """The source of messages: a directory's files, even if a broker runs, or the broker."""
        if self.is_directory:
            yield FileRecords.at(self.target.directories, read_committed=read_committed)
            return
        with self.cluster() as cluster:
            yield ClusterRecords(cluster, read_committed=read_committed, fetch_size=fetch_size)
