"""Examples in docstrings: which public names have some, and what one is run with.

An example is written as in `python -m asyncio`, so that `await` may stand in it. Names that it
uses and does not make, such as `log` or `consumer`, are made for it; see `World`.
"""

import ast
import asyncio
import dataclasses
import doctest
import errno
import inspect
import io
import re
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from docs.python_api import is_inner

import ottla
import ottla.aio
import ottla.table
import ottla.testing
import ottla.testing.history
from ottla.base.clock import Clock
from ottla.base.errors import UserError
from ottla.base.files import FileSystem
from ottla.tables.entries import Action, DataFile, LedgerEntry, LoadedPartition
from ottla.tables.table import Table

MODULES = (ottla, ottla.aio, ottla.testing, ottla.testing.history, ottla.table)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
HOUR_MS = 3_600_000
BEGIN_MS = 1_767_225_600_000
ORDERS = ((b"table 1", b"tea"), (b"table 2", b"coffee"), (b"table 1", b"cake"))
FEW_PARTITIONS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
WITH_SECURITY = FEW_PARTITIONS | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ana",
    "delegation.token.secret.key": "sealed",
}
SHARED = {
    "group.share.assignment.interval.ms": 0,
    "share.coordinator.state.topic.num.partitions": 1,
}
OF_LOG = ("log", "simple", "producer", "consumer", "admin", "share_consumer")


@dataclass(frozen=True)
class PublicName:
    """A class, function or method, with what its docstring shows."""

    name: str
    what: Any
    of_class: str = ""
    """The example of the class that a method belongs to, which may call it too."""
    is_value: bool = False
    """Whether it is, or belongs to, what the examples of calls show: values, errors, interfaces."""

    @property
    def examples(self) -> list[doctest.Example]:
        return doctest.DocTestParser().get_examples(inspect.getdoc(self.what) or "")

    @property
    def is_shown(self) -> bool:
        called = re.search(rf"\.{self.name.rpartition('.')[2]}\b", self.of_class)
        return bool(self.examples or called or self.is_value)


def public_names() -> Iterator[PublicName]:
    """Of all public modules, each once."""
    seen: set[int] = set()
    for module in MODULES:
        if doctest.DocTestParser().get_examples(module.__doc__ or ""):
            yield PublicName(module.__name__, module)
        for name in module.__all__:
            what = getattr(module, name)
            if id(what) not in seen:
                seen.add(id(what))
                yield from _names_of(f"{module.__name__}.{name}", what, seen)


def _names_of(name: str, what: Any, seen: set[int]) -> Iterator[PublicName]:
    is_of_value = inspect.isclass(what) and is_value(what)
    yield PublicName(name, what, is_value=is_of_value)
    if not inspect.isclass(what):
        return
    shown = inspect.getdoc(what) or ""
    for key in sorted(dir(what)):
        owner = next((one for one in what.__mro__ if key in vars(one)), object)
        if key.startswith("_") or not owner.__module__.startswith("ottla."):
            continue
        # What a protocol says is not shown.
        if is_inner(owner, key) or hasattr(FileSystem, key) or hasattr(Clock, key):
            continue
        one = inspect.getattr_static(what, key)
        method = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
        is_own = callable(method) and not method.__name__.startswith("_")
        if is_own and id(method) not in seen:
            seen.add(id(method))
            yield PublicName(f"{name}.{key}", method, shown, is_of_value)


def is_value(what: type) -> bool:
    """Whether a class is a record of fields, an error, a list of names, or an interface."""
    is_fields = dataclasses.is_dataclass(what) or hasattr(what, "_fields")
    is_interface = getattr(what, "_is_protocol", False)
    return is_fields or is_interface or issubclass(what, BaseException | Enum)


