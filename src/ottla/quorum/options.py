"""Who a node of the quorum is, and its times. Kafka's counterpart: `QuorumConfig` (`controller.
quorum.*`), whose defaults these are.
"""

from ottla.base.values import dataclass
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter

KRAFT_VERSION = "kraft.version"
"""The feature whose level 1 has the voters in the log (KIP-853)."""

MAX_BATCH_SIZE = 8 << 20
"""`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumOptions:
    """`bootstrap` are the addresses to ask while no voter is known. With `auto_join` an observer
    asks the leader to become a voter (KIP-1186). The `first_voter` of a dynamic quorum is alone in
    a log that does not name voters yet, and writes itself into it.
    """

    key: ReplicaKey
    cluster_id: str
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap: tuple[Endpoint, ...] = ()
    auto_join: bool = False
    first_voter: bool = False
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    max_batch_size: int = MAX_BATCH_SIZE
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    @property
    def as_voter(self) -> Voter:
        """What a record about voters says of this node."""
        return Voter(self.key, self.endpoints, self.min_kraft_version, self.max_kraft_version)
