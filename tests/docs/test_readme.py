"""The README's own lines, run as they stand; that of Spark is in tests/spark/test_pages.py, and the
first of all in test_first_minute.py.
"""

import re
from pathlib import Path

import pytest

from tests.docs.walking import walk

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


@pytest.mark.slow
def test_every_line_of_the_readme_does_what_it_shows(tmp_path: Path) -> None:
    for needed in ("duckdb", "deltalake"):
        pytest.importorskip(needed)
    walk(README, tmp_path)


def test_a_first_result_comes_before_the_variants_of_installing() -> None:
    headings = re.findall(r"^## (.*)$", README, re.M)
    assert headings[:2] == ["A first result", "Status"]
    assert headings.index("Install") > headings.index("As a broker")
    assert len(README.split()) < 1000
