"""What is wrong with remote tiers, by the records about them in a broker's directories.

No tier is asked: `ottla tier check` reads its objects.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.texts import size_text
from ottla.base.times import second_text
from ottla.diagnosis.complaints import Complaint, Remedy, complaint_of
from ottla.diagnosis.directories import Directories
from ottla.storage.diagnosis.retention_explanation import ExplainedLog
from ottla.storage.reading.read_only_log import ReadOnlyLog

PATIENCE_MS: Final = 3_600_000
"""How long a closed segment may be without a copy: a store that is down for a moment is no news."""


def check_tier_records(directories: Directories) -> Iterator[Complaint]:
    """The damage of the records about all tiers."""
    topics = (topic for one in directories.opened for topic in one.topics())
    if any(directories.config(topic).remote_storage_enable for topic in topics):
        for finding in directories.remote_records.findings:
            if not finding.is_note:
                yield complaint_of(finding, directories.opened[0].path)


def check_tier(
    directories: Directories, log: ReadOnlyLog, explained: ExplainedLog, *, now_ms: int
) -> Iterator[Complaint]:
    """Offsets that are neither local nor in the tier, and closed segments that are not copied.

    `now_ms` is 0 if no broker is running, which would copy them.
    """
    remote = directories.remote_part(log)
    if remote is None:
        return
    for gap in remote.gaps:
        yield Complaint(
            kind="tier_gap",
            where=log.path,
            what=gap.reason,
            remedy=Remedy.CHECK_TIER,
            subject=log.directory.path,
        )
    config = explained.facts.config
    if config.remote_log_copy_disable or not now_ms:
        return
    stable = log.transactions.last_stable_offset
    waiting = [
        one
        for one in log.segments[:-1]
        if one.base_offset > remote.highest_offset and _end_of(one.base_offset, log) <= stable
    ]
    status = directories.file_system.status(waiting[0].log_path) if waiting else None
    lag_ms = max(config.remote_copy_lag_ms, 0)
    if status is not None and now_ms - status.modified_ms > PATIENCE_MS + lag_ms:
        size = size_text(sum(one.size for one in waiting))
        yield Complaint(
            kind="tier_behind",
            where=log.path,
            what=f"{len(waiting)} closed segments ({size}) are not in the tier, the first since "
            f"{second_text(status.modified_ms)}: copying has stopped, and local retention waits",
            remedy=Remedy.LOOK_AT_TIER,
            subject=log.directory.path,
        )


def _end_of(base_offset: int, log: ReadOnlyLog) -> int:
    bases = [one.base_offset for one in log.segments]
    return bases[bases.index(base_offset) + 1]
