"""Helpers of all tests: the test cases for both languages, and a scripted service on a real socket."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import understudy_gateway  # noqa: E402,F401

# A timeout that only a fault exceeds, even on a busy machine.
PATIENCE_S = 60


def read_cases(name):
    return json.loads((HERE.parent.parent / "cases" / f"{name}.json").read_text("utf-8"))


def join(parts):
    return "".join(text * times for text, times in parts)


class Request:
    def __init__(self, handler, body):
        self.method = handler.command
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = json.loads(body) if body else None


class Service:
    """A server that records its requests. `answer(request)` returns status, body and headers; None closes the connection."""

    def __init__(self, answer=lambda request: (200, {}, {})):
        self.answer = answer
        self.requests = []
        self._changed = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Buffer the answer, so that head and body are sent together.
            wbufsize = -1

            def handle_one(self):
                size = int(self.headers.get("content-length") or 0)
                request = Request(self, self.rfile.read(size))
                with service._changed:
                    service.requests.append(request)
                    service._changed.notify_all()
                answer = service.answer(request)
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, body, headers = answer
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()

            do_GET = do_POST = do_DELETE = handle_one

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                # A client that has left.
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def wait_for(self, is_reached):
        """Waits until `is_reached` is true for the requests received so far."""
        with self._changed:
            if not self._changed.wait_for(lambda: is_reached(self.requests), PATIENCE_S):
                raise AssertionError(f"it did not come; there were {[one.path for one in self.requests]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
