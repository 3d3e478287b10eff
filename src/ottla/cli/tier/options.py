"""The options that the commands of `ottla tier` share."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.cli.output import Output
from ottla.cli.terminal import with_options
from ottla.cli.tiers import tier_of, tier_options

if TYPE_CHECKING:
    from ottla.storage.tiers.contents import TierContents, TieredLog

HOW_TO_NAME = "name the tier with --tier: its directory or URL, or with --config"

chosen_options = with_options(
    tier_options,
    click.option("--topic", "-t", "topics", multiple=True, help="Topic; repeatable."),
    click.option(
        "--partition",
        "-p",
        "partitions",
        type=click.IntRange(0),
        multiple=True,
        help="Partition; repeatable.",
    ),
)
"""Which tier, and what of it."""


def contents_of(directories: Sequence[str], given: Mapping[str, Any]) -> "TierContents":
    """The tier that the options name, with the log directories; raises `UserError`."""
    tier = tier_of(given)
    if tier is None:
        raise UserError(HOW_TO_NAME)
    from ottla.storage.reading.read_only_directory import open_for_reading
    from ottla.storage.tiers.contents import TierContents

    opened = [open_for_reading(path) for path in directories]
    return TierContents(tier.open(), opened, taker(given["topics"], given["partitions"]))


def taker(topics: Sequence[str], partitions: Sequence[int]) -> Callable[[str, int], bool]:
    """Whether a partition is among those that the options name; all without options."""

    def takes(topic: str, partition: int) -> bool:
        return (not topics or topic in topics) and (not partitions or partition in partitions)

    return takes


def found_logs(contents: "TierContents", output: Output) -> "list[TieredLog]":
    """The chosen partitions, with remarks about what is wrong with the records about them."""
    logs = contents.logs()
    for finding in contents.findings:
        output.remark(finding.text)
    for log in logs:
        for finding in log.findings:
            output.remark(finding.text)
    if contents.directories and any(not log.has_records for log in logs):
        output.remark(
            "no records about some uploads are in the directories: what lies in the tier is taken "
            "for them"
        )
    return logs
