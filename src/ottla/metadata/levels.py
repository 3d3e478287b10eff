"""The levels of `metadata.version` and of the other features, and which of them are supported here.

Names and order are Kafka's (KIP-584, KIP-1022): `MetadataVersion`, `Feature`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.metadata.image import METADATA_VERSION

ELR_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
KRAFT_VERSION: Final = "kraft.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"


class MetadataLevel(NamedTuple):
    """A level of `metadata.version`. If `has_other_records`, it has records or fields that the
    level before does not know, and a cluster cannot go back behind it.
    """

    level: int
    name: str
    change: str
    has_other_records: bool = False


METADATA_LEVELS: Final = tuple(
    MetadataLevel(*row)
    for row in (
        (7, "3.3-IV3", "controlled shutdown in registrations of brokers (KIP-841)", True),
        (8, "3.4-IV0", "migration from ZooKeeper (KIP-866)", True),
        (9, "3.5-IV0", "remote tiers (KIP-405)", False),
        (10, "3.5-IV1", "broker epochs of followers in Fetch 15 (KIP-903)", False),
        (11, "3.5-IV2", "SCRAM credentials (KIP-900)", True),
        (12, "3.6-IV0", "no new leader epoch when the ISR shrinks", False),
        (13, "3.6-IV1", "metadata transactions (KIP-868)", True),
        (14, "3.6-IV2", "delegation tokens", True),
        (15, "3.7-IV0", "registration of controllers (KIP-919)", True),
        (16, "3.7-IV1", "nothing: the number was reserved", False),
        (17, "3.7-IV2", "log directories of replicas (KIP-858)", True),
        (18, "3.7-IV3", "nothing: the number was reserved", False),
        (19, "3.7-IV4", "the new leader in answers to Fetch 16 (KIP-951)", False),
        (20, "3.8-IV0", "nothing that a node must know", False),
        (21, "3.9-IV0", "voters that change (KIP-853): Fetch 17, ListOffsets 9", False),
        (22, "4.0-IV0", "groups of the consumer protocol (KIP-848)", False),
        (23, "4.0-IV1", "eligible leader replicas (KIP-966)", True),
        (24, "4.0-IV2", "transactions with an epoch each (KIP-890)", False),
        (25, "4.0-IV3", "offsets looked up in remote tiers (KIP-1075): ListOffsets 10", False),
        (26, "4.1-IV0", "eligible leader replicas in new clusters", False),
        (27, "4.1-IV1", "high watermarks of followers in Fetch 18", False),
        (28, "4.2-IV0", "share groups in new clusters (KIP-932)", False),
        (29, "4.2-IV1", "streams groups in new clusters (KIP-1071), ListOffsets 11", False),
        (30, "4.3-IV0", "cordoned log directories (KIP-1066)", True),
        (31, "4.4-IV0", "dead letters of share groups (KIP-1191)", False),
        (32, "4.4-IV1", "ranges of addresses in access rules (KIP-1276)", True),
        (33, "4.4-IV2", "controllers that unregister (KIP-1312)", True),
    )
)

FIRST_WITH_CONTROLLERS: Final = 15
FIRST_WITH_CHANGING_VOTERS: Final = 21
"""`kraft.version` 1 needs this level, as Kafka's `KRaftVersion.dependencies` has it."""
NAMES_HIGH_WATERMARKS: Final = 27
"""From this level on followers name in Fetch what they know to be committed (KIP-1166)."""

OLDEST: Final = METADATA_LEVELS[0].level
NEWEST: Final = METADATA_LEVELS[-1].level

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    ELR_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (OLDEST, NEWEST),
    SHARE_VERSION: (0, 2),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and highest level of each feature that a node of this version takes part in. There are
no streams groups, so that `streams.version` is not among them. A broker alone is shown with the
highest levels, whatever its metadata log begins with: clients look at them, and no other broker.
"""

STOOD_ASIDE: Final[Mapping[str, tuple[int, int]]] = {STREAMS_VERSION: (0, 1)}
"""Features that change nothing in metadata or in what brokers ask each other, and that a node does
not serve: it can be in a cluster that has them, whose clients see that it lacks the APIs.
"""


def offered(
    supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """What a node offers to a cluster with features at `levels`: what it supports, and of what it
    stands aside from what the cluster has already. A cluster that does not have it must not come to
    have it by a node that lacks it.
    """
    return {**supported, **{name: one for name, one in STOOD_ASIDE.items() if levels.get(name)}}


def unserved_line(levels: Mapping[str, int]) -> str | None:
    """What clients of a cluster with features at `levels` do not get from this node."""
    if not levels.get(STREAMS_VERSION):
        return None
    return (
        f"the cluster has {STREAMS_VERSION} {levels[STREAMS_VERSION]}, and this node serves no "
        "streams groups: members of those whose coordinator it is get UnsupportedVersionException; "
        "all other groups are served"
    )


class FeatureLevel(NamedTuple):
    """A level of another feature: new clusters have it from `default_from` on, a level of
    `metadata.version`, and it needs `needed`.
    """

    level: int
    default_from: int
    needed: int = OLDEST


FEATURE_LEVELS: Final[Mapping[str, tuple[FeatureLevel, ...]]] = {
    ELR_VERSION: (FeatureLevel(1, default_from=26, needed=23),),
    GROUP_VERSION: (FeatureLevel(1, default_from=22),),
    SHARE_VERSION: (FeatureLevel(1, default_from=28), FeatureLevel(2, default_from=31)),
    STREAMS_VERSION: (FeatureLevel(1, default_from=29),),
    TRANSACTION_VERSION: (FeatureLevel(1, default_from=24), FeatureLevel(2, default_from=24)),
}


def level_name(level: int) -> str:
    """Such as "21 (3.9-IV0)"; of a level that is not known the number."""
    found = next((one.name for one in METADATA_LEVELS if one.level == level), None)
    return str(level) if found is None else f"{level} ({found})"
