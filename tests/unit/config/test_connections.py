"""Limits of single hosts: addresses and counts, and nothing else."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.connections import NAME, connection_overrides
from ottla.config.setting import SettingError


def test_addresses_of_both_families_are_read() -> None:
    texts = ["10.0.0.1:20", "[::1]:3", "fe80::1:0"]
    assert connection_overrides(texts) == {"10.0.0.1": 20, "::1": 3, "fe80::1": 0}


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", "a.example:5", ":5"])
def test_anything_else_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(SettingError, match=r"max\.connections\.per\.ip\.overrides=.*like 10"):
        broker_config({NAME: text})
