"""The common part of AlterConfigs and IncrementalAlterConfigs: changes resources in ZooKeeper.

Kafka's counterparts: `ZkAdminManager`, `ConfigAdminManager`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.configs.cluster_file import ClusterState
from ottla.broker.configs.config_changes import Alteration
from ottla.broker.configs.kept_passwords import KeptPasswords
from ottla.broker.configs.settings import ConfigSource, check_dynamic, passwords_among
from ottla.broker.topics.topic_rules import check_changed_settings, check_name
from ottla.codec.schema import Message
from ottla.config.broker import broker_settings
from ottla.config.cross_checks import check_reconfiguration
from ottla.config.setting import SettingError, settings_of
from ottla.config.topic import TopicConfig
from ottla.controller.operations import Steps
from ottla.controller.settings import change_settings, check_change
from ottla.registries.paths import DEFAULT_ENTITY
from ottla.server.altering import ResourceAlteration
from ottla.server.broker_loggers import alter_loggers, check_logger_name
from ottla.server.cluster.applying import membership_of, replicas_of
from ottla.server.request_context import PendingAnswer, RequestContext
from ottla.server.resources import ResourceType, check_broker_name, no_settings

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns the new settings of an entity; raises `ApiError`."""

REGISTERED: Final = frozenset(
    {"advertised.listeners", "listener.security.protocol.map", "listeners"}
)

Refusals = list[ApiError | None]


def alter_all(
    wanted: Sequence[ResourceAlteration],
    answer: Callable[[Refusals], Message],
    context: RequestContext,
    *,
    validate_only: bool,
) -> PendingAnswer:
    """The response with each result."""
    counts = freed_in_turns(
        Counter((one.resource_type, one.resource_name) for one in in_turns(wanted))
    )
    planned: list[tuple[str, Change] | ApiError | None] = []
    for one in in_turns(wanted):
        try:
            if counts[one.resource_type, one.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if one.resource_type == ResourceType.BROKER_LOGGER:
                check_logger_name(one.resource_name, context.broker.node_id)
                alter_loggers(one.alteration(), validate_only=validate_only)
                planned.append(None)
            else:
                planned.append(_plan(one, context))
        except ApiError as error:
            planned.append(error.without_traceback())

    def steps() -> Steps[Refusals]:
        refusals: Refusals = []
        for one in planned:
            if one is None or isinstance(one, ApiError):
                refusals.append(one)
                continue
            deed = check_change if validate_only else change_settings
            result = yield from deed(*one)
            refusals.append(result if isinstance(result, ApiError) else None)
        return refusals

    def answered(refusals: Refusals) -> Message:
        freed_in_turns(planned)
        return answer(freed_in_turns(refusals))

    return PendingAnswer(membership_of(context).run(steps), answered, takes_long=True)


def _plan(wanted: ResourceAlteration, context: RequestContext) -> tuple[str, Change]:
    """The entity, and the change; raises `ApiError`."""
    name, alteration = wanted.resource_name, wanted.alteration()
    match wanted.resource_type:
        case ResourceType.TOPIC:
            check_name(name)
            if name not in replicas_of(context).metadata.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return f"topics/{name}", _topic_change(alteration, context)
        case ResourceType.BROKER:
            if not name:
                change = _broker_change(alteration, ConfigSource.ALL_BROKERS, context)
                return f"brokers/{DEFAULT_ENTITY}", change
            check_broker_name(name, context.broker.node_id)
            return f"brokers/{name}", _broker_change(alteration, ConfigSource.BROKER, context)
    raise no_settings(wanted.resource_type)


def _topic_change(alteration: Alteration, context: RequestContext) -> Change:
    defaults = context.broker.config.topic_defaults

    def change(known: Mapping[str, str]) -> Mapping[str, str]:
        settings = alteration.apply(known, settings_of(TopicConfig))
        check_changed_settings(defaults, known, settings)
        return settings

    return change


def _broker_change(alteration: Alteration, scope: ConfigSource, context: RequestContext) -> Change:
    settings = context.broker.settings
    passwords = KeptPasswords(settings.config, token_bytes)
    named = {one.name for one in alteration.changes}

    def change(known: Mapping[str, str]) -> Mapping[str, str]:
        meant, unread = passwords.meant(known)
        values = alteration.apply(meant, broker_settings())
        check_dynamic(values, scope)
        _check_changed([name for name, text in values.items() if meant.get(name) != text], scope)
        try:
            new = settings.config_under(ClusterState(broker_configs=values))
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
