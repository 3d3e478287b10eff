"""What a process has cost, finer than the kernel's ticks."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.machine import can_pin, first_thread_seconds, pinned
from tests.support.patience import PATIENCE_S

WORKER = """
import sys, time
for line in sys.stdin:
    print("answered", flush=True)
    began = time.thread_time_ns()
    while time.thread_time_ns() - began < int(line) * 1000:
        pass
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="asks /proc")
def test_work_shorter_than_a_tick_is_counted_to_its_end() -> None:
    """The kernel counts what a thread that runs has cost only now and then."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None

        def cost_of_work(microseconds: int) -> float:
            before = first_thread_seconds(worker.pid)
            print(microseconds, file=worker.stdin, flush=True)
            worker.stdout.readline()
            after = first_thread_seconds(worker.pid)
            assert before is not None
            assert after is not None
            return after - before

        cost_of_work(1)
        costs = [cost_of_work(200) for _ in range(50)]
        worker.stdin.close()
    assert min(costs) >= 200e-6


def test_a_process_that_is_gone_costs_nothing_known() -> None:
    assert first_thread_seconds(os.getpid() + 10**7) is None


@pytest.mark.skipif(not can_pin(), reason="processes cannot be kept on cores here")
def test_all_threads_of_a_process_stay_on_the_cores_they_are_given_and_not_for_longer() -> None:
    before = os.sched_getaffinity(0)
    core = {max(before)}
    is_listed, is_over = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def look() -> None:
        for one in (is_listed, is_over):
            one.wait(PATIENCE_S)
            seen.append(os.sched_getaffinity(0))

    other = threading.Thread(target=look)
    other.start()
    with pinned(os.getpid(), core):
        assert os.sched_getaffinity(0) == core
        is_listed.set()
        while not seen:
            pass
    is_over.set()
    other.join()
    assert seen == [core, before]
    assert os.sched_getaffinity(0) == before
