"""Tests of Go packages as Debian brings them: sources in a folder, built without modules.

Nothing of this asks the network: Debian's packages of Go libraries come with their tests, and
depend on all that these import.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compat.suites.suite import FAILED, PASSED, SKIPPED, broker, grounds
from tests.support.ports import free_port
from tests.support.running_cluster import RunningCluster

DEBIAN_GOPATH = Path("/usr/share/gocode")
PROXY_IMPORT_PATH = "github.com/Shopify/toxiproxy/client"
PROXY = Path(__file__).with_name("toxiproxy.go")

SAID = re.compile(r"\s*\w+\.go:\d+:\s*(.*)")
"""A line that a test itself wrote, and not what runs it."""

OUTCOMES = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}


def absence(import_path: str, debian_package: str) -> str | None:
    """Why the package's tests cannot be run, with the fix."""
    if shutil.which("go") is None:
        return "go is not installed (apt-get install golang-go)"
    if not (DEBIAN_GOPATH / "src" / import_path).exists():
        return f"{import_path} is not installed (apt-get install {debian_package})"
    return None


def version_of(debian_package: str) -> str:
    """The upstream's version of an installed package."""
    query = ["dpkg-query", "--show", "--showformat", "${source:Upstream-Version}", debian_package]
    return subprocess.run(query, check=True, capture_output=True, text=True).stdout


def copy_package(import_path: str, gopath: Path) -> Path:
    """A copy of an installed package under `gopath`, to be changed and built there."""
    copied = gopath / "src" / import_path
    shutil.copytree(DEBIAN_GOPATH / "src" / import_path, copied)
    return copied


def rewrite(scripts: Iterable[Path], changes: Mapping[str, str]) -> None:
    """Replaces texts wherever they stand."""
    for script in scripts:
        text = script.read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        script.write_text(text)


@contextmanager
def proxied_broker(
    data_dir: Path, settings: Mapping[str, str], gopath: Path
) -> Iterator[dict[str, str]]:
    """What the tests' environment tells of a broker behind the proxy, which they start."""
    copy_proxy(gopath)
    through = f"127.0.0.1:{free_port()}"
    told = {"advertised.listeners": f"PLAINTEXT://{through}"}
    with broker(data_dir, {**settings, **told}) as address:
        yield {"KAFKA_PEERS": through, "TOXIPROXY_ADDR": address}


@contextmanager
def proxied_cluster(
    folder: Path, settings: Mapping[str, str], gopath: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """The addresses of three brokers, and what the tests' environment tells of their proxies."""
    copy_proxy(gopath)
    folder.mkdir(parents=True)
    proxies = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    with RunningCluster(folder, proxies=proxies, grounds=grounds(), **settings) as running:
        upstreams = ",".join(running.behind_proxies)
        yield running.bootstrap, {"KAFKA_PEERS": ",".join(proxies), "TOXIPROXY_ADDR": upstreams}


def copy_proxy(gopath: Path) -> None:
    proxy = gopath / "src" / PROXY_IMPORT_PATH
    proxy.mkdir(parents=True)
    shutil.copy(PROXY, proxy)


def run_tests(
    package: Path, gopath: Path, *, flags: Sequence[str] = (), settings: Mapping[str, str] = {}
) -> dict[str, str]:
    """Outcome by name of the test, subtests instead of the test that holds them."""
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "GOPATH": f"{gopath}:{DEBIAN_GOPATH}",
        "GOCACHE": str(gopath / "cache"),
        **settings,
    }
    done = subprocess.run(
        ["go", "test", "-json", "-count=1", "-timeout=4m", *flags, "."],
        cwd=package,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    outcomes = outcomes_of_events(done.stdout.splitlines())
    if not outcomes:
        sys.exit((done.stdout + done.stderr)[-4000:])
    sys.stderr.write(words_of_failed(done.stdout.splitlines()))
    return outcomes


def words_of_failed(lines: Sequence[str]) -> str:
    """What the tests that failed said, each with its name before it."""
    events = [json.loads(line) for line in lines]
    failed = {event.get("Test") for event in events if event["Action"] == "fail"} - {None}
    said = [event for event in events if event.get("Test") in failed and "Output" in event]
    return "".join(f"{event['Test']}: {event['Output']}" for event in said)


def outcomes_of_events(lines: Iterable[str]) -> dict[str, str]:
    """What `go test -json` told. A test that began and did not end has failed."""
    outcomes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for line in lines:
        event = json.loads(line)
        name = event.get("Test")
        if name is None:
            continue
        outcomes.setdefault(name, FAILED)
        if event["Action"] in OUTCOMES:
            outcomes[name] = OUTCOMES[event["Action"]]
        elif match := SAID.match(event.get("Output", "")):
            reasons[name] = match[1]
    holders = {name.rpartition("/")[0] for name in outcomes}
    return {
        name: f"{SKIPPED}: {reasons.get(name) or 'by itself'}" if outcome == SKIPPED else outcome
        for name, outcome in outcomes.items()
        if name not in holders
    }
