"""`ottla log give-up` as a person runs it."""

import shutil
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import run_ottla


@pytest.mark.slow
def test_a_lost_partition_is_given_up_and_continues_where_it_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ottla.open(str(data)) as log:
        log.create_topic("t")
        for value in (b"a", b"b", b"c"):
            log.append("t", value)
    shutil.rmtree(data / "t-0")
    done = run_ottla("log", "give-up", data, "t-0")
    assert (done.returncode, done.stdout) == (0, f"{data}/t-0: empty, from offset 3 on\n")
    with ottla.open(str(data)) as log:
        assert log.offsets("t") == {0: (3, 3)}
        assert log.append("t", b"d").offset == 3
    again = run_ottla("log", "give-up", data, "t-0")
    assert again.returncode == 2
    assert again.stderr.startswith(f"ottla: {data}/t-0 exists")
