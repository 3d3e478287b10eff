"""Checks whether a tier is whole: for each partition every upload, the gaps, and what is left over.

An upload that its log does not read is checked too, since another log may: after an unclean
election, or a restore.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace

from ottla.base.errors import CorruptionError
from ottla.base.files import join, parent_directory
from ottla.base.ids import uuid_text
from ottla.base.texts import size_text
from ottla.base.values import dataclass
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.remote.tier_objects import remedy
from ottla.storage.tiers.contents import Role, TierContents, TieredLog, Upload
from ottla.storage.tiers.upload_check import Counts, check_upload

OnBytes = Callable[[int, int], None]
"""Called with how many bytes of logs are checked, and how many there are."""

CHECKED = frozenset({Role.READ, Role.LOCAL, Role.SUPERSEDED, Role.OTHER_LINEAGE, Role.EXPIRED})


@dataclass(slots=True, kw_only=True)
class TierReport:
    """The findings of a check; `is_sound` if all of them are notes. `size` is in bytes of logs."""

    address: str
    findings: list[Finding] = field(default_factory=list)
    partition_count: int = 0
    upload_count: int = 0
    size: int = 0
    counts: Counts = field(default_factory=Counts)

    @property
    def is_sound(self) -> bool:
        return all(one.is_note for one in self.findings)


def check_tier(
    contents: TierContents,
    *,
    deep: bool = False,
    on_bytes: OnBytes = lambda done, total: None,
) -> TierReport:
    """Reads every object of the wanted partitions; raises `UserError` if the tier does not answer,
    or a directory cannot be read.
    """
    logs = contents.logs()
    report = TierReport(address=contents.tier.address, partition_count=len(logs))
    report.findings += map(_about_records, contents.findings)
    uploads = [(log, [*log.uploads()]) for log in logs]
    total = sum(segment.size for _, found in uploads for _, segment in _checked(found))
    for log, found in uploads:
        report.findings += log_findings(log, contents)
        for upload in found:
            report.findings += leftover(upload, contents)
        for upload, segment in _checked(found):
            on_bytes(report.size, total)
            for finding in check_upload(contents.tier, segment, report.counts, deep=deep):
                report.findings.append(_with_consequence(finding, log, upload))
            report.size += segment.size
            report.upload_count += 1
    report.findings += _strangers(contents)
    return report


def log_findings(log: TieredLog, contents: TierContents) -> Iterator[Finding]:
    """What is wrong with a log, apart from its objects: gaps, and records that are missing."""
    yield from log.findings
    for one in log.needed.findings:
        mend = (
            "; put its objects back from a copy of the tier, or give up the log up to there: "
            f"`ottla delete-records`, --before {one.lost.until}"
            if one.lost
            else ""
        )
        yield replace(one, reason=one.reason + mend)
    if contents.directories and not log.has_records:
        reason = "no records about its uploads are here: what lies in the tier is taken for them"
        yield Finding(kind=FindingKind.STATE, path=log.name, position=None, reason=reason)


def leftover(upload: Upload, contents: TierContents) -> Iterator[Finding]:
    """The note about an upload that nobody reads, and that no task removes."""
    stored = upload.stored
    if upload.role is Role.ORPHAN and stored is not None:
        what = "no record names this upload"
    elif upload.role is Role.HALF and stored is not None:
        what = "no record names this half of an upload"
    elif upload.role is Role.COPYING and upload.segment is not None:
        found = (
            "nothing of it lies here" if stored is None else f"{size_text(stored.size)} lie here"
        )
        what = f"this upload was begun and not finished, {found}"
    elif upload.role is Role.DELETING and upload.segment is not None and stored is not None:
        what = "the deletion of this upload was begun and not finished"
    else:
        return
    path = contents.tier.address if stored is None else stored.objects[0].path
    offsets = f"from offset {upload.start_offset}"
    if upload.segment is not None:
        offsets = f"offsets {upload.start_offset} to {upload.segment.end_offset}"
    yield Finding(
        kind=FindingKind.REMOTE_ORPHAN,
        path=join(contents.tier.address, path) if stored else path,
        position=None,
        reason=f"{what} ({upload.partition}, {offsets}, {uuid_text(upload.segment_id)}); it is not "
        f"read{_removal(upload)}",
    )


def missing_objects(upload: Upload, contents: TierContents) -> Iterator[Finding]:
    """The objects of a finished upload that a listing does not show, without reading any."""
    if upload.segment is None or upload.role not in CHECKED:
        return
    try:
        paths = contents.tier.object_paths(upload.segment)
    except CorruptionError as error:
        yield finding_of(FindingKind.REMOTE_OBJECT, error)
        return
    there = set() if upload.stored is None else {one.path for one in upload.stored.objects}
    for path, has_to_exist in paths.items():
        if has_to_exist and path not in there and not contents.tier.has(path):
            yield Finding(
                kind=FindingKind.REMOTE_OBJECT,
                path=join(contents.tier.address, path),
                position=None,
                reason=f"is missing {remedy(upload.segment)}",
            )


def _about_records(finding: Finding) -> Finding:
    """Adds what damage to the records means; a finding about a partition's folder has its path."""
    if finding.is_note:
        return finding
    folder = finding.path if finding.position is None else parent_directory(finding.path)
    reason = (
        f"{finding.reason}; records about uploads may be lost: what lies in the tier is taken for "
        f"them; `ottla log repair {parent_directory(folder)}` takes the damage out"
    )
    return replace(finding, reason=reason, lost=None)


def _checked(uploads: Iterable[Upload]) -> Iterator[tuple[Upload, RemoteLogSegmentMetadata]]:
    for one in uploads:
        if one.role in CHECKED and one.segment is not None:
            yield one, one.segment


def _with_consequence(finding: Finding, log: TieredLog, upload: Upload) -> Finding:
    """Adds what the damage means, if the log is not the poorer for it."""
    what = {
        Role.LOCAL: f"{log.name} still has these offsets in its directory: nothing is lost yet",
        Role.SUPERSEDED: "another upload has these offsets: nothing is lost",
        Role.OTHER_LINEAGE: "the log does not have these records",
        Role.EXPIRED: "they are before the log's start",
    }.get(upload.role)
    if what is None:
        return finding
    return replace(finding, reason=f"{finding.reason}; {what}")


def _removal(upload: Upload) -> str:
    if upload.role in (Role.COPYING, Role.DELETING):
        return ": a broker with this tier removes it"
    return ", and no broker removes it: delete its objects if no broker is copying now"


def _strangers(contents: TierContents) -> Iterator[Finding]:
    for path in contents.strangers:
        yield Finding(
            kind=FindingKind.STRANGER,
            path=join(contents.tier.address, path),
            position=None,
            reason="its name is of no object of an upload",
        )
