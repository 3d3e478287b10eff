"""How long a user waits before the first record, and what an idle broker holds.

`import ottla` is measured as a whole process less one that imports nothing; readiness from the
start of the process to its `ready` line, on an empty directory; commands in processor time, which
what else the machine does changes little.
"""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.brokers import Ottla, source_environment
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.closing import Closing

TURNS_PER_ROUND = 4
"""Starts are short and noisy: more of them than of anything else."""

FIXTURES = 20
"""Brokers of tests in each round."""

IMPORT_TARGET = Target(limit=60, unit="ms")
OPEN = "import ottla; ottla.open"
HELP = """
import contextlib, io
from ottla.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["topics", "list", "--help"])
"""
HELP_TARGET = Target(limit=120, unit="ms")
READY_TARGET = Target(limit=300, unit="ms")
MEMORY_TARGET = Target(limit=60, unit="MB")
FIXTURE_TARGET = Target(limit=50, unit="ms")

HELPS = ("--help", "topics --help")
OF_BOTH = (
    "topics list",
    "topics describe {} orders",
    "configs get {} orders",
    "groups list",
    "quotas list",
    "users list",
    "transactions list",
    "consume {} orders",
    "produce {} orders",
    "delete-records {} orders --before 0",
    "configs set {} orders retention.ms=7d",
    "explain stuck {} orders",
    "explain retention {} orders",
    "explain compaction {} orders",
    "doctor",
)
"""What each command does where there is least to do, of a broker and of a directory."""

OF_DIRECTORIES = (
    "records {} --topic orders",
    "acls list",
    "configs get {} --broker 1",
    "log check",
    "log dump {}/orders-0",
    "snapshot list",
)
WITHOUT_TARGET = ("configs explain retention.ms", "context list", "completion bash")
COMMAND_TARGET = Target(limit=120, unit="ms")


def run(scale: Scale) -> Iterator[Report]:
    resident: list[float] = []

    def ready_ms() -> float:
        with scale.data_directory() as directory, Ottla().start(directory) as broker:
            cost = cost_of(broker.pid)
            if cost is not None:
                resident.append(cost.resident_bytes / MEGABYTE)
            return broker.ready_seconds * 1000

    samples = scale.sampled(
        {
            "bare": lambda: _python_ms("pass"),
            "import": lambda: _python_ms("import ottla"),
            "open": lambda: _python_ms(OPEN),
            "help": lambda: _python_ms(HELP),
            "ready": ready_ms,
        },
        times=scale.of(TURNS_PER_ROUND, 1),
    )
    with scale.data_directory() as directory:
        places = (directory / f"{number}" for number in count())
        fixtures = scale.sampled(
            {
                "ottla_broker": lambda: _fixture_ms(_broker_of_tests, next(places)),
                "ottla_log": lambda: _fixture_ms(_log_of_tests, next(places)),
            },
            times=scale.of(FIXTURES, 1),
        )
    report = figures_report("Start-up")
    bare = samples["bare"]
    add_figure(report, "python -c pass", bare, "ms")
    add_figure(report, "import ottla", _less(samples["import"], bare), "ms", IMPORT_TARGET)
    add_figure(
        report, f"{OPEN} (all that an embedded log needs)", _less(samples["open"], bare), "ms"
    )
    add_figure(report, "ottla topics list --help", samples["help"], "ms", HELP_TARGET)
    add_figure(report, "ottla serve, ready", samples["ready"], "ms", READY_TARGET)
    if resident:
        memory = Samples(tuple(resident))
        add_figure(report, "ottla serve, idle memory", memory, "MB", MEMORY_TARGET)
    for name, taken in fixtures.items():
        add_figure(report, f"{name}, ready", taken, "ms", FIXTURE_TARGET)
    yield report
    yield _commands(scale)


def _commands(scale: Scale) -> Report:
    """Whole processes over one empty topic: what is left is their start.

    Each runs once before it is measured, so that its byte code is there, as in an installation.
    """
    of_both = [_with(one, target) for target in ("BROKER", "DIRECTORY") for one in OF_BOTH]
    of_directories = [_with(one, "DIRECTORY") for one in OF_DIRECTORIES]
    commands = [*HELPS, *WITHOUT_TARGET, *of_both, *of_directories][:: scale.of(1, 8)]
    with scale.data_directory() as path, Ottla().start(path / "served") as broker:
        targets = {"BROKER": broker.address, "DIRECTORY": str(path / "at rest")}
        environment = _with_byte_code(path / "byte code")
        for target in targets:
            _command_ms(f"topics create {target} orders", targets, environment)
        for one in commands:
            _command_ms(one, targets, environment)
        samples = scale.sampled(
            {one: partial(_command_ms, one, targets, environment) for one in commands},
            times=scale.of(TURNS_PER_ROUND, 1),
        )
    report = figures_report("Processor time of commands")
    for command, measured in samples.items():
        add_figure(report, f"ottla {command}", measured, "ms", COMMAND_TARGET)
    return report


def _with(command: str, target: str) -> str:
    return command.format(target) if "{}" in command else f"{command} {target}"


def _fixture_ms(make: Callable[[Path], Closing], directory: Path) -> float:
    """Until a test has what its fixture makes, in a process that has had one."""
    made: list[Closing] = []
    taken_s = seconds_of(lambda: made.append(make(directory)))
    made[0].close()
    return 1000 * taken_s


def _broker_of_tests(directory: Path) -> Closing:
    from ottla.testing import LocalBroker
    from ottla.testing.pytest_plugin import SETTINGS

    return LocalBroker(directory, SETTINGS)


def _log_of_tests(directory: Path) -> Closing:
    import ottla
    from ottla.testing.pytest_plugin import SETTINGS

    return ottla.open(directory, SETTINGS)


def _with_byte_code(folder: Path) -> dict[str, str]:
    """Whatever a developer has set: Python keeps compiled modules, outside the sources."""
    kept = {**source_environment(), "PYTHONPYCACHEPREFIX": str(folder)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept


def _command_ms(command: str, targets: Mapping[str, str], environment: Mapping[str, str]) -> float:
    words = command.split()
    for name, target in targets.items():
        words = [word.replace(name, target) for word in words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "ottla", *words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _python_ms(code: str) -> float:
    command = [sys.executable, "-c", code]
    environment = source_environment()
    return 1000 * seconds_of(lambda: subprocess.run(command, check=True, env=environment))


def _less(samples: Samples, bare: Samples) -> Samples:
    pairs = zip(samples.values, bare.values, strict=True)
    return Samples(tuple(whole - empty for whole, empty in pairs))
