"""docs/tutorial.md: each command is run, in order, and prints what the page shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.shell import Shell
from tests.support.ports import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"


def steps() -> Iterator[tuple[str, list[str]]]:
    """Commands with the lines that they print; programs are files that the page names before."""
    for found in BLOCK.finditer(PAGE):
        kind, text = found.groups()
        if kind == "python":
            (name,) = re.findall(r"`(\w+\.py)`:\n\n$", PAGE[: found.start()])
            yield f"cat > {name} <<'END'\n{text}END", []
            continue
        for command in text.removeprefix("$ ").split("\n$ "):
            line, *shown = command.splitlines()
            yield line, shown


def fits(shown: list[str], printed: list[str]) -> bool:
    """A line of `...` alone stands for any lines, and within a line for anything."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\s*\n"
        for line in shown
    ]
    return re.fullmatch("".join(lines), "".join(f"{one}\n" for one in printed)) is not None


@pytest.mark.parametrize(
    ("shown", "printed", "is_fitting"),
    [
        (["a ... c"], ["a b c"], True),
        (["a ... c"], ["a b d"], False),
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "..."], ["a"], True),
        (["a"], ["a", "b"], False),
        ([], [""], False),
    ],
)
def test_what_is_shown_fits_what_is_printed(
    shown: list[str], printed: list[str], is_fitting: bool
) -> None:
    assert fits(shown, printed) is is_fitting


@pytest.mark.slow
def test_every_step_of_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    shell = Shell(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    try:
        for line, shown in steps():
            done = shell.run(line.replace(ADDRESS, address))
            printed = [one.replace(address, ADDRESS) for one in done.stdout.splitlines()]
            assert done.returncode == 0, f"{line}: {done.stderr}"
            assert fits(shown, printed), f"{line}: {done.stdout}"
    finally:
        shell.run("ottla stop data")
