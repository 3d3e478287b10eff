"""What the examples of helps need: their directories, files and names, and a broker to ask."""

import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.main import cli
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from ottla.schema_registry.administration import NewSchema, open_admin
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from ottla.testing import LocalBroker
from tests.docs import prepared
from tests.docs.shell import Shell
from tests.support.kafka_07 import message, write_log
from tests.support.ports import free_port
from tests.unit.cli.test_help import calls_in
from tests.unit.schema_registry.test_served_api import ListedLog

BROKERS = ("localhost:9092", "kafka:9092", "prod:9092")
REGISTRY = "http://localhost:8081"
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.retention.ms": -1,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
DAY_MS = 86_400_000
NOON_MS = 1_769_860_800_000
"""2026-01-31T12:00Z, which examples name."""

FILES = {
    "bills.avsc": '{"type": "record", "name": "Bill", "fields": []}',
    "orders.csv": "id,total\n1,5\n2,120\n",
    "ana.password": "pot\n",
    "topics.json": '{"orders": {}, "audit": {"retention.ms": "-1"}, "plain": {}}',
    "tests/test_it.py": "def test_it() -> None:\n    pass\n",
}
MADE = (
    "ottla users set data/ ana --password-file ana.password",
    "ottla quotas set data/ --client-id loader producer_byte_rate=10M",
    "ottla acls add data/ User:ana --role consumer --topic orders --group billing",
    "ottla load data/ orders --into tables/orders --engine local",
    "ottla export data/ orders -o orders.parquet",
)

TAKE_ONE = "ottla queue consume localhost:9092 workers orders --from beginning -n 1"
BEFORE = {
    "topics create localhost:9092": "ottla topics delete localhost:9092 orders --yes",
    "topics create data/": "ottla topics delete data/ orders --yes",
    "queue describe localhost": TAKE_ONE,
    "queue explain localhost": TAKE_ONE,
    "queue redrive localhost": "ottla topics create localhost:9092 dlq.orders",
    "log give-up": "rm -r data/orders-3",
    "snapshot list": "ottla snapshot create data/ before-upgrade",
    "snapshot restore": "ottla snapshot create data/ before-upgrade",
    "snapshot branch": "ottla snapshot create data/ before-upgrade",
    "snapshot delete": "ottla snapshot create data/ before-upgrade",
    "context show": "ottla context add prod kafka:9092",
    "context use": "ottla context add prod kafka:9092",
    "context remove": "ottla context add prod kafka:9092",
    "console --context": "ottla context add prod data/ && ottla context add test data/",
    "table read table/": "ottla load data/ orders --into table/ --engine local",
    "mirror verify": "ottla mirror kafka:9092 copy/",
    "status": "ottla serve --background && ottla serve data/ --background",
    "stop": "ottla serve --background && ottla serve data/ --background",
    "completion": "mkdir -p ~/.config/fish/completions",
    "schemas delete http://localhost:8081 orders-value --permanent": "ottla schemas delete "
    "http://localhost:8081 orders-value --yes",
    "tokens renew": "ottla tokens create localhost:9092 --secret-file job.token",
    "tokens expire": "ottla tokens create localhost:9092 --secret-file job.token",
}
"""What an example that begins like this needs done first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a line of a shell ended."""

    code: int
    output: str
    errors: str


class Surroundings:
    """A folder in which each example finds everything as it was made, and a broker of its own."""

    def __init__(self, folder: Path, template: Path) -> None:
        self._folder, self._template = folder, template

    @contextmanager
    def of(self, example: str) -> Iterator["Prepared"]:
        shutil.rmtree(self._folder, ignore_errors=True)
        before = "".join(line for at, line in BEFORE.items() if example.startswith(f"ottla {at}"))
        self._fill(f"{before} {example}")
        with ExitStack() as stack:
            surrounding = stack.enter_context(pytest.MonkeyPatch.context())
            surrounding.chdir(self._folder)
            for name in ("OTTLA_TARGET", "OTTLA_CONTEXT", "OTTLA_CONTEXTS"):
                surrounding.delenv(name, raising=False)
            for name, text in (
                ("HOME", str(self._folder)),
                ("XDG_CONFIG_HOME", str(self._folder / ".config")),
                ("OTTLA_USER_PASSWORD", "pot & kettle"),
            ):
                surrounding.setenv(name, text)
            places = self._places(example, stack)
            done = Prepared(self._folder, places)
            stack.callback(done.close)
            if before:
                first = done.run(before)
                assert first.code == 0, first
            yield done

    def _fill(self, lines: str) -> None:
        """The files, and the folders that are named."""
        self._folder.mkdir()
        is_asked = any(one in lines for one in BROKERS)
        for entry in self._template.iterdir():
            if entry.is_file():
                shutil.copy(entry, self._folder)
            elif entry.name in lines or (entry.name == "served" and is_asked):
                shutil.copytree(entry, self._folder / entry.name)

    def _places(self, example: str, stack: ExitStack) -> dict[str, str]:
        """What stands here for the addresses of examples."""
        if example.startswith("ottla tokens"):
            return dict.fromkeys(BROKERS, self._secured(stack))
        found = {REGISTRY: self._registry(stack)} if REGISTRY in example else {}
        if not any(one in example for one in BROKERS):
            return found
        disks = {"/disk1/kafka": self._folder / "served", "/disk2/kafka": self._folder / "disk2"}
        count = 2 if example.startswith("ottla topics move") else 1
        log = stack.enter_context(ottla.open([*disks.values()][:count], SETTINGS))
        if example.startswith("ottla transactions"):
            begin_transaction(log, stack)
        address = log.listen("127.0.0.1:0").address
        return found | {
            **dict.fromkeys(BROKERS, address),
            **{at: str(one) for at, one in disks.items()},
        }

    def _registry(self, stack: ExitStack) -> str:
        server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
        server.start()
        stack.callback(server.close)
        address = f"http://127.0.0.1:{server.port}"
        admin = open_admin(HttpRegistry(address))
        for kind in ("int", "long"):
            admin.register("orders-value", NewSchema(text=f'"{kind}"'))
        return address

    def _secured(self, stack: ExitStack) -> str:
        """A context: tokens are for users that log in."""
        users = {"ana": "x", "spark": "y"}
        settings = {"delegation.token.secret.key": "sealed"}
        broker = LocalBroker(
            self._folder / "secured", settings, security="SASL_PLAINTEXT", users=users
        )
        stack.enter_context(broker)
        given = broker.client_settings("ana").items()
        words = [word for name, text in given for word in ("-o", f"{name}={text}")]
        added = CliRunner().invoke(cli, ["context", "add", "ana", broker.address, *words])
        assert added.exit_code == 0, added.output
        return "@ana"


