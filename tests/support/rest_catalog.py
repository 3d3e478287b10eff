"""A catalog of Iceberg that is asked by REST, as far as loads ask: a SQLite one behind HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

TABLE = ("shop", "orders")
"""The only one that it may have."""


@contextmanager
def rest_catalog(
    directory: Path, warehouse: str, **properties: str
) -> Iterator[tuple[str, Catalog]]:
    """The catalog's address, and the one behind it."""
    uri = f"sqlite:///{directory}/catalog.db"
    behind = load_catalog("behind", type="sql", uri=uri, warehouse=warehouse, **properties)
    behind.create_namespace("shop")
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            if self.path.startswith("/v1/config"):
                self._answer(200, {"defaults": {}, "overrides": {}})
            else:
                self._answer_as(lambda: _described(behind.load_table(TABLE)))

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/tables"):
                self._answer_as(lambda: _staged(behind, json.loads(content)))
            else:
                request = CommitTableRequest.model_validate_json(content)
                self._answer_as(lambda: _committed(behind, request))

        def _answer_as(self, ask: Any) -> None:
            try:
                with lock:
                    found = ask()
            except NoSuchTableError as error:
                self._refuse(404, error)
            except CommitFailedException as error:
                self._refuse(409, error)
            else:
                self._answer(200, found)

        def _refuse(self, code: int, error: Exception) -> None:
            said = {"message": str(error), "type": type(error).__name__, "code": code}
            self._answer(code, {"error": said})

        def _answer(self, code: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", behind
        finally:
            server.shutdown()
            thread.join()
            behind.close()


def _staged(behind: Catalog, asked: Any) -> Any:
    assert asked["stage-create"]
    schema = Schema.model_validate(asked["schema"])
    made = behind.create_table_transaction(
        TABLE, schema, asked.get("location"), properties=asked["properties"]
    )
    return _fields(TableResponse(metadata=made.table_metadata))


def _committed(behind: Catalog, request: CommitTableRequest) -> Any:
    class Named:
        @staticmethod
        def name() -> tuple[str, str]:
            return TABLE

    made: Any = Named()
    return _fields(behind.commit_table(made, request.requirements, request.updates))


def _described(table: Table) -> Any:
    fields = _fields(TableResponse(metadata=table.metadata))
    return {**fields, "metadata-location": table.metadata_location}


def _fields(answer: Any) -> Any:
    return json.loads(answer.model_dump_json(by_alias=True))
