"""Who changes a module of storage finds what holds it under the module's name."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "src" / "ottla" / "storage"
UNIT = ROOT / "tests" / "unit" / "storage"


def modules() -> set[str]:
    found = (path.relative_to(STORAGE).with_suffix("") for path in STORAGE.rglob("*.py"))
    return {path.as_posix() for path in found if path.name != "__init__"}


def has_its_own(module: str) -> bool:
    path = UNIT / module
    return path.with_name(f"test_{path.name}.py").exists()


def test_every_module_of_storage_has_a_test_of_its_name() -> None:
    assert [one for one in sorted(modules()) if not has_its_own(one)] == []
