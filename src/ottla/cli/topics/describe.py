"""`ottla topics describe`: partitions, overridden settings, and producers."""

import contextlib
from typing import TYPE_CHECKING

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import RefusalError, UnreachableError, UserError
from ottla.base.texts import duration_text, matching, rate_text, size_text
from ottla.cli.completion.names import complete_topics
from ottla.cli.losses import Losses
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, print_json
from ottla.cli.topics.list import fields_of
from ottla.diagnosis.words.settings import retention_text

if TYPE_CHECKING:
    from ottla.base.partitions import TopicPartition
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.descriptions import ActiveProducer, TopicActivity

WINDOW_S = 300.0
EARLIEST_LOCAL, LATEST_TIERED = -4, -5
"""The special timestamps of the first offset on disks, and the last in a tier (KIP-405, 1005)."""


@click.command(
    "describe",
    cls=TargetCommand,
    examples=("ottla topics describe localhost:9092 orders",),
)
@target_argument()
@click.argument(
    "patterns", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics
)
@output_options(NAMES_ONLY)
def describe_command(target: Target, patterns: tuple[str, ...], output: Output) -> None:
    """Describe topics: partitions, offsets, sizes, settings, and active producers.

    Only producers with a producer id, such as idempotent ones, are listed. Exits with 1 if a broker
    does not answer.
    """
    from ottla.client.administration.admin import Admin

    now_ms, losses = SystemClock().now_ms(), Losses()
    with target.reading() as cluster:
        admin = Admin(cluster)
        known = {one.name: one for one in admin.describe_topics(internal=True)}
        names = matching("topic", patterns, known)
        if output.is_brief:
            output.names(names)
            return
        since_ms = now_ms - round(WINDOW_S * 1000)
        found = admin.topic_activity(
            [known[name] for name in names], since_ms, on_unreachable=losses.leader_is_silent
        )
        for number, one in enumerate(found):
            if output.as_json:
                _print_json(admin, one, target)
                continue
            if number:
                click.echo()
            _show(admin, one, now_ms, target)
    losses.end()


def _show(admin: "Admin", one: "TopicActivity", now_ms: int, target: Target) -> None:
    name = one.topic.name
    settings, overrides = _settings(admin, name)
    internal = ", internal" if one.topic.is_internal else ""
    click.echo(
        f"{name}: {counted(len(one.partitions), 'partition')}{internal}, {one.count:,} records, "
        f"{size_text(one.size)}, {rate_text(one.recent_count, WINDOW_S)} records/s, "
        f"retention {retention_text(settings)}"
    )
    for key, value in sorted(overrides.items()):
        click.echo(f"  {key}={value}")
    click.echo()
    leaders = {each.partition: each for each in one.topic.partitions}
    tiers = _tiers(admin, one, settings)
    sizes = _tier_sizes(target, one) if tiers else {}
    rows = []
    for each in one.partitions:
        led = leaders[each.place.partition]
        rows.append(
            (
                each.place.partition,
                led.leader if led.leader >= 0 else "none",
                ",".join(map(str, led.replicas)),
                ",".join(map(str, led.in_sync)),
                each.start_offset,
                *tiers.get(each.place, ()),
                each.end_offset,
                size_text(each.size),
                *([size_text(sizes.get(each.place, 0))] if sizes else []),
            )
        )
    in_tier = ("#first local", "#last in tier") if tiers else ()
    columns = ("#partition", "leader", "replicas", "in sync", "#first offset", *in_tier,
               "#next offset", "#local size" if tiers else "#size",
               *(["#tier size"] if sizes else []))  # fmt: skip
    print_rows(columns, rows)
    producers = _producers(admin, one)
    if producers:
        click.echo()
        print_rows(
            ("#producer id", "#epoch", "partitions", "last wrote", "transaction"),
            [
                (
                    producer_id,
                    epoch,
                    ",".join(str(place.partition) for place, _ in places),
                    _age(max(each.last_timestamp_ms for _, each in places), now_ms),
                    _transaction(places),
                )
                for (producer_id, epoch), places in sorted(producers.items())
            ],
        )


