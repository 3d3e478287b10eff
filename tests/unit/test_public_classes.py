"""What a public call raises, returns, takes or has as an attribute is public too, and described."""

import ast
import builtins
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from docs.python_api import FOLDER, MODULES, PAGE, _members

import ottla

INNER = {
    "CleaningTask": "a parameter of `Log.compact` with which Spark compacts",
    "CompactionResult": "likewise",
    "Throttle": "likewise",
    "ConsumerBase": "what both kinds of consumers have in common, which are public",
    "Buffer": "bytes, or a view of some",
}
"""Classes in public signatures that an application neither makes nor gets."""

CAUGHT = {
    "ottla.base.errors.UnreadyError": "a server, which closes the connection",
    "ottla.base.errors.TaskError": "tasks of loads, which report it as a UserError",
    "ottla.client.bulk.fetching.TruncatedError": "mirrors and loads, which read without a consumer",
    "ottla.codec.api_messages.UnknownRecordError": "what reads the topic, which names the record",
    "ottla.codec.compression.UnpackedSizeError": "an invalid batch",
    "ottla.codec.frames.CompressionError": "an invalid batch",
    "ottla.codec.varint.VarintError": "an invalid batch",
    "ottla.record.batch.InvalidBatchError": "CorruptionError and CorruptBatchError say where",
    "ottla.runtime.thread_ends.HangingError": "whoever closes a log: it is a StorageError",
    "ottla.schema_registry.http._BusyError": "asked again; at last a UserError",
    "ottla.sources.conditions.ConditionError": "Spark's source, which shows the condition",
    "ottla.sources.log_source.OffsetsGoneError": "loads and streams",
    "ottla.sources.wire.wire_client.GroupHasMembersError": "loads that commit",
    "ottla.storage.compaction.compaction.DamagedSegmentError": "the cleaner",
    "ottla.storage.compaction.compaction.StoppedError": "the cleaner",
    "ottla.storage.compaction.offset_map.OffsetMapTooSmallError": "the cleaner",
    "ottla.storage.directory.directory_claim.UnusableDirectoryError": "the start of a broker",
    "ottla.storage.log.offsets.OffsetInTierError": "reads, which ask the tier then",
    "ottla.storage.reading.aborted_reading.ChangedIndexError": "read again",
    "ottla.storage.segment.log_order.OffsetOverflowError": "recovery",
    "ottla.storage.snapshots.copying.UncleanStopError": "ottla snapshot",
    "ottla.tables.formats.transaction_log.CommitTakenError": "loads, which try again",
}
"""Errors below the public calls that do not reach their callers, and what catches them."""

ROOMS = "base client codec config embedded record runtime schema_registry sources storage tables"
OF_THE_BROKER = "ottla.schema_registry.served"
ERROR = re.compile(r"^class (\w+)\((\w+)", re.MULTILINE)
NAMED = re.compile(r"[Rr]aises?[^.:]*?(?:`\w+(?:Error|Crash)`[^.:`]*)+")


DESCRIBED = re.compile(
    r"^## `(.+)`\n\n(?:```python\n(?:(?!```).*\n)+```\n\n)?((?!```|#)\S.*)$", re.MULTILINE
)
"""A name on the page, and the first line of its docstring (compiled, a class has none)."""


@cache
def public() -> dict[Any, str]:
    """Where each public class and function is."""
    return {getattr(module, one): f"{at}.{one}" for module, at in MODULES for one in module.__all__}


@cache
def names_in(module: types.ModuleType) -> dict[str, Any]:
    """All names of a module, also those that it imports for type checkers, or in a function."""
    found = dict(vars(module))
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            origin = importlib.import_module(node.module)
            for one in node.names:
                found.setdefault(one.asname or one.name, getattr(origin, one.name, None))
        elif isinstance(node, ast.Import):
            for one in node.names:
                whole, top = importlib.import_module(one.name), one.name.partition(".")[0]
                found.setdefault(one.asname or top, whole if one.asname else sys.modules[top])
    return found


