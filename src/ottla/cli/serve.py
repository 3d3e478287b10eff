"""`ottla serve`: a data directory, served to Kafka clients until it is told to stop."""

import logging
import os
import signal
import threading
import time

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.config.group import with_local_defaults
from ottla.embedded.flusher import Flusher
from ottla.embedded.log import open_broker, parse_address, start_server
from ottla.server.listener import Server

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@click.command("serve")
@click.option(
    "--data-dir",
    "-d",
    "data_dirs",
    multiple=True,
    required=True,
    metavar="DIR",
    help="Kafka's log.dirs; made if missing. May be given several times.",
)
@click.option("--listen", default="127.0.0.1:9092", metavar="HOST:PORT", show_default=True)
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the broker.")
@click.option("--verbose", "-v", is_flag=True, help="Log what goes on, not only what goes wrong.")
def serve_command(
    data_dirs: tuple[str, ...], listen: str, settings: tuple[str, ...], verbose: bool
) -> None:
    """Serve DIR to every Kafka client.

    Prints "ready HOST:PORT ..." once it answers. SIGTERM and SIGINT stop it cleanly.
    """
    started = time.monotonic()
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    host, port = parse_address(listen)
    values = with_local_defaults(dict(parse_setting(text) for text in settings), host)
    clock = SystemClock()
    broker = open_broker(data_dirs, values, clock=clock)
    lock = threading.RLock()
    server = Server(broker, host=host, port=port, clock=clock, lock=lock)
    flusher = Flusher(broker, OsFileSystem(), clock=clock, lock=lock)
    try:
        start_server(server, listen)
        stop_on_signals(server)
        address_host, address_port = server.address
        took_ms = (time.monotonic() - started) * 1000
        click.echo(
            f"ready {address_host}:{address_port} pid={os.getpid()} topics={len(broker.topics)} "
            f"data={','.join(data_dirs)} after={took_ms:.0f}ms"
        )
        flusher.start()
        server.run()
        flusher.stop()
    finally:
        broker.close()


def parse_setting(text: str) -> tuple[str, str]:
    """KEY=VALUE as a pair; raises `UserError`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"-o {text}: a setting is KEY=VALUE, such as log.segment.bytes=1048576")
    return name.strip(), value.strip()


def stop_on_signals(server: Server) -> None:
    """SIGTERM and SIGINT end `run`; a second one while closing changes nothing."""

    def stop(number: int, frame: object) -> None:
        server.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
