"""`python -m tests.fuzz`: atheris looks for bytes that make a reader fail, guided by coverage.

Each target runs in a process of its own for its share of the seconds. What it finds is a file,
which `--replay` runs again without atheris.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from ottla.server.dispatching.apis import APIS, APIS_OF, CLUSTER_APIS, Door

MAX_INPUT_SIZE = 2048
INPUT_TIMEOUT_S = 10
MEMORY_LIMIT_MB = 1024
TARGET_NAMES = (
    "frames", "headers", "requests", "responses", "records", "dispatch", "sasl", "tls", "queries",
    "terminal", "quorum",
)  # fmt: skip
MEMBER = "member_"
CONTROLLER = "controller_"
NAMES = (
    *TARGET_NAMES,
    *(api.key.name.lower() for api in APIS.values()),
    *(MEMBER + api.key.name.lower() for api in (APIS | CLUSTER_APIS).values()),
    *(CONTROLLER + api.key.name.lower() for api in APIS_OF[Door.CONTROLLER].values()),
)
"""Readers, a quorum whose other nodes ask and answer garbage, and each API by itself with requests
of the right shape, of a broker alone, of a member of a cluster, and of a controller.
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[TARGETS]...")
@click.option("--seconds", default=60, show_default=True, help="For all targets together.")
@click.option("--replay", type=click.Path(exists=True, path_type=Path), help="Run one input.")
@click.option("--found", default="fuzz-found", type=click.Path(path_type=Path), show_default=True)
def main(names: tuple[str, ...], seconds: int, replay: Path | None, found: Path) -> None:
    """Feed TARGETS, or all of them, with garbage."""
    if replay is not None:
        if len(names) != 1:
            raise click.UsageError("name the one target that the input is for")
        run_once(names[0], replay.read_bytes())
        return
    chosen = names or NAMES
    share = max(1, seconds // len(chosen))
    failed = [name for name in chosen if not fuzzed(name, share, found)]
    for name in failed:
        click.echo(f"{name} fails: python -m tests.fuzz {name} --replay {found}/{name}-...")
    sys.exit(1 if failed else 0)


def run_once(name: str, data: bytes) -> None:
    from tests.fuzz.targets import target

    target(name)(data)
    click.echo(f"{name} takes or refuses it as it should")


def fuzzed(name: str, seconds: int, found: Path) -> bool:
    """Runs one target in a child; its last lines tell how many inputs it took."""
    from tests.fuzz.targets import seeds

    found.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds(name)):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        options = {
            "artifact_prefix": f"{found}/{name}-",
            "max_len": MAX_INPUT_SIZE,
            "max_total_time": seconds,
            "print_final_stats": 1,
            "rss_limit_mb": MEMORY_LIMIT_MB,
            "timeout": INPUT_TIMEOUT_S,
        }
        command = [sys.executable, "-m", "tests.fuzz.guided", name, corpus]
        command += [f"-{option}={value}" for option, value in options.items()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not any(found.iterdir()):
        found.rmdir()
    told = done.stderr + done.stdout
    if done.returncode:
        click.echo(told[-4000:])
        return False
    click.echo(f"{name}: {_count(told)} inputs in {seconds} s, nothing found")
    return True


def _count(told: str) -> str:
    marker = "number_of_executed_units:"
    return next((line.split()[-1] for line in told.splitlines() if marker in line), "?")


if __name__ == "__main__":
    main(prog_name="python -m tests.fuzz")
