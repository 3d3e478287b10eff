"""`ottla serve`: serves a data directory to Kafka clients until a signal stops it."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

from ottla.base.addresses import address_text, names_brokers, parse_address
from ottla.base.errors import StorageError, UserError
from ottla.base.values import dataclass
from ottla.cli.default_place import DIRECTORY
from ottla.cli.serve.observing import Observing, observing_options
from ottla.cli.serve.places import Place, place_of
from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.cli.settings_files import given_settings, log_directories
from ottla.cli.terminal import ExampleCommand, Stopping

if TYPE_CHECKING:
    from ottla.base.addresses import Address
    from ottla.base.clock import Clock
    from ottla.broker.broker import Broker
    from ottla.cli.serve.metrics.serving import ServedMetrics
    from ottla.cli.serve.tables import TableSource
    from ottla.config.broker import BrokerConfig
    from ottla.config.listeners import Listener
    from ottla.runtime.owner_notes import OwnerNotes
    from ottla.runtime.service_manager import ServiceManager
    from ottla.runtime.stop_limit import StopLimit, TimedLock
    from ottla.runtime.tier_worker import ReleasableLock
    from ottla.server.network.listener import Server

logger = logging.getLogger(__name__)

ARGUMENTS = "ottla.serve.arguments"
CONTROLLERS = "controller.listener.names"
PROTOCOL_MAP = "listener.security.protocol.map"


class NewDirectories:
    """Removes directories that did not exist before, if a start fails before the broker answers:
    they hold nothing but what the start wrote.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [one for one in paths if not os.path.lexists(one)]

    def __enter__(self) -> Self:
        return self

    def keep(self) -> None:
        self._paths = []

    def __exit__(self, *_: object) -> None:
        for one in self._paths:
            shutil.rmtree(one, ignore_errors=True)


