"""docs/tasks.md: each task is done by its line, and prints what the page shows."""

import re
from pathlib import Path

import pytest

import ottla
from tests.docs.shell import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
TASK = re.compile(r"^(\d+)\. .*?\n +```console\n(.*?)\n +```$", re.MULTILINE | re.DOTALL)
FILES = re.findall(r"^<!-- file: (\S+) -->\n```\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
TASKS = [(int(number), block) for number, block in TASK.findall(PAGE)]


def test_a_file_that_a_task_sends_is_shown() -> None:
    sent = set(re.findall(r"\b\w+\.(?:csv|json|avsc|proto)\b", " ".join(one for _, one in TASKS)))
    assert sent == {name for name, _ in FILES}


def test_there_are_thirty_tasks_of_one_line_each() -> None:
    assert [number for number, _ in TASKS] == list(range(1, 31))
    assert all(block.count("$ ottla") + block.count("| ottla") >= 1 for _, block in TASKS)
    assert all(block.count("\n") == 0 or "$ " not in block[3:].lstrip(" $") for _, block in TASKS)


@pytest.mark.slow
def test_every_task_is_done_by_its_line(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    shell = Shell(tmp_path)
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    with ottla.open(tmp_path / "data") as log:
        address = log.listen("127.0.0.1:0").address
        for number, block in TASKS:
            first, *shown = [line.strip() for line in block.splitlines()]
            line = first.removeprefix("$ ").replace("localhost:9092", address)
            done = shell.run(line)
            assert done.returncode == 0, f"{number}: {line}: {done.stderr}"
            if shown:
                assert done.stdout.splitlines() == shown, f"{number}: {line}"
