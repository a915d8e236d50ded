"""HTTP requests to the service, on connections that the client keeps."""

from __future__ import annotations

import functools
import http.client
import io
import math
import socket
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from ._errors import ServiceConnectionError, ServiceTimeoutError, UnderstudyError, UnexpectedAnswerError

_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 65_536
_CONNECTIONS_KEPT = 8
# The service closes idle connections after 10 s, so the client closes them earlier.
_IDLE_CONNECTION_S = 5.0
_POSITION_KEPT_S = 60.0
# The service sends an SSE comment every 15 s, so a stream that is silent for three times as long is dead.
_SILENCE_S = 45.0


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: Optional[float]
    request_id: Optional[str]


class Stream(NamedTuple):
    """An answer that can be read while it arrives."""

    connection: http.client.HTTPConnection
    sock: socket.socket
    response: http.client.HTTPResponse

    def wake(self) -> None:
        """Makes a read of the answer end at once, for example a read that another thread waits for."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The connection is already closed.
            pass

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes arrive."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(_left_of(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineSocket:
    """The part of a socket that `http.client` uses to read an answer."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._parts = (sock, deadline)

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(*self._parts))


def _left_of(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _begin_answer(deadline: float, sock: socket.socket, *arguments: Any, **options: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_DeadlineSocket(sock, deadline), *arguments, **options)  # type: ignore[arg-type]


class SeenPosition:
    """The highest position in answers of a service with several boxes. For `_POSITION_KEPT_S`, the client sends it with each
    request, so that another box shows at least that state. A service with one box sends no position."""

    def __init__(self) -> None:
        # Replaced as a whole, so that threads need no lock.
        self._seen = (0, 0.0)

    def headers(self) -> Dict[str, str]:
        position, seen_at = self._seen
        # After this time, every box has the position, unless the database was restored to an earlier one.
        if position == 0 or time.monotonic() - seen_at > _POSITION_KEPT_S:
            return {}
        return {"x-svc-position": str(position)}

    def note(self, told: Optional[str]) -> None:
        if told is None or not told.isascii() or not told.isdigit() or len(told) > 15:
            return
        is_known = bool(self.headers())
        if not is_known or int(told) >= self._seen[0]:
            self._seen = (int(told), time.monotonic())


class Transport:
    def __init__(self, base_url: str, headers: Dict[str, str]) -> None:
        parts = urlsplit(base_url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._is_https = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._headers = headers
        self._seen = SeenPosition()
        self.forget()

    def forget(self) -> None:
        """Drops all connections, in a forked child: they belong to the parent."""
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []

    def send(self, method: str, target: str, body: Optional[bytes], timeout_s: float) -> Answer:
        """Sends a request and reads the whole answer. Returns an answer of any status. Follows no redirects.

        Raises ServiceConnectionError, ServiceTimeoutError, and UnexpectedAnswerError for an answer that is too long.
        """
        deadline = time.monotonic() + timeout_s
        connection = self._take()
        is_connected = connection.sock is not None
        try:
            connection.timeout = timeout_s
            if not is_connected:
                connection.connect()
                is_connected = True
            connection.sock.settimeout(_left_of(deadline))
            connection.response_class = functools.partial(_begin_answer, deadline)  # type: ignore[assignment]
            connection.request(method, target, body=body, headers={**self._headers, **self._seen.headers()})
            with connection.getresponse() as response:
                self._seen.note(response.headers.get("x-svc-position"))
                answer = to_answer(response)
                is_open = not response.will_close
        except UnderstudyError:
            connection.close()
            raise
        except socket.timeout:
            connection.close()
            raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as thrown:
            connection.close()
            words = str(thrown) or type(thrown).__name__
            raise ServiceConnectionError(f"Cannot reach {self.origin}: {words}", not is_connected) from thrown
        except BaseException:
            connection.close()
            raise
        if is_open:
            self._put_back(connection)
        else:
            connection.close()
        return answer

    def open(self, target: str, headers: Dict[str, str], timeout_s: float) -> "Stream":
        """Requests an answer that is read while it arrives. Raises ServiceConnectionError, ServiceTimeoutError."""
        connection = self._connect()
        connection.timeout = timeout_s
        try:
            connection.connect()
            # With `connection: close` the answer takes the socket away from the connection.
            sock = connection.sock
            connection.request("GET", target, headers={**self._headers, **self._seen.headers(), **headers})
            response = connection.getresponse()
            sock.settimeout(_SILENCE_S)
        except socket.timeout:
            connection.close()
            raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as thrown:
            connection.close()
            words = str(thrown) or type(thrown).__name__
            raise ServiceConnectionError(f"Cannot reach {self.origin}: {words}", False) from thrown
        except BaseException:
            connection.close()
            raise
        return Stream(connection, sock, response)

    def close(self) -> None:
        """Closes the idle connections. Requests in progress continue, and a later request opens a new connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def __del__(self) -> None:
        for connection, _ in self._idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if now - since < _IDLE_CONNECTION_S:
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        if self._is_https:
            return http.client.HTTPSConnection(self._host, self._port)
        return http.client.HTTPConnection(self._host, self._port)

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _CONNECTIONS_KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def to_answer(response: http.client.HTTPResponse) -> Answer:
    return Answer(
        response.status,
        _read_whole(response),
        _read_seconds(response.headers.get("retry-after")),
        response.headers.get("x-request-id"),
    )


def _read_whole(response: http.client.HTTPResponse) -> bytes:
    parts: List[bytes] = []
    size = 0
    while True:
        part = response.read(_READ_BYTES)
        if not part:
            break
        size += len(part)
        if size > _ANSWER_BYTES_MAX:
            raise UnexpectedAnswerError(f"The answer is longer than {_ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _read_seconds(value: Optional[str]) -> Optional[float]:
    try:
        seconds = float(value) if value else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
