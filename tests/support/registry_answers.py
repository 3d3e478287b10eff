"""A registry that answers what a test says, over HTTP."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar


class Answers(BaseHTTPRequestHandler):
    """What a registry answers, by path; others are not found, as Confluent's says it."""

    paths: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []
    wants = ""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.headers.get("Authorization", "") != self.wants:
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
        elif self.path in self.paths:
            self._answer(200, self.paths[self.path])
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _answer(self, status: int, content: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def listening(kind: type[Answers]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def registry_answering(paths: Mapping[str, Any]) -> AbstractContextManager[str]:
    """The address of a registry with these answers."""

    class Answering(Answers):
        """With answers of its own."""

    Answering.paths, Answering.asked = dict(paths), []
    return listening(Answering)
