"""`ottla handover`, as a person sees it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.errors import UserError
from ottla.cli.directory.handover import handover_command

pytestmark = pytest.mark.slow

METADATA = "__cluster_metadata-0"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    with ottla.open(data, {"node.id": 7}) as log:
        log.create_topic("t", partitions=2, config={"retention.ms": -1})
    return data


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(handover_command, [str(one) for one in arguments])


def test_what_was_written_and_how_to_start_is_reported(data: Path) -> None:
    result = run(data)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "nothing to write: the metadata log is up to date"
    assert "1 topics with 2 partitions, 1 settings, 0 quotas" in lines[1]
    assert "  controller.quorum.voters=7@localhost:9093" in lines
    assert f"  log.dirs={data}" in lines


def test_a_directory_without_topics_gets_a_log(tmp_path: Path) -> None:
    ottla.open(tmp_path / "d").close()
    result = run(tmp_path / "d")
    assert result.output.startswith(f"{tmp_path}/d/{METADATA}: 0 records more, up to offset ")


def test_a_dry_run_writes_nothing(data: Path) -> None:
    names = {path.name for path in data.iterdir()}
    result = run("--dry-run", data)
    assert "records would be written" in result.output
    assert {path.name for path in data.iterdir()} - {".lock"} == names - {".lock"}


def test_a_directory_in_use_is_refused(data: Path) -> None:
    with ottla.open(data):
        result = run(data)
    assert isinstance(result.exception, UserError)
    assert "is in use by this process; use the open log" in str(result.exception)


def test_what_comes_back_from_kafkas_hands_continues_here(data: Path) -> None:
    run(data)
    with ottla.open(data) as log:
        assert log.topics() == {"t": 2}
        log.append("t", b"value", partition=0)
    assert run(data).exit_code == 0