class ServeCommand(ExampleCommand):
    """Keeps its arguments as given, for a process in the background."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] in (["status"], ["stop"]):
            ctx.fail(
                f"ottla {args[0]} [DIR] is the command; a directory of that name is ./{args[0]}"
            )
        ctx.meta[ARGUMENTS] = [one for one in args if one != "--background"]
        return super().parse_args(ctx, args)


@click.command(
    "serve",
    cls=ServeCommand,
    examples=(
        "ottla serve",
        "ottla serve data/ --listen 127.0.0.1:9092 --listen '[::1]:9092' --background",
        "ottla serve data/ -o log.retention.hours=24",
    ),
)
@click.argument("directory", metavar="[DIR]", required=False)
@click.option(
    "--data-dir",
    "-d",
    "data_dirs",
    multiple=True,
    type=click.Path(),
    metavar="DIR",
    envvar="OTTLA_DATA_DIR",
    help="Log directory, as DIR; repeatable, as in Kafka's log.dirs.",
)
@click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path),
    envvar="OTTLA_CONFIG",
    metavar="FILE",
    help="Kafka's server.properties; other options override it.",
)
@click.option(
    "--listen",
    "listen",
    multiple=True,
    envvar="OTTLA_LISTEN",
    metavar="HOST:PORT",
    help="Address to listen on; repeatable. Default: the file's listeners, or 127.0.0.1:9092.",
)
@click.option(
    "-o",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Broker setting; 7d and 1Gi are understood.",
)
@click.option(
    "--background", is_flag=True, help="Return once the broker is ready; ottla stop stops it."
)
@click.option(
    "--schema-registry",
    "registry_address",
    metavar="HOST:PORT",
    help="Also serve a schema registry for development, which stores schemas in the topic "
    "_schemas.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="TOPIC=PATH",
    help="Keep a table of the topic fresh, as ottla load --follow does; repeatable.",
)
@click.option(
    "--table-options",
    metavar="OPTIONS",
    help="Options of ottla load for the tables, as one text: '--decode json --grow'.",
)
@observing_options
def serve_command(
    directory: str | None,
    data_dirs: tuple[str, ...],
    background: bool,
    registry_address: str | None,
    tables: tuple[str, ...],
    observing: Observing,
    **given: Any,
) -> None:
    """Serve the data directory DIR, which is created if missing, to Kafka clients.

    DIR is log.dirs of --config by default, or ./ottla-data without a file. The command prints
    "ready HOST:PORT ..." once the broker answers. SIGTERM and SIGINT stop it cleanly. Settings may
    also be in the environment: KAFKA_LOG_RETENTION_MS, or OTTLA_LOG_RETENTION_MS, is
    log.retention.ms.
    """
    from ottla.cli.background import log_path_of, serve_in_background
    from ottla.config.broker import broker_config

    observing.set_up_logging()
    beside = Beside(registry_address, tables, given.pop("table_options"))
    values = serve_settings(**given)
    config = broker_config(values)
    # The directory on the command line takes precedence over that of the environment.
    asked = (directory,) if directory is not None else data_dirs
    if directory is not None and _is_given("data_dirs"):
        asked = (directory, *data_dirs)
    default = None if given["config_file"] else DIRECTORY
    for path in asked:
        if names_brokers(path):
            raise UserError(
                f"{path}: an address, where DIR is a data directory; --listen {path} listens there,"
                f" and a directory of that name is ./{path}"
            )
    paths = asked or log_directories(config, default=default)
    if background:
        arguments: list[str] = click.get_current_context().meta[ARGUMENTS]
        serve_in_background(arguments, log_path_of(paths[0]))
        return
    beside.check()
    # What a member of a cluster has made may be named there.
    with NewDirectories(() if config.zookeeper_connect or config.is_quorate else paths) as made:
        serve(values, config, paths, observing, replace(beside, on_ready=made.keep))


def serve_settings(
    config_file: Path | None, listen: tuple[str, ...], settings: tuple[str, ...]
) -> dict[str, str]:
    """Merges settings: the environment overrides the file, and the command line overrides both."""
    from ottla.cli.environment import settings_in

    values = {**given_settings(config_file, ()), **settings_in(os.environ)}
    values.update(given_settings(None, settings))
    if listen:
        values.update(listener_settings([parse_address(one) for one in listen], values))
    return values


def serve(
    values: dict[str, str],
    config: "BrokerConfig",
    paths: Sequence[str],
    observing: Observing,
    beside: "Beside",
) -> None:
    """Serves until a signal stops it."""
    from ottla.config.group_coordinator import with_local_defaults
    from ottla.config.listeners import every_listener
    from ottla.runtime.collector import Collector
    from ottla.runtime.event_log import EventLog
    from ottla.runtime.owner_notes import OwnerNotes, WorkNotes, addresses_for_commands
    from ottla.runtime.service_manager import ServiceManager
    from ottla.server.network.embedding import Embedding
    from ottla.server.network.listener import Server

    started = time.monotonic()
    hosts = [listener.address[0] for listener in every_listener(config)]
    _check(config)
    clock = machine_clock()
    service = ServiceManager(_taken_from_environment())
    progress = RecoveryProgress(clock, WorkNotes(paths, "serve", clock).note_at_once, service.step)
    events = EventLog(clock)
    metrics = observing.open_metrics(clock, progress, events)
    place = place_of(config, paths, clock)
    broker = place.open_broker(with_local_defaults(values, *hosts), progress, events)
    listeners = every_listener(broker.settings.config)  # as changed by clients
    lock = threading.RLock()
    embedding = Embedding(lock=lock, upkeep=Collector())
    server = Server(broker, listeners, clock=clock, needs_disk=True, embedding=embedding)
    with ExitStack() as stack:
        stack.callback(_check_disks, broker)  # last, in place of what has ended the node by itself
        stack.callback(events.stop)
        limit = stack.enter_context(_limit(broker, lock, progress))
        stack.callback(broker.close)
        stack.callback(progress.begin_stop)
        if metrics is not None:
            stack.callback(metrics.close)
            metrics.serve(broker, server)
        observing.observe(broker, server, events)
        server.start()
        unused = stack.enter_context(ExitStack())
        unused.callback(server.close)
        known, addresses = _for_clients(broker, listeners, server)
        own = addresses_for_commands(broker.settings.config, known, addresses)
        notes = OwnerNotes(broker.directories, own, "serve")
        stack.callback(notes.remove)
        stack.callback(place.close)
        place.start(broker, listeners, server, lock)
        Stopping(partial(_stop, service, place, server)).install()
        beside.start_registry(stack, known, addresses)
        beside.start_tables(stack, place, own, notes, metrics)
        ready = partial(_ready_line, addresses, broker, paths, started)
        place.when_usable(lambda: click.echo(ready()))
        observing.open_console(stack, known, addresses)
        beside.on_ready()
        _start_jobs(stack, broker, server, clock, lock)
        unused.pop_all()
        stack.enter_context(service.serving(ready(), lock))
        server.run()
        if broker.directories.is_offline:
            place.leave_without_disks()
        limit.closing()


def _limit(broker: "Broker", lock: "TimedLock", progress: RecoveryProgress) -> "StopLimit":
    from ottla.runtime.stop_limit import StopLimit

    def open_paths() -> list[str]:
        return [one.path for one in broker.directories if one.is_claimed]

    return StopLimit(lock, open_paths, lambda: progress.step)


def _check_disks(broker: "Broker") -> None:
    """Raises `StorageError` if all log directories have failed, which ends the server."""
    if broker.directories.is_offline:
        reasons = "; ".join(f"{one.health.failure}; {one.health.fix}" for one in broker.directories)
        raise StorageError("no log directory is left", f"{reasons}, and start again")


def _taken_from_environment() -> dict[str, str]:
    """What the service manager wants to know of this process, and not of those that it starts."""
    from ottla.runtime.service_manager import VARIABLES

    return {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}


def _stop(service: "ServiceManager", place: Place, server: "Server") -> None:
    service.stopping()
    place.stop(server)


def _start_jobs(
    stack: ExitStack,
    broker: "Broker",
    server: "Server",
    clock: "Clock",
    lock: "ReleasableLock",
) -> None:
    """Has logs flushed and compacted, and the remote tier worked on, until the stack is closed."""
    from ottla.base.files import OsFileSystem
    from ottla.runtime.cleaning import Cleaning
    from ottla.runtime.cleaning_process import ProcessEngine
    from ottla.runtime.flusher import Flusher

    cleaning = Cleaning(broker, ProcessEngine(os.environ), clock=clock, lock=lock)
    cleaning.start()
    stack.callback(cleaning.stop)
    flusher = Flusher(broker, OsFileSystem(), clock=clock, lock=lock, on_failure=server.wake)
    flusher.start()
    stack.callback(flusher.stop)
    reads = broker.fetches.tier
    if reads is None:
        return
    from ottla.runtime.tier_readers import TierReaders
    from ottla.runtime.tier_worker import TierWorker

    worker = TierWorker(broker, clock=clock, lock=lock, on_change=server.wake)
    worker.start()
    stack.callback(worker.stop)
    readers = TierReaders(broker, reads, lock=lock, on_done=server.wake)
    stack.callback(readers.stop)


def _for_clients(
    broker: "Broker", listeners: Sequence["Listener"], server: "Server"
) -> "tuple[Sequence[Listener], Sequence[Address]]":
    """The listeners for clients, and where they listen; a controller has none but its own."""
    from ottla.config.listeners import client_listeners

    known = client_listeners(broker.settings.config) or listeners
    return known, server.addresses[: len(known)]


def _ready_line(
    addresses: Sequence["Address"], broker: "Broker", paths: Sequence[str], started_s: float
) -> str:
    took_s = time.monotonic() - started_s
    texts = ",".join(f"{host}:{port}" for host, port in addresses)
    return (
        f"ready {texts} pid={os.getpid()} topics={len(broker.topics)} "
        f"data={','.join(paths)} after={took_s * 1000:.0f}ms"
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """Optional services that run beside the broker, and who waits for it."""

    registry_address: str | None = None
    tables: tuple[str, ...] = ()
    table_options: str | None = None
    on_ready: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Raises `UserError`."""
        if self.table_options is not None and not self.tables:
            raise UserError("--table-options applies to tables: add --table TOPIC=PATH")
        if self.tables:
            from ottla.cli.serve.tables import directories_source

            self._loading_command(directories_source(["."]))

    def start_registry(
        self, stack: ExitStack, listeners: Sequence["Listener"], addresses: Sequence["Address"]
    ) -> None:
        """Runs until the stack is closed; raises `UserError`."""
        if self.registry_address is None:
            return
        from ottla.cli.serve.schema_registry import ServedRegistry

        registry = ServedRegistry(self.registry_address, listeners, addresses)
        stack.callback(registry.close)

    def start_tables(
        self,
        stack: ExitStack,
        place: Place,
        addresses: Sequence["Address"],
        notes: "OwnerNotes",
        metrics: "ServedMetrics | None",
    ) -> None:
        """Runs until the stack is closed; raises `UserError`."""
        if not self.tables:
            return
        from ottla.cli.serve.tables import ServedTables

        command = self._loading_command(place.table_source(addresses))
        tables = ServedTables(command, notes.note_tables)
        stack.callback(tables.close)
        place.before_last_answer(tables.close)
        if metrics is not None:
            metrics.serve_tables(tables.statuses)

    def _loading_command(self, source: "TableSource") -> list[str]:
        from ottla.cli.serve.tables import loading_command

        return loading_command(self.tables, source, self.table_options or "")


