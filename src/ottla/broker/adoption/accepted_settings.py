"""Which settings of another Kafka Ottla supports."""

from collections.abc import Mapping

from ottla.base.errors import ApiError, UserError
from ottla.broker.configs.client_metrics import check_client_metrics
from ottla.broker.configs.settings import ConfigSource, check_dynamic
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.config.broker import broker_config
from ottla.config.group import GroupConfig
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig
from ottla.metadata.quotas import QuotaEntity, Quotas

Configs = Mapping[str, str]


def accepted_topic_configs(values: Configs) -> tuple[dict[str, str], dict[str, str]]:
    """Splits a topic's settings into supported and unsupported ones."""
    taken: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, text in values.items():
        try:
            with_values(TopicConfig(), {name: text})
            taken[name] = text
        except SettingError:
            refused[name] = text
    while taken:
        try:
            with_values(TopicConfig(), taken).check()
            break
        except SettingError as error:
            refused[error.name] = taken.pop(error.name)
    return taken, refused


def accepted_broker_configs(
    values: Configs, scope: ConfigSource
) -> tuple[dict[str, str], list[str]]:
    """Returns a broker's settings that can be changed at run time, and the names of the others."""
    taken: dict[str, str] = {}
    refused: list[str] = []
    for name, text in values.items():
        try:
            check_dynamic({name: text}, scope)
            broker_config({**taken, name: text})
            taken[name] = text
        except (ApiError, UserError):
            refused.append(name)
    return taken, refused


def accepted_quotas(
    values: Mapping[QuotaEntity, Mapping[str, float]],
) -> tuple[Quotas, list[str]]:
    taken: dict[QuotaEntity, Mapping[str, float]] = {}
    refused: list[str] = []
    for entity, limits in values.items():
        for key, value in limits.items():
            try:
                owner, kept = QuotaAlteration(names=entity, limits={key: value}).apply(taken)
                taken[owner] = kept
            except ApiError:
                whom = " and ".join(f"{kind} {name or 'default'}" for kind, name in entity)
                refused.append(f"{key} of {whom}")
    return taken, refused


def accepted_client_metrics(
    values: Mapping[str, Configs],
) -> tuple[dict[str, Configs], list[str]]:
    taken: dict[str, Configs] = {}
    refused: list[str] = []
    for name, configs in values.items():
        try:
            check_client_metrics(name, configs)
            taken[name] = configs
        except ApiError:
            refused.append(f"client metrics {name}")
    return taken, refused


def accepted_groups(values: Mapping[str, Configs]) -> tuple[dict[str, Configs], list[str]]:
    taken: dict[str, Configs] = {}
    refused: list[str] = []
    for group, configs in values.items():
        kept = {}
        for name, text in configs.items():
            try:
                with_values(GroupConfig(), {name: text}, "group")
                kept[name] = text
            except SettingError:
                refused.append(f"{name} of group {group}")
        if kept:
            taken[group] = kept
    return taken, refused
