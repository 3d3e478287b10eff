"""`ottla serve`: a data directory, served to Kafka clients until a signal stops it."""

import logging
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import click

from ottla.base.addresses import address_text, parse_address
from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import StorageError
from ottla.base.files import OsFileSystem
from ottla.cli.serve.observing import Observing, observing_options
from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.cli.settings_files import given_settings, log_directories
from ottla.cli.terminal import ExampleCommand, Stopping
from ottla.config.broker import broker_config
from ottla.config.group_coordinator import with_local_defaults
from ottla.config.listeners import client_listeners
from ottla.config.one_broker import shortfalls
from ottla.runtime.cleaning import Cleaning
from ottla.runtime.cleaning_process import ProcessEngine
from ottla.runtime.collector import Collector
from ottla.runtime.event_log import EventLog
from ottla.runtime.flusher import Flusher
from ottla.runtime.open_files import allow_open_files
from ottla.runtime.opening import open_broker
from ottla.runtime.owner_notes import OwnerNotes
from ottla.server.embedding import Embedding
from ottla.server.listener import Server

logger = logging.getLogger(__name__)


@click.command("serve", cls=ExampleCommand, examples=("ottla serve -d data/",))
@click.option(
    "--data-dir",
    "-d",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help="A log directory (Kafka's log.dirs), created if missing; repeatable.",
)
@click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Kafka's server.properties; other options override it.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen on; by default the file's listeners, or 127.0.0.1:9092.",
)
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting.")
@observing_options
def serve_command(
    data_dirs: tuple[str, ...],
    config_file: Path | None,
    listen: str | None,
    settings: tuple[str, ...],
    observing: Observing,
) -> None:
    """Serve the log directories DIR to every Kafka client.

    Prints "ready HOST:PORT ..." once it answers. SIGTERM and SIGINT stop it cleanly.
    """
    started = time.monotonic()
    observing.set_up_logging()
    values = given_settings(config_file, settings)
    if listen is not None:
        values["listeners"] = listener_text(*parse_address(listen))
    config = broker_config(values)
    paths = data_dirs or log_directories(config)
    listeners = client_listeners(config)
    for shortfall in shortfalls(config):
        logger.warning("%s", shortfall)
    if config.without_effect:
        logger.warning("settings that have no effect here: %s", ", ".join(config.without_effect))
    allow_open_files()
    clock = machine_clock()
    progress = RecoveryProgress(clock)
    events = EventLog(clock)
    metrics = observing.open_metrics(clock, progress, events)
    broker = open_broker(
        paths,
        with_local_defaults(values, *(listener.address[0] for listener in listeners)),
        clock=clock,
        on_progress=progress,
        on_event=events,
    )
    listeners = client_listeners(broker.config)  # as clients have changed them, if they have
    lock = threading.RLock()
    server = Server(broker, listeners, clock=clock, needs_disk=True, embedding=Embedding(lock=lock))
    flusher = Flusher(broker, OsFileSystem(), clock=clock, lock=lock, on_failure=server.wake)
    cleaning = Cleaning(broker, ProcessEngine(os.environ), clock=clock, lock=lock)
    with ExitStack() as stack:
        stack.callback(events.stop)
        stack.callback(broker.close)
        stack.callback(progress.begin)
        if metrics is not None:
            stack.callback(metrics.close)
            metrics.serve(broker, server)
        observing.observe(broker, server, events)
        server.start()
        stack.callback(OwnerNotes(broker.directories, server.addresses, "serve").remove)
        server.upkeep = Collector()
        Stopping(server.stop).install()
        addresses = ",".join(f"{host}:{port}" for host, port in server.addresses)
        took_ms = (time.monotonic() - started) * 1000
        click.echo(
            f"ready {addresses} pid={os.getpid()} topics={len(broker.topics)} "
            f"data={','.join(paths)} after={took_ms:.0f}ms"
        )
        flusher.start()
        cleaning.start()
        server.run()
        flusher.stop()
        cleaning.stop()
    if broker.directories.is_offline:
        reasons = "; ".join(str(one.health.failure) for one in broker.directories)
        raise StorageError(
            "no log directory is left", f"{reasons}; repair the disk and start again"
        )


def machine_clock() -> Clock:
    """The machine's, unless the caller of the command passes another as click's `obj`."""
    return click.get_current_context().obj or SystemClock()


def listener_text(host: str, port: int) -> str:
    """An address as `listeners` has it."""
    return f"PLAINTEXT://{address_text(host, port)}"
