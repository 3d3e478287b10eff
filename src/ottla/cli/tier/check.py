"""`ottla tier check`: whether a tier is whole."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.base.texts import size_text
from ottla.cli.endings import named_files
from ottla.cli.late_line import CopyLine
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, counted
from ottla.cli.tier.options import chosen_options, contents_of

if TYPE_CHECKING:
    from ottla.storage.findings import Finding
    from ottla.storage.tiers.check import TierReport

EXIT_FINDINGS = 1


@click.command(
    "check",
    cls=ExampleCommand,
    examples=("ottla tier check data/ --tier tier/", "ottla tier check --tier tier/ -t orders"),
)
@click.argument("directories", metavar="[DIR]...", nargs=-1)
@chosen_options
@click.option("--deep", is_flag=True, help="Decompress every batch and read its records.")
@output_options()
def check_command(directories: tuple[str, ...], deep: bool, output: Output, **given: Any) -> None:
    """Check whether a tier has every object of every upload, and each is sound.

    Reads all of it: every batch is compared with its checksum, and every index with its log. DIR
    are the log directories of a broker that has filled it: their records say which uploads there
    must be. Exits with 1 if a line names damage, or offsets that are lost. Lines that begin with
    "note" are not damage, such as objects that no record names.
    """
    from ottla.storage.tiers.check import check_tier

    with named_files(directories[0] if directories else str(given["tier"] or given["tier_config"])):
        contents = contents_of(directories, given)
        with CopyLine("checking", is_quiet=output.is_quiet) as line:
            report = check_tier(contents, deep=deep, on_bytes=line.show)
    for finding in report.findings:
        text = f"note: {finding.text}" if finding.is_note else finding.text
        output.say(text, _finding_fields(finding))
    output.say(_summary(report), _summary_fields(report))
    if not report.is_sound:
        sys.exit(EXIT_FINDINGS)


def _finding_fields(finding: "Finding") -> dict[str, object]:
    lost = finding.lost
    return {
        "type": "note" if finding.is_note else "finding",
        "object": finding.path,
        "position": finding.position,
        "kind": finding.kind.value,
        "reason": finding.reason,
        "lost_offsets": None if lost is None else [lost.first, lost.last],
    }


def _summary_fields(report: "TierReport") -> dict[str, object]:
    return {
        "type": "summary",
        "tier": report.address,
        "is_sound": report.is_sound,
        "findings": sum(not one.is_note for one in report.findings),
        "partitions": report.partition_count,
        "uploads": report.upload_count,
        "batches": report.counts.batches,
        "records": report.counts.records,
        "size": report.size,
    }


def _summary(report: "TierReport") -> str:
    fields = _summary_fields(report)
    verdict = "sound" if report.is_sound else counted(fields["findings"], "finding")
    nouns = {
        "partitions": "partition", "uploads": "upload", "batches": "batch", "records": "record"
    }  # fmt: skip
    counts = ", ".join(counted(fields[name], noun) for name, noun in nouns.items())
    return f"{report.address}: {verdict} ({counts}, {size_text(report.size)})"
