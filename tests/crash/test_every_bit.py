"""Every bit of small directories flipped, one at a time: see `flips` and docs/durability.md.

Nothing kills the process, and nothing false is served. `make test-all` tries some of the bits,
`make crash` all.
"""

import pytest

from tests.crash.flips import Falsehood, falsehoods, fields_of, flips, look_at
from tests.crash.small_directories import Policy, Stop, small_directory

KINDS = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "ottla-integrity.index",
    "ottla-log-starts",
    "ottla-meta-properties",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)
STRIDES = {
    "meta.properties": 41,
    "ottla-meta-properties": 43,
    "ottla-integrity.index": 59,
    "partition.metadata": 13,
    ".log": 127,
    ".index": 31,
    ".timeindex": 31,
    ".txnindex": 17,
    ".snapshot": 181,
    "leader-epoch-checkpoint": 7,
    "ottla-log-starts": 7,
    "recovery-point-offset-checkpoint": 7,
    "log-start-offset-checkpoint": 7,
    "replication-offset-checkpoint": 7,
}
"""Primes, so that every bit of a field has its turn."""


@pytest.mark.slow
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_is_served_and_none_ends_the_process(
    kind: str, policy: Policy, stop: Stop, crash_seconds: float
) -> None:
    directory = small_directory(policy, stop)
    files, config = directory.files, directory.config
    stride = 1 if crash_seconds else STRIDES.get(kind, 1)
    before = look_at(files, config)
    assert before.records
    assert not before.refused
    assert not before.named
    found: dict[str, set[frozenset[Falsehood]]] = {}
    for path in [one for one in files if one.endswith(kind)]:
        fields = fields_of(path, files[path])
        for bit, damaged in flips(files[path], stride):
            try:
                false = falsehoods(path, before, look_at({**files, path: damaged}, config))
            except BaseException as error:
                error.add_note(f"bit {bit % 8} of byte {bit // 8} of {path}")
                raise
            if false:
                found.setdefault(fields[bit // 8], set()).add(frozenset(false))
    if policy is Policy.COMPACT and kind == ".log":
        # Next to a gap of compaction's neither a checksum nor a neighbour contradicts these: see
        # "What remains" in docs/durability.md.
        for field in ("base offset", "leader epoch"):
            found.pop(field, None)
    assert not found
