"""Settings that work against each other: each row is one, and what would end it does end it."""

from dataclasses import replace

import pytest

from ottla.config.contradictions import contradictions
from ottla.config.setting import with_values
from ottla.config.topic import TopicConfig

CASES: dict[str, tuple[dict[str, str], str, bool]] = {
    "one broker cannot have two replicas": (
        {"min.insync.replicas": "2"}, "min.insync.replicas=1", False,
    ),
    "a batch larger than a segment": (
        {"max.message.bytes": "2000", "segment.bytes": "1000"}, "segment.bytes=2000", False,
    ),
    "segments that outlive retention": ({"retention.ms": "1000"}, "segment.ms=1000", False),
    "a limit below one segment": (
        {"retention.bytes": "1000000000"}, "segment.bytes=250000000", False,
    ),
    "no limit at all": ({"retention.ms": "-1"}, "retention.ms=604800000", True),
    "indexes that are full too soon": (
        {"segment.index.bytes": "1200"}, "segment.index.bytes=3145728", True,
    ),
    "tiered storage that is not there": (
        {"local.retention.ms": "5"}, "local.retention.ms=-2", True,
    ),
    "a part of tiered storage that is switched off": (
        {"remote.log.copy.disable": "true"}, "remote.log.copy.disable=false", True,
    ),
}  # fmt: skip


def test_the_defaults_are_in_harmony() -> None:
    assert list(contradictions(TopicConfig())) == []


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_is_found_and_its_fix_ends_it(name: str) -> None:
    values, change, is_note = CASES[name]
    config = with_values(TopicConfig(), values)
    (found,) = contradictions(config)
    assert (found.change, found.is_note) == (change, is_note)
    assert set(values) <= set(found.names) or is_note
    setting, _, value = change.partition("=")
    assert list(contradictions(with_values(config, {setting: value}))) == []


def test_a_log_without_limit_does_not_fill_the_disk_if_its_tier_has_the_rest() -> None:
    tiered = replace(TopicConfig(), remote_storage_enable=True, retention_ms=-1)
    assert list(contradictions(replace(tiered, local_retention_bytes=10 << 30))) == []
    (found,) = contradictions(tiered)
    assert "until the disk is full" in found.text


@pytest.mark.parametrize("policy", [("compact",), ()])
def test_limits_of_retention_do_not_matter_where_nothing_is_deleted(policy: tuple[str]) -> None:
    config = replace(TopicConfig(), retention_ms=1, retention_bytes=1, cleanup_policy=policy)
    assert list(contradictions(config)) == []
