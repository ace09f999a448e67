"""HTTP server of a job's operator port: `/metrics` and `/health`, served by a supervised thread."""

import socket
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from castleguard.telemetry.background import SupervisedThread, Task
from castleguard.telemetry.logs import LOG

App = Callable[[dict[str, Any], Any], Iterable[bytes]]


class OperatorServer:
    """Serves a WSGI app. A failed server is restarted on the same port."""

    def __init__(self, app: App, *, host: str, port: int) -> None:
        """Start to listen. Raises OSError if the port is not available."""
        self._app = app
        self._server: _Server | None = _listen(app, host, port)
        self.host, self.port = host, int(self._server.server_port)
        """The port is the requested one, or a free one if that was 0."""
        self._thread = SupervisedThread("metrics", self._serve)

    def close(self) -> None:
        """Stop serving."""
        self._thread.stop()
        if self._server is not None:
            self._server.shutdown()
        self._thread.join()
        self._close_server()

    def _serve(self, task: Task) -> None:
        if self._server is None:
            self._server = _listen(self._app, self.host, self.port)
        try:
            self._server.serve_forever()
        except BaseException:
            self._close_server()
            raise

    def _close_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a request failed, without a traceback: it may contain values."""
        LOG.warning("a request to the metrics port failed")


class _Handler(WSGIRequestHandler):
    """Handles requests with a timeout, and does not log them."""

    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _listen(app: App, host: str, port: int) -> _Server:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]

    class Server(_Server):
        address_family = family

    server = Server((str(address[0]), port), _Handler)
    server.set_app(app)
    return server
