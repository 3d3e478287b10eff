"""The programs of docs/cluster-spark.md, on a master with workers."""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import ENVIRONMENT, SOURCE, TIMEOUT_S
from tests.spark.standalone import EXECUTORS, WITHOUT, connect_server, standalone_cluster
from tests.support.stores import environment_of

PAGE = (Path(__file__).parents[2] / "docs" / "cluster-spark.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
INSTALLED, WITH_THE_JOB, CONNECTED = PROGRAMS
COUNT = 1000
WHERE = """
def where(rows):
    import ottla
    yield ottla.__file__

print(set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()))
"""
TASK = """
import pickle, sys
import ottla, pyspark_ottla
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

source = pyspark_ottla.DefaultSource({"path": sys.argv[1], "subscribe": "orders"})
schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
reader = source.reader(schema)
sent = pickle.dumps((reader, reader.partitions()))
reader, partitions = pickle.loads(sent)
print(ottla.__file__, sum(rows.num_rows for one in partitions for rows in reader.read(one)))
"""
KILL_ONCE = """
import os, signal

def parent(process):
    return int(open(f"/proc/{{process}}/stat").read().rpartition(")")[2].split()[1])

def once(batches):
    try:
        os.close(os.open("{flag}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield from batches
        return
    yield next(batches)
    executor = parent(os.getppid())
    kill(executor)

from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.read.format("ottla").option("subscribe", "orders").load("data/")
"""
KILL_AN_EXECUTOR = (
    KILL_ONCE
    + """
def kill(executor):
    os.kill(executor, signal.SIGKILL)

sink = rows.mapInArrow(once, rows.schema).write.format("ottla").mode("append")
sink.options(**{{"kafka.bootstrap.servers": "{broker}", "topic": "copies"}}).save()
"""
)
KILL_A_WORKER = (
    KILL_ONCE
    + """
def kill(executor):
    os.kill(parent(executor), signal.SIGKILL)
    os.kill(executor, signal.SIGKILL)

print(rows.mapInArrow(once, rows.schema).count(), "records")
"""
)
STOP_ONCE = (
    KILL_ONCE
    + """
def kill(executor):
    import time
    while True:  # Until Spark ends it, since another attempt was quicker.
        time.sleep(0.1)

sink = rows.mapInArrow(once, rows.schema).write.format("ottla").mode("append")
sink.options(**{{"kafka.bootstrap.servers": "{broker}", "topic": "copies"}}).save()
"""
)
UNSEEN = """
from pyspark.sql import SparkSession

from ottla.spark.load import load
from ottla.spark.table import read_table

spark = SparkSession.builder.getOrCreate()
for place, table in ("data/", "{bucket}/files"), ("{broker}", "tables/orders"):
    try:
        load(place, "orders", table, spark=spark)
    except Exception as error:
        print(error)
load("{broker}", "orders", "{bucket}/orders", spark=spark)
print(read_table(spark, "{bucket}/orders").count(), "rows")
"""
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.task.duration.threshold": "1s",  # Of a stage that has one task.
}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    """With one worker in `make test-all`: each is a Java more, and so is its executor."""
    workers = 2 if pytestconfig.getoption("--crash-seconds") else 1
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers) as address:
        yield address


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ottla.Log]:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders", partitions=2)
        log.create_topic("copies", partitions=2)
        log.append_many("orders", [b"%d" % number for number in range(COUNT)])
        yield log


