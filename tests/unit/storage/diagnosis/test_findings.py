"""What a check says of one place."""

import pytest

from ottla.storage.diagnosis.findings import NOTES, Finding, FindingKind


def test_a_finding_names_its_file_and_its_byte() -> None:
    whole = Finding(kind=FindingKind.WRONG_FILE, path="d/t-0", position=None, reason="is another's")
    assert whole.text == "d/t-0: is another's"
    at_byte = Finding(
        kind=FindingKind.LOG_DAMAGE, path="d/t-0/0.log", position=0, reason="is no batch"
    )
    assert at_byte.text == "d/t-0/0.log at byte 0: is no batch"


@pytest.mark.parametrize("kind", FindingKind)
def test_only_what_is_no_damage_is_a_note(kind: FindingKind) -> None:
    finding = Finding(kind=kind, path="d", position=None, reason="")
    assert finding.is_note is (kind in NOTES)


def test_damage_to_records_is_never_a_note() -> None:
    harm = {FindingKind.LOG_DAMAGE, FindingKind.LOST_OFFSETS, FindingKind.GAP}
    assert harm.isdisjoint(NOTES)