def _check(config: "BrokerConfig") -> None:
    """Raises `UserError` for unusable keys and certificates, and for larger files than the system
    allows; warns of settings that a single broker cannot fulfil. Raises the limit of open files.
    """
    from ottla.config.one_broker import shortfalls, unfulfilled
    from ottla.runtime.process_limits import allow_open_files, check_file_sizes
    from ottla.server.network.acceptors import check_tls

    check_tls(config)
    check_file_sizes(
        {
            "log.segment.bytes": config.topic_defaults.segment_bytes,
            "log.index.size.max.bytes": config.topic_defaults.segment_index_bytes,
            "offsets.topic.segment.bytes": config.offsets_topic_segment_bytes,
            "share.coordinator.state.topic.segment.bytes": (
                config.share_coordinator_state_topic_segment_bytes
            ),
            "transaction.state.log.segment.bytes": config.transaction_state_log_segment_bytes,
        }
    )
    for shortfall in shortfalls(config):
        logger.warning("%s", shortfall)
    for name in config.mistaken_super_users:
        logger.warning("super.users: %s is not a principal; use User:alice;User:bob", name)
    if without_effect := unfulfilled(config):
        logger.warning("settings that have no effect here: %s", ", ".join(without_effect))
    allow_open_files()


def machine_clock() -> "Clock":
    """The machine's clock, unless the caller passes another one as click's `obj`."""
    from ottla.base.clock import SystemClock

    return click.get_current_context().obj or SystemClock()


