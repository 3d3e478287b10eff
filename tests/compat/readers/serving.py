"""A REST catalog of Iceberg's own: `serving.py WAREHOUSE` prints its port, and serves until its
standard input ends.

It runs in `.venv-readers`. The requests are read, checked, carried out and answered by Iceberg's
library in Java (`CatalogHandlers`, by which its own REST server is made); only HTTP is Python's.
The catalog is its `InMemoryCatalog`.
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

    def __init__(self, warehouse: str, jackson: Path) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from reading import installed
        from relocating import relocate

        jars = installed("pyspark") / "jars"
        relocate(jars, jackson)
        runtime = installed("snowpark_connect_deps_iceberg").rglob(
            "iceberg-spark-runtime-3.5_2.12*"
        )
        (bridge,) = jars.glob("py4j-*.jar")
        path = ":".join(map(str, [*runtime, jackson, jars / "*"]))
        port = launch_gateway(jarpath=str(bridge), classpath=path, die_on_exit=True)
        parameters = GatewayParameters(port=port, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._java = self._gateway.jvm
        self._iceberg = self._java.org.apache.iceberg
        self._catalog = self._iceberg.inmemory.InMemoryCatalog()
        self._catalog.initialize("behind", {"warehouse": warehouse})
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


def serve(warehouse: str, jackson: Path) -> None:
    catalog, lock = JavaCatalog(warehouse, jackson), Lock()

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

            try:
                with lock:
                    code, text = 200, ask(self.path.partition("?")[0].strip("/").split("/"))
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
        serve(sys.argv[1], Path(directory) / "jackson.jar")
