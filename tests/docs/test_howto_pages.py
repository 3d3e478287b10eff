"""Every how-to page is run: each command and program of it, in order, prints what the page shows.

docs/tasks.md has a test of its own. `howto.py` says how a page is read, and
which marks in its source leave a block out.
"""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.howto import Step, fits, reasons_of, steps_of
from tests.docs.shell import Shell
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ADDRESS = re.compile(r"\b(localhost|127\.0\.0\.1|0\.0\.0\.0|[a-z]+\.example):(\d{4,5})\b")

PAGES = {
    "index.md": "",
    "tutorial.md": "duckdb pyarrow",
    "producer.md": "",
    "consumer.md": "",
    "tools.md": "",
    "operating.md": "",
    "console.md": "starlette uvicorn curl",
    "metrics.md": "prometheus_client curl",
    "testing.md": "",
    "moving.md": "",
    "mirror.md": "",
    "cluster.md": "kazoo pyspark",
    "load.md": "deltalake pyiceberg",
    "spark.md": "deltalake pyspark",
    "cluster-spark.md": "",
    "table.md": "deltalake polars",
    "security.md": "openssl confluent_kafka",
}
"""Each page with the modules and programs that its lines need."""


@pytest.mark.parametrize(
    ("shown", "printed", "is_fitting"),
    [
        (("a ... c",), ["a b c"], True),
        (("a ... c",), ["a b d"], False),
        (("a", "...", "d"), ["a", "b", "c", "d"], True),
        (("a", "..."), ["a"], True),
        (("a",), ["a", "b"], False),
        ((), [""], False),
    ],
)
def test_what_is_shown_fits_what_is_printed(
    shown: tuple[str, ...], printed: list[str], is_fitting: bool
) -> None:
    assert fits(shown, printed) is is_fitting


def test_a_page_is_read_as_the_steps_of_a_reader() -> None:
    page = """
<!-- first
$ ottla serve data --background
-->
<!-- file: a.properties -->
```properties
x=1
```
<!-- not run: no Kafka is here -->
```console
$ bin/kafka-server-stop.sh
```
```console
$ ottla a \\
    --b
said
$ ottla c
```
```python
print(1)
```

```
1
```
"""
    assert list(steps_of(page)) == [
        Step(line="ottla serve data --background"),
        Step(line="cat > a.properties <<'END'\nx=1\nEND"),
        Step(line="ottla a \\\n    --b", shown=("said",), is_compared=True),
        Step(line="ottla c", is_compared=True),
        Step(
            line="cat > snippet.py <<'END'\nprint(1)\nEND\npython snippet.py",
            shown=("1",),
            is_compared=True,
        ),
    ]
    assert reasons_of(page) == ["no Kafka is here"]


def test_a_command_in_a_block_that_is_not_run_has_a_reason() -> None:
    with pytest.raises(AssertionError, match="to be run, or marked"):
        list(steps_of("```\n$ ottla serve\n```\n"))


@pytest.mark.parametrize("name", PAGES)
def test_each_block_of_commands_is_run_or_says_why_not(name: str) -> None:
    page = (DOCS / name).read_text()
    assert list(steps_of(page)) or reasons_of(page)


def test_each_howto_page_is_run_here_or_has_a_test_of_its_own() -> None:
    how_to = re.search(r"- How to:\n(.*?)\n  - \w", (ROOT / "mkdocs.yml").read_text(), re.DOTALL)
    assert how_to is not None
    assert set(re.findall(r"([\w-]+\.md)", how_to[1])) == {*PAGES, "tasks.md"} - {
        "index.md",
        "tutorial.md",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_line_of_a_howto_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    for needed in PAGES[name].split():
        if find_spec(needed) is None and shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    shell = Shell(tmp_path)
    ports = _Ports()
    started: list[subprocess.Popen[str]] = []
    try:
        for step in steps_of((DOCS / name).read_text()):
            line = ports.in_use(_cheaply(_in_background(step.line)))
            if step.is_endless:
                started.append(shell.start(line))
                continue
            done = shell.run(line)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            if step.is_compared:
                printed = ports.on_page(done.stdout)
                assert fits(step.shown, printed.splitlines()), f"{line}: {printed}"
    finally:
        shell.stop_all(started)


def _in_background(line: str) -> str:
    """A reader has a second terminal for a broker."""
    is_server = line.startswith("ottla serve") and "--background" not in line
    return f"{line} --background" if is_server else line


def _cheaply(line: str) -> str:
    """Loads without Spark, whose start takes longer than all of a page; its tests load with it."""
    return re.sub(r"^ottla (load|table compact) (?!.*--engine)", r"ottla \1 --engine local ", line)


class _Ports:
    """Free ports in the places of those that a page names; all its hosts are this machine."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}
        self._addresses: dict[str, str] = {}

    def in_use(self, text: str) -> str:
        return ADDRESS.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        port = self._ports.setdefault(found[2], free_port())
        address = f"127.0.0.1:{port}"
        self._addresses.setdefault(address, found[0])
        return address

    def on_page(self, text: str) -> str:
        for address, shown in self._addresses.items():
            text = text.replace(address, shown)
        return text
