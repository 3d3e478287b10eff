"""Decides about the features of a cluster: their levels, and which may follow which (KIP-584).

What there is to decide on is in `metadata/levels.py`. Kafka's counterparts:
`FeatureControlManager`, `Feature.validateVersion`, `MetadataVersion.checkIfMetadataChanged`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.metadata.deciding.partition_changes import MIN_ISR
from ottla.metadata.image import ALL_BROKERS, METADATA_VERSION, MetadataImage
from ottla.metadata.levels import (
    ELR_VERSION,
    FEATURE_LEVELS,
    FIRST_WITH_CHANGING_VOTERS,
    FIRST_WITH_CONTROLLERS,
    KRAFT_VERSION,
    METADATA_LEVELS,
    STOOD_ASIDE,
    SUPPORTED,
    level_name,
)
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord

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
    """What this controller is and supports, and which controllers vote.

    `min_isr` is the setting `min.insync.replicas` that its file has.
    """

    node_id: int
    voters: Collection[int]
    kraft_version: int = 0
    supported: Ranges = SUPPORTED
    min_isr: int = 1


class FeatureDecision(NamedTuple):
    """`errors` are those of each update, in their order; if there is any, nothing is changed.

    `kraft_version` is the level that the quorum is to be raised to, which writes it by itself.
    """

    records: list[VersionedRecord]
    errors: Sequence[ApiError | None]
    kraft_version: int | None = None


# Updates


def update_features(
    image: MetadataImage,
    quorum: Quorum,
    updates: Sequence[FeatureUpdate],
    *,
    validate_only: bool,
) -> FeatureDecision:
    """Decides about updates of features, each named once, of which all succeed or none."""
    known = {**image.features, KRAFT_VERSION: quorum.kraft_version}
    wanted = known | {one.name: one.level for one in updates}
    errors = [_error_of(one, image, quorum, known, wanted) for one in updates]
    if any(errors):
        other = ApiError(
            ErrorCode.FEATURE_UPDATE_FAILED, "Another feature of the request cannot be updated."
        )
        return FeatureDecision([], [one or other for one in errors])
    if validate_only:
        return FeatureDecision([], errors)
    changed = {name: level for name, level in wanted.items() if known.get(name, 0) != level}
    kraft_version = changed.pop(KRAFT_VERSION, None)
    records = feature_records(changed)
    if ELR_VERSION in changed:
        records += _elr_records(image, changed[ELR_VERSION], quorum.min_isr)
    return FeatureDecision(records, errors, kraft_version)


def _error_of(
    update: FeatureUpdate,
    image: MetadataImage,
    quorum: Quorum,
    known: Mapping[str, int],
    wanted: Mapping[str, int],
) -> ApiError | None:
    reason = (
        _wrong_direction(update, known.get(update.name, 0))
        if update.kind in tuple(UpgradeType) and update.level >= 0
        else "The level and the type of the upgrade must be ones that there are."
    )
    reason = reason or _not_supported(update, image, quorum) or _impossible(update, known, wanted)
    if reason is None:
        return None
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )


def _wrong_direction(update: FeatureUpdate, level: int) -> str | None:
    if update.level < level and update.kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > level and update.kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _not_supported(update: FeatureUpdate, image: MetadataImage, quorum: Quorum) -> str | None:
    """Says which node does not know a level, this one first."""
    nodes = [(f"Local controller {quorum.node_id}", quorum.supported.get(update.name, (0, 0)))]
    nodes += [
        (f"Broker {broker_id}", _range(broker.features.get(update.name, {})))
        for broker_id, broker in sorted(image.brokers.items())
    ]
    if image.level >= FIRST_WITH_CONTROLLERS:
        for node, controller in sorted(image.controllers.items()):
            if node != quorum.node_id:
                found = next((one for one in controller.features if one.name == update.name), None)
                low = 0 if found is None else found.min_supported_version
                high = 0 if found is None else found.max_supported_version
                nodes.append((f"Controller {node}", (low, high)))
        unknown = sorted({*quorum.voters} - {*image.controllers, quorum.node_id})
        if unknown:
            return f"controller {unknown[0]} has not registered, and may not support this feature"
    return next(filter(None, (_misses(node, levels, update.level) for node, levels in nodes)), None)


def _range(levels: Mapping[str, int]) -> tuple[int, int]:
    return levels.get("min_version", 0), levels.get("max_version", 0)


def _misses(node: str, levels: tuple[int, int], level: int) -> str | None:
    low, high = levels
    if low <= level <= high:
        return None
    if not high:
        return f"{node} does not support this feature."
    return f"{node} only supports versions {low}-{high}"


def _impossible(
    update: FeatureUpdate, known: Mapping[str, int], wanted: Mapping[str, int]
) -> str | None:
    """Says why a cluster cannot have a level that all of its nodes know."""
    level = known.get(update.name, 0)
    if update.name == KRAFT_VERSION:
        if update.level < level:
            return "Can't downgrade the version of this feature."
    elif update.name == METADATA_VERSION:
        return _lost_by(level, update)
    needed = _needed(update.name, update.level)
    if wanted.get(METADATA_VERSION, 0) < needed:
        return f"It depends on {METADATA_VERSION} level {level_name(needed)}."
    return None


def _needed(name: str, level: int) -> int:
    if name == KRAFT_VERSION:
        return FIRST_WITH_CHANGING_VOTERS if level else 0
    return next((one.needed for one in FEATURE_LEVELS.get(name, ()) if one.level == level), 0)


def _lost_by(level: int, update: FeatureUpdate) -> str | None:
    """Says why `metadata.version` cannot go back: records would be lost."""
    lost = next(
        (
            one
            for one in METADATA_LEVELS
            if update.level < one.level <= level and one.has_other_records
        ),
        None,
    )
    if lost is None:
        return None
    if update.kind == UpgradeType.UNSAFE_DOWNGRADE:
        return "Unsafe metadata downgrade is not supported in this version."
    return (
        "Refusing to perform the requested downgrade because it might delete metadata "
        f"information: that of level {level_name(lost.level)}, {lost.change}."
    )


def _elr_records(image: MetadataImage, level: int, min_isr: int) -> Iterator[VersionedRecord]:
    """With eligible leaders all nodes must know the same `min.insync.replicas`, so that it becomes
    a setting of the cluster, and no broker has another (KIP-966). Without them none stay.
    """
    if not level:
        yield ClearElrRecord(topic_name=""), 0
        return
    yield from min_isr_records(image, min_isr)


def min_isr_records(image: MetadataImage, min_isr: int) -> Iterator[VersionedRecord]:
    """What a cluster must have written before it has eligible leaders, also a new one.

    Kafka's counterpart: `ConfigurationControlManager.maybeGenerateElrSafetyRecords`.
    """
    brokers = image.configs.get(ResourceKind.BROKER, {})
    if MIN_ISR not in brokers.get(ALL_BROKERS, {}):
        yield _setting(ALL_BROKERS, str(min_isr)), 0
    for name, configs in sorted(brokers.items()):
        if name != ALL_BROKERS and MIN_ISR in configs:
            yield _setting(name, None), 0


def _setting(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceKind.BROKER, resource_name=broker, name=MIN_ISR, value=value
    )


# New clusters


def new_features(
    release: str | None = None, given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The levels of a new cluster: those that are `given`, and otherwise those that a release such
    as "3.9" or "4.0-IV3" begins with, by default the newest that is supported. `kraft.version` is
    among them only if it is given. Raises `UserError` for a level that no node
    here could lead a cluster with.
    """
    given = given or {}
    if release is not None and METADATA_VERSION in given:
        raise UserError(
            f"{METADATA_VERSION}={given[METADATA_VERSION]} and release {release}: give one of them"
        )
    default = SUPPORTED[METADATA_VERSION][1] if release is None else _level_of(release)
    level = given.get(METADATA_VERSION, default)
    found = {
        name: min(_default_level(name, level), SUPPORTED.get(name, (0, 0))[1])
        for name in FEATURE_LEVELS
    }
    wanted = {**found, **given, METADATA_VERSION: level}
    for name, one in wanted.items():
        _check_new(name, one, level)
    return {name: one for name, one in wanted.items() if one}


