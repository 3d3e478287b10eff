"""`ottla log check`: finds damage in a log directory."""

import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.endings import named_files
from ottla.cli.late_line import CountLine
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, counted

if TYPE_CHECKING:
    from ottla.storage.diagnosis.directory_check import CheckReport
    from ottla.storage.findings import Finding

EXIT_FINDINGS = 1


@click.command("check", cls=ExampleCommand, examples=("ottla log check data/",))
@click.argument("directory", metavar="DIR")
@click.option("--deep", is_flag=True, help="Decompress every batch and read its records.")
@output_options()
def check_command(directory: str, deep: bool, output: Output) -> None:
    """Check the log directory or partition's directory DIR.

    Exits with 0 if it is sound; otherwise prints a line for each finding, with the file, the byte
    position and the reason, and exits with 1. Lines that begin with "note" are not damage. Nothing
    is written; in the directory of a running broker the end of a log may be incomplete.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.directory_check import check

    line = CountLine("checking", "directories and files", is_quiet=output.is_quiet)
    with named_files(directory), line:
        report = check(OsFileSystem(), directory, deep=deep, on_step=line.show)
    write_report(report, output)
    if not report.is_sound:
        sys.exit(EXIT_FINDINGS)


def write_report(report: "CheckReport", output: Output, *, only_summary: bool = False) -> None:
    for finding in () if only_summary else report.findings:
        output.say(finding_text(finding), finding_fields(finding))
    output.say(summary_text(report), summary_fields(report))


def finding_text(finding: "Finding") -> str:
    return f"note: {finding.text}" if finding.is_note else finding.text


def finding_fields(finding: "Finding") -> dict[str, object]:
    return {
        "type": "note" if finding.is_note else "finding",
        "file": finding.path,
        "position": finding.position,
        "kind": finding.kind.value,
        "reason": finding.reason,
    }


def summary_fields(report: "CheckReport") -> dict[str, object]:
    return {
        "type": "summary",
        "directory": report.path,
        "is_sound": report.is_sound,
        "is_live": report.is_live,
        "findings": sum(not one.is_note for one in report.findings),
        "partitions": len(report.partitions),
        "segments": sum(one.segment_count for one in report.partitions),
        "batches": sum(one.batch_count for one in report.partitions),
        "records": sum(one.record_count for one in report.partitions),
        "size": sum(one.size for one in report.partitions),
    }


def summary_text(report: "CheckReport") -> str:
    fields = summary_fields(report)
    verdict = "sound" if report.is_sound else counted(fields["findings"], "finding")
    live = ", in use by a broker" if report.is_live else ""
    nouns = {
        "partitions": "partition", "segments": "segment", "batches": "batch", "records": "record"
    }  # fmt: skip
    counts = [counted(fields[name], noun) for name, noun in nouns.items()]
    return f"{report.path}: {verdict}{live} ({', '.join(counts)}, {fields['size']} bytes)"
