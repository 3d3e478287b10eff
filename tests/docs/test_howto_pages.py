"""Every how-to page is run: each command and program of it, in order, prints what the page shows.

Some have a test of their own (`ELSEWHERE`). `howto.py` says how a page is read, and
which marks in its source leave a block out.
"""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.howto import Step, fits, reasons_of, steps_of
from tests.docs.walking import walk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = {
    "index.md": "",
    "tutorial.md": "duckdb pyarrow",
    "producer.md": "",
    "consumer.md": "",
    "tools.md": "",
    "operating.md": "",
    "service.md": "",
    "backup.md": "",
    "upgrade.md": "",
    "console.md": "starlette uvicorn curl",
    "metrics.md": "prometheus_client curl",
    "testing.md": "",
    "moving.md": "",
    "mirror.md": "",
    "tiers.md": "",
    "cluster.md": "",
    "cluster-zookeeper.md": "kazoo pyspark",
    "load.md": "deltalake pyiceberg",
    "cluster-spark.md": "",
    "queues.md": "",
    "table.md": "deltalake polars",
    "security.md": "openssl confluent_kafka",
}
"""Each page with the modules and programs that its lines need."""

ELSEWHERE = {"tasks.md": "tests/docs/test_tasks_page.py", "spark.md": "tests/spark/test_pages.py"}
"""Pages with a test of their own."""


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
            program="print(1)\n",
        ),
    ]
    assert reasons_of(page) == ["no Kafka is here"]


def test_a_command_in_a_block_that_is_not_run_has_a_reason() -> None:
    with pytest.raises(AssertionError, match="to be run, or marked"):
        list(steps_of("```\n$ ottla serve\n```\n"))


@pytest.mark.parametrize("name", [*PAGES, "spark.md"])
def test_each_block_of_commands_is_run_or_says_why_not(name: str) -> None:
    page = (DOCS / name).read_text()
    assert list(steps_of(page)) or reasons_of(page)


def test_each_howto_page_is_run_here_or_has_a_test_of_its_own() -> None:
    how_to = re.search(r"- How to:\n(.*?)\n  - \w", (ROOT / "mkdocs.yml").read_text(), re.DOTALL)
    assert how_to is not None
    assert set(re.findall(r"([\w-]+\.md)", how_to[1])) == {*PAGES, *ELSEWHERE} - {
        "index.md",
        "tutorial.md",
    }
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_line_of_a_howto_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    for needed in PAGES[name].split():
        if find_spec(needed) is None and shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    walk((DOCS / name).read_text(), tmp_path)
