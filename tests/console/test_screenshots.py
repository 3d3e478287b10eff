"""The console's pictures in the documents are of today's pages."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.console.chromium import absence
from tests.console.screenshots import DIGESTS, PICTURES, digest_of, take

AGAIN = "take them again: make screenshots"


def recorded(folder: Path, part: str) -> dict[str, str]:
    digests = json.loads((folder / DIGESTS).read_text())
    return {name: one[part] for name, one in digests.items()}


def test_each_picture_is_recorded_with_its_digest() -> None:
    pictures = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in PICTURES.glob("*.png")
    }
    assert pictures == recorded(PICTURES, "picture"), AGAIN


@pytest.mark.slow
@pytest.mark.skipif(absence() is not None, reason=str(absence()))
def test_the_pages_behind_the_pictures_are_as_they_were_when_these_were_taken(
    tmp_path: Path,
) -> None:
    take(tmp_path)
    assert recorded(tmp_path, "page") == recorded(PICTURES, "page"), AGAIN


def row(name: str, port: str, style: str = "") -> list[object]:
    return ["tr", style, ["td", "", name], ["td", "n", port]]


def test_a_digest_is_of_words_and_structure_and_not_of_numbers() -> None:
    page = ["main", "", ["h1", "", "Groups"], row("at 127.0.0.1:9092", "1.5 KiB")]
    other_numbers = ["main", "", ["h1", "", "Groups"], row("at  127.0.0.1:41", "20 MiB")]
    more_rows = [*page, row("at 127.0.0.1:9093", "7 B")]
    assert digest_of(page) == digest_of(other_numbers) == digest_of(more_rows)
    for changed in (
        ["main", "", ["h1", "", "Topics"], *page[3:]],
        ["main", "", ["h2", "", "Groups"], *page[3:]],
        [*page[:3], row("at 127.0.0.1:9092", "1.5 KiB", "bad")],
        page[:3],
    ):
        assert digest_of(changed) != digest_of(page)
