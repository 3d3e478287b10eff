"""Options and fixtures for all tests."""

import gc
import os
import shutil
import signal
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from ottla.base import files
from tests.support.parts import BY_COMMIT, COUNT, chosen_part, of_part

# Where a run decides whether a change may land, it tries the same examples every time; at a desk,
# each run looks for new ones. How long one takes says more of the machine than of the code.
settings.register_profile("whole", derandomize=bool(os.environ.get("CI")), deadline=None)
settings.register_profile("make-test", settings.get_profile("whole"), max_examples=25)
settings.load_profile("whole")

TESTS = Path(__file__).parent

MEMORY = "/dev/shm"
"""A file system in memory, where there is one."""
ROOM = 2 << 30
"""How much must be free there, in bytes. Tests remove what they wrote, unless they fail."""

ORDINARY_TIMEOUT_SECONDS = 900
"""When a test counts as hanging; pyproject has the same. It says nothing of how long one takes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--crash-seconds",
        type=float,
        default=0.0,
        help="how long the crash tests try new seeds after their fixed ones, all together",
    )
    parser.addoption(
        "--part",
        help=f"run of the slow tests of each kind a part: 1 to {COUNT}, or {BY_COMMIT}, which says "
        "that the number of commits chooses (make test)",
    )
    parser.addoption(
        "--compiled",
        action="store_true",
        help="fail unless the package is one whose broker is compiled (make compiled)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """All of the broker's modules are compiled or none, as setup.py sees to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # All that a shell starts in the background ignores Ctrl-C, which some tests send.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--compiled"):
        found = find_spec("ottla.server.network.listener")
        if found is None or not str(found.origin).endswith(tuple(EXTENSION_SUFFIXES)):
            raise pytest.UsageError(f"{found} is not compiled")
    if not config.getoption("--crash-seconds"):
        _leave_out_syncs(config)
    if config.option.part is not None:
        # Workers get the number: all of them take the same part.
        config.option.part = str(chosen_part(config.option.part, TESTS.parent))
        settings.load_profile("make-test")
        _keep_files_in_memory()
        if hasattr(config, "workerinput"):
            config.pluginmanager.register(Terse())


def pytest_report_header(config: pytest.Config) -> str | None:
    return _part_text(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if text := _part_text(config):
        terminalreporter.write_line(text)


def _part_text(config: pytest.Config) -> str | None:
    part = config.option.part
    if part is None:
        return None
    return f"slow tests: part {part} of {COUNT} of each kind; the same again: make test PART={part}"


def _keep_files_in_memory() -> None:
    """`make test` writes no file of `tmp_path` to a disk, which took a twelfth of its time.

    `make test-all` does: what a disk does otherwise than memory is noticed there.
    """
    with suppress(OSError):
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


class Terse:
    """A worker reports of each test that it passed, or what failed, and leaves out the rest.

    To send that a test starts, and that setup and teardown succeed, took as long as a small test.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def _leave_out_syncs(config: pytest.Config) -> None:
    """A third of the time went into them, and no test can see one: it would take a power failure.

    Those are tried on disks in memory, which forget what was not synced. Processes that tests start
    sync as ever, and so does all of `make crash`.
    """
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, _check_descriptor, raising=False)
    patch.setattr(files, "_sync_content", _check_descriptor)


def _check_descriptor(descriptor: int) -> None:
    """Of a sync only that it is refused where nothing is open."""
    os.fstat(descriptor)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Every worker collects all tests, of which no garbage comes: looking for it took a seventh."""
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.enable()


def _import_share(config: pytest.Config) -> None:
    """Each worker first imports its share of the test modules, if all of them are to be run.

    Of a fresh checkout every module is compiled and its assertions are rewritten once, for seconds
    of a processor. Workers that collect in the same order would all do all of that at once.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or [Path(path).resolve() for path in config.args] != [TESTS]:
        return
    own, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[own::count]:
        name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        # Whatever a module raises, one that asks to be skipped too, is raised again by collection.
        with suppress(Exception, pytest.skip.Exception):
            import_module(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shares `--crash-seconds` out, and gives who loops the time to do so.

    What is too long for every run is left out without it.
    """
    if not config.getoption("--crash-seconds"):
        _leave_out(config, items, [item for item in items if item.get_closest_marker("long")])
    if config.option.part is not None:
        slow = {item.nodeid: item for item in items if item.get_closest_marker("slow")}
        for name in of_part(slow, int(config.option.part)):
            del slow[name]
        _leave_out(config, items, list(slow.values()))
    items.sort(key=_turn)
    looping = [item for item in items if "crash_seconds" in getattr(item, "fixturenames", ())]
    share = config.getoption("--crash-seconds") / max(1, len(looping))
    config.stash[SHARE] = share
    if share:
        for item in looping:
            item.add_marker(pytest.mark.timeout(ORDINARY_TIMEOUT_SECONDS + share))


def _leave_out(config: pytest.Config, items: list[pytest.Item], some: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=some)
    names = {item.nodeid for item in some}
    items[:] = [item for item in items if item.nodeid not in names]


def _turn(item: pytest.Item) -> int:
    """The first worker gets all of Spark, so that one session is started, and others take its rest.

    Whoever is out of work takes from the end: short tests first, then what is long.
    """
    if item.get_closest_marker("spark"):
        return 0
    return 1 if item.get_closest_marker("slow") else 2


def pytest_collection_finish() -> None:
    """No collection of garbage looks at ten thousand tests again."""
    gc.freeze()


SHARE = pytest.StashKey[float]()


@pytest.fixture
def crash_seconds(request: pytest.FixtureRequest) -> float:
    """How long this test tries seeds of its own choice, once it has done its fixed part."""
    return request.config.stash[SHARE]


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients ask again at once where they would pause, since nothing will come back meanwhile."""
    from ottla.client.connecting.cluster import ClientSettings

    monkeypatch.setattr(ClientSettings, "pauses", lambda _: iter([0.0] * 3))
