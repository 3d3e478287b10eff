"""The table of docs/security.md says what the matrix of tests/unit/server tries, API by API."""

from pathlib import Path

from ottla.server.dispatching.apis import APIS
from tests.unit.server.authorization.row import Row
from tests.unit.server.authorization.rows import BY_OWNER, OPEN_TO_ALL, ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def needs_of(rows: list[Row]) -> str:
    """`;` parts requests of one API, `,` what one request needs."""
    texts = [", ".join(f"{need[0].name} on {need[1].name}" for need in row.needs) for row in rows]
    return "; ".join(dict.fromkeys(texts))


def table() -> list[str]:
    return [f"| {key.name} | {needs_of(rows)} |" for key, rows in sorted(ROWS.items())]


def test_the_page_has_each_api_with_what_it_needs() -> None:
    lines = PAGE.read_text().splitlines()
    assert [line for line in table() if line not in lines] == []


def test_every_api_that_is_answered_is_in_the_matrix() -> None:
    """Here too, since `make check` runs it: an API without a row fails the build."""
    assert set(APIS) == set(ROWS) | OPEN_TO_ALL | BY_OWNER
