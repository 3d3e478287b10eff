"""Quotas from the small file in each directory that has what clients have changed."""

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.quotas.quota_changes import Component, MatchType, QuotaFilter
from ottla.client.administration.quota_values import Entity, Quota
from ottla.client.at_rest.known import read_known
from ottla.client.refusals import refusals


class QuotaList(Protocol):
    """Describes quotas: a `QuotaAdmin`, or the files of a directory."""

    def describe_quotas(self, entity: Entity | None = None) -> list[Quota]: ...


class QuotasAtRest:
    """The quotas of log directories; the method is that of `QuotaAdmin`."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` for a damaged file, Kafka's metadata log included."""
        self._quotas = read_known(paths, "quotas").found.image.quotas

    def describe_quotas(self, entity: Entity | None = None) -> list[Quota]:
        wanted = QuotaFilter(
            components=[_component(*one) for one in (entity or {}).items()],
            is_strict=bool(entity),
        )
        with refusals("quotas"):
            wanted.check()
        return [
            Quota(entity=dict(found), limits=limits)
            for found, limits in wanted.select(self._quotas)
        ]


def _component(kind: str, name: str | None) -> Component:
    match_type = MatchType.DEFAULT if name is None else MatchType.EXACT
    return Component(entity_type=kind, match_type=match_type, match=name)
