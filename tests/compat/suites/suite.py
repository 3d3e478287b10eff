"""What the suites of others have in common: a broker to talk to, outcomes, and what to say of them.

An outcome is `passed`, `failed`, or `skipped: ` and why the suite left the test out.
"""

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cli.support import serving
from tests.support.grounds import ONE_MACHINE, QUORUM, Grounds
from tests.support.ports import free_port
from tests.support.running_cluster import RunningCluster

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"


@contextmanager
def broker(data_dir: Path, settings: Mapping[str, str], host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a fresh `ottla serve` with `settings`, known to clients as `host`."""
    port = free_port()
    told = {"advertised.listeners": f"PLAINTEXT://{host}:{port}", **settings}
    words = [word for name, value in told.items() for word in ("-o", f"{name}={value}")]
    words += ["--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}"]
    with serving(None, *words) as (address, _):
        yield address


THREE = "--three-brokers"
"""On the command line of a suite: it talks to a cluster, and its topics have three replicas."""


def grounds() -> Grounds:
    """A cluster over ZooKeeper, or a quorum with OTTLA_SUITE_CLUSTER=quorum in the environment."""
    return QUORUM if os.environ.get("OTTLA_SUITE_CLUSTER") == "quorum" else ONE_MACHINE


def where(words: Sequence[str]) -> str:
    """Added to a suite's name: nothing for one broker, or the kind of the cluster."""
    if THREE not in words:
        return ""
    return " on three brokers" if grounds().has_zookeeper else " on three brokers of KRaft"


@contextmanager
def cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The addresses of the three brokers of a fresh cluster."""
    folder.mkdir(parents=True)
    with RunningCluster(folder, grounds=grounds(), **settings) as running:
        yield running.bootstrap


def make_topics(address: str, topics: Mapping[str, int], replicas: int = 1) -> None:
    """Makes topics with so many partitions each."""
    admin = AdminClient({"bootstrap.servers": address})
    wanted = [NewTopic(name, count, replicas) for name, count in topics.items()]
    for made in admin.create_topics(wanted).values():
        made.result()


def outcomes_of_junit(results: Path, *, with_class: bool = False) -> dict[str, str]:
    """Outcome by name of the test, out of a file in JUnit's XML.

    `with_class` for a suite in which names repeat: then the class comes first.
    """
    cases = ElementTree.parse(results).iter("testcase")
    return {_name(case, with_class): _outcome(case) for case in cases}


def _name(case: ElementTree.Element, with_class: bool) -> str:
    name = case.attrib["name"]
    return f"{case.attrib['classname']}: {name}" if with_class else name


def _outcome(case: ElementTree.Element) -> str:
    for child in case:
        if child.tag in ("failure", "error"):
            return FAILED
        if child.tag == "skipped":
            return f"{SKIPPED}: {child.attrib.get('message', '')}"
    return PASSED


def not_run(suite: str, reason: str) -> int:
    """Says why a suite is not run here, which is no failure."""
    sys.stdout.write(f"{suite}: not run, {reason}\n")
    return 0


def report(
    suite: str,
    outcomes: Mapping[str, str],
    known_gaps: Mapping[str, str],
    unsteady: Mapping[str, str] | None = None,
) -> int:
    """Prints what did not pass and why, what is not as expected, and a summary; the exit code.

    The tests of `known_gaps` have to fail, each for the reason given. Those of `unsteady` may
    pass or fail, for a reason that lies in the suite.
    """
    reasons = {**(unsteady or {}), **known_gaps}
    wrong = [f"is listed, but was not run: {name}" for name in reasons if name not in outcomes]
    for name, outcome in sorted(outcomes.items()):
        if outcome == FAILED and name not in reasons:
            wrong.append(f"FAILED {name}")
        elif outcome == PASSED and name in known_gaps:
            wrong.append(f"passes, but is listed as a gap: {name}")
        elif outcome != PASSED:
            sys.stdout.write(f"{name}: {reasons.get(name, outcome)}\n")
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    sys.stdout.write(f"{suite}: {_summary(outcomes)}\n")
    return 1 if wrong or not outcomes else 0


def _summary(outcomes: Mapping[str, str]) -> str:
    counts = Counter(outcome.split(":")[0] for outcome in outcomes.values())
    return ", ".join(f"{counts[kind]} {kind}" for kind in (PASSED, FAILED, SKIPPED))
