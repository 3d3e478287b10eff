"""The file of what clients have changed: what goes in comes out, damage is named."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.broker.configs.cluster_file import (
    CLUSTER_FILE,
    CLUSTER_FILE_NAME,
    ClusterState,
    quota_entity,
    read_cluster_file,
)
from ottla.broker.revised_state import newest
from tests.support.brokers import disk
from tests.support.summed import summed

texts = st.dictionaries(st.text(), st.text(), max_size=3)
numbers = st.floats(allow_nan=False, allow_infinity=False)
entities = st.dictionaries(st.text(), st.none() | st.text(), max_size=2).map(quota_entity)

states = st.builds(
    ClusterState,
    revision=st.integers(0, 1 << 40),
    default_configs=texts,
    broker_configs=texts,
    group_configs=st.dictionaries(st.text(), texts.filter(bool), max_size=3),
    quotas=st.dictionaries(entities, st.dictionaries(st.text(), numbers, max_size=2), max_size=3),
)


@pytest.mark.slow
@given(states)
def test_a_state_is_read_as_it_was_written(state: ClusterState) -> None:
    file_system = disk("/d")
    CLUSTER_FILE.write(file_system, "/d", state)
    assert read_cluster_file(file_system, "/d") == state


def test_no_file_is_no_change() -> None:
    assert read_cluster_file(disk("/d"), "/d") == ClusterState()


def test_who_has_set_nothing_for_groups_writes_nothing_of_them() -> None:
    file_system = disk("/d")
    CLUSTER_FILE.write(file_system, "/d", ClusterState(revision=1))
    assert b"group" not in read_file(file_system, join("/d", CLUSTER_FILE_NAME))


def test_the_highest_revision_is_right() -> None:
    old, new = ClusterState(revision=1), ClusterState(revision=2, broker_configs={"a": "b"})
    assert newest([old, new, old]) == new


NO_SETTINGS: dict[str, Any] = {
    "revision": 1, "default_broker_configs": {}, "broker_configs": {}, "client_quotas": []
}  # fmt: skip


def test_a_file_without_settings_of_groups_is_read() -> None:
    file_system = disk("/d")
    replace_file(file_system, join("/d", CLUSTER_FILE_NAME), summed(**NO_SETTINGS))
    assert read_cluster_file(file_system, "/d") == ClusterState(revision=1)


@given(
    st.binary(max_size=40)
    | st.sampled_from(
        [
            b"null",
            b"[]",
            b"{}",
            b'{"version": 3}',
            json.dumps({"version": 2, **NO_SETTINGS}).encode(),
            summed(revision="1"),
            summed(revision=1, default_broker_configs=[]),
            summed(**NO_SETTINGS | {"default_broker_configs": {"a": 1}}),
            summed(**NO_SETTINGS | {"client_quotas": [{"entity": {"user": 1}, "quotas": {}}]}),
            summed(**NO_SETTINGS | {"client_quotas": [{"entity": {}, "quotas": {"a": "x"}}]}),
            summed(**NO_SETTINGS, group_configs=[]),
            summed(**NO_SETTINGS, group_configs={"g": {"a": 1}}),
        ]
    )
)
def test_anything_else_is_called_damage(content: bytes) -> None:
    file_system = disk("/d")
    replace_file(file_system, join("/d", CLUSTER_FILE_NAME), content)
    with pytest.raises(CorruptionError, match=CLUSTER_FILE_NAME):
        read_cluster_file(file_system, "/d")
