"""docs/testing.md names what there is, kinds of findings and operations."""

import re
from pathlib import Path

import pytest

from ottla.testing.history import FindingKind, Operation

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


@pytest.mark.parametrize("kind", FindingKind)
def test_each_kind_of_finding_is_explained(kind: FindingKind) -> None:
    assert f"| `{kind.value}` |" in PAGE


@pytest.mark.parametrize("kind", Operation.__subclasses__())
def test_each_operation_is_explained(kind: type[Operation]) -> None:
    (table,) = re.findall(r"\| operation \|.*?\n\n", PAGE, re.DOTALL)
    assert f"`{kind.__name__}`" in table
