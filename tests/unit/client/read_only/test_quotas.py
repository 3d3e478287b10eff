"""The quotas of a directory by its files are those that its broker describes."""

from pathlib import Path

import pytest

import ottla
from ottla.client.administration.quota_values import Quota
from ottla.client.refusals import RefusedError
from tests.support.read_only import reading

ENTITIES: list[dict[str, str | None]] = [
    {"user": "ana"},
    {"user": None},
    {"client-id": "loader"},
    {"user": "ana", "client-id": "loader"},
]


def test_all_quotas_and_those_of_one_entity_are_what_the_broker_describes(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        for number, entity in enumerate(ENTITIES):
            admin.alter_quotas(entity, {"producer_byte_rate": 1000 + number})
        at_rest = reading(tmp_path)
        assert len(at_rest.describe_quotas()) == 4
        for entity in [None, *ENTITIES, {"user": "bob"}]:
            ours, theirs = at_rest.describe_quotas(entity), admin.describe_quotas(entity)
            assert sorted(ours, key=_names) == sorted(theirs, key=_names)


def _names(one: Quota) -> list[str]:
    return sorted(map(str, one.entity.items()))


def test_an_entity_that_cannot_be_is_refused_as_by_the_broker(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        with pytest.raises(RefusedError) as by_broker:
            admin.describe_quotas({"planet": "mars"})
        with pytest.raises(RefusedError) as at_rest:
            reading(tmp_path).describe_quotas({"planet": "mars"})
    assert str(at_rest.value) == str(by_broker.value)
