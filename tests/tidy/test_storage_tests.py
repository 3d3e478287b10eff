"""Who changes a module of storage finds what holds it under the module's name, or here."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "src" / "ottla" / "storage"
UNIT = ROOT / "tests" / "unit" / "storage"

CHECK = "diagnosis/test_directory_check.py"
PASS = "compaction/test_compaction.py"
LOG = "log/test_partition_log.py"
LOADER = "directory/test_log_directory.py"
READER = "reading/test_read_only_log.py"
RECOVERY = "recovery/test_recovery.py"
ELSEWHERE = {
    # One pass, of which these are the steps; the three key filters have to agree with each other.
    PASS: "compaction: compiled_key_filter key_filter output rebuilding replacement"
    " shares vector_key_filter",
    # A check is asked for a whole directory, and so is each kind of damage.
    CHECK: "diagnosis: epoch_checks index_checks integrity_checks producer_checks",
    "diagnosis/test_repair.py": "diagnosis: rebuild",
    "diagnosis/test_dump.py": "diagnosis: rows",
    # A log's state has three owners, and each says what the others did.
    LOG: "log: log_copy reader state writer",
    LOADER: "directory: log_loader open_options",
    READER: "reading: aborted_reading read_only_directory",
    # The phases of one recovery, in which each begins with what the one before has left.
    RECOVERY: "recovery: ending opened_log opening reconciling replaying",
    "segment/test_segment_view.py": "segment: segment",
}
"""By the test that holds them all together: modules that do nothing alone."""

OUTSIDE = {
    # What a command explains is asked for with its sentences.
    "diagnosis/compaction_explanation": "unit/cli/explain/test_compaction.py",
    "diagnosis/open_transactions": "unit/cli/explain/test_stuck.py",
    "diagnosis/retention_explanation": "unit/cli/explain/test_retention.py",
    # A job looks for aborts that an index has lost.
    "log/abort_check": "unit/broker/log_jobs/test_abort_checking.py",
    # Damage, with all that a start or a read makes of it.
    "files/older_integrity": "unit/storage/files/test_integrity.py",
    "log/header_check": "crash/test_contradictions.py",
}
"""Modules that tests of other rooms hold, by the test."""


def together() -> set[str]:
    return {
        f"{room}/{name}"
        for listed in ELSEWHERE.values()
        for room, names in [listed.split(": ")]
        for name in names.split()
    }


def modules() -> set[str]:
    found = (path.relative_to(STORAGE).with_suffix("") for path in STORAGE.rglob("*.py"))
    return {path.as_posix() for path in found if path.name != "__init__"}


def has_its_own(module: str) -> bool:
    path = UNIT / module
    return path.with_name(f"test_{path.name}.py").exists()


def test_every_module_of_storage_has_a_test_of_its_name_or_is_held_with_others() -> None:
    without = {one for one in modules() if not has_its_own(one)}
    assert without == together() | OUTSIDE.keys()


def test_the_tests_that_hold_several_modules_are_there() -> None:
    assert [one for one in ELSEWHERE if not (UNIT / one).exists()] == []
    assert [one for one in OUTSIDE.values() if not (ROOT / "tests" / one).exists()] == []
