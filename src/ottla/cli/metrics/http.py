"""Metrics and health over HTTP, with a thread for each request, beside the broker.

`/metrics` is for Prometheus, `/healthz` reports that the process is alive, and `/readyz` whether
clients are served: not before the directories are recovered, nor while the broker stops or has no
directory left.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.http_threads import HttpThreads

PATHS = "/metrics, /healthz and /readyz"


class MetricsServer:
    """Answers from its creation until `close`; `serve` adds a broker in between.

    `why_not_ready` says what the broker waits for, `None` while it serves clients.
    """

    def __init__(self, address: tuple[str, int], why_not_ready: Callable[[], str | None]) -> None:
        """Raises `UserError` if the extra is missing or the address cannot be used."""
        with needed_for("--metrics"):
            from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
        self.registry = CollectorRegistry()
        self.why_not_ready = why_not_ready
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        host, port = address
        try:
            self._server = HttpThreads((host, port), _handler(self))
        except OSError as error:
            raise UserError(f"--metrics {host}:{port}: {error.strerror}") from error
        self.port: int = self._server.server_port
        self._scraping = threading.Lock()
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ottla-metrics", daemon=True
        )
        self._thread.start()

    def serve(self, collector: Any) -> None:
        """Adds the metrics of a broker: a collector for `prometheus_client`."""
        self.registry.register(collector)

    def scrape(self, accepted: str) -> tuple[str, bytes]:
        """Returns the negotiated content type, and the metrics in it."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accepted)
        with self._scraping:  # a second Prometheus waits rather than doubling the work
            return content_type, encode(self.registry)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(metrics: MetricsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # a client that sends nothing holds its thread no longer

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    content_type, body = metrics.scrape(self.headers.get("Accept", ""))
                    self._answer(200, body, content_type)
                case "/healthz":
                    self._answer(200, b"alive\n")
                case "/readyz":
                    reason = metrics.why_not_ready()
                    text = "ready" if reason is None else f"not ready: {reason}"
                    self._answer(200 if reason is None else 503, f"{text}\n".encode())
                case _:
                    self._answer(404, f"ottla answers {PATHS}\n".encode())

        def _answer(self, code: int, body: bytes, content_type: str = "text/plain") -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: a scrape every few seconds is not worth a line."""

    return Handler
