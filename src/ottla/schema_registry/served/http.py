"""Serves the API over HTTP, beside the broker, with one thread per connection."""

import logging
import threading
from http.server import BaseHTTPRequestHandler

from ottla.base.errors import UserError
from ottla.base.http_threads import HttpThreads
from ottla.schema_registry.http import MEDIA_TYPE
from ottla.schema_registry.served.api import Api, answer_text

logger = logging.getLogger(__name__)

LARGEST_BODY = 4 << 20
_UNREACHABLE = 50003
"""The API's code if the registry cannot reach its topic."""


class RegistryServer:
    """Serves until `close`; raises `UserError` if the address is not available."""

    def __init__(self, address: tuple[str, int], api: Api) -> None:
        host, port = address
        try:
            self._server = HttpThreads((host, port), _handler(api))
        except OSError as error:
            raise UserError(f"--schema-registry {host}:{port}: {error.strerror}") from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ottla-schema-registry", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0  # closes connections that send nothing, to free their threads
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > LARGEST_BODY:
                self.close_connection = True
                self._answer(413, {"error_code": 413, "message": f"over {LARGEST_BODY} bytes"})
                return
            body = self.rfile.read(int(length))
            try:
                self._answer(*api.answer(self.command, self.path, body))
            except UserError as error:
                logger.warning("the schema registry cannot answer: %s", error)
                self._answer(500, {"error_code": _UNREACHABLE, "message": str(error)})

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - names of http.server

        def _answer(self, status: int, content: object) -> None:
            data = answer_text(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
