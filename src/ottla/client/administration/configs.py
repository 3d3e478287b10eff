"""Settings of topics, brokers and groups: reads them with their origins, and changes them."""

from collections.abc import Collection, Container, Mapping, Sequence
from enum import IntEnum
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.asking import Asking, check_all, refused
from ottla.client.administration.config_values import (
    ConfigEntry,
    ConfigOrigin,
    broker_rows,
    default_of,
    topic_rows,
)
from ottla.client.connecting.connection import Connection
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

AT_ONCE = 1000
"""Resources in a request: a broker refuses one that asks for too many settings."""


class _Change(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigAdmin(Asking):
    """Questions about settings, and changes to them."""

    def describe_configs(
        self, kind: ResourceKind, names: Collection[str], keys: Sequence[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        """All settings of each resource, by name. Raises `RefusedError`, `UnknownNameError`.

        With `keys`, only those settings, without the ones that do not exist.

        A broker's name is its id; `ALL_BROKERS` are the defaults of every broker. A broker's id is
        also the name of its loggers, whose settings are their levels.

        >>> found = admin.describe_configs(ottla.ResourceKind.TOPIC, ["orders"])
        >>> found["orders"]["retention.ms"].value
        '-1'
        """
        if kind is ResourceKind.TOPIC:
            self.partitions(names)
        found = {}
        for name in names:
            (result,) = self._describe_resources(kind, [name], keys)
            if result.error_code:
                what = f"{kind.name.lower()} {name}"
                raise refused(what, result.error_code, result.error_message)
            found[name] = {one.name: _entry(one) for one in result.configs}
        return found

    def alter_configs(
        self,
        kind: ResourceKind,
        name: str,
        changes: Mapping[str, Any],
        *,
        validate_only: bool = False,
    ) -> None:
        """Changes some settings, and keeps the others; `None` removes a setting.

        Raises `RefusedError`, `UnknownNameError`.

        >>> admin.alter_configs(ottla.ResourceKind.TOPIC, "orders", {"retention.ms": 3_600_000})
        """
        from ottla.config.setting import value_text  # Only for those that change.

        if kind is ResourceKind.TOPIC:
            self.partitions([name])
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(
                    name=key,
                    config_operation=_Change.DELETE if value is None else _Change.SET,
                    value=None if value is None else value_text(value),
                )
                for key, value in changes.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        answer = self._ask_about(kind, name, request)
        check_all({f"{kind.name.lower()} {name}": one for one in answer.responses})

    def topic_settings(self, topic: str) -> dict[str, str]:
        """All settings of a topic that are known here, defaults included.

        >>> settings = admin.topic_settings("orders")
        >>> settings["retention.ms"], settings["cleanup.policy"]
        ('-1', 'delete')
        """
        return self._settings(ResourceKind.TOPIC, topic, topic_rows())

    def topics_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The same for several topics; without those whose settings the user may not see, or the
        broker cannot read.

        >>> settings = admin.topics_settings(["orders"])
        >>> settings["orders"]["retention.ms"]
        '-1'
        """
        known = topic_rows()
        found: dict[str, dict[str, str]] = {}
        unread: dict[str, None] = {}
        for result in self._describe_resources(ResourceKind.TOPIC, topics, is_brief=True):
            if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                continue
            if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                unread[result.error_message or ""] = None
                continue
            if result.error_code:
                raise refused(result.resource_name, result.error_code, result.error_message)
            found[result.resource_name] = _values(result, known)
        if unread:
            import logging  # Few directories are damaged.

            for message in unread:
                logging.getLogger(__name__).warning("%s", message)
        return found

    def topic_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The overridden settings of each topic that is there; raises `RefusedError`.

        >>> admin.topic_overrides(["orders"])
        {'orders': {'retention.ms': '-1'}}
        """
        found = {}
        for result in self._describe_resources(ResourceKind.TOPIC, topics, is_brief=True):
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # deleted since its name was listed
            if result.error_code:
                what = f"settings of topic {result.resource_name}"
                raise refused(what, result.error_code, result.error_message)
            found[result.resource_name] = {
                one.name: one.value
                for one in result.configs
                if one.config_source == ConfigOrigin.OF_THE_RESOURCE.value and one.value is not None
            }
        return found

    def broker_settings(self) -> dict[str, str]:
        """All settings of the first broker that answers, as far as they are known here, defaults
        included.

        >>> settings = admin.broker_settings()
        >>> settings["log.retention.hours"]
        '168'
        """
        *some, last = map(str, self._cluster.node_ids())
        for name in some:
            try:
                return self._settings(ResourceKind.BROKER, name, broker_rows())
            except UnreachableError:
                continue
        return self._settings(ResourceKind.BROKER, last, broker_rows())

    def _settings(self, kind: ResourceKind, name: str, known: Container[str]) -> dict[str, str]:
        (result,) = self._describe_resources(kind, [name])
        if result.error_code:
            raise refused(name, result.error_code, result.error_message)
        return _values(result, known)

    def _describe_resources(
        self,
        kind: ResourceKind,
        names: Sequence[str],
        keys: Sequence[str] | None = None,
        *,
        is_brief: bool = False,
    ) -> list[DescribeConfigsResult]:
        """Brief ones are without defaults and documentation, which a broker answers several times
        faster.
        """
        wanted = None if keys is None else list(keys)
        results: list[DescribeConfigsResult] = []
        for at in range(0, len(names), AT_ONCE):
            some = names[at : at + AT_ONCE]
            resources = [
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=wanted
                )
                for name in some
            ]
            request = DescribeConfigsRequest(
                resources=resources,
                include_synonyms=not is_brief,
                include_documentation=not is_brief,
            )
            results += self._ask_about(kind, some[0], request).results
        return results

    def _ask_about(
        self,
        kind: ResourceKind,
        name: str,
        request: DescribeConfigsRequest | IncrementalAlterConfigsRequest,
    ) -> Any:
        """A broker's own settings are requested from that broker, all others from any broker."""

        def ask(broker: Connection) -> Any:
            return broker.ask(request)

        of_one = kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER)
        if of_one and name.isdigit():
            return ask(self._cluster.broker(int(name)))
        return self._cluster.ask_any(ask)


def _values(result: DescribeConfigsResult, known: Container[str]) -> dict[str, str]:
    return {
        one.name: one.value for one in result.configs if one.name in known and one.value is not None
    }


def _entry(one: DescribeConfigsResourceResult) -> ConfigEntry:
    origins = {origin.value: origin for origin in ConfigOrigin}
    origin = origins.get(one.config_source, ConfigOrigin.UNKNOWN)
    return ConfigEntry(
        name=one.name,
        value=None if one.is_sensitive else one.value,
        origin=origin,
        default=default_of(
            one.name, one.value, origin, [(each.value, each.source) for each in one.synonyms]
        ),
        is_read_only=one.read_only,
        is_sensitive=one.is_sensitive,
        documentation=one.documentation,
    )
