"""Decides about the features of a cluster: their levels, and which may follow which (KIP-584).

Kafka's counterparts: `FeatureControlManager`, `MetadataVersion`, `Feature`.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.base.errors import ApiError
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord

Ranges = Mapping[str, tuple[int, int]]
"""The lowest and highest supported level of each feature; a missing one is not supported."""


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """Level 0 removes a feature; `kind` may be a number that is no `UpgradeType`."""

    name: str
    level: int
    kind: int = UpgradeType.UPGRADE


class Quorum(NamedTuple):
    """What this controller is and supports, and which controllers vote."""

    node_id: int
    supported: Ranges
    voters: Collection[int]
    kraft_version: int = 0


class FeatureDecision(NamedTuple):
    """`errors` are those of each update, in their order; if there is any, nothing is changed.

    `kraft_version` is the level that the quorum is to be raised to, which writes it by itself.
    """

    records: list[VersionedRecord]
    errors: Sequence[ApiError | None]
    kraft_version: int | None = None


def update_features(
    image: MetadataImage,
    quorum: Quorum,
    updates: Sequence[FeatureUpdate],
    *,
    validate_only: bool,
) -> FeatureDecision:
    """Decides about updates, of which all succeed or none."""
    raise NotImplementedError


def new_features(release: str | None = None) -> Mapping[str, int]:
    """The levels of a new cluster of a release such as "3.9" or "4.0-IV3", or the newest;
    raises `UserError`.
    """
    raise NotImplementedError


def feature_records(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """The records of a new cluster's levels, `metadata.version` first."""
    raise NotImplementedError


def check_levels(image: MetadataImage) -> None:
    """Raises `UserError` if the cluster has a feature at a level that is not known here."""
    raise NotImplementedError