def classes_in(hint: Any, module: types.ModuleType) -> Iterator[type]:
    """The classes that an annotation names, within lists, unions and functions too."""
    while isinstance(hint, str | typing.ForwardRef):
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        # An alias of another module names what that module imports.
        of_alias = dict.fromkeys(INNER, object) | {one.__name__: one for one in public()}
        hint = eval(text, of_alias | names_in(module))
    if typing.get_origin(hint) is typing.Literal:
        return
    if inspect.isclass(hint) and not isinstance(hint, types.GenericAlias):
        yield hint
    for part in typing.get_args(hint):
        for one in part if isinstance(part, list) else [part]:
            yield from classes_in(one, module)


def annotations_of(function: Any) -> Iterator[tuple[Any, types.ModuleType]]:
    function = inspect.unwrap(function)
    for hint in getattr(function, "__annotations__", {}).values():
        yield hint, sys.modules[function.__module__]


def annotations_in(thing: Any) -> Iterator[tuple[Any, types.ModuleType]]:
    """Of a function; or of a class's public attributes, properties and methods."""
    if not inspect.isclass(thing):
        yield from annotations_of(thing)
        return
    for owner in thing.__mro__:
        if owner.__module__.startswith("ottla"):
            for name, hint in inspect.get_annotations(owner).items():
                if not name.startswith("_"):
                    yield hint, sys.modules[owner.__module__]
    for _, member in _members(thing):
        function = member.fget if isinstance(member, property) else member
        if inspect.isroutine(function):
            yield from annotations_of(getattr(function, "__func__", function))


@pytest.mark.slow
def test_what_public_calls_take_and_return_is_public() -> None:
    missing = {
        f"{one.__module__}.{one.__qualname__} of {at}"
        for thing, at in public().items()
        for hint, module in annotations_in(thing)
        for one in classes_in(hint, module)
        if one.__module__.startswith("ottla.") and one.__name__ not in INNER
        if one not in public()
    }
    assert not missing


@pytest.mark.slow
def test_what_docstrings_of_public_calls_say_is_raised_is_public() -> None:
    known = {at.rpartition(".")[2] for at in public().values()}
    members = [
        member for thing in public() if inspect.isclass(thing) for _, member in _members(thing)
    ]
    raised = {
        name
        for one in (*public(), *members)
        for sentence in NAMED.findall(inspect.getdoc(one) or "")
        for name in re.findall(r"`(\w+)`", sentence)
    }
    assert len(raised) > 10
    assert not raised - known - set(dir(builtins))


def test_errors_below_the_public_calls_are_public_or_caught() -> None:
    source = Path(ottla.__file__).parent
    bases: dict[str, tuple[str, str]] = {}
    for path in (file for room in ROOMS.split() for file in (source / room).rglob("*.py")):
        module = ".".join(path.relative_to(source.parent).with_suffix("").parts)
        for name, base in ERROR.findall(path.read_text(encoding="utf-8")):
            bases[name] = (base, module)
    known = {at.rpartition(".")[2] for at in public().values()}
    found = {
        f"{module}.{name}"
        for name, (_, module) in bases.items()
        if name not in known and not module.startswith(OF_THE_BROKER) and is_ours(name, bases)
    }
    assert found == set(CAUGHT)


def is_ours(name: str, bases: Mapping[str, tuple[str, str]]) -> bool:
    """Whether a class is derived from `OttlaError`."""
    while name in bases and name != "OttlaError":
        name = bases[name][0]
    return name == "OttlaError"


@pytest.mark.parametrize("module", [module for module, _ in MODULES], ids=lambda one: one.__name__)
def test_each_public_name_is_described_on_the_page(module: types.ModuleType) -> None:
    written = "\n".join(path.read_text() for path in (PAGE, *FOLDER.glob("*.md")))
    described = dict(DESCRIBED.findall(written))
    assert [one for one in module.__all__ if not described.get(f"{module.__name__}.{one}")] == []


def test_type_checkers_find_the_names_where_they_are() -> None:
    tree = ast.parse(Path(ottla.__file__).read_text(encoding="utf-8"))
    deferred = next(one for one in tree.body if isinstance(one, ast.If))
    assert ast.unparse(deferred.test) == "TYPE_CHECKING"
    imported = {
        name.name: one.module
        for one in deferred.body
        if isinstance(one, ast.ImportFrom) and one.module != "ottla"
        for name in one.names
    }
    assert imported == ottla._HOME
    assert sorted(imported) == ottla.__all__
