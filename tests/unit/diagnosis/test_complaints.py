"""What `ottla doctor` advises for each kind of finding."""

import pytest

from ottla.diagnosis.complaints import REMEDIES_OF_FINDINGS, Remedy, complaint_of
from ottla.diagnosis.words.remedies import REMEDIES, remedy_text
from ottla.storage.diagnosis.repair_plan import SIMPLE_ACTIONS
from ottla.storage.findings import NOTES, Finding, FindingKind

REPAIRS = {Remedy.SHOW_REPAIR, Remedy.REPAIR_IN_PLACE}
STARTS = {Remedy.START_REBUILDS, Remedy.START_FINISHES}
"""A repair does it too, before the next start."""


@pytest.mark.parametrize("kind", FindingKind)
def test_a_repair_is_advised_where_there_is_one(kind: FindingKind) -> None:
    remedy = REMEDIES_OF_FINDINGS[kind]
    assert REMEDIES[remedy]
    assert (remedy in REPAIRS | STARTS) == (kind in SIMPLE_ACTIONS)


def test_only_what_is_no_damage_needs_nothing() -> None:
    nothing = {kind for kind, one in REMEDIES_OF_FINDINGS.items() if one is Remedy.NONE}
    assert nothing <= NOTES


def test_each_remedy_has_a_sentence_unless_it_is_a_setting() -> None:
    assert set(Remedy) - set(REMEDIES) == {Remedy.CHANGE_SETTING}


def test_a_finding_of_doctor_names_the_directory_or_the_partition_in_its_fix() -> None:
    lost = Finding(
        kind=FindingKind.LOST_PARTITION, path="d/t-0", position=None, reason="is not there"
    )
    complaint = complaint_of(lost, "d")
    assert (complaint.kind, complaint.where, complaint.is_note) == (
        "lost_partition",
        "d/t-0",
        False,
    )
    assert remedy_text(complaint, "d").endswith("ottla log give-up d t-0")
    wrong = Finding(kind=FindingKind.LOG_DAMAGE, path="d/t-0/0.log", position=7, reason="is bad")
    assert remedy_text(complaint_of(wrong, "d"), "d") == "ottla log repair d shows the repair"
