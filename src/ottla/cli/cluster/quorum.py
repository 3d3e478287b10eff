"""`ottla cluster status --controllers`: the quorum of a KRaft cluster."""

import sys
from typing import TYPE_CHECKING

import click

from ottla.base.addresses import address_text
from ottla.base.errors import UserError
from ottla.base.ids import uuid_text
from ottla.cli.output import Output
from ottla.cli.tables import print_rows
from ottla.cli.target import Target
from ottla.cli.terminal import counted, print_json

if TYPE_CHECKING:
    from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus

EXIT_COMPLAINTS = 1
COLUMNS = ("#node", "role", "address", "directory", "#end offset", "#lag", "#behind for")


def show_controllers(target: Target, output: Output) -> None:
    """Prints it; exits with 1 if a voter does not fetch. Raises `UserError`."""
    from ottla.client.administration.quorum_status import quick_transport, quorum_status

    addresses = target.broker_addresses()
    if not addresses:
        raise UserError("--controllers asks controllers: name one as HOST:PORT")
    status = quorum_status(addresses, quick_transport(target.client_settings()))
    print_quorum(status, output)
    if status.silent:
        sys.exit(EXIT_COMPLAINTS)


def print_quorum(status: "QuorumStatus", output: Output) -> None:
    if output.as_json:
        _print_objects(status)
    elif not output.is_quiet:
        _print_table(status)


def _print_table(status: "QuorumStatus") -> None:
    click.echo(
        f"node {status.leader} leads epoch {status.epoch}: {counted(len(status.voters), 'voter')}, "
        f"{counted(len(status.observers), 'observer')}, committed to offset {status.high_watermark}"
    )
    if status.election_reason:
        click.echo(f"node {status.leader} has stood for election because {status.election_reason}")
    print_rows(COLUMNS, [_row(one, status) for one in status.replicas])


def _row(one: "QuorumReplica", status: "QuorumStatus") -> tuple[object, ...]:
    role = "voter" if one.is_voter else "observer"
    return (
        one.node,
        "leader" if one.is_voter and one.node == status.leader else role,
        "" if one.address is None else address_text(*one.address),
        "" if one.directory_id is None else uuid_text(one.directory_id),
        "has not fetched" if one.end_offset < 0 else one.end_offset,
        one.lag,
        _behind_text(one, status),
    )


def _behind_text(one: "QuorumReplica", status: "QuorumStatus") -> str:
    """How long before its last fetch a replica had all that the leader had, or that it does not
    fetch.
    """
    if status.is_silent(one):
        quiet_ms = status.quiet_ms(one)
        return "" if quiet_ms is None else f"silent for {quiet_ms / 1000:.0f} s"
    if one.last_fetch_ms is None or one.last_caught_up_ms is None:
        return ""
    return f"{max(one.last_fetch_ms - one.last_caught_up_ms, 0) / 1000:.1f} s"


def _print_objects(status: "QuorumStatus") -> None:
    print_json(
        {
            "type": "quorum",
            "leader": status.leader,
            "epoch": status.epoch,
            "high_watermark": status.high_watermark,
            "election_reason": status.election_reason or None,
            "silent_voters": list(status.silent),
        }
    )
    for one in status.replicas:
        print_json(
            {
                "type": "voter" if one.is_voter else "observer",
                "node": one.node,
                "directory": None if one.directory_id is None else uuid_text(one.directory_id),
                "address": None if one.address is None else address_text(*one.address),
                "end_offset": one.end_offset,
                "lag": one.lag,
                "last_fetch_ms": one.last_fetch_ms,
                "last_caught_up_ms": one.last_caught_up_ms,
                "is_silent": status.is_silent(one),
            }
        )
