"""Errors that cross to another process, as those of `multiprocessing` and Spark's tasks do."""

import contextlib
import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import ottla
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.bulk.reading import FetchFrom
from ottla.client.sharing.errors import AcknowledgementResult
from ottla.record.record import Record
from ottla.search.encodings import TEXT
from ottla.search.fields import Entry
from ottla.storage.log.append import LongPreparationError

SAMPLES: dict[str, Any] = {
    "str": "text",
    "int": 7,
    "ErrorCode": ErrorCode.OFFSET_OUT_OF_RANGE,
    "str | None": "text",
    "object": "text",
    "ApiError": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "TopicPartition": TopicPartition("orders", 3),
    "LogFile": SimpleNamespace(path="t-0/0.log"),
    "Exception": ValueError("text"),
    "Entry": Entry("orders", 3, Record(offset=7, timestamp_ms=0, timestamp_type=None)),
    "Encoding": TEXT,
    "Iterable[AcknowledgementResult]": [
        AcknowledgementResult(TopicPartition("orders", 3), [7, 8], ErrorCode.INVALID_RECORD_STATE)
    ],
    "FetchFrom": FetchFrom(topic="orders", partition=3, offset=7, max_size=1),
}


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(ottla.__path__, "ottla."):
        name = found.name.rpartition(".")[2]
        if name == "__main__":
            continue
        # What is optional may be missing here.
        with contextlib.suppress(ImportError):
            yield importlib.import_module(found.name)


def error_classes() -> list[type[BaseException]]:
    found = {
        kind
        for module in modules()
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, BaseException) and kind.__module__.startswith("ottla")
        # A word within one module.
        if not kind.__name__.startswith("_")
    } - {LongPreparationError}  # A word from one thread to another, with the records themselves.
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def sample(kind: type[BaseException]) -> BaseException:
    """One with all that its `__init__` takes; where it takes anything, a text."""
    given = inspect.signature(kind.__init__).parameters
    if "args" in given:
        return kind("one line that names the thing")
    own = [one for name, one in given.items() if name != "self"]
    named = {one.name: _value(one) for one in own if one.kind is one.KEYWORD_ONLY}
    return kind(*(_value(one) for one in own if one.name not in named), **named)


def _value(parameter: inspect.Parameter) -> Any:
    kind = parameter.annotation
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    if "AcknowledgementResult" in str(kind):
        text = "Iterable[AcknowledgementResult]"
    if text in SAMPLES:
        return SAMPLES[text]
    if text.endswith("| None"):
        return None
    return [] if "Sequence" in str(kind) or "list" in str(kind) else "text"


@pytest.mark.slow
def test_every_error_of_the_package_survives_pickling_and_copying_with_its_fields() -> None:
    kinds = error_classes()
    assert {UserError, ApiError, CorruptionError, StorageError} < set(kinds)
    for kind in kinds:
        error = sample(kind)
        error.add_note("a note")
        for again in (
            *(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(6)),
            copy.copy(error),
            copy.deepcopy(error),
        ):
            assert type(again) is kind
            assert str(again) == str(error)
            assert again.args == error.args, kind
            assert repr(vars(again)) == repr(vars(error)), kind


def test_an_answer_to_a_client_keeps_its_code() -> None:
    error = pickle.loads(pickle.dumps(ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no name")))
    assert (error.code, error.message, str(error)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION, "no name", "no name",
    )  # fmt: skip


def test_damage_keeps_its_place() -> None:
    error = copy.copy(CorruptionError("t-0/0.log", 61, "CRC"))
    assert (error.path, error.position, error.reason) == ("t-0/0.log", 61, "CRC")
