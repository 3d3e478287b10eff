"""What a check or a reader says of one place."""

import pytest

from ottla.storage.findings import NOTES, Finding, FindingKind, unreadable


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


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ((3, 9), "offsets 3 to 8"),
        ((3, 4), "offset 3"),
        ((3, 3), "records after offset 2"),
        ((3, 1), "records after offset 2"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_offsets(offsets: tuple[int, int], text: str) -> None:
    found = unreadable(FindingKind.LOG_DAMAGE, "d/t-0/0.log", (70, 140), "is no batch", offsets)
    assert (found.position, found.end) == (70, 140)
    assert (found.from_offset, found.until_offset) == (3, max(offsets))
    assert str(found) == f"d/t-0/0.log at byte 70: is no batch; {text} cannot be read"
    error = found.error()
    assert (error.path, error.position) == ("d/t-0/0.log", 70)
    assert error.reason.startswith(f"is no batch; {text} cannot be read; `ottla log check d` lists")


def test_the_advice_names_the_log_directory_also_if_a_whole_log_is_damaged() -> None:
    found = unreadable(FindingKind.LOST_OFFSETS, "data/t-0", (0, 0), "they are missing", (0, 3))
    assert "`ottla log check data` lists" in found.error().reason
