"""Hive's own metastore, out of PySpark's wheel, with its tables in a database of Derby.

Hive makes all of its tables but those of locks, which Iceberg's clients take around each commit;
its scripts for them are in no jar of the wheel.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from tests.support.patience import wait_until
from tests.support.ports import free_port

_SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:{}",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "none",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
    "hive.metastore.warehouse.dir": "file:{}-warehouse",
}
_LOCKS = """
CONNECT 'jdbc:derby:{};create=true' USER 'APP' PASSWORD 'mine';
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1) NOT NULL,
  TXN_STARTED bigint NOT NULL, TXN_LAST_HEARTBEAT bigint NOT NULL,
  TXN_USER varchar(128) NOT NULL, TXN_HOST varchar(128) NOT NULL);
CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL,
  HL_TXNID bigint, HL_DB varchar(128) NOT NULL, HL_TABLE varchar(128), HL_PARTITION varchar(767),
  HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL, HL_LAST_HEARTBEAT bigint NOT NULL,
  HL_ACQUIRED_AT bigint, HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL,
  HL_HEARTBEAT_COUNT integer, HL_AGENT_INFO varchar(128), HL_BLOCKEDBY_EXT_ID bigint,
  HL_BLOCKEDBY_INT_ID bigint, PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL,
  MT_COMMENT varchar(255), PRIMARY KEY (MT_KEY1, MT_KEY2));
"""
_JAVA = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "net", "util")]


@contextmanager
def hive_metastore(directory: Path) -> Iterator[str]:
    """The address of its Thrift service. Skips the test where PySpark or Java is not there."""
    pyspark = pytest.importorskip("pyspark")
    from ottla.spark.java import find_java

    try:
        java = find_java(os.environ).program
    except UserError as error:
        pytest.skip(str(error))
    database = directory / "database"
    fields = "".join(
        f"<property><name>{name}</name><value>{text.format(database)}</value></property>"
        for name, text in _SETTINGS.items()
    )
    (directory / "hive-site.xml").write_text(f"<configuration>{fields}</configuration>")
    (directory / "locks.sql").write_text(_LOCKS.format(database))
    jars = f"{directory}:{Path(pyspark.__file__).parent}/jars/*"

    def command(*words: str) -> list[str]:
        # What it logs goes below the directory, and not where everybody's goes.
        place = f"-Djava.io.tmpdir={directory}"
        return [java, *_JAVA, *_OPENED, place, "-cp", jars, *words]

    made = command("org.apache.derby.tools.ij", str(directory / "locks.sql"))
    done = subprocess.run(made, cwd=directory, capture_output=True, text=True, check=True)
    assert "ERROR" not in done.stdout, done.stdout
    port = free_port()
    log = directory / "metastore.log"
    serve = command("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port))
    with (
        log.open("w") as said,
        subprocess.Popen(serve, cwd=directory, stdout=said, stderr=said) as process,
    ):
        try:
            wait_until(
                lambda: process.poll() is not None or _listens(port),
                lambda: f"the metastore listens: {log.read_text()[-2000:]}",
            )
            assert process.poll() is None, log.read_text()
            yield f"thrift://127.0.0.1:{port}"
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
