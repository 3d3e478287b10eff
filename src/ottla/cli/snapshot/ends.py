"""`--at`: the ends of the logs of a branched or restored directory."""

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.base.texts import age_ms
from ottla.base.values import dataclass
from ottla.cli.target import AT_REST
from ottla.diagnosis.offset_reset import ResetKind, parse_place

if TYPE_CHECKING:
    from ottla.embedded.cutting import Cut
    from ottla.embedded.log import Log

_OFFSET = lazy_pattern(r"(.+)-(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBeyond:
    """A group whose committed offset is beyond the new end."""

    group: str
    place: TopicPartition
    offset: int
    end: int


@dataclass(slots=True)
class Ends:
    """The ends that `--at` asks for, and the result after `cut`."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    """Timestamp of the first record to remove, in all other partitions."""
    cuts: "list[Cut]" = field(default_factory=list)
    beyond: list[CommitBeyond] = field(default_factory=list)

    def cut(self, paths: Sequence[str]) -> None:
        """Cuts the logs of directories that no process uses; leaves them cleanly stopped."""
        if not self.offsets and self.timestamp_ms is None:
            return
        from ottla.embedded.cutting import cut_logs, offsets_at_time
        from ottla.embedded.log import open as open_log

        with open_log(paths, AT_REST) as log:
            ends = {}
            if self.timestamp_ms is not None:
                ends = offsets_at_time(log, self.timestamp_ms)
            self.cuts = cut_logs(log, ends | self.offsets)
            self.beyond = _commits_beyond(log, self.cuts)

    def fields(self) -> dict[str, object]:
        """The result for the commands' JSON."""
        return {
            "ends": [
                {"topic": one.place.topic, "partition": one.place.partition,
                 "wanted": one.wanted, "end": one.end, "end_before": one.end_before}
                for one in self.cuts
            ],
            "groups_beyond": [
                {"group": one.group, "topic": one.place.topic, "partition": one.place.partition,
                 "offset": one.offset, "end": one.end}
                for one in self.beyond
            ],
        }  # fmt: skip

    def write(self) -> None:
        """Prints the result as sentences."""
        for cut in self.cuts:
            why = ""
            if cut.end < cut.wanted:
                why = f", since a batch or a transaction there reaches beyond {cut.wanted}"
            where = f"{cut.place.topic}-{cut.place.partition}"
            click.echo(f"{where} ends at {cut.end}, and ended at {cut.end_before}{why}")
        for one in self.beyond:
            where = f"{one.place.topic}-{one.place.partition}"
            click.echo(
                f"group {one.group} has committed {one.offset} of {where}, which ends at "
                f"{one.end}: ottla groups reset sets where it continues"
            )


def parse_ends(places: Sequence[str], now_ms: int) -> Ends:
    """Raises `UserError`."""
    ends = Ends()
    for text in places:
        found = _OFFSET.fullmatch(text)
        if found:
            ends.offsets[TopicPartition(found[1], int(found[2]))] = int(found[3])
            continue
        is_time = text.startswith("@") or age_ms(text) is not None
        place = parse_place("--at", text, now_ms) if is_time else None
        if place is None or place.kind is not ResetKind.TIME:
            raise UserError(
                f"--at {text}: use TOPIC-PARTITION:OFFSET, @TIME such as @2026-01-31T12:00, "
                "or an age such as 2h"
            )
        if ends.timestamp_ms is not None:
            raise UserError("--at takes one time for all partitions, or an offset for each")
        ends.timestamp_ms = place.number
    return ends


def _commits_beyond(log: "Log", cuts: "Sequence[Cut]") -> list[CommitBeyond]:
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.group_resets import begins_of

    ends = {cut.place: cut.end for cut in cuts}
    with Admin(log) as admin:
        return [
            CommitBeyond(group=listed.group, place=place, offset=offset, end=ends[place])
            for listed in admin.list_groups()
            for place, offset in sorted(begins_of(admin, listed.group, listed.kind).items())
            if place in ends and offset > ends[place]
        ]
