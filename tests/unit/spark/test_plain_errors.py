"""Errors of the source and the sink are a sentence in Spark, without Python's frames."""

import os

import pytest

from ottla.base.errors import UserError
from ottla.sources.conditions import NULL_TOPIC, ConditionError
from ottla.spark.plain_errors import HIDE_TRACEBACK, plain_errors


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.delenv("OTTLA_TRACEBACK", raising=False)


@plain_errors()
def fail(error: Exception) -> None:
    raise error


def test_sparks_condition_is_in_front() -> None:
    with pytest.raises(ConditionError) as raised:
        fail(ConditionError("a topic is null", NULL_TOPIC))
    with pytest.raises(ConditionError) as again:  # As through two methods.
        fail(raised.value)
    assert str(again.value) == "[KAFKA_NULL_TOPIC_IN_DATA] a topic is null"


def test_only_sparks_processes_and_our_errors_hide_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match=r"^name a topic$"):
        fail(UserError("name a topic"))
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    with pytest.raises(ValueError, match="a bug"):
        fail(ValueError("a bug"))
    assert not os.environ[HIDE_TRACEBACK]
    with pytest.raises(UserError):
        fail(UserError("name a topic"))
    assert os.environ[HIDE_TRACEBACK] == "1"


def test_a_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    monkeypatch.setenv("OTTLA_TRACEBACK", "1")
    with pytest.raises(UserError):
        fail(UserError("name a topic"))
    assert not os.environ[HIDE_TRACEBACK]
