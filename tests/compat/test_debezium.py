"""Debezium over PostgreSQL: a table of its events equals the database, whatever is killed."""

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.schema_registry.registry import UnknownSchemaError
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from tests.compat.connect_worker import JARS
from tests.compat.java import absence, jars
from tests.compat.test_java_connect import OPTIONS, settings, wait_until, working
from tests.integration.cli.support import serving
from tests.support.ports import free_port
from tests.support.postgres import postgres

pytest.importorskip("deltalake")

DEBEZIUM_JARS = (
    "debezium-api",
    "debezium-config",
    "debezium-connect-plugins",
    "debezium-connector-common",
    "debezium-connector-postgres",
    "debezium-openlineage-api",
    "debezium-util",
    "postgresql",
    "protobuf-java",
    "sketches-java",
)
TOPIC = "shop.public.people"
AVRO_JARS = (
    "avro",
    "common-utils",
    "commons-compress",
    "failureaccess",
    "guava",
    "jackson-datatype-jsr310",
    "kafka-avro-serializer",
    "kafka-connect-avro-converter",
    "kafka-connect-avro-data",
    "kafka-schema-registry-client",
    "kafka-schema-serializer",
)
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
AVRO_CONVERTER = "io.confluent.connect.avro.AvroConverter"
CONVERTERS = {
    "JSON": {"": JSON_CONVERTER, ".schemas.enable": "false"},
    "JSON with schemas": {"": JSON_CONVERTER, ".schemas.enable": "true"},
    "Avro": {"": AVRO_CONVERTER},
}
IN_JSON = Decoding(
    format=ValueFormat.JSON, schema="id int, name string, visits bigint", envelope=Envelope.DEBEZIUM
)
IN_AVRO = Decoding(format=ValueFormat.AVRO, schema="", envelope=Envelope.DEBEZIUM)
ROUNDS = {"JSON": 3}
"""How often the worker is started, where it is not twice: to start one takes seconds."""

Row = tuple[int, str | None, int]


def debezium_absence() -> str | None:
    if absence() is not None:
        return absence()
    try:
        jars(*JARS, *DEBEZIUM_JARS, *AVRO_JARS)
    except UserError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(debezium_absence() is not None, reason=str(debezium_absence())),
]


class Stopped(BaseException):
    """Ends a load on the spot, as a kill does, but leaves the process."""


def worker_settings(
    directory: Path, address: str, database: psycopg.ConnectionInfo, converter: dict[str, str]
) -> dict[str, Any]:
    worker = settings(directory, address)["worker"]
    worker["exactly.once.source.support"] = "disabled"
    connector = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "topic.prefix": "shop",
        "plugin.name": "pgoutput",
        "database.hostname": database.host,
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": "none",
        "database.dbname": database.dbname,
        "table.include.list": "public.people",
        "skipped.operations": "none",
        "slot.drop.on.stop": "false",
    }
    for one in ("key", "value"):
        connector |= {f"{one}.converter{name}": value for name, value in converter.items()}
    jars = [*DEBEZIUM_JARS, *AVRO_JARS]
    return {"worker": worker, "connectors": {"people": connector}, "jars": jars}