def _settings(admin: "Admin", name: str) -> tuple[dict[str, str], dict[str, str]]:
    """All settings and the overridden ones; none of a topic whose settings the user may not see."""
    settings = admin.topics_settings([name]).get(name, {})
    return settings, admin.topic_overrides([name]).get(name, {}) if settings else {}


def _tiers(
    admin: "Admin", one: "TopicActivity", settings: dict[str, str]
) -> "dict[TopicPartition, tuple[int, int]]":
    """Of a topic with a remote tier the first local offset of each partition, and the last one in
    the tier (-1 if it is not known); otherwise nothing.
    """
    if settings.get("remote.storage.enable") != "true":
        return {}
    places = [each.place for each in one.partitions]
    try:
        local = admin.list_offsets(places, EARLIEST_LOCAL)
        tiered = admin.list_offsets(places, LATEST_TIERED)
    except (RefusalError, UserError):
        return {}  # A broker that does not know these, or a partition without a leader.
    return {place: (local[place].offset, tiered[place].offset) for place in places}


def _tier_sizes(target: Target, one: "TopicActivity") -> "dict[TopicPartition, int]":
    """The bytes of each partition's uploads, by the records in directories; nothing of a broker
    elsewhere, since no API tells of them.
    """
    if not target.is_directory:
        return {}
    from ottla.base.partitions import TopicPartition
    from ottla.diagnosis.directories import read_directories

    files = read_directories(target.directories)
    return {
        TopicPartition(log.topic, log.partition): files.remote_records.part_of(log).tier_size
        for log in files.logs(one.topic.name)
    }


def _producers(
    admin: "Admin", one: "TopicActivity"
) -> "dict[tuple[int, int], list[tuple[TopicPartition, ActiveProducer]]]":
    """None where the user may not read the topic, or a leader does not answer."""
    found: dict[tuple[int, int], list[tuple[TopicPartition, ActiveProducer]]] = {}
    with contextlib.suppress(RefusalError, UnreachableError):
        for place, producers in admin.producers_of(one.topic).items():
            for each in producers:
                found.setdefault((each.producer_id, each.producer_epoch), []).append((place, each))
    return found


def _age(timestamp_ms: int, now_ms: int) -> str:
    return f"{duration_text(max(0, now_ms - timestamp_ms))} ago" if timestamp_ms >= 0 else "–"


def _transaction(places: "list[tuple[TopicPartition, ActiveProducer]]") -> str:
    is_open = any(each.transaction_start_offset is not None for _, each in places)
    return "open" if is_open else ""


def _print_json(admin: "Admin", one: "TopicActivity", target: Target) -> None:
    settings, overrides = _settings(admin, one.topic.name)
    leaders = {each.partition: each for each in one.topic.partitions}
    tiers = _tiers(admin, one, settings)
    sizes = _tier_sizes(target, one) if tiers else {}
    print_json(
        {
            **fields_of(one, settings, WINDOW_S),
            "settings": overrides,
            "by_partition": [
                {
                    "partition": each.place.partition,
                    "leader": leaders[each.place.partition].leader,
                    "replicas": leaders[each.place.partition].replicas,
                    "in_sync": leaders[each.place.partition].in_sync,
                    "first_offset": each.start_offset,
                    "next_offset": each.end_offset,
                    "size": each.size,
                    **_tier_fields(tiers.get(each.place)),
                    **({"tier_size": sizes.get(each.place, 0)} if sizes else {}),
                }
                for each in one.partitions
            ],
            "producers": [
                {
                    "producer_id": producer_id,
                    "producer_epoch": epoch,
                    "partitions": [place.partition for place, _ in places],
                    "last_timestamp_ms": max(each.last_timestamp_ms for _, each in places),
                }
                for (producer_id, epoch), places in sorted(_producers(admin, one).items())
            ],
        }
    )


def _tier_fields(found: tuple[int, int] | None) -> dict[str, int]:
    """Of a partition of a topic with a tier."""
    return {} if found is None else {"first_local_offset": found[0], "last_tiered_offset": found[1]}