def _check_new(name: str, level: int, metadata_level: int) -> None:
    low, high = SUPPORTED.get(name, (0, 0))
    if not low <= level <= high:
        known = f"levels {low} to {high}" if high else "no level of it"
        raise UserError(
            f"a new cluster cannot have {name} {level}: this version of Ottla knows {known}"
        )
    needed = _needed(name, level)
    if metadata_level < needed:
        raise UserError(
            f"a new cluster cannot have {name} {level} at {METADATA_VERSION} "
            f"{level_name(metadata_level)}: it needs {level_name(needed)}"
        )


def _level_of(release: str) -> int:
    """Of a release the newest level; a patch number does not matter, as in 3.9.1."""
    parts = release.split("-")[0].split(".")
    short = ".".join(parts[:2])
    found = [
        one.level
        for one in METADATA_LEVELS
        if release == one.name or ("-" not in release and one.name.startswith(f"{short}-"))
    ]
    if not found:
        raise UserError(
            f"there is no release {release}: name one from {METADATA_LEVELS[0].name} to "
            f"{METADATA_LEVELS[-1].name}, such as 3.9"
        )
    return max(found)


def _default_level(name: str, metadata_level: int) -> int:
    levels = (one.level for one in FEATURE_LEVELS[name] if one.default_from <= metadata_level)
    return max(levels, default=0)


def feature_records(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """The records that set levels, `metadata.version` first: the others are read by it."""
    names = sorted(levels, key=lambda name: (name != METADATA_VERSION, name))
    return [(FeatureLevelRecord(name=name, feature_level=levels[name]), 0) for name in names]


# Clusters of others


def check_levels(image: MetadataImage) -> None:
    """Raises `UserError` if the cluster has a feature at a level that is not supported here: a node
    must not take part in it.
    """
    for name, level in sorted(image.features.items()):
        low, high = SUPPORTED.get(name, STOOD_ASIDE.get(name, (0, 0)))
        if level and not low <= level <= high:
            raise UserError(_unknown_level(name, level, low, high))


def _unknown_level(name: str, level: int, low: int, high: int) -> str:
    if name != METADATA_VERSION:
        known = f"levels {low} to {high}" if high else "no level of it"
        return f"the cluster has {name} at level {level}, and this version of Ottla knows {known}"
    mend = "raise it" if level < low else "use a newer version of Ottla"
    return (
        f"the cluster has {name} {level_name(level)}, and this version of Ottla knows "
        f"{level_name(low)} to {level_name(high)}: {mend}"
    )
