"""`ottla log repair`: plans a repair, and carries it out on request."""

import os
import sys
import time

import click

from ottla.base.errors import UserError
from ottla.cli.endings import named_files
from ottla.cli.late_line import CountLine, LateLine
from ottla.cli.log.check import EXIT_FINDINGS, finding_fields, write_report
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, counted
from ottla.storage.diagnosis.repair_plan import Action, ActionKind, RepairPlan
from ottla.storage.findings import LostOffsets

STEPS = {
    ActionKind.REMOVE: "remove it",
    ActionKind.REBUILD_INDEXES: "rebuild its offset and time index",
    ActionKind.STAMP_OFFSET: "correct the base offset at byte {position} to {offset}",
    ActionKind.STAMP_EPOCH: "correct the leader epoch at byte {position} to {epoch}",
    ActionKind.REBUILD_EPOCHS: "rebuild it from the batches",
    ActionKind.REBUILD_TRANSACTIONS: "rebuild it from the transaction markers",
    ActionKind.REPLACE_SNAPSHOT: "remove it, and take one of the log's end",
    ActionKind.FINISH_SWAP: "put the compacted segment in place",
    ActionKind.ACCEPT_LOSS: "continue without the offsets that are lost",
    ActionKind.WRITE_TOPIC_ID: "write the id that the topic's other partitions have",
    ActionKind.SET_CHECKPOINT: "set {entry}",
}