@contextmanager
def database() -> Iterator[psycopg.Connection[Any]]:
    with (
        postgres("wal_level=logical") as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("create table people (id int primary key, name text, visits bigint)")
        yield connection


def change(connection: psycopg.Connection[Any], chance: random.Random) -> None:
    """One transaction of a few statements; some are rolled back."""
    with suppress(psycopg.Rollback), connection.transaction():
        for _ in range(chance.randrange(1, 6)):
            number, other = chance.randrange(60), chance.randrange(60)
            match chance.randrange(6):
                case 0 | 1:
                    connection.execute(
                        "insert into people values (%s, %s, 0) on conflict do nothing",
                        (number, chance.choice(["Ada", "Alan", "Grace ✓", None])),
                    )
                case 2 | 3:
                    connection.execute(
                        "update people set visits = visits + 1 where id between %s and %s",
                        (number, number + 5),
                    )
                case 4:
                    connection.execute("delete from people where id = %s", (number,))
                case 5:
                    connection.execute(
                        "update people set id = %s where id = %s "
                        "and not exists (select from people where id = %s)",
                        (other, number, other),
                    )
        if chance.random() < 0.2:
            raise psycopg.Rollback


class LoadedTable:
    """The latest state, loaded from the broker by whatever stops and is begun again."""

    def __init__(self, address: str, path: Path, chance: random.Random, decoding: Decoding) -> None:
        self._decoding = decoding
        self._place = LoadRoute(address, TOPIC, str(path / "table"))
        self._chance = chance

    def load(self, *, to_the_end: bool = False) -> None:
        step = None if to_the_end else self._chance.choice([*Step, None])

        def stop(progress: Progress) -> None:
            if progress.step is step:
                raise Stopped

        options = LoadOptions(layout=LayoutOptions(upsert=Upsert(), decoding=self._decoding))
        # Until the first event there is no schema.
        with suppress(Stopped, UnknownSchemaError):
            load(load_job(self._place, LocalEngine(), stop, options))

    def rows(self) -> list[Row]:
        if not Table(self._place.into).is_there():
            return []
        rows = ottla.table.dataset(self._place.into).to_table(["value"])["value"].to_pylist()
        return sorted((row["id"], row["name"], row["visits"]) for row in rows)

    def log_end(self) -> int:
        """Of the only partition."""
        (only,) = open_log(topic_options(self._place.source, TOPIC)).partitions()
        return only.end_offset

    def differences(self) -> list[Any]:
        log = open_log(topic_options(self._place.source, TOPIC))
        return audit(Table(self._place.into), log, TOPIC, compare_all=True).differences


def wait_until_equal(
    table: Table, connection: psycopg.Connection[Any], worker: subprocess.Popen[str]
) -> None:
    expected = connection.execute("select id, name, visits from people order by id").fetchall()

    def is_equal() -> bool:
        table.load(to_the_end=True)
        return table.rows() == expected

    wait_until(is_equal, worker)


def is_snapshot_over(data: Path, connection: psycopg.Connection[Any]) -> bool:
    """Whether Connect has kept that it is; it does so with the events that follow.

    A snapshot that is interrupted begins again, and Debezium never says which rows of the first one
    were deleted in between.
    """
    connection.execute("update people set visits = visits + 1 where id = 1")
    with ottla.open(data, read_only=True) as log:
        kept = [json.loads(one.value or b"null") for one in log.scan("connect-offsets")]
    return any(one and one.get("snapshot_completed", True) for one in kept)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] * (one != "Avro")) for one in CONVERTERS]
)
def test_the_latest_state_equals_the_database_whatever_is_killed(tmp_path: Path, name: str) -> None:
    chance, last = random.Random(17), ROUNDS.get(name, 2) - 1
    registry = f"127.0.0.1:{free_port()}"
    converter, decoding = dict(CONVERTERS[name]), IN_JSON
    options = list(OPTIONS)
    if name == "Avro":
        pytest.importorskip("fastavro")
        options += ["--schema-registry", registry]
        converter[".schema.registry.url"] = f"http://{registry}"
        decoding = replace(IN_AVRO, registry=f"http://{registry}", subject=f"{TOPIC}-value")
    with database() as connection, serving(tmp_path / "data", *options) as (address, _):
        for number in range(20):
            connection.execute("insert into people values (%s, 'snapshot', 0)", (number,))
        with ottla.Admin(address) as admin:
            admin.create_topic(TOPIC, partitions=1)
        told = worker_settings(tmp_path, address, connection.info, converter)
        (tmp_path / "worker.json").write_text(json.dumps(told))
        table = LoadedTable(address, tmp_path, chance, decoding)
        for number in range(last + 1):
            with working(tmp_path) as worker:
                if number in (0, last):
                    wait_until_equal(table, connection, worker)
                if number == 0:
                    wait_until(lambda: is_snapshot_over(tmp_path / "data", connection), worker)
                end = table.log_end()
                for _ in range(chance.randrange(10, 30)):
                    change(connection, chance)
                connection.execute("update people set visits = visits + 1")
                wait_until(lambda end=end: table.log_end() > end, worker)  # type: ignore[misc]
                table.load()
                if number == last:
                    wait_until_equal(table, connection, worker)
                    connection.execute("truncate people")
                    connection.execute("insert into people values (1, 'after', 1)")
                    wait_until_equal(table, connection, worker)
        assert table.differences() == []
