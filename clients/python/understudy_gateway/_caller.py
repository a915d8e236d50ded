"""Calls of operations: the deadline, retries and the circuit around one request."""

from __future__ import annotations

import functools
import http.client
import json
import queue
import random
import re
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from ._circuit import Circuit
from ._errors import (
    ERRORS,
    ApiError,
    CircuitOpenError,
    ServerError,
    ServiceConnectionError,
    ServiceTimeoutError,
    UnderstudyError,
    UnexpectedAnswerError,
)
from ._operations import OPERATIONS
from ._texts import well_formed
from ._transport import Answer, Stream, Transport, to_answer
from ._version import __version__

_ATTEMPTS = 3
_BACK_OFF_S = 0.1
_BACK_OFF_MAX_S = 2.0
# A caller waits this much longer than a request's timeout for the request to end.
_GRACE_S = 0.25


def back_off_s(attempt: int, thrown: BaseException) -> float:
    """Returns the pause before the next attempt: doubles each time up to a maximum, has jitter, and is never shorter than the
    service asks for."""
    own: float = min(_BACK_OFF_S * 2 ** (attempt - 1), _BACK_OFF_MAX_S) * random.uniform(0.5, 1)
    asked: Optional[float] = getattr(thrown, "retry_after", None)
    return max(own, asked or 0.0)


def _may_repeat(thrown: UnderstudyError, is_repeatable: bool) -> bool:
    if isinstance(thrown, ServiceConnectionError):
        # If the connection was refused, another attempt at once would be refused as well.
        return is_repeatable and not thrown.unsent
    if isinstance(thrown, ApiError) and thrown.retryable:
        # A request that got 429 did nothing.
        return is_repeatable or thrown.status == 429
    return False


class Caller:
    """The connections and the circuit that all parts of a client share."""

    def __init__(self, base_url: str, api_key: str, timeout_s: float, tenant: Dict[str, str]) -> None:
        self._timeout_s = timeout_s
        self._tenant = tenant
        self._prefix = urlsplit(base_url).path.rstrip("/")
        self._transport = Transport(base_url, {
            "accept": "application/json",
            "content-type": "application/json",
            "authorization": f"Bearer {api_key}",
            "user-agent": f"understudy-python/{__version__}",
        })
        self.counts = {"sent": 0, "repeated": 0, "failed": 0}
        self.forget()

    def forget(self) -> None:
        self._transport.forget()
        self._lock = threading.Lock()
        self.circuit = Circuit()

    def close(self) -> None:
        self._transport.close()

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def open_stream(self, path: str, fields: Mapping[str, Any], last_event_id: str) -> Stream:
        """Opens a stream of events on a separate connection, without the circuit. Raises UnderstudyError."""
        target, _ = self._render("GET", path, fields)
        headers = {"accept": "text/event-stream", "cache-control": "no-cache"}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        stream = self._transport.open(target, headers, self._timeout_s)
        response = stream.response
        try:
            if response.status != 200:
                _read_answer(to_answer(response))
                raise UnexpectedAnswerError(f"HTTP {response.status} instead of a stream of events")
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise UnexpectedAnswerError("The answer is not a stream of events")
        except (OSError, http.client.HTTPException) as thrown:
            stream.close()
            raise ServiceConnectionError(f"The answer broke: {thrown!r}", False) from thrown
        except BaseException:
            stream.close()
            raise
        return stream

    def call(
        self,
        name: str,
        fields: Mapping[str, Any],
        timeout_s: Optional[float] = None,
        attempts: int = _ATTEMPTS,
        is_background: bool = False,
    ) -> Dict[str, Any]:
        """Calls an operation. Repeats a failed request within the time limit if that is safe. Raises UnderstudyError.

        fields: the fields of path, query and body under their wire names. Returns the body of the answer; {} for status 204.
        """
        method, path, is_repeatable = OPERATIONS[name]
        target, body = self._render(method, path, fields)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        attempt = 1
        while True:
            left_s = max(0.001, deadline - time.monotonic())
            try:
                return _read_answer(self._ask(method, target, body, left_s, is_background))
            except UnderstudyError as thrown:
                self._count("failed")
                if attempt >= attempts or not _may_repeat(thrown, is_repeatable):
                    raise
                wait_s = back_off_s(attempt, thrown)
                # An attempt after the deadline would be useless.
                if time.monotonic() + wait_s >= deadline:
                    raise
            time.sleep(wait_s)
            attempt += 1
            self._count("repeated")

    def _ask(self, method: str, target: str, body: Optional[bytes], timeout_s: float, is_background: bool) -> Answer:
        circuit = self.circuit
        if not circuit.admit():
            raise CircuitOpenError(
                f"{self._transport.origin} recently failed or did not answer, so the request was not sent; "
                "the client waits before it tries again"
            )
        self._count("sent")
        send = functools.partial(self._transport.send, method, target, body, timeout_s)
        try:
            answer = send() if is_background else _call_within(timeout_s + _GRACE_S, send)
        except (ServiceTimeoutError, ServiceConnectionError, UnexpectedAnswerError) as thrown:
            if isinstance(thrown, ServiceTimeoutError) or getattr(thrown, "unsent", False):
                circuit.note_silence()
            else:
                circuit.note_server_error()
            raise
        except BaseException:
            circuit.note_nothing()
            raise
        if answer.status >= 500:
            circuit.note_server_error()
        else:
            circuit.note_answer()
        return answer

    def _render(self, method: str, path: str, fields: Mapping[str, Any]) -> Tuple[str, Optional[bytes]]:
        """Returns the target and the body of a request. The tenant is in the body of a POST, otherwise in the query."""
        rest = {**self._tenant, **{name: value for name, value in fields.items() if value is not None}}
        for name in re.findall(r"\{(\w+)\}", path):
            path = path.replace(f"{{{name}}}", quote(well_formed(str(rest.pop(name))), safe=""))
        if method == "POST":
            return self._prefix + path, _encode(rest)
        query = urlencode({name: _query_text(value) for name, value in rest.items()})
        return f"{self._prefix}{path}?{query}" if query else self._prefix + path, None


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else well_formed(str(value))


def _encode(body: object) -> bytes:
    return well_formed(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str)).encode("utf-8")


def _call_within(timeout_s: float, work: Callable[[], Answer]) -> Answer:
    """Runs `work` on another thread, because some work has no timeout, for example a name lookup.

    Raises ServiceTimeoutError if `work` takes longer than `timeout_s`. If no thread can be started, runs `work` on this thread
    without the limit.
    """
    box: "queue.SimpleQueue[Tuple[Optional[Answer], Optional[BaseException]]]" = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as thrown:
            box.put((None, thrown))

    try:
        threading.Thread(target=run, name="understudy-call", daemon=True).start()
    except RuntimeError:
        # The interpreter is shutting down, or the process has too many threads.
        return work()
    try:
        answer, thrown = box.get(timeout=timeout_s)
    except queue.Empty:
        raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
    if thrown is not None:
        raise thrown
    assert answer is not None
    return answer


def _read_answer(answer: Answer) -> Dict[str, Any]:
    if answer.status == 204:
        return {}
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        # A proxy may answer with something else, even with JSON that is nested too deeply.
        value = None
    if 200 <= answer.status < 300:
        if isinstance(value, dict):
            return value
        raise UnexpectedAnswerError(f"HTTP {answer.status} without a JSON object: this is not an answer of the API")
    detail = value.get("detail") if isinstance(value, dict) else None
    error = ERRORS.get(answer.status, ServerError if answer.status >= 500 else ApiError)
    raise error(answer.status, detail, answer.retry_after, answer.request_id)
