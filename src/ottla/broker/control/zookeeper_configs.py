"""Changes of settings as changes of nodes, which all brokers read after a notice.

Kafka's counterparts: `ZkAdminManager`, `ConfigAdminManager`, `ZkConfigRepository`.
"""

from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import freed_in_turns
from ottla.broker.configs.config_changes import Alteration, ResourceAlteration
from ottla.broker.configs.config_decisions import altered_topic
from ottla.broker.configs.encoded_passwords import KeptPasswords
from ottla.broker.configs.resources import check_broker_name, no_settings
from ottla.broker.configs.settings import (
    BrokerSettings,
    ConfigSource,
    check_dynamic,
    passwords_among,
)
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.membership.membership import ZooKeeperMembership
from ottla.broker.waiting.rooms import Later
from ottla.config.broker import broker_settings
from ottla.config.cross_checks import check_reconfiguration
from ottla.config.setting import SettingError
from ottla.controller.operations import Steps
from ottla.controller.settings import change_settings, check_change
from ottla.metadata.deciding.topic_rules import check_name
from ottla.metadata.image import MetadataImage
from ottla.zookeeper.paths import DEFAULT_ENTITY

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns the new settings of an entity; raises `ApiError`."""

REGISTERED: Final = frozenset(
    {"advertised.listeners", "listener.security.protocol.map", "listeners"}
)


class Known(NamedTuple):
    """What this broker knows: its id, its settings, and the cluster's topics."""

    node_id: int
    settings: BrokerSettings
    metadata: MetadataImage


def alter_configs(
    membership: ZooKeeperMembership,
    known: Known,
    wanted: Sequence[ResourceAlteration],
    *,
    validate_only: bool,
) -> Later[Sequence[Outcome]]:
    planned: list[tuple[str, Change] | ApiError] = []
    for one in wanted:
        try:
            planned.append(_plan(one, known))
        except ApiError as error:
            planned.append(error.without_traceback())
    deed = check_change if validate_only else change_settings

    def steps() -> Steps[list[Outcome]]:
        outcomes: list[Outcome] = []
        for one in planned:
            result = one if isinstance(one, ApiError) else (yield from deed(*one))
            outcomes.append(result if isinstance(result, ApiError) else None)
        return outcomes

    def answered(outcomes: list[Outcome]) -> Sequence[Outcome]:
        freed_in_turns(planned)
        return outcomes

    return Later(membership.run(steps), answered)


def _plan(wanted: ResourceAlteration, known: Known) -> tuple[str, Change]:
    """The entity, and the change; raises `ApiError`."""
    name, alteration = wanted.resource_name, wanted.alteration()
    match wanted.resource_type:
        case ResourceKind.TOPIC:
            check_name(name)
            if name not in known.metadata.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return f"topics/{name}", _topic_change(name, alteration, known.settings)
        case ResourceKind.BROKER:
            if not name:
                change = _broker_change(alteration, ConfigSource.ALL_BROKERS, known.settings)
                return f"brokers/{DEFAULT_ENTITY}", change
            check_broker_name(name, known.node_id)
            return f"brokers/{name}", _broker_change(
                alteration, ConfigSource.BROKER, known.settings
            )
    raise no_settings(wanted.resource_type)


def _topic_change(name: str, alteration: Alteration, settings_here: BrokerSettings) -> Change:
    defaults = settings_here.config.topic_defaults

    def change(known: Mapping[str, str]) -> Mapping[str, str]:
        return altered_topic(name, known, alteration, defaults)

    return change


def _broker_change(alteration: Alteration, scope: ConfigSource, settings: BrokerSettings) -> Change:
    passwords = KeptPasswords(settings.config, token_bytes)
    named = {one.name for one in alteration.changes}

    def change(known: Mapping[str, str]) -> Mapping[str, str]:
        meant, unread = passwords.meant(known)
        values = alteration.apply(meant, broker_settings())
        check_dynamic(values, scope)
        _check_changed([name for name, text in values.items() if meant.get(name) != text], scope)
        try:
            new = settings.config_under({ConfigSource.BROKER: values})
            check_reconfiguration(settings.config, new)
        except SettingError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, error.api_message) from error
        # A value that cannot be decrypted, perhaps with an old secret, stays unless it is changed.
        left = () if alteration.is_whole else unread.keys() - named
        return {name: known[name] for name in left} | passwords.to_keep(values, known)

    return change


def _check_changed(names: Sequence[str], scope: ConfigSource) -> None:
    """Raises `ApiError` for passwords of all brokers, which may have different secrets.

    And for what Kafka changes so, and a broker of a cluster does not here.
    """
    if scope is ConfigSource.ALL_BROKERS and (passwords := passwords_among(names)):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Password config can be defined only at broker level: [{', '.join(passwords)}]",
        )
    if listeners := sorted(REGISTERED.intersection(names)):
        # Kafka registers the broker again.
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"A broker of a cluster is registered with its listeners: [{', '.join(listeners)}] "
            "are changed in its own settings, and hold when it starts again",
        )
