"""A cluster of one broker that only reads: log directories, by their files.

with open_to_read(["data/"]) as cluster:
    names = cluster.topic_names()
"""

import time
from collections.abc import Callable, Sequence

from ottla.base.addresses import Address
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.client.connecting.connection import Connection
from ottla.diagnosis.directories import read_directories
from ottla.diagnosis.losses import OnLost, refuse_loss
from ottla.embedded.connection import HOST
from ottla.embedded.read_only.broker import ReadOnlyBroker
from ottla.embedded.read_only.connection import ReadOnlyConnection

IMPATIENT = ClientSettings(patience_s=0.0)
"""What is not there does not come."""


@dataclass(frozen=True, slots=True)
class ReadOnlyTransport:
    """All connections lead to one broker that only reads."""

    path: str
    broker_for: Callable[[int], ReadOnlyBroker]

    def connect(self, address: Address) -> Connection:
        return ReadOnlyConnection(self.path, self.broker_for, client_id=IMPATIENT.client_id)

    def close(self) -> None:
        """Nothing is kept open."""

    def before_close(self, deed: Callable[[], None]) -> None:
        """Nothing closes before."""


def open_to_read(paths: Sequence[str], on_lost: OnLost = refuse_loss) -> Cluster:
    """Opens the directories of one broker; an `Admin` reads them as it reads a broker.

    They are shown as they were when each part of them was first looked at. Damage is raised as
    `CorruptionError`, but for that of groups and transactional ids: `on_lost` takes a line for each
    partition of which a part cannot be read, or that is `UserError` too.
    """
    broker = ReadOnlyBroker(read_directories(paths), on_lost)
    return _cluster(paths[0], lambda api_key: broker)


def open_to_follow(paths: Sequence[str]) -> Cluster:
    """As `open_to_read`; each request finds the directories as they are then."""
    from ottla.embedded.read_only.following import FollowedBroker  # Commands need it not.

    return _cluster(paths[0], FollowedBroker(paths, refuse_loss).broker_for)


def _cluster(path: str, broker_for: Callable[[int], ReadOnlyBroker]) -> Cluster:
    return Cluster(
        [(HOST, 0)],
        IMPATIENT,
        sleep=time.sleep,
        topics=(),
        transport=ReadOnlyTransport(path, broker_for),
    )