def run(program: str, directory: Path, environment: Mapping[str, str] | None = None) -> str:
    program = program.replace('"data/"', f'"{directory}/data"')
    program = program.replace('"tables/orders"', f'"{directory}/table"')
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**ENVIRONMENT, **(environment or {})},
        check=False,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_on(
    master: str,
    program: str,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    **settings: str,
) -> str:
    """Its session is started by Ottla, which needs no module of Java that a wheel of it lacks."""
    given = {"spark.master": master, **EXECUTORS, **settings}
    return run(
        "from ottla.spark.session import LocalSession, SessionSettings\n"
        f"session = LocalSession.start(SessionSettings(spark={given!r}, is_short=True))\n"
        f"{program}\nsession.stop()\n",
        directory,
        environment,
    )


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Ottla as a zip file, which a job brings along."""
    with zipfile.ZipFile(tmp_path / "ottla.zip", "w") as packed:
        for room in ("ottla", "pyspark_ottla"):
            for path in (SOURCE / room).rglob("*.py"):
                packed.write(path, path.relative_to(SOURCE))
    return tmp_path / "ottla.zip"


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """One that finds all that is installed but Ottla."""
    python = tmp_path / "python"
    libraries = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return python


def packed_environment(directory: Path) -> Path:
    """An environment with Ottla in it, as an archive that a job brings along.

    All else that is installed would fill the disk of a test: `PYTHONPATH` names where it is.
    """
    venv_pack = pytest.importorskip("venv_pack")
    made, archive = directory / "made", directory / "packed.tar.gz"
    venv.create(made, symlinks=True)
    (packages,) = made.glob("lib/python*/site-packages")
    for room in ("ottla", "pyspark_ottla"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(SOURCE / room, packages / room, ignore=ignored)
    venv_pack.pack(prefix=str(made), output=str(archive))
    return archive


def test_a_task_reads_with_nothing_of_ottla_but_a_zip_file(
    log: ottla.Log, packed: Path, bare_python: Path, tmp_path: Path
) -> None:
    """What an executor does, done here: planned, sent to another process, and read there."""
    done = subprocess.run(
        [bare_python, "-c", TASK, f"{tmp_path}/data"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**ENVIRONMENT, "PYTHONPATH": str(packed)},
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{packed}/ottla/__init__.py {COUNT}\n"


def test_a_task_reads_with_an_environment_that_venv_pack_has_packed(
    log: ottla.Log, tmp_path: Path
) -> None:
    """What an executor does with `spark.archives`: it unpacks, and starts the Python in there."""
    unpacked = tmp_path / "executor" / "environment"
    shutil.unpack_archive(packed_environment(tmp_path), unpacked, filter="tar")
    done = subprocess.run(
        ["./environment/bin/python", "-c", TASK, f"{tmp_path}/data"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**ENVIRONMENT, "PYTHONPATH": sysconfig.get_path("purelib")},
        check=False,
        cwd=unpacked.parent,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"/site-packages/ottla/__init__.py {COUNT}\n")
    assert done.stdout.startswith(str(unpacked))


@pytest.mark.long
def test_a_job_brings_ottla_along_as_a_zip_file(
    master: str, log: ottla.Log, packed: Path, bare_python: Path, tmp_path: Path
) -> None:
    settings = {"spark.pyspark.python": str(bare_python)}
    printed = run_on(master, WITH_THE_JOB + WHERE, tmp_path, **settings).splitlines()
    assert printed[0] == f"{COUNT} records"
    assert "ottla.zip" in printed[1]


@pytest.mark.long
def test_a_load_runs_with_an_environment_that_venv_pack_has_packed(
    master: str, log: ottla.Log, tmp_path: Path
) -> None:
    archive = packed_environment(tmp_path)
    # Spark starts the same Python beside the program, to plan what the executors read.
    shutil.unpack_archive(archive, tmp_path / "environment", filter="tar")
    settings = {
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executorEnv.PYTHONPATH": sysconfig.get_path("purelib"),
    }
    printed = run_on(master, INSTALLED + WHERE, tmp_path, **settings).splitlines()
    assert printed[0] == f"{COUNT} rows"
    # Each executor has unpacked it into its own directory.
    assert "/worker-" in printed[1]
    assert "/environment/lib/python" in printed[1]
    assert str(SOURCE) not in printed[1]


@pytest.mark.long
def test_a_load_runs_on_executors_that_have_ottla(
    master: str, log: ottla.Log, tmp_path: Path
) -> None:
    settings = {"spark.executorEnv.PYTHONPATH": str(SOURCE)}
    assert run_on(master, INSTALLED, tmp_path, **settings) == f"{COUNT} rows\n"


@pytest.mark.long
def test_an_executor_that_is_killed_while_it_writes_leaves_each_record_once(
    master: str, log: ottla.Log, tmp_path: Path
) -> None:
    broker = log.listen("127.0.0.1:0").address
    program = KILL_AN_EXECUTOR.format(flag=tmp_path / "killed", broker=broker)
    run_on(master, program, tmp_path, **{"spark.executorEnv.PYTHONPATH": str(SOURCE)})
    assert (tmp_path / "killed").exists()
    values = sorted(int(one.value or b"") for one in log.scan("copies"))
    assert values == list(range(COUNT))


@pytest.mark.long
def test_a_worker_that_is_killed_with_its_executor_has_its_tasks_run_elsewhere(
    log: ottla.Log, tmp_path: Path
) -> None:
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster", 2) as address:
        program = KILL_A_WORKER.format(flag=tmp_path / "killed") + INSTALLED
        printed = run_on(
            address, program, tmp_path, **{"spark.executorEnv.PYTHONPATH": str(SOURCE)}
        )
    assert (tmp_path / "killed").exists()
    assert printed == f"{COUNT} records\n{COUNT} rows\n"


@pytest.mark.long
def test_executors_that_are_asked_for_and_given_back_load(
    master: str, log: ottla.Log, tmp_path: Path
) -> None:
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.initialExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.executorEnv.PYTHONPATH": str(SOURCE),
    }
    assert run_on(master, INSTALLED, tmp_path, **settings) == f"{COUNT} rows\n"


@pytest.mark.long
def test_spark_connect_reads_and_loads(master: str, log: ottla.Log, tmp_path: Path) -> None:
    with connect_server(tmp_path, master, {"PYTHONPATH": str(SOURCE)}) as address:
        program = CONNECTED.replace("sc://connect.example:15002", address)
        assert run(program, tmp_path) == f"{COUNT} records\n"
    assert ottla.table.dataset(str(tmp_path / "table")).count_rows() == COUNT


@pytest.mark.long
def test_a_task_that_is_run_a_second_time_for_its_slowness_leaves_each_record_once(
    log: ottla.Log, tmp_path: Path
) -> None:
    if sys.platform != "linux":
        pytest.skip("the second attempt wants another host, and here all workers have one address")
    (tmp_path / "cluster").mkdir()
    broker = log.listen("127.0.0.1:0").address
    program = STOP_ONCE.format(flag=tmp_path / "stopped", broker=broker) + INSTALLED
    settings = {"spark.executorEnv.PYTHONPATH": str(SOURCE), **SPECULATION}
    with standalone_cluster(tmp_path / "cluster", 2) as address:
        printed = run_on(address, program, tmp_path, **settings)
    assert (tmp_path / "stopped").exists()
    assert printed == f"{COUNT} rows\n"
    values = sorted(int(one.value or b"") for one in log.scan("copies"))
    assert values == list(range(COUNT))


@pytest.mark.long
def test_executors_that_see_no_files_load_from_a_broker_into_an_object_store(
    log: ottla.Log,
    bucket: str,
    object_store: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever lies in a directory of the driver's is refused in a line that names it."""
    if subprocess.run([*WITHOUT, tmp_path, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may hide files from a process")
    environment = environment_of(object_store)
    given = {"PYTHONPATH": str(SOURCE), **environment}
    settings = {f"spark.executorEnv.{name}": text for name, text in given.items()}
    program = UNSEEN.format(broker=log.listen("127.0.0.1:0").address, bucket=bucket)
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), 1, hidden=tmp_path) as address:
        printed = run_on(address, program, tmp_path, environment, **settings).splitlines()
    unread, unwritten, loaded = printed
    assert f"{tmp_path}/data" in unread
    assert "a table's place must be visible to all machines of the cluster" in unwritten
    assert loaded == f"{COUNT} rows"
