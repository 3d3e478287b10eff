"""`ottla transactions find-hanging` and `abort`: finds transactions that no coordinator will
end, and aborts them.
"""

import sys
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.times import time_text
from ottla.cli.losses import Losses
from ottla.cli.output import Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted

if TYPE_CHECKING:
    from ottla.storage.diagnosis.open_transactions import Judged

EXIT_FOUND = 1


@click.command(
    "find-hanging",
    cls=TargetCommand,
    examples=("ottla transactions find-hanging localhost:9092",),
)
@target_argument()
@click.option("--topic", "-t", help="Topic to search; all by default.")
@output_options()
def find_hanging_command(target: Target, topic: str | None, output: Output) -> None:
    """Find transactions that are open in a partition, and that no coordinator will end. Exits with
    1 if there are any, or if a broker does not answer.
    """
    from ottla.base.clock import SystemClock
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.stuck import find_hanging
    from ottla.diagnosis.words.transactions import holding_fields, ways_out

    losses = Losses()
    with target.open() as cluster:
        found = find_hanging(
            Admin(cluster),
            None if topic is None else [topic],
            SystemClock().now_ms(),
            coordinator_is_silent=losses.no_verdict,
            leader_is_silent=losses.open_transactions_are_left_out,
        )
    for one in found:
        lines = [_text(one), *(f"  - {line}" for line in ways_out(one, target.text))]
        output.say("\n".join(lines), holding_fields(one, False, target.text))
    if found or not losses:
        output.say(f"{counted(len(found), 'transaction')} that no coordinator will end")
    sys.exit(EXIT_FOUND if found or losses else 0)


def _text(one: "Judged") -> str:
    from ottla.diagnosis.words.transactions import verdict_text

    holding = one.holding
    return (
        f"{holding.topic}-{holding.partition}: the transaction of producer {holding.producer_id} "
        f"epoch {holding.producer_epoch} from offset {holding.first_offset}, which last wrote at "
        f"{time_text(holding.last_timestamp_ms)} UTC, {verdict_text(one)}"
    )


@click.command(
    "abort",
    cls=TargetCommand,
    examples=("ottla transactions abort localhost:9092 --transactional-id payments-1",),
)
@target_argument()
@click.option(
    "--transactional-id", metavar="ID", help="Transaction to abort in all its partitions."
)
@click.option("--topic", "-t", help="Topic of a hanging transaction.")
@click.option("--partition", "-p", type=int, help="Partition of a hanging transaction.")
@click.option("--start-offset", type=int, help="First offset of the transaction there.")
@output_options()
def abort_command(
    target: Target,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    output: Output,
) -> None:
    """Abort a transaction.

    With --transactional-id the coordinator aborts it in all partitions, and fences its producer.
    With --topic, --partition and --start-offset the marker is written to that partition only; use
    this for a hanging transaction, which no coordinator knows.
    """
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.stuck import abort_by_id

    place = (topic, partition, start_offset)
    is_place = None not in place
    if (transactional_id is None) != is_place or (transactional_id and place != (None,) * 3):
        raise UserError(
            "name either a transaction, --transactional-id ID, or a place, --topic TOPIC "
            "--partition N --start-offset OFFSET"
        )
    with target.open() as cluster:
        admin = Admin(cluster)
        if transactional_id is not None:
            fenced = abort_by_id(admin, transactional_id)
            output.say(
                fenced.text,
                {
                    "transactional_id": transactional_id,
                    "producer_id": fenced.producer_id,
                    "producer_epoch": fenced.producer_epoch,
                    "is_aborted": fenced.open_state is not None,
                },
            )
        else:
            assert topic is not None
            assert partition is not None
            assert start_offset is not None
            producer_id = admin.abort_at(topic, partition, start_offset)
            output.say(
                f"{topic}-{partition}: the transaction of producer {producer_id} from offset "
                f"{start_offset} is aborted",
                {
                    "topic": topic,
                    "partition": partition,
                    "producer_id": producer_id,
                    "first_offset": start_offset,
                    "is_aborted": True,
                },
            )
