"""`make test` runs a part of the slow tests, and in time all of them."""

import re
from pathlib import Path

import pytest

from tests.support.parts import BY_COMMIT, COUNT, WITHOUT_GIT, chosen_part, kind_of, of_part

ROOT = Path(__file__).parents[2]

NAMES = (
    *(f"tests/crash/test_a.py::test_{number:03}" for number in range(COUNT * 3 + 5)),
    *(f"tests/unit/cli/log/test_b.py::test_{number}" for number in range(COUNT)),
    "tests/unit/base/test_c.py::test_one[a/b::c]",
    "tests/integration/test_d.py::test_one",
    "tests/integration/testing/test_e.py::test_one",
    "tests/integration/a/test_e.py::test_one",
)


def test_a_kind_is_a_folder_and_of_the_large_ones_a_folder_within() -> None:
    kinds = {kind_of(name) for name in NAMES}
    assert kinds == {
        "crash", "integration", "integration/a", "integration/testing", "unit/base", "unit/cli"
    }  # fmt: skip


def test_each_part_has_some_of_each_kind_and_all_of_them_have_all() -> None:
    parts = [of_part(NAMES, part + 1) for part in range(COUNT)]
    kinds = {kind_of(name) for name in NAMES}
    for part in parts:
        assert {kind_of(name) for name in part} == kinds
        assert len([name for name in part if kind_of(name) == "crash"]) == 4
        assert len([name for name in part if kind_of(name) == "unit/cli"]) == 1
    assert set().union(*parts) == set(NAMES)


def test_the_number_of_commits_chooses_and_without_git_there_is_one_choice(
    tmp_path: Path,
) -> None:
    assert chosen_part("7", tmp_path) == 7
    assert chosen_part(BY_COMMIT, tmp_path) == WITHOUT_GIT
    assert 1 <= chosen_part(BY_COMMIT, ROOT) <= COUNT
    for wrong in ("0", str(COUNT + 1), "-1", "", "all"):
        with pytest.raises(pytest.UsageError, match=f"from 1 to {COUNT}"):
            chosen_part(wrong, tmp_path)


def test_ci_runs_every_test_quick_ones_first() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^test-all: \$\(READY\)\n((?:\t.*\n)+)", makefile, re.M)
    quick, slow = recipe.splitlines()
    assert '-m "not slow"' in quick
    assert "-m slow" in slow
    assert "--part" not in recipe
    assert "make test-all" in (ROOT / ".ci" / "run").read_text()
