"""docs/testing.md names what there is, and its example says what the page says it does."""

import re
from contextlib import redirect_stdout
from io import StringIO
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


EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(code: str, shown: str) -> None:
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown


def test_both_rooms_have_an_example() -> None:
    assert len(EXAMPLES) == len(re.findall(r"```python\n", PAGE)) == 2
