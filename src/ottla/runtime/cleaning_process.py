"""A pass of the cleaner in a separate process, a child of `runtime.children`.

It reads the plan as JSON from standard input, writes the outcome as JSON to standard output, and
runs at a low priority. If it is killed, it leaves `.cleaned` files, which the next pass or the next
start removes. It ends when its broker ends, and holds the directory's lock
until then: the next broker must not remove files that are still being written.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from ottla.base.files import OsFileSystem
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.runtime.children import start_child
from ottla.runtime.cleaning import Throttle
from ottla.storage.compaction.compaction import (
    CleanedGroup,
    CompactionPlan,
    CompactionResult,
    CompactionStats,
    DamagedSegmentError,
    StoppedError,
    Surroundings,
    compact,
)
from ottla.storage.compaction.grouping import GroupLimits, SegmentSource
from ottla.storage.compaction.key_filter import new_key_filter
from ottla.storage.compaction.offset_map import OffsetMapTooSmallError
from ottla.storage.compaction.replacement import remove_all_cleaned
from ottla.storage.compaction.verdict import LastRecord
from ottla.storage.index.transaction_index import AbortedTransaction

NICENESS = 10

KILLED_S: Final = 5.0
"""How long is waited for the end of a process that was killed: it does nothing any more, and only a
disk that does not answer keeps it.
"""


class CleaningProcessError(Exception):
    """The process failed; the message is the last line of its standard error."""


class ProcessEngine:
    """Compacts in another process, which the task's `stop` kills; `environment` is this one's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # The process finds the same modules as this one.
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join(sys.path)}

    def __call__(self, task: CleaningTask, throttle: Throttle) -> CompactionResult:
        claim = task.directory.lend_claim()
        try:
            child = start_child(
                __spec__.name,
                pass_fds=[throttle.fileno(), *([] if claim is None else [claim])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
            )
        except OSError as error:  # of the system, and not of the log's disk
            raise CleaningProcessError(
                f"the cleaner's process cannot be started: {error.strerror}"
            ) from error
        with child as process:
            return self._await_outcome(process, task, throttle)

    @staticmethod
    def _await_outcome(
        process: "subprocess.Popen[bytes]", task: CleaningTask, throttle: Throttle
    ) -> CompactionResult:
        # The process must have ended before the log's directory may be removed.
        task.on_stop = lambda: _kill(process)
        if task.is_stopped:
            _kill(process)
        try:
            output, errors = process.communicate(
                json.dumps([asdict(task.plan), throttle.fileno()]).encode()
            )
        finally:
            task.on_stop = lambda: None
        if task.is_stopped:
            remove_all_cleaned(OsFileSystem(), task.plan.directory)
            raise StoppedError(f"the compaction of {task.log.name} was stopped")
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"it ended with {process.returncode}"
            raise CleaningProcessError(f"the cleaner's process: {reason}")
        return _result(*json.loads(output))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)


def _result(kind: str, values: list[Any]) -> CompactionResult:
    match kind:
        case "result":
            return _read_result(values[0])
        case "damaged":
            raise DamagedSegmentError(*values)
        case "too small":
            raise OffsetMapTooSmallError(*values)
        case _:
            raise OSError(*values)


def _read_result(fields: dict[str, Any]) -> CompactionResult:
    return CompactionResult(
        groups=tuple(
            CleanedGroup(replaced=tuple(one["replaced"]), cleaned=tuple(one["cleaned"]))
            for one in fields["groups"]
        ),
        end_offset=fields["end_offset"],
        stats=CompactionStats(**fields["stats"]),
    )


def _read_plan(fields: dict[str, Any]) -> CompactionPlan:
    fields["sources"] = tuple(SegmentSource(**one) for one in fields["sources"])
    fields["limits"] = GroupLimits(**fields["limits"])
    fields["aborted"] = tuple(AbortedTransaction(**one) for one in fields["aborted"])
    fields["last_records"] = {
        int(producer_id): LastRecord(**one) for producer_id, one in fields["last_records"].items()
    }
    return CompactionPlan(**fields)


def _outcome(plan: CompactionPlan, throttle: Throttle) -> tuple[str, list[Any]]:
    around = Surroundings(file_system=OsFileSystem(), on_bytes=throttle)
    try:
        result = compact(plan, new_key_filter(plan.map_bytes, plan.load_factor), around)
    except DamagedSegmentError as error:
        return "damaged", [error.path, error.position, error.reason, error.base_offset]
    except OffsetMapTooSmallError as error:
        return "too small", [error.record_count, error.capacity]
    except OSError as error:
        return "os", [error.errno, error.strerror, error.filename]
    return "result", [asdict(result)]


def main() -> None:
    os.nice(NICENESS)
    fields, throttle = json.load(sys.stdin)
    json.dump(_outcome(_read_plan(fields), Throttle(throttle)), sys.stdout)


if __name__ == "__main__":
    main()
