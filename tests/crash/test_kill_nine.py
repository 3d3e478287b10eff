"""A writer on a real disk, killed at random moments, again and again on the same log."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ottla
from ottla.record.batch import iter_batches
from tests.crash.writer import SETTINGS
from tests.integration.cli.support import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
MIN_SECONDS = 8.0
MIN_ROUNDS = 3

pytestmark = pytest.mark.slow


def killed_writer(directory: Path, seed: int, after_s: float) -> list[str]:
    """Lets a writer run, kills it, and returns what it had said in whole lines."""
    command = [sys.executable, "-m", "tests.crash.writer", str(directory), str(seed)]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"}
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    assert writer.stdout is not None
    said = [writer.stdout.readline()]
    deadline = time.monotonic() + after_s
    while time.monotonic() < deadline:
        said.append(writer.stdout.readline())
    writer.kill()
    said += writer.stdout.read().splitlines(keepends=True)
    writer.stdout.close()
    writer.wait()
    return [line.strip() for line in said if line.endswith("\n")]


def test_what_was_acknowledged_is_there_after_every_kill(
    tmp_path: Path, crash_seconds: float
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    directory = tmp_path / "data"
    rounds = 0
    started = time.monotonic()
    while rounds < MIN_ROUNDS or time.monotonic() - started < max(MIN_SECONDS, crash_seconds):
        said = killed_writer(directory, seed + rounds, chance.uniform(0.05, 0.6))
        acknowledged = max(int(line.split()[1]) for line in said)
        with ottla.open(directory, SETTINGS) as log:
            start, end = log.offsets("t")[0]
            assert (start, end >= acknowledged) == (0, True), (said[-1], end)
            values = [record.value for record in log.read("t")]
        assert values == [b"%d" % offset for offset in range(end)]
        rounds += 1
    for path in directory.glob("t-0/*.log"):
        for batch in iter_batches(path.read_bytes()):
            batch.check()
