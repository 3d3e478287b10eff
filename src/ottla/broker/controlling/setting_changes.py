"""The active controller's decisions about settings, which any node may be asked to change.

It knows the registered nodes and its own static settings, as Kafka's controller does: what a node's
other settings have to say to a change, that node checks before it forwards the request. Kafka's
counterparts: `ConfigurationControlManager`, `ControllerConfigurationValidator`.
"""

from collections.abc import Callable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import InParts
from ottla.broker.configs.config_changes import Alteration, ResourceAlteration
from ottla.broker.configs.config_decisions import (
    altered_client_metrics,
    altered_groups,
    altered_topic,
)
from ottla.broker.configs.group_configs import GroupConfigs
from ottla.broker.configs.resources import check_group_name, no_settings
from ottla.broker.configs.settings import ConfigSource, check_dynamic
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.controlling.pending_records import PendingRecords
from ottla.broker.controlling.plans import FEW_AT_ONCE, decide_in_parts
from ottla.config.any_setting import setting_row
from ottla.config.broker import BrokerConfig, broker_settings
from ottla.config.setting import SettingError
from ottla.metadata.deciding.partition_changes import MIN_ISR
from ottla.metadata.deciding.topic_rules import check_name
from ottla.metadata.image import ALL_BROKERS, Configs, MetadataImage
from ottla.metadata.image_changes import VersionedRecord, config_records
from ottla.metadata.levels import ELR_VERSION
from ottla.metadata.records import ClearElrRecord, ConfigRecord


class SettingChanges:
    """`config` returns the settings of this node."""

    def __init__(self, pending: PendingRecords, config: Callable[[], BrokerConfig]) -> None:
        self._pending = pending
        self._config = config

    def alter(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        """Changes the settings of resources, each named once and changed as a whole."""
        outcomes: list[Outcome] = []

        def decide(part: list[ResourceAlteration]) -> None:
            records: list[VersionedRecord] = []
            for one in part:
                try:
                    records += self._records(one)
                    outcomes.append(None)
                except ApiError as error:
                    outcomes.append(error.without_traceback())
            if not validate_only:
                if self._has_elr:
                    records += _cleared(records)
                self._pending.write(records)

        yield from decide_in_parts(wanted, decide, FEW_AT_ONCE)
        return outcomes

    @property
    def _has_elr(self) -> bool:
        return self._pending.image.features.get(ELR_VERSION, 0) > 0

    def _records(self, wanted: ResourceAlteration) -> list[VersionedRecord]:
        """Raises `ApiError`."""
        kind, name = wanted.resource_type, wanted.resource_name
        before = _known(self._pending.image, kind, name)
        after = self._altered(wanted, before)
        return [*config_records(kind, name, before, after)]

    def _altered(self, wanted: ResourceAlteration, before: Configs) -> Configs:
        name = wanted.resource_name
        match wanted.resource_type:
            case ResourceKind.TOPIC:
                check_name(name)
                alteration = wanted.alteration()
                if name not in self._pending.image.topics:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                    )
                return altered_topic(name, before, alteration, self._config().topic_defaults)
            case ResourceKind.BROKER:
                return self._altered_broker(name, before, wanted.alteration())
            case ResourceKind.GROUP:
                check_group_name(name)
                checks = GroupConfigs(self._config(), {})
                altered = altered_groups({name: before}, {name: wanted.alteration}, checks.check)
                for refusal in altered.refusals.values():
                    raise refusal
                return altered.changed[name]
            case ResourceKind.CLIENT_METRICS:
                return altered_client_metrics(name, before, wanted.alteration())
        raise no_settings(wanted.resource_type)

    def _altered_broker(self, name: str, before: Configs, alteration: Alteration) -> Configs:
        if name != ALL_BROKERS:
            self._check_node(name)
        values = alteration.apply(before, broker_settings())
        changed = {one: text for one, text in values.items() if before.get(one) != text}
        check_dynamic(
            changed, ConfigSource.ALL_BROKERS if name == ALL_BROKERS else ConfigSource.BROKER
        )
        _check_values(changed)
        if self._has_elr and before.get(MIN_ISR) != values.get(MIN_ISR):
            self._check_min_isr(name, values)
        return values

    def _check_node(self, name: str) -> None:
        image = self._pending.image
        if not name.isdecimal():
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            )
        if int(name) not in image.brokers and int(name) not in image.controllers:
            raise ApiError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {int(name)} found."
            )

    def _check_min_isr(self, name: str, values: Configs) -> None:
        """With eligible leader replicas (KIP-966) all brokers must have the same minimum."""
        if name != ALL_BROKERS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
            )
        if MIN_ISR not in values:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
            )


def _known(image: MetadataImage, kind: int, name: str) -> Configs:
    if kind != ResourceKind.TOPIC:
        return image.configs_of(kind, name)
    topic = image.topics.get(name)
    return {} if topic is None else topic.configs


def _check_values(values: Configs) -> None:
    """Raises `ApiError` for texts that no broker can read."""
    for name, text in values.items():
        try:
            setting_row(name).parse(text)
        except SettingError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, error.api_message) from error


def _cleared(records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """Whoever was eligible to lead by another minimum is not any more."""
    names = [
        record.resource_name
        for record, _ in records
        if isinstance(record, ConfigRecord)
        and record.name == MIN_ISR
        and (record.resource_type == ResourceKind.TOPIC or record.resource_name == ALL_BROKERS)
    ]
    return [(ClearElrRecord(topic_name=name), 0) for name in names]
