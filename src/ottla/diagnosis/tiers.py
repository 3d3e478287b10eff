"""What is wrong with remote tiers, by the records about them in a broker's directories.

What a broker has noted itself comes first. No tier is asked: `ottla tier check` reads its objects.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.base.texts import size_text
from ottla.base.times import second_text
from ottla.broker.tiering.tier_troubles import (
    TIER_TROUBLES,
    TierTroubles,
    read_tier_troubles,
)
from ottla.diagnosis.complaints import Complaint, Remedy, complaint_of
from ottla.diagnosis.directories import Directories
from ottla.storage.diagnosis.directory_check import is_in_use
from ottla.storage.diagnosis.retention_explanation import ExplainedLog
from ottla.storage.reading.read_only_log import ReadOnlyLog

PATIENCE_MS: Final = 3_600_000
"""How long a closed segment may be without a copy: a store that is down for a moment is no news."""


def check_tier_records(directories: Directories) -> Iterator[Complaint]:
    """What the broker has noted of its tier, and the damage of the records about all tiers."""
    yield from check_tier_troubles(directories)
    topics = (topic for one in directories.opened for topic in one.topics())
    if any(directories.config(topic).remote_storage_enable for topic in topics):
        for finding in directories.remote_records.findings:
            if not finding.is_note:
                yield complaint_of(finding, directories.opened[0].path)


def check_tier_troubles(directories: Directories) -> Iterator[Complaint]:
    """What the broker itself says that it cannot do in its tier, and since when."""
    for one in directories.opened:
        path = join(one.path, TIER_TROUBLES)
        try:
            found = read_tier_troubles(directories.file_system, one.path)
        except CorruptionError as error:
            yield Complaint(
                kind="tier_troubles",
                where=path,
                what=f"cannot be read ({error.reason}): what the broker has noted of its tier is "
                "lost",
                remedy=Remedy.BROKER_NOTES,
                is_note=True,
            )
            continue
        if found is not None:
            is_live = is_in_use(directories.file_system, one.path)
            yield from _complaints_of(found, one.path, is_live=is_live)


def _complaints_of(found: TierTroubles, path: str, *, is_live: bool) -> Iterator[Complaint]:
    of_store = [one for one in found.troubles if one.of_store]
    until = "" if is_live else ", when the broker stopped"
    if of_store:
        first, last = of_store[0], of_store[-1]
        more = f" and {len(of_store) - 1} more" if len(of_store) > 1 else ""
        yield Complaint(
            kind="tier_failing",
            where=found.address,
            what=f"has failed since {second_text(first.since_ms)}{until}: {last.reason} "
            f"({first.what}{more}); what is not in it stays on the disk",
            remedy=Remedy.LOOK_AT_TIER,
            subject=path,
            is_note=not is_live,
        )
    for one in found.troubles:
        if not one.of_store:
            again = "is given up" if one.is_over else "is tried again"
            yield Complaint(
                kind="tier_work_failing",
                where=found.address,
                what=f"{one.what} has failed since {second_text(one.since_ms)}{until}, and "
                f"{again}: {one.reason}",
                remedy=Remedy.LOOK_AT_TIER,
                subject=path,
                is_note=not is_live,
            )


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