@click.command(
    "repair",
    cls=ExampleCommand,
    examples=(
        "ottla log repair data/",
        "ottla log repair --in-place data/",
    ),
)
@click.argument("directory", metavar="DIR")
@click.option("--in-place", is_flag=True, help="Repair DIR itself.")
@click.option("--copy-to", metavar="NEWDIR", help="Copy DIR to NEWDIR and repair the copy.")
@click.option("--deep", is_flag=True, help="Decompress every batch to find damage.")
@click.option("--discard", is_flag=True, help="Discard the bytes that are cut out.")
@output_options()
def repair_command(
    directory: str, in_place: bool, copy_to: str | None, deep: bool, discard: bool, output: Output
) -> None:
    """Plan the repair of the log directory or partition's directory DIR, and carry it out.

    Without --in-place or --copy-to nothing is written. Exits with 0 if DIR is sound or was
    repaired, otherwise with 1. Bytes cut out of a log are kept in NAME.cut-POSITION.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.repair import copy_directory

    if in_place and copy_to is not None:
        raise UserError("--in-place and --copy-to exclude each other")
    writer = PlanWriter(output, discard=discard)
    with named_files(directory):
        if copy_to is not None:
            with LateLine(f"copying {directory}", is_quiet=output.is_quiet):
                copy_directory(OsFileSystem(), os.path.abspath(directory), os.path.abspath(copy_to))
        if in_place or copy_to is not None:
            is_sound = carry_out(copy_to or directory, writer, deep=deep, discard=discard)
        else:
            is_sound = show(directory, writer, deep=deep)
    if not is_sound:
        sys.exit(EXIT_FINDINGS)


def show(directory: str, writer: "PlanWriter", *, deep: bool) -> bool:
    """Prints the plan; returns whether there is nothing to do."""
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.repair import plan_for

    with _line(writer.output) as line:
        report, plan = plan_for(OsFileSystem(), directory, deep=deep, on_step=line.show)
    writer.write(plan)
    output = writer.output
    if output.as_json:
        write_report(report, output, only_summary=True)
    elif report.is_live:
        output.say(f"{directory} is in use: stop the broker before a repair.")
    elif plan.actions:
        output.say("Nothing was changed: --in-place does this, --copy-to NEWDIR does it on a copy.")
    elif plan.is_empty:
        output.say(f"{directory}: nothing to repair")
    return plan.is_empty


def carry_out(directory: str, writer: "PlanWriter", *, deep: bool, discard: bool) -> bool:
    """Carries out the plan, and prints what is left; returns whether the directory is sound now."""
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.repair import RepairOptions, repair

    with _line(writer.output) as line:

        def show_plan(plan: RepairPlan) -> None:
            with line.aside():
                writer.write(plan)

        options = RepairOptions(
            now_ms=int(time.time() * 1000),
            deep=deep,
            discard=discard,
            on_plan=show_plan,
            on_step=line.show,
        )
        report = repair(OsFileSystem(), directory, options)
    writer.output.say(writer.summary())
    write_report(report, writer.output)
    return report.is_sound


def _line(output: Output) -> CountLine:
    return CountLine("looking for damage", "directories and files", is_quiet=output.is_quiet)


class PlanWriter:
    """Prints plans, and sums up what they cost."""

    def __init__(self, output: Output, *, discard: bool) -> None:
        self.output = output
        self._discard = discard
        self._cuts: list[Action] = []
        self._step_count = 0

    def write(self, plan: RepairPlan) -> None:
        self._step_count += len(plan.actions)
        self._cuts += [one for one in plan.actions if one.kind is ActionKind.CUT_OUT]
        for action in plan.actions:
            self.output.say(
                action_text(action, discard=self._discard),
                action_fields(action, discard=self._discard),
            )
        for finding in plan.unmendable:
            self.output.say(
                f"{finding.text} (no repair is known: restore the file)",
                {**finding_fields(finding), "type": "unmendable"},
            )

    def summary(self) -> str:
        """Summarizes what was done, and what is lost."""
        size = sum(one.size or 0 for one in self._cuts)
        logs = len({one.path for one in self._cuts})
        done = f"Done: {counted(self._step_count, 'step')}."
        if not self._cuts:
            return f"{done} Nothing was taken out of a log."
        cut = f"{counted(size, 'byte')} taken out of {counted(logs, 'log')}"
        lost = [f"{short_name(one.path)}: {lost_text(one.lost)}" for one in self._cuts if one.lost]
        return f"{done} {cut}; {'; '.join(lost)}."


def short_name(path: str) -> str:
    """A file with its partition."""
    from ottla.base.files import base_name, parent_directory

    return f"{base_name(parent_directory(path))}/{base_name(path)}"


def action_text(action: Action, *, discard: bool) -> str:
    if action.kind is ActionKind.CUT_OUT:
        kept = kept_in(action, discard=discard)
        size = counted(action.size, "zero byte" if action.is_zero else "byte")
        step = f"take out {size} at byte {action.position}"
        step += f", kept in {kept}" if kept else ""
        lost = lost_text(action.lost) if action.lost else ""
        return f"{action.path}: {step}; {lost} ({action.reason})"
    if action.kind is ActionKind.SET_ASIDE:
        kept = kept_in(action, discard=discard)
        step = f"rename it to {kept}" if kept else "remove it"
    else:
        topic, partition, offset = action.entry or ("", 0, 0)
        step = STEPS[action.kind].format(
            position=action.position,
            offset=action.offset,
            epoch=action.epoch,
            entry=f"{topic}-{partition} to {offset}",
        )
    return f"{action.path}: {step} ({action.reason})"


def lost_text(lost: LostOffsets) -> str:
    """Says which offsets are missing afterwards, as far as known."""
    if lost.last is None:
        if lost.stated_last is None or lost.stated_last < lost.first:
            text = f"whatever came after offset {lost.first - 1} is lost"
        else:
            text = f"offsets {lost.first} to {lost.stated_last} are lost, according to the header"
    elif lost.last < lost.first:
        text = "no offset is lost"
    elif lost.last == lost.first:
        text = f"offset {lost.first} is lost"
    else:
        count = lost.last - lost.first + 1
        text = f"offsets {lost.first} to {lost.last} are lost, {count} records at the most"
    return f"{text}; it says that it ended a transaction" if lost.is_control else text


def kept_in(action: Action, *, discard: bool) -> str | None:
    """Returns where the removed bytes or files of a step are kept."""
    from ottla.storage.diagnosis.repair import cut_path, damaged_path

    if discard or action.is_zero or action.kind not in (ActionKind.CUT_OUT, ActionKind.SET_ASIDE):
        return None
    if action.kind is ActionKind.SET_ASIDE:
        return damaged_path(action.path)
    return cut_path(action.path, action.position or 0)


def action_fields(action: Action, *, discard: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "type": "action",
        "kind": action.kind.value,
        "file": action.path,
        "position": action.position,
        "size": action.size,
        "reason": action.reason,
        "kept_in": kept_in(action, discard=discard),
    }
    if action.lost is not None:
        fields["lost_first_offset"] = action.lost.first
        fields["lost_last_offset"] = action.lost.last
        fields["stated_last_offset"] = action.lost.stated_last
    return fields
