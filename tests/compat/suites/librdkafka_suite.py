"""librdkafka's own tests, out of the package of Confluent's client for Node.

Run with `python -m tests.compat.suites.librdkafka_suite [NUMBERS]`, which builds them first (two
minutes); those of `SECURED` run again with certificates and logins. With `--three-brokers` they
talk to a cluster, of KRaft with OTTLA_SUITE_CLUSTER=quorum, and their topics have as many replicas
as they ask for. TEST_CONSUMER_GROUP_PROTOCOL=consumer has them use the new group protocol. A test
that fails without a reason below, or passes in spite of one, makes the run fail. Those that need no
broker are not run: they test librdkafka against mocks of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

from ottla.base.errors import UserError
from tests.compat.java import jars
from tests.compat.suites import npm_packages
from tests.compat.suites.secured_broker import KEY_PASSWORD, SecuredBroker, secured_broker
from tests.compat.suites.suite import (
    FAILED,
    PASSED,
    SKIPPED,
    THREE,
    broker,
    cluster,
    grounds,
    not_run,
    report,
    where,
)
from tests.integration.cli.support import SOURCE

PACKAGE = "@confluentinc/kafka-javascript"
VERSION = "1.10.1"
SUITE = "librdkafka"
HEADERS = {"openssl/ssl.h": "libssl-dev", "rapidjson/document.h": "rapidjson-dev"}
"""Without them librdkafka is built all the same, and leaves out tests."""

KAFKA_VERSION = "4.2.0"
"""What the suite is told it talks to: the first with share groups."""

SETTINGS = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "3000",
    # Its tests of share groups wait for locks of three seconds.
    "group.share.min.record.lock.duration.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""As in a cluster of Kafka's, for which the tests were written: some count on the delay, and some
make rules that deny them what they had."""

