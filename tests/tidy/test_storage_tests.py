"""Who changes a module of storage finds what holds it under the module's name, or here."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "src" / "ottla" / "storage"
UNIT = ROOT / "tests" / "unit" / "storage"

PASS = "compaction/test_compaction.py"
ELSEWHERE = {
    # Steps of one pass.
    PASS: "compaction: output replacement shares",
    "diagnosis/test_dump.py": "diagnosis: rows",
    "reading/test_read_only_log.py": "reading: aborted_reading",
    "segment/test_segment_view.py": "segment: segment",
}
"""By the test that holds them all together: modules that do nothing alone."""

OUTSIDE = {
    # A job looks for aborts that an index has lost.
    "log/abort_check": "unit/broker/log_jobs/test_abort_checking.py",
    # Damage, with all that a start or a read makes of it.
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
