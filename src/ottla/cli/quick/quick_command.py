"""`ottla quick`: a throw-away broker, alone or for one command."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ottla.base.errors import UserError
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import given_settings
from ottla.cli.terminal import (
    LOOK_S,
    ExampleCommand,
    Stopping,
    print_json,
)

CLIENTS = {
    "confluent-kafka": 'Producer({{"bootstrap.servers": "{address}"}})',
    "kafka-python": 'KafkaProducer(bootstrap_servers="{address}")',
    "aiokafka": 'AIOKafkaProducer(bootstrap_servers="{address}")',
    "kcat": "kcat -b {address} -L",
    "java": 'properties.put("bootstrap.servers", "{address}");',
    "spark": 'spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{address}")',
    "franz-go": 'kgo.NewClient(kgo.SeedBrokers("{address}"))',
    "kafkajs": 'new Kafka({{ brokers: ["{address}"] }})',
}
"""How to connect, by client: a line with a placeholder for the address."""


@click.command(
    "quick",
    cls=ExampleCommand,
    examples=(
        "ottla quick --topic orders:3",
        "ottla quick -- pytest tests/",
        "ottla quick --topic orders -- sh -c 'kcat -b $KAFKA_BOOTSTRAP_SERVERS -L'",
    ),
)
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    help="Address to listen on; by default a free port of 127.0.0.1.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:PARTITIONS]",
    help="Topic to create first; repeatable. Others are created when a client asks for them.",
)
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting.")
@output_options("Print the address only.")
def quick_command(
    command: tuple[str, ...],
    listen: str,
    topics: tuple[str, ...],
    settings: tuple[str, ...],
    output: Output,
) -> None:
    """Run a broker whose data is removed when it ends.

    Prints what to paste into the common clients, and runs until SIGTERM or Ctrl-C. With a COMMAND
    it runs that, with KAFKA_BOOTSTRAP_SERVERS in its environment, and exits with its exit code. On
    Linux the COMMAND ends too if this process is killed.
    """
    counts = dict(map(_topic, topics))
    values = given_settings(None, settings)
    if command:
        from ottla.cli.quick.launching import launching

        with launching(command) as launch, _broker(listen, counts, values) as address:
            sys.exit(launch.run(address))
    with _broker(listen, counts, values) as address, Stopping() as stopping:
        _print(address, output)
        sys.stdout.flush()
        while not stopping.wait(LOOK_S * 10):
            pass


@contextmanager
def _broker(listen: str, topics: dict[str, int], settings: dict[str, str]) -> Iterator[str]:
    """Yields the address of a broker; its directory is removed afterwards."""
    from ottla.embedded.log import open as open_log

    with (
        tempfile.TemporaryDirectory(prefix="ottla-quick-") as directory,
        open_log(f"{directory}/data", settings) as log,
    ):
        for name, count in topics.items():
            log.create_topic(name, partitions=count)
        yield log.listen(listen).address


def _topic(text: str) -> tuple[str, int]:
    """Parses NAME or NAME:PARTITIONS; raises `UserError`."""
    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isdigit() and int(count))):
        raise UserError(f"--topic takes NAME or NAME:PARTITIONS, such as orders:3, not {text!r}")
    return name, int(count) if colon else 1


def _print(address: str, output: Output) -> None:
    lines = settings_lines(address)
    if output.as_json:
        print_json({"address": address, "pid": os.getpid(), "clients": lines})
    elif output.is_quiet:
        click.echo(address)
    else:
        click.echo(f"ready {address} pid={os.getpid()}; Ctrl-C ends it, and its data is removed\n")
        width = max(map(len, lines))
        for client, line in lines.items():
            click.echo(f"{client:{width}}  {line}")


def settings_lines(address: str) -> dict[str, str]:
    """Returns one line of code or shell for each client."""
    return {client: text.format(address=address) for client, text in CLIENTS.items()}