SCENARIOS = {
    "default": SETTINGS,
    "noautocreate": {**SETTINGS, "auto.create.topics.enable": "false"},
}
RULES_IN_ZOOKEEPER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
CLUSTER_SETTINGS = {
    # As librdkafka's own clusters: consumers fetch from followers in their rack.
    "broker.rack": "RACK{id}",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

WORKERS = 4
"""Tests that run beside each other: most of them wait most of the time."""

TIMEOUT_S = 1200
SECURED = {
    "SSL": ("0001", "0005", "0011", "0012", "0097", "0103"),
    "SCRAM-SHA-512": ("0001", "0005", "0011", "0012", "0033", "0081", "0103", "0135", "0142"),
    "PLAIN": ("0001", "0005", "0135", "0142"),
}
"""By how clients show who they are: logins, certificates, users and rules, and what all of them
do beside that: records, groups and transactions."""

REAUTHENTICATION_MS = 10_000
"""Clients of all these tests log in again so often."""

LONG = ("0113",)
"""Waits for so many groups that it takes ten minutes: what else there is runs beside it."""

ADMIN_NUMBER = "0081"
ADMIN_SUBTESTS = (
    "unclean_destroy", "CreateTopics", "DeleteTopics", "CreatePartitions", "CreateAcls",
    "DescribeAcls", "DeleteAcls", "AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs",
    "DeleteRecords", "ListConsumerGroups", "DescribeConsumerGroups", "DescribeTopics",
    "DescribeCluster", "DeleteGroups", "DeleteConsumerGroupOffsets", "ListOffsets",
    "AlterConsumerGroupOffsets", "ListConsumerGroupOffsets", "UserScramCredentials",
)  # fmt: skip
"""Run one by one: the test as a whole ends with the first that fails."""

ONE_PARTITION = (
    "it counts on a first fetch with records of one partition only, as while Kafka still reads the "
    "states of the others"
)
UNSTEADY = {
    "0172_share_consumer_acknowledge": ONE_PARTITION,
    "0179_share_consumer_destroy": ONE_PARTITION,
    "SSL 0097_ssl_verify": "it knows Java's alerts, 42 and 40, for a client's certificate that is "
    "not trusted; OpenSSL sends 48, and in TLS 1.3 after the client's handshake",
    "0055_producer_latency": "it allows for a tenth of a second, which a busy machine exceeds",
    "0127_fetch_queue_backoff": "it allows for 30 ms beside a pause of half a second, which a "
    "busy machine exceeds",
    "0098_consumer_txn": "an abort right after a commit is fatal to librdkafka if its partition "
    "was refused meanwhile, as the commit's markers were on their way; Kafka answers so, too",
    "0174_share_consumer_concurrency": "it allows two minutes for 20,000 records that are sent one "
    "after the other, each to three replicas",
}

REVOKES_ALL = "waits for all to be revoked, where only what goes away is"
GAPS_OF_THE_NEW_PROTOCOL = {
    "0045_resubscribe_with_regex": "waits for topics by name a heartbeat before those of the "
    "expression; they come together",
    "0045_subscribe_update_non_exist_and_partchange": REVOKES_ALL,
    "0045_subscribe_update_topic_remove": REVOKES_ALL,
}
GAPS_OF_CLUSTERS_OVER_ZOOKEEPER = {
    "0081_admin IncrementalAlterConfigs": "settings of groups need KRaft, in Kafka too",
}
UNSTEADY_WITH_THE_NEW_PROTOCOL = {
    "0045_subscribe_many_updates": "librdkafka joins with no list of partitions, or not at all, "
    "when it leaves and joins while a heartbeat is on its way",
}

ONE_BROKER = re.compile(r"(create_topic(?:_wait_exists)?\(.*), 3(, 5000)?\)")
"""Where tests ask for three replicas, which a single broker of Kafka's refuses, too."""

SESSION_ENDS = "/* Wait session timeout + 1s. Because using static group membership */"
ITS_WAIT = re.compile(re.escape(SESSION_ENDS) + r"\s+rd_sleep\(6\);")
"""Sessions of its static members last six seconds, not five: a helper sets that after the test."""


ROW = re.compile(r"_TEST\(\s*(\d{4}_\w+),(.*?)\)(?:,|;)\s*(?=_TEST|#|/\*|\{NULL)", re.DOTALL)
SCENARIO = re.compile(r'\.scenario\s*=\s*"(\w+)')
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Tests of one number, which is what the runner goes by; `part` is the one subtest to run."""

    number: str
    scenario: str
    names: tuple[str, ...]
    part: str = ""

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(f"{name} {self.part}".strip() for name in self.names)


def main(words: Sequence[str]) -> int:
    is_cluster = THREE in words
    numbers = [one for one in words if one != THREE]
    reason = absence()
    if reason:
        return not_run(SUITE, reason)
    with tempfile.TemporaryDirectory() as scratch:
        suite = build(Path(scratch), is_cluster=is_cluster)
        runs = runs_in((suite / "test.c").read_text())
        wanted = [run for run in runs if not numbers or run.number in numbers]
        outcomes = run_suite(suite, wanted, Path(scratch), is_cluster=is_cluster)
        if not is_cluster:
            outcomes |= run_secured(suite, wanted, Path(scratch))
    gaps = GAPS_OF_CLUSTERS_OVER_ZOOKEEPER if is_cluster and grounds().has_zookeeper else {}
    unsteady = UNSTEADY
    if os.environ.get("TEST_CONSUMER_GROUP_PROTOCOL") == "consumer":
        gaps = {**gaps, **GAPS_OF_THE_NEW_PROTOCOL}
        unsteady = {**unsteady, **UNSTEADY_WITH_THE_NEW_PROTOCOL}
    gaps, unsteady = (
        {title: why for title, why in reasons.items() if title in outcomes}
        for reasons in (gaps, unsteady)
    )
    return report(f"{SUITE} of {PACKAGE} {VERSION}{where(words)}", outcomes, gaps, unsteady)


def absence() -> str | None:
    """Why the tests cannot be built, with the fix."""
    for program in ("g++", "make"):
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install {program})"
    for header, package in HEADERS.items():
        if not (Path("/usr/include") / header).exists():
            return f"its tests need {header} (apt-get install {package})"
    return npm_packages.absence()


def build(scratch: Path, *, is_cluster: bool) -> Path:
    """The folder of the tests, with the program in it."""
    pack = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    subprocess.run(pack, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    (archive,) = scratch.glob("*.tgz")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
    sources = scratch / "package" / "deps" / "librdkafka"
    suite = sources / "tests"
    for script in sorted(suite.glob("[0-9]*.c*")):
        source = script.read_text()
        if not is_cluster:
            source = ONE_BROKER.sub(r"\1, 1\2)", source)
        source = ITS_WAIT.sub("rd_sleep(8);", source)
        script.write_text(source)
    with (scratch / "build.log").open("w") as log:
        for command in (
            ["./configure", "--disable-gssapi", "--disable-curl"],
            ["make", f"-j{os.cpu_count()}", "libs"],
            ["make", f"-j{os.cpu_count()}", "-C", "tests", "build"],
        ):
            done = subprocess.run(command, cwd=sources, stdout=log, stderr=log, check=False)
            if done.returncode:
                sys.exit(f"{SUITE} cannot be built:\n{(scratch / 'build.log').read_text()[-4000:]}")
    return suite


def runs_in(source: str) -> list[Run]:
    """Those of the runner's table that talk to a broker, the longest first."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, facts in ROW.findall(source[source.index("struct test tests[]") :]):
        is_for_us = "TEST_F_LOCAL" not in facts and "TEST_F_MANUAL" not in facts
        if is_for_us and not name.endswith("_mock"):
            named = SCENARIO.search(facts)
            names[name[:4], named[1] if named else "default"].append(name)
    runs = [
        Run(number=number, scenario=scenario, names=tuple(those), part=part)
        for (number, scenario), those in names.items()
        for part in (ADMIN_SUBTESTS if number == ADMIN_NUMBER else ("",))
    ]
    return sorted(runs, key=lambda run: run.number not in LONG)


def run_suite(
    suite: Path, runs: Sequence[Run], scratch: Path, *, is_cluster: bool
) -> dict[str, str]:
    kafka = stand_in(scratch / "kafka")
    outcomes: dict[str, str] = {}
    with ExitStack() as brokers, ThreadPoolExecutor(WORKERS) as pool:
        runners = {
            name: Runner(suite, {"bootstrap.servers": address}, kafka)
            for name, settings in SCENARIOS.items()
            for address in [brokers.enter_context(served(scratch / name, settings, is_cluster))]
        }
        for some in pool.map(lambda run: runners[run.scenario](run), runs):
            outcomes.update(some)
    return outcomes


def served(
    folder: Path, settings: Mapping[str, str], is_cluster: bool
) -> AbstractContextManager[str]:
    if is_cluster:
        rules = RULES_IN_ZOOKEEPER if grounds().has_zookeeper else {}
        return cluster(folder, {**settings, **CLUSTER_SETTINGS, **rules})
    return broker(folder, settings)


def run_secured(suite: Path, runs: Sequence[Run], scratch: Path) -> dict[str, str]:
    """Tests over TLS and with logins, named after the protocol and the mechanism."""
    outcomes: dict[str, str] = {}
    (scratch / "secured").mkdir()
    settings = {**SETTINGS, "connections.max.reauth.ms": str(REAUTHENTICATION_MS)}
    with secured_broker(scratch / "secured", settings) as found:
        for way, client in (
            ("SSL", found.librdkafka("SSL")),
            ("SCRAM-SHA-512", found.librdkafka("SASL_SSL", "SCRAM-SHA-512")),
            ("PLAIN", found.librdkafka("SASL_SSL", "PLAIN")),
        ):
            kafka = stand_in(scratch / f"kafka-{way}")
            runner = Runner(suite, client, kafka, trivup_variables(found))
            wanted = [run for run in runs if run.number in SECURED[way]]
            with ThreadPoolExecutor(WORKERS) as pool:
                for some in pool.map(runner, wanted):
                    outcomes |= {f"{way} {title}": outcome for title, outcome in some.items()}
    return outcomes


def trivup_variables(found: SecuredBroker) -> dict[str, str]:
    """Where the suite's own starter of brokers says that certificates are."""
    scratch = found.authority.parent
    certificate = load_pem_x509_certificate(found.certificate.read_bytes())
    authority = load_pem_x509_certificate(found.authority.read_bytes())
    key = load_pem_private_key(found.key.read_bytes(), KEY_PASSWORD.encode())
    (scratch / "client.der").write_bytes(certificate.public_bytes(Encoding.DER))
    (scratch / "authority.der").write_bytes(authority.public_bytes(Encoding.DER))
    locked = BestAvailableEncryption(KEY_PASSWORD.encode())
    (scratch / "key.der").write_bytes(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, locked))
    return {
        "SSL_pkcs": str(found.store),
        "SSL_password": KEY_PASSWORD,
        "SSL_pub_der": str(scratch / "client.der"),
        "SSL_pub_pem": str(found.certificate),
        "SSL_priv_der": str(scratch / "key.der"),
        "SSL_priv_pem": str(found.key),
        "SSL_ca_der": str(scratch / "authority.der"),
        "SSL_all_cas_pem": str(found.authority),
        "SSL_client_auth": "required",
    }


