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


ROW = re.compile(r"^\| (`.*`) \| (`ottla .*|`echo .*) \|$", re.MULTILINE)
NOT_RUN = ("--registry", "ottla schemas", "--follow", "localhost:9093")
"""What a line needs that is not there, such as a controller at port 9093, or ends."""


def lines_here() -> list[str]:
    cells = [here for _, here in ROW.findall(PAGE)]
    found = [one for cell in cells for one in re.findall(r"`(.*?)`", cell.replace(r"\|", "|"))]
    return [one for one in found if "ottla" in one and not any(no in one for no in NOT_RUN)]


def test_each_tool_that_people_come_with_has_its_lines() -> None:
    there = " ".join(one for one, _ in ROW.findall(PAGE))
    for tool in ("kafka-topics.sh", "kafka-configs.sh", "rpk topic", "rpk group", "kcat -"):
        assert there.count(tool) >= 3, tool


@pytest.mark.slow
def test_what_users_of_other_tools_type_here_is_carried_out(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with ottla.open(tmp_path / "data", {"offsets.topic.num.partitions": 1}) as log:
        address = log.listen("127.0.0.1:0").address
        for line in lines_here():
            done = shell.run(line.replace("localhost:9092", address))
            assert done.returncode == 0, f"{line}: {done.stderr}"
