"""The output of `ottla mirror`: a line while it copies, a table of topics, and what was refused."""

import sys
import time
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

import click

from ottla.base.values import dataclass
from ottla.cli.output import Output
from ottla.cli.terminal import ProgressLine, counted, new_table, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.mirror.mirror import PartitionReport, RoundReport
    from ottla.mirror.plan import Gap

EXIT_REFUSED = 1


def new_line(console: "Console") -> ProgressLine:
    """Returns the line that shows the progress of a mirror."""
    return ProgressLine(console, "looking at the source", noun="offsets")


def draw(line: ProgressLine, report: "PartitionReport") -> None:
    """Shows the progress of a partition in this round."""
    from rich.filesize import decimal

    done, total = report.until_offset - report.from_offset, report.source_end - report.from_offset
    line.say(f"{_place(report)}, {decimal(report.size)}", done, total)


def partition_words(report: "PartitionReport") -> str:
    """The progress of a partition, as `ottla status` shows it."""
    from rich.filesize import decimal

    return (
        f"{_place(report)}: offset {report.until_offset:,} of {report.source_end:,}, "
        f"{decimal(report.size)}"
    )


def round_words(report: "RoundReport") -> str:
    """Describes the state after a round."""
    refused = f", {len(report.refusals)} refused" if report.refusals else ""
    return f"{counted(len(report.partitions), 'partition')} up to date with the source{refused}"


def _place(report: "PartitionReport") -> str:
    return f"{report.name} ({report.number} of {report.count})"


@dataclass(slots=True)
class TopicTotal:
    """What was done for one topic since the mirror began; ends are summed over its partitions."""

    ends: dict[int, int] = field(default_factory=dict)
    offset_count: int = 0
    size: int = 0
    gaps: "list[tuple[int, Gap]]" = field(default_factory=list)


class Totals:
    """Sums up rounds. While following, each round that copied something is a line."""

    def __init__(
        self, console: "Console", target: str, output: Output, *, is_following: bool
    ) -> None:
        """The console is for people: with `--json` and `-q` it prints nothing."""
        self._console = console
        self._as_json = output.as_json
        self._target = target
        self._is_following = is_following
        self._began = time.monotonic()
        self._topics: dict[str, TopicTotal] = {}
        self._said: set[str] = set()
        self._refusals: dict[str, str] = {}
        self._commit_count = 0
        self._held_back = 0
        self.was_stopped = False
        """Whether it was stopped during a round."""

    def add(self, report: "RoundReport") -> None:
        for one in report.partitions:
            self._add_partition(one)
        self._commit_count += report.commit_count
        self._held_back = report.held_back
        self._refusals = report.refusals
        for topic, names in report.unknown_settings.items():
            self.say_once(f"topic {topic}: unknown settings: {', '.join(names)}")
        for place, reason in report.refusals.items():
            self.say_once(f"{place}: {reason}")
        if not self._is_following or not report.size:
            return
        if self._as_json:
            print_json(_round_fields(report))
        else:
            self._console.print(_round_line(report))

    def _add_partition(self, one: "PartitionReport") -> None:
        topic = self._topics.setdefault(one.topic, TopicTotal())
        topic.ends[one.partition] = one.until_offset
        topic.offset_count += one.until_offset - one.from_offset
        topic.size += one.size
        if one.note is not None:
            self.say_once(f"{one.name}: {one.note}")
        for gap in one.gaps:
            topic.gaps.append((one.partition, gap))
            self.say_once(
                f"{one.name}: offsets {gap.from_offset:,} to {gap.until_offset - 1:,} were "
                f"deleted from the source; the copy starts after them"
            )

    def say_once(self, text: str) -> None:
        """Prints a message on standard error, unless it was printed before."""
        if text not in self._said:
            self._said.add(text)
            click.echo(f"ottla: {text}", err=True)

    def finish(self) -> None:
        """Prints the table and a last line, or an object for each topic and a last one; exits with
        1 if something was refused or interrupted.
        """
        if self._as_json:
            self._print_objects()
        else:
            self._print_table()
        if self._refusals or (self.was_stopped and not self._is_following):
            sys.exit(EXIT_REFUSED)

    def _print_objects(self) -> None:
        for name, topic in sorted(self._topics.items()):
            print_json(
                {
                    "type": "topic",
                    "topic": name,
                    "new_offsets": topic.offset_count,
                    "size": topic.size,
                    "end_offsets": {str(index): end for index, end in sorted(topic.ends.items())},
                    "gaps": [{"partition": index, **asdict(gap)} for index, gap in topic.gaps],
                }
            )
        print_json(
            {
                "type": "summary",
                "target": self._target,
                "size": sum(one.size for one in self._topics.values()),
                "seconds": round(time.monotonic() - self._began, 3),
                "committed_offsets": self._commit_count,
                "committed_offsets_ahead": self._held_back,
                "refused": self._refusals,
                "was_stopped": self.was_stopped,
            }
        )

    def _print_table(self) -> None:
        table = new_table("topic", "partitions", "new offsets", "bytes", "ends at")
        for name, topic in sorted(self._topics.items()):
            ends = ", ".join(f"{end:,}" for _, end in sorted(topic.ends.items())[:6])
            table.add_row(
                name,
                f"{len(topic.ends):,}",
                f"{topic.offset_count:,}",
                f"{topic.size:,}",
                ends + (", …" if len(topic.ends) > 6 else ""),
            )
        self._console.print(table)
        self._console.print(self._last_line())

    def _last_line(self) -> str:
        from rich.filesize import decimal

        seconds = time.monotonic() - self._began
        size = sum(one.size for one in self._topics.values())
        words = [f"{decimal(size)} in {seconds:.1f} s into {self._target}"]
        if self._commit_count:
            words.append(f"{self._commit_count} committed offsets")
        if self._held_back:
            words.append(f"{self._held_back} committed offsets are ahead of what was copied")
        if self._refusals:
            words.append(f"{len(self._refusals)} refused")
        if self.was_stopped:
            words.append("stopped; run it again to continue")
        return "; ".join(words)


def _round_line(report: "RoundReport") -> str:
    from rich.filesize import decimal

    moved = [one for one in report.partitions if one.size]
    names = ", ".join(f"{one.name} to {one.until_offset:,}" for one in moved[:4])
    more = f" and {len(moved) - 4} more" if len(moved) > 4 else ""
    return f"{time.strftime('%H:%M:%S')} {decimal(report.size)}: {names}{more}"


def _round_fields(report: "RoundReport") -> dict[str, Any]:
    return {
        "type": "round",
        "size": report.size,
        "until_offsets": {one.name: one.until_offset for one in report.partitions if one.size},
    }