class World:
    """Makes what examples use: `log` has the topic `orders`, with three records and one, and for
    share consumers `jobs`, with three.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log: ottla.Log | None = None
        self._broker: ottla.testing.LocalBroker | None = None
        self._secured: ottla.testing.LocalBroker | None = None
        self._count = 0
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()
        for one in (self._log, self._broker, self._secured):
            if one is not None:
                one.close()

    def run(self, examples: list[doctest.Example], *, is_async: bool) -> None:
        """Runs the examples of one docstring in their order; raises `AssertionError`."""
        source = "".join(one.source for one in examples)
        used = {one.id for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Name)}
        names = {name: getattr(ottla.testing, name) for name in ottla.testing.__all__}
        names |= {"ottla": ottla, "errno": errno}
        with ExitStack() as of_one:
            if used.intersection(OF_LOG):
                names["log"] = log = self._ready_log()
                if "share_consumer" in used or "ShareConsumer" in source:
                    _make_jobs(log)
                for name in used.intersection(OF_LOG).difference(["log"]):
                    client = self._client(name, source, is_async=is_async)
                    of_one.callback(self._close_client, client)
                    names[name] = client
            if "broker" in used:
                names["broker"] = self._ready_broker()
            if "directory" in used:
                names["directory"] = self._new_directory()
            if "table" in used:
                names["table"] = make_table(self._new_directory())
            for example in examples:
                self._run_one(example, names)

    def _run_one(self, example: doctest.Example, names: dict[str, Any]) -> None:
        out = io.StringIO()
        code = compile(example.source, "example", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            with redirect_stdout(out):
                result = eval(code, names)
                if code.co_flags & inspect.CO_COROUTINE:
                    self._runner.run(result)
            got, wanted = out.getvalue(), example.want
        except BaseException as error:
            if example.exc_msg is None:
                raise
            got, wanted = traceback.format_exception_only(error)[-1], example.exc_msg
        checker = doctest.OutputChecker()
        if not checker.check_output(wanted, got, OPTIONS):
            raise AssertionError(
                f">>> {example.source}" + checker.output_difference(example, got, OPTIONS)
            )

    def _client(self, name: str, source: str, *, is_async: bool) -> Any:
        log, room = self._log, ottla.aio if is_async else ottla
        match name:
            case "simple":
                return ottla.SimpleConsumer(log)
            case "admin" if "delegation_token" in source:
                secured = self._ready_secured()
                return room.Admin(secured.address, secured.client_settings())
            case "admin":
                return room.Admin(log)
            case "producer":
                is_of_transactions = "transaction" in source
                settings = {"transactional.id": "examples"} if is_of_transactions else {}
                return room.Producer(log, settings=settings)
            case "share_consumer":
                settings = {}
                if "ack(" in source or "accept(" in source:
                    settings = {"share.acknowledgement.mode": "explicit"}
                shared = room.ShareConsumer(log, "workers", settings=settings)
                shared.subscribe("jobs")
                return shared
            case _:
                return room.Consumer(log, "billing", settings={"auto.offset.reset": "earliest"})

    def _close_client(self, client: Any) -> None:
        closing = client.close()
        if closing is not None:
            self._runner.run(closing)

    def _new_directory(self) -> Path:
        self._count += 1
        return self._directory / str(self._count)

    def _ready_log(self) -> ottla.Log:
        """One log for all examples, since opening takes long, until one closes it."""
        if self._log is None or not _can_be_emptied(self._log):
            self._log = ottla.open(":memory:", WITH_SECURITY | SHARED)
        log = self._log
        _delete_topics(log)
        _delete_security(log)
        log.create_topic("orders", partitions=2, config={"retention.ms": -1})
        for number, (key, value) in enumerate(ORDERS):
            at_ms = BEGIN_MS + 2000 * number
            log.append("orders", value, key, partition=0, timestamp_ms=at_ms)
        log.append("orders", b"milk", partition=1, timestamp_ms=BEGIN_MS)
        return log

    def _ready_broker(self) -> ottla.testing.LocalBroker:
        if self._broker is None or not _is_open(self._broker.log):
            self._broker = ottla.testing.LocalBroker(self._new_directory(), FEW_PARTITIONS)
        self._broker.heal()
        _delete_topics(self._broker.log)
        return self._broker

    def _ready_secured(self) -> ottla.testing.LocalBroker:
        """For what only users that have logged in may ask."""
        if self._secured is None:
            self._secured = ottla.testing.LocalBroker(
                self._new_directory(), WITH_SECURITY, security="SASL_PLAINTEXT",
                users={"ana": "secret"},
            )  # fmt: skip
        return self._secured


def _is_open(log: ottla.Log) -> bool:
    with suppress(UserError):
        return bool(log.topics() or True)
    return False


def _can_be_emptied(log: ottla.Log) -> bool:
    """Not when it is closed, or a member that was about to join has stayed in its group."""
    if not _is_open(log):
        return False
    try:
        with ottla.Admin(log) as admin:
            admin.delete_groups([one.group for one in admin.list_groups()])
    except UserError:
        log.close()
        return False
    return True


def _make_jobs(log: ottla.Log) -> None:
    """A topic for share consumers, which their group `workers` reads from its beginning."""
    log.create_topic("jobs")
    for value in (b"cut", b"glue", b"paint"):
        log.append("jobs", value)
    with ottla.Admin(log) as admin:
        kind = ottla.ResourceKind.GROUP
        admin.alter_configs(kind, "workers", {"share.auto.offset.reset": "earliest"})


def _delete_topics(log: ottla.Log) -> None:
    for topic in log.topics():
        if not topic.startswith("__"):
            log.delete_topic(topic)


def _delete_security(log: ottla.Log) -> None:
    with ottla.Admin(log) as admin:
        admin.delete_acls([ottla.AclBindingFilter()])
        admin.alter_user_scram_credentials(
            ottla.UserScramCredentialDeletion(user=user, mechanism=mechanism)
            for user, mechanisms in admin.describe_user_scram_credentials().items()
            for mechanism in mechanisms
        )


def make_table(path: Path) -> str:
    """A table of one commit with two rows."""
    table = Table(str(path))
    name = "data/load-00000000000000000000-00000000/part-0.parquet"
    file = path / name
    file.parent.mkdir(parents=True)
    rows = {"value": [b"tea", b"cake"], "partition": pa.array([0, 0], pa.int32()), "offset": [0, 1]}
    pq.write_table(pa.table(rows), file)
    loaded = LoadedPartition(
        topic="orders",
        topic_id=None,
        partition=0,
        from_offset=0,
        until_offset=2,
        row_count=2,
        log_end_offset=2,
    )
    data_file = DataFile(
        path=name,
        size=file.stat().st_size,
        row_count=2,
        partition=0,
        first_offset=0,
        last_offset=1,
    )
    with table.claim():
        table.commit(
            LedgerEntry(
                commit_id=0,
                committed_ms=BEGIN_MS + HOUR_MS,
                asked_ms=BEGIN_MS + HOUR_MS,
                source="data",
                partitions=(loaded,),
                files=(data_file,),
                action=Action.LOAD,
            )
        )
    return str(path)
