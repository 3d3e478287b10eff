"""A how-to page as steps that a shell runs: its commands and programs, with what they print.

Comments in the page's source, which nobody sees in a browser, stand before a block:

- `<!-- not run: REASON -->`: the block needs what cannot be there when tests run;
- `<!-- file: NAME -->`: the block is a file that later lines use;
- `<!-- until stopped -->`: the block's commands run until a person stops them;
- `<!-- first` with a console block's lines: what a reader has already, such as a broker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile(
    r"^<!-- first\n(?P<first>.*?)^-->$"
    r"|^(?:<!-- (?P<mark>not run|file|until stopped)(?:: (?P<argument>[^\n]*))? -->\n)?"
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
UNMARKED_COMMAND = re.compile(r"^(?:\$ |ottla |pip |curl |kill )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line for a shell, and the lines that the page shows after it."""

    line: str
    shown: tuple[str, ...] = ()
    is_compared: bool = False
    """Whether what is printed is compared: in blocks that show no output it is not."""
    is_endless: bool = False
    program: str = ""
    """Of Python, if the line runs one."""


def steps_of(page: str) -> Iterator[Step]:
    after_python = -1
    for found in BLOCK.finditer(page):
        text = re.sub(rf"^{found['indent'] or ''}", "", found["text"] or "", flags=re.MULTILINE)
        if found["first"] is not None:
            yield from _commands(found["first"])
        elif found["mark"] == "file":
            yield Step(line=_written(found["argument"], text))
        elif found["mark"] == "not run":
            continue
        elif found["kind"] == "console":
            yield from _commands(text, is_endless=found["mark"] == "until stopped")
        elif found["kind"] == "sh":
            yield Step(line=text)
        elif found["kind"] == "python":
            output = _output_after(page, found.end())
            line = f"{_written('snippet.py', text)}\npython snippet.py"
            yield Step(line=line, shown=output, is_compared=bool(output), program=text)
            after_python = found.end() + 2
        elif found.start() != after_python:
            assert not UNMARKED_COMMAND.search(text), f"a block to be run, or marked: {text}"


def reasons_of(page: str) -> list[str]:
    """Why blocks are not run."""
    return [one["argument"] for one in BLOCK.finditer(page) if one["mark"] == "not run"]


def _commands(text: str, *, is_endless: bool = False) -> Iterator[Step]:
    found = []
    for command in filter(None, PROMPT.split(text)):
        lines = command.rstrip("\n").split("\n")
        count = 1
        while lines[count - 1].endswith("\\"):
            count += 1
        found.append(("\n".join(lines[:count]), tuple(lines[count:])))
    is_compared = any(shown for _, shown in found)
    for line, shown in found:
        yield Step(line=line, shown=shown, is_compared=is_compared, is_endless=is_endless)


def _written(name: str, text: str) -> str:
    return f"cat > {name} <<'END'\n{text}END"


def _output_after(page: str, end: int) -> tuple[str, ...]:
    """A block without a language right after a program is what that prints."""
    found = re.match(r"\n\n```\n(.*?)^```$", page[end:], re.MULTILINE | re.DOTALL)
    return tuple(found[1].splitlines()) if found else ()


def fits(shown: tuple[str, ...], printed: list[str]) -> bool:
    """A line of `...` alone stands for any lines, and within a line for anything."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\s*\n"
        for line in shown
    ]
    return re.fullmatch("".join(lines), "".join(f"{one}\n" for one in printed)) is not None
