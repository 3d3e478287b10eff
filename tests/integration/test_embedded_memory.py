"""The memory of a process through whose log many records go; ten million are a benchmark's."""

from pathlib import Path

import pytest

from benchmarks.in_and_out import STEPS, memory_over


@pytest.mark.slow
def test_memory_stays_as_it_is_while_records_go_in_and_out(tmp_path: Path) -> None:
    sizes = memory_over(tmp_path, 100_000)
    assert max(sizes[STEPS // 2 :]) < 1.1 * max(sizes[: STEPS // 2])
