"""A REST catalog of Iceberg's own: `serving.py WAREHOUSE [--spark]` prints its port, and serves
until its standard input ends.

It runs in `.venv-readers`. The requests are read, checked, carried out and answered by Iceberg's
library in Java (`CatalogHandlers`, by which its own REST server is made); only HTTP is Python's.
The catalog is its `InMemoryCatalog`. With `--spark` it is that of a Spark session, as `lake`, which
runs the SQL that is posted to `/sql`: the runtime's own client for REST lacks a library.
"""

import json
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

CODES = {
    "NoSuchTableException": 404,
    "NoSuchNamespaceException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
    "ValidationException": 400,
    "IllegalArgumentException": 400,
}
"""As the specification wants them, by the exceptions of the library."""


class JavaCatalog:
    """The library's catalog, and its handlers of requests."""

    def __init__(self, gateway: Any, catalog: Any) -> None:
        self._gateway = gateway
        self._java = gateway.jvm
        self._iceberg = self._java.org.apache.iceberg
        self._catalog = catalog
        self._mapper = self._hidden("org.apache.iceberg.rest.RESTObjectMapper", "mapper")

    def config(self) -> str:
        return json.dumps({"defaults": {}, "overrides": {}})

    def create_namespace(self, content: str) -> str:
        request = self._read(content, "CreateNamespaceRequest")
        return self._answered("createNamespace", request)

    def create_table(self, space: str, content: str) -> str:
        request = self._read(content, "CreateTableRequest")
        name = "stageTableCreate" if request.stageCreate() else "createTable"
        return self._answered(name, self._space(space), request)

    def load_table(self, space: str, name: str) -> str:
        return self._answered("loadTable", self._table(space, name))

    def commit(self, space: str, name: str, content: str) -> str:
        request = self._read(content, "UpdateTableRequest")
        return self._answered("updateTable", self._table(space, name), request)

    def _answered(self, handler: str, *arguments: Any) -> str:
        handlers = self._iceberg.rest.CatalogHandlers
        answer = getattr(handlers, handler)(self._catalog, *arguments)
        return str(self._mapper.writeValueAsString(answer))

    def _read(self, content: str, name: str) -> Any:
        kind = self._class(f"org.apache.iceberg.rest.requests.{name}")
        return self._mapper.readValue(content, kind)

    def _space(self, name: str) -> Any:
        levels = self._gateway.new_array(self._java.String, 1)
        levels[0] = name
        return self._iceberg.catalog.Namespace.of(levels)

    def _table(self, space: str, name: str) -> Any:
        return self._iceberg.catalog.TableIdentifier.of(self._space(space), name)

    def _class(self, name: str) -> Any:
        return self._java.java.lang.Class.forName(name)

    def _hidden(self, name: str, method: str) -> Any:
        """What a method of no arguments returns that other packages do not see."""
        nothing = self._gateway.new_array(self._java.Class, 0)
        found = self._class(name).getDeclaredMethod(method, nothing)
        found.setAccessible(True)
        return found.invoke(None, self._gateway.new_array(self._java.Object, 0))


def jars_with(jackson: Path) -> list[Path]:
    """Iceberg's runtime for Spark, and what its wheel leaves out."""
    from reading import installed
    from relocating import relocate

    relocate(installed("pyspark") / "jars", jackson)
    found = installed("snowpark_connect_deps_iceberg").rglob("iceberg-spark-runtime-3.5_2.12*")
    return [*found, jackson]


def by_itself(warehouse: str, jackson: Path) -> JavaCatalog:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from reading import installed

    jars = installed("pyspark") / "jars"
    (bridge,) = jars.glob("py4j-*.jar")
    path = ":".join(map(str, [*jars_with(jackson), jars / "*"]))
    port = launch_gateway(jarpath=str(bridge), classpath=path, die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    catalog = gateway.jvm.org.apache.iceberg.inmemory.InMemoryCatalog()
    catalog.initialize("behind", {"warehouse": warehouse})
    return JavaCatalog(gateway, catalog)


def of_spark(warehouse: str, jackson: Path) -> tuple[JavaCatalog, Any]:
    """The catalog of a Spark session, and the session."""
    from pyspark.sql import SparkSession

    lake, iceberg = "spark.sql.catalog.lake", "org.apache.iceberg"
    settings = {
        "spark.driver.extraClassPath": ":".join(map(str, jars_with(jackson))),
        lake: f"{iceberg}.spark.SparkCatalog",
        f"{lake}.type": "hadoop",
        f"{lake}.io-impl": f"{iceberg}.hadoop.HadoopFileIO",
        f"{lake}.warehouse": warehouse,
        f"{lake}.cache-enabled": "false",
        "spark.sql.extensions": f"{iceberg}.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    manager = session._jsparkSession.sessionState().catalogManager()
    catalog = manager.catalog("lake").icebergCatalog()
    return JavaCatalog(session.sparkContext._gateway, catalog), session


def serve(catalog: JavaCatalog, session: Any) -> None:
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            self._answer(lambda parts: self._asked(parts, None))

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(lambda parts: self._asked(parts, content))

        def _asked(self, parts: list[str], content: str | None) -> str:
            match parts, content:
                case ["v1", "config"], None:
                    return catalog.config()
                case ["sql"], str() if session is not None:
                    return json.dumps(len(session.sql(content).collect()))
                case ["v1", "namespaces"], str():
                    return catalog.create_namespace(content)
                case ["v1", "namespaces", space, "tables"], str():
                    return catalog.create_table(space, content)
                case ["v1", "namespaces", space, "tables", name], None:
                    return catalog.load_table(space, name)
                case ["v1", "namespaces", space, "tables", name], str():
                    return catalog.commit(space, name, content)
            raise NotImplementedError(self.path)

        def _answer(self, ask: Any) -> None:
            from py4j.protocol import Py4JJavaError
            from pyspark.errors import PySparkException

            try:
                with lock:
                    code, text = 200, ask(self.path.partition("?")[0].strip("/").split("/"))
            except PySparkException as error:
                code, text = 400, str(error)
            except Py4JJavaError as error:
                kind = error.java_exception.getClass().getSimpleName()
                code = CODES.get(kind, 500)
                said = {"message": error.java_exception.getMessage(), "type": kind, "code": code}
                text = json.dumps({"error": said})
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "jackson.jar")
        is_sparks = "--spark" in sys.argv
        made = of_spark if is_sparks else lambda *place: (by_itself(*place), None)
        serve(*made(sys.argv[1], place))