class Prepared:
    """Runs lines as they stand in a help, but for the addresses of brokers and listeners."""

    def __init__(self, folder: Path, places: dict[str, str]) -> None:
        self._shell = Shell(folder)
        self._places = places

    def run(self, line: str) -> Done:
        """In this process, where the line is one command of ours alone."""
        line = self.placed(line)
        calls = list(calls_in(line))
        if len(calls) == 1 and calls[0][0] == "ottla" and not needs_process(line):
            result = CliRunner().invoke(cli, calls[0][1:], prog_name="ottla")
            return Done(code=result.exit_code, output=result.stdout, errors=result.stderr)
        done = self._shell.run(line)
        return Done(code=done.returncode, output=done.stdout, errors=done.stderr)

    def run_until_stopped(self, line: str) -> Done:
        """Until it has said something, and Ctrl-C."""
        process = self._shell.start(self.placed(line))
        self._shell.stop_all([process])
        return Done(code=process.returncode, output="", errors="")

    def close(self) -> None:
        self._shell.stop_all([])

    def placed(self, line: str) -> str:
        for name, place in self._places.items():
            line = line.replace(name, place)
        line = line.replace("[::1]:9092", f"[::1]:{free_port()}")
        for name in ("127.0.0.1:9092", "0.0.0.0:8095"):
            line = line.replace(name, f"{name.rpartition(':')[0]}:{free_port()}")
        if line.startswith("ottla console") and "--listen" not in line:
            line += f" --listen 127.0.0.1:{free_port()}"
        return " && ".join(
            f"env OTTLA_LISTEN=127.0.0.1:{free_port()} {one}"
            if one.startswith("ottla serve") and "--listen" not in one
            else one
            for one in line.split(" && ")
        )


def needs_process(line: str) -> bool:
    return line.startswith("ottla quick") or "--background" in line or " && " in line


def make_template(folder: Path, *more: Callable[[Log], None]) -> None:
    """Everything that examples name, at rest."""
    folder.mkdir()
    with ottla.open(folder / "data", SETTINGS) as log:
        for one in (make_log, *more):
            one(log)
    write_log(folder / "kafka-0.7-logs", "my_topic", 0, [message(b"tea")])
    prepared.unconfirmed(str(folder / "kafka"))
    (folder / "tests").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as surrounding:
        surrounding.chdir(folder)
        for line in MADE:
            done = CliRunner().invoke(cli, shlex.split(line)[1:])
            assert done.exit_code == 0, done.output
    prepared.tier_of(folder / "data", folder / "tier")
    for name in ("served", "ottla-data"):
        shutil.copytree(folder / "data", folder / name)


def make_log(log: Log) -> None:
    log.create_topic("orders", partitions=4)
    for topic in ("orders-eu", "test-1", "shop.carts", "logs-web"):
        log.create_topic(topic, config={"retention.ms": -1})
        log.append(topic, b"tea")
    log.create_topic("accounts", config={"cleanup.policy": "compact"})
    for number in range(4):
        log.append("accounts", b"%d" % number, b"ana")
    begin_ms = NOON_MS - DAY_MS
    for partition in range(2):
        append_orders(log, partition, 1600, begin_ms)
        append_orders(log, partition, 20, time.time_ns() // 1_000_000)
    with ottla.Admin(log) as admin:
        offsets = {TopicPartition("orders", one): 40 for one in range(2)}
        for group in ("billing", "billing-eu"):
            admin.alter_group_offsets(group, offsets)


def append_orders(log: Log, partition: int, count: int, begin_ms: int) -> None:
    builder = RecordBatchBuilder()
    for number in range(count):
        value = b'{"id": %d, "total": %d}' % (number, number % 200)
        builder.append(b"c%d" % (number % 7), value, begin_ms + 100 * number)
    log.append_batch("orders", partition, builder)


def begin_transaction(log: Log, stack: ExitStack) -> None:
    """One that stays open."""
    producer = ottla.Producer(log, settings={"transactional.id": "payments-1"})
    stack.callback(producer.close)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"tea").result()