def listener_settings(
    addresses: Sequence[tuple[str, int]], values: Mapping[str, str]
) -> dict[str, str]:
    """Replaces the listeners of the settings by listeners at these addresses, but for those of a
    node's controller.
    """
    names = ["PLAINTEXT", *(f"PLAINTEXT_{number}" for number in range(2, len(addresses) + 1))]
    texts = [
        f"{name}://{address_text(*address)}" for name, address in zip(names, addresses, strict=True)
    ]
    if values.get("process.roles"):
        controllers = tuple(f"{one.strip()}://" for one in values.get(CONTROLLERS, "").split(","))
        given = (one.strip() for one in values.get("listeners", "").split(","))
        texts += [one for one in given if one.startswith(controllers)]
    found = {"listeners": ",".join(texts)}
    if len(names) > 1:
        before = values.get(PROTOCOL_MAP, "PLAINTEXT:PLAINTEXT")
        known = {one.partition(":")[0].strip() for one in before.split(",")}
        names += [one.partition(":")[0] for one in texts[len(names) :]]
        more = [f"{name}:PLAINTEXT" for name in names if name not in known]
        found[PROTOCOL_MAP] = ",".join([before, *more])
    return found


def _is_given(parameter: str) -> bool:
    """Whether an option was given on the command line, and not by the environment."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE
