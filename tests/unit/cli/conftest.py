"""Fixtures of the tests of commands."""

from tests.unit.cli.administered import broker, same_broker

__all__ = ["broker", "same_broker"]
