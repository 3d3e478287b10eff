"""Every bit of small directories flipped, one at a time: see `flips` and docs/durability.md.

Nothing kills the process, and nothing false is served but what `REMAINS` lists. `make test` tries
some of the bits, `make crash` all, and then nothing may be listed that does not happen.
"""

import pytest

from tests.crash.flips import Falsehood, falsehoods, fields_of, flips, look_at
from tests.crash.small_directories import Policy, SmallDirectory, Stop, small_directory

Served = frozenset[Falsehood]
"""All that one flip makes false."""

KINDS = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "ottla-seams.deleted",
    "ottla-witness.deleted",
    "ottla-log-starts",
    "ottla-meta-properties",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)
STRIDES = {
    "meta.properties": 17,
    "ottla-meta-properties": 19,
    "ottla-witness.deleted": 11,
    "partition.metadata": 5,
    ".log": 61,
    ".index": 13,
    ".timeindex": 13,
    ".txnindex": 7,
    ".snapshot": 83,
}
"""Primes, so that every bit of a field has its turn."""


def served(*kinds: Falsehood, is_named: bool) -> Served:
    return frozenset(kinds if is_named else (*kinds, Falsehood.UNNAMED))


Case = tuple[str, str, Policy, Stop]
"""The ending of the file's name, the flipped field, what becomes of old records, and the stop."""

MOVED_IN_A_GAP = {
    served(Falsehood.RECORD, is_named=True),
    served(Falsehood.RECORD, Falsehood.MISSING, is_named=False),
}
OTHER_ABORT = {served(Falsehood.ABORTED, is_named=True)}
OTHER_ABORT_IN_A_GAP = {*OTHER_ABORT, served(Falsehood.ABORTED, is_named=False)}

REMAINS: dict[Case, set[Served]] = {
    (".log", "base offset", Policy.COMPACT, Stop.CLEAN): MOVED_IN_A_GAP,
    (".log", "base offset", Policy.COMPACT, Stop.KILL): MOVED_IN_A_GAP,
    **{
        (".txnindex", field, Policy.COMPACT, stop): remaining
        for stop in Stop
        for field, remaining in {
            "producer id": OTHER_ABORT,
            "first offset": OTHER_ABORT_IN_A_GAP,
            "last offset": OTHER_ABORT,
            "last stable offset": OTHER_ABORT_IN_A_GAP,
        }.items()
    },
}
"""What is served wrongly all the same; the reasons are in docs/durability.md."""


@pytest.mark.slow
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("kind", KINDS)
def test_what_remains_of_flipped_bits_is_listed(
    kind: str, policy: Policy, stop: Stop, crash_seconds: float
) -> None:
    stride = 1 if crash_seconds else STRIDES.get(kind, 1)
    for field, found in served_by_field(small_directory(policy, stop), kind, stride).items():
        listed = REMAINS.get((kind, field, policy, stop), set())
        assert found <= listed, field
        if stride == 1:
            assert found == listed, field


def served_by_field(directory: SmallDirectory, kind: str, stride: int) -> dict[str, set[Served]]:
    """What the flips of files of a kind make false, by the name of the flipped field."""
    files, config = directory.files, directory.config
    before = look_at(files, config)
    assert before.records
    assert not before.refused
    assert not before.named
    by_field: dict[str, set[Served]] = {}
    for path in [one for one in files if one.endswith(kind)]:
        fields = fields_of(path, files[path])
        for bit, damaged in flips(files[path], stride):
            found = by_field.setdefault(fields[bit // 8], set())
            try:
                false = falsehoods(path, before, look_at({**files, path: damaged}, config))
            except BaseException as error:
                error.add_note(f"bit {bit % 8} of byte {bit // 8} of {path}")
                raise
            if false:
                found.add(frozenset(false))
    return by_field