def stand_in(kafka: Path) -> Path:
    """A folder that looks like Kafka's where the tests call its programs: topics, and Java."""
    (kafka / "bin").mkdir(parents=True)
    (kafka / "libs").mkdir()
    try:
        for jar in jars("kafka-clients", "slf4j-api"):
            (kafka / "libs" / jar.name).symlink_to(jar)
    except UserError as error:
        sys.stdout.write(f"{SUITE}: tests with a producer in Java fail: {error}\n")
    root = SOURCE.parent
    python = f"cd '{root}' && '{sys.executable}' -m tests.compat.suites"
    for name, command in (
        ("kafka-topics.sh", f"{python}.topics"),
        ("kafka-acls.sh", f"{python}.acls"),
        ("kafka-run-class.sh", f'java -cp "$CLASSPATH:{kafka}/libs/*"'),
    ):
        program = kafka / "bin" / name
        program.write_text(f'#!/bin/sh\n{command} "$@"\n')
        program.chmod(0o755)
    return kafka


class Runner:
    """Runs tests in a process of their own: some leave threads behind when they fail."""

    def __init__(
        self,
        suite: Path,
        settings: Mapping[str, str],
        kafka: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._suite = suite
        self._settings = settings
        self._kafka = kafka
        self._variables = variables or {}

    def __call__(self, run: Run) -> dict[str, str]:
        """Outcomes by the tests' titles."""
        scratch = Path(tempfile.mkdtemp(dir=self._kafka))
        told = scratch / "report.json"
        config = scratch / "test.conf"
        told_clients = {**self._settings, "test.timeout.multiplier": "2"}
        config.write_text("".join(f"{key}={value}\n" for key, value in told_clients.items()))
        environment = {
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            **os.environ,
            **self._variables,
            "BROKERS": self._settings["bootstrap.servers"],
            "KAFKA_PATH": str(self._kafka),
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "RDKAFKA_TEST_CONF": str(config),
            "TESTS": run.number,
            "TEST_REPORT": str(told),
            "TEST_SCENARIO": run.scenario,
        }
        if run.part:
            environment["SUBTESTS"] = f"do_test_{run.part}"
        with (scratch / "log").open("w") as log, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["./test-runner", "-L", "-K", "-r", "-p1"],
                cwd=self._suite, env=environment, timeout=TIMEOUT_S, check=False,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        report = told.read_text() if told.exists() else ""
        outcomes = {
            title: outcome_of(report, name)
            for name, title in zip(run.names, run.titles, strict=True)
        }
        if FAILED in outcomes.values():
            for line in failures_in((scratch / "log").read_text(errors="replace")):
                sys.stdout.write(f"{run.number}: {line}\n")
        # The suite takes a quarter of an hour: each outcome is told when it is known.
        sys.stderr.writelines(f"{title}: {outcome}\n" for title, outcome in outcomes.items())
        sys.stderr.flush()
        return outcomes


def failures_in(log: str) -> Iterator[str]:
    """What a runner that failed said of it, without colours."""
    lines = [COLOUR.sub("", line) for line in log.splitlines()]
    for number, line in enumerate(lines):
        if line.startswith("### Test ") and "<MAIN>" not in line:
            yield line
            yield from lines[number + 1 : number + 2]


def outcome_of(told: str, name: str) -> str:
    """The outcome of a test in the runner's report, empty if it wrote none."""
    try:
        row = json.loads(told)["tests"][name]
    except (ValueError, KeyError):
        return FAILED
    match row["state"]:
        case "PASSED":
            return PASSED
        case "SKIPPED":
            return f"{SKIPPED}: {row['extra'] or 'by itself'}"
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
