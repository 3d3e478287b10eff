"""`ottla transactions list` and `describe`: what a broker knows of transactional ids."""

from typing import TYPE_CHECKING

import click

from ottla.base.times import time_text
from ottla.cli.losses import Losses
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument

if TYPE_CHECKING:
    from ottla.storage.diagnosis.open_transactions import CoordinatedTransaction


@click.command("list", cls=TargetCommand, examples=("ottla transactions list localhost:9092",))
@target_argument()
@click.option(
    "--state", "states", multiple=True, help="State to list, such as Ongoing; repeatable."
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=int,
    multiple=True,
    help="Producer id to list; repeatable.",
)
@output_options(NAMES_ONLY)
def list_command(
    target: Target, states: tuple[str, ...], producer_ids: tuple[int, ...], output: Output
) -> None:
    """Print the transactional ids that a broker coordinates, with their states.

    Of damaged files the sound part is listed, and of a cluster what the brokers know that answer;
    the command exits with 1 then.
    """
    from ottla.client.administration.transactions import TransactionAdmin

    losses = Losses()
    with target.reading(losses) as cluster:
        known = TransactionAdmin(cluster)
        found = known.list_transactions(
            states=states, producer_ids=producer_ids, on_unreachable=losses.coordinator_is_silent
        )
    output.listing(
        found,
        ("transactional id", "#producer", "state"),
        ((one.transactional_id, one.producer_id, one.state) for one in found),
        fields=lambda one: {
            "transactional_id": one.transactional_id,
            "producer_id": one.producer_id,
            "state": one.state,
        },
        name=lambda one: one.transactional_id,
        none="there are no transactional ids",
    )
    losses.end()


@click.command(
    "describe",
    cls=TargetCommand,
    examples=("ottla transactions describe localhost:9092 payments-1",),
)
@target_argument()
@click.argument("transactional_ids", metavar="ID...", nargs=-1, required=True)
@output_options(NAMES_ONLY)
def describe_command(target: Target, transactional_ids: tuple[str, ...], output: Output) -> None:
    """Describe transactional ids: state, start time, timeout and partitions."""
    from ottla.base.clock import SystemClock
    from ottla.client.administration.transactions import TransactionAdmin

    losses = Losses()
    with target.reading(losses) as cluster:
        described = TransactionAdmin(cluster).describe_transactions(
            transactional_ids, on_unreachable=losses.coordinator_is_silent
        )
    now_ms = SystemClock().now_ms()
    if output.is_brief:
        output.names(one.transactional_id for one in described)
    for found in () if output.is_brief else described:
        output.say(_text(found, now_ms), _fields(found))
    losses.end()


def _fields(one: "CoordinatedTransaction") -> dict[str, object]:
    return {
        "transactional_id": one.transactional_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "start_ms": None if one.start_ms < 0 else one.start_ms,
        "due_ms": one.due_ms,
        "partitions": [f"{topic}-{index}" for topic, index in sorted(one.partitions)],
    }


def _text(one: "CoordinatedTransaction", now_ms: int) -> str:
    lines = [
        f"{one.transactional_id}: {one.state}, producer {one.producer_id} epoch "
        f"{one.producer_epoch}, timeout {one.timeout_ms / 1000:g} s"
    ]
    if one.due_ms is not None:
        left = f"in {(one.due_ms - now_ms) / 1000:.0f} s" if one.due_ms > now_ms else "overdue"
        lines.append(
            f"  open since {time_text(one.start_ms)} UTC, aborted at {time_text(one.due_ms)} "
            f"({left}) unless its producer ends it"
        )
    if one.partitions:
        names = ", ".join(f"{topic}-{index}" for topic, index in sorted(one.partitions))
        lines.append(f"  writes to {names}")
    return "\n".join(lines)
