"""The live stream of an organization: server-sent events, read by a blocking iterator."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ._caller import back_off_s
from ._errors import ApiError, UnderstudyError, UnexpectedAnswerError
from ._transport import Stream

# The pause before a new connection, until the service sends `retry`.
_RETRY_S = 3.0
_RETRY_MAX_S = 30.0
_EVENT_BYTES_MAX = 1_048_576


class LiveEvent(NamedTuple):
    """One event of the live stream."""

    kind: str
    """`run_start`, `step`, `run_finish`, `intervention`, `pattern_created`, `retrieval_capped`; `reset`: events were lost."""
    id: str
    """The value of `last_event_id` for continuing after this event."""
    data: Dict[str, Any]
    """With the field names of the wire."""


class Subscription:
    """The events of an organization: `for event in u.subscribe(): ...` blocks until the next event.

    If a connection ends, the subscription opens another one and continues after the last event. `close` (from any
    thread) and leaving a `with` block end the subscription. It raises UnderstudyError if the service refuses it (401,
    403, 422) or has no stream (503 at the first attempt), or if another program answers.
    """

    def __init__(self, open_stream: Callable[[str], Stream], last_event_id: str) -> None:
        self.last_event_id = last_event_id
        """The id of the last event; before the first event, the id that the stream began with."""
        self._open = open_stream
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._stream: Optional[Stream] = None
        self._is_reading = False
        self._is_first = True
        self._failures = 0
        self._retry_s = _RETRY_S

    def __iter__(self) -> "Subscription":
        return self

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __next__(self) -> LiveEvent:
        with self._lock:
            self._is_reading = True
        try:
            while not self._is_closed.is_set():
                event = self._advance()
                if event is not None:
                    return event
            raise StopIteration
        except BaseException:
            self._is_closed.set()
            raise
        finally:
            with self._lock:
                self._is_reading = False
            if self._is_closed.is_set():
                self._leave()

    def close(self) -> None:
        """Ends the iteration, even while it waits in another thread. Never raises."""
        self._is_closed.set()
        with self._lock:
            stream, is_reading = self._stream, self._is_reading
        if stream is not None and is_reading:
            stream.wake()
        elif stream is not None:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _advance(self) -> Optional[LiveEvent]:
        """Opens a connection if necessary, and reads one block of lines. None: the block is no event, or the read failed."""
        try:
            if self._stream is None:
                stream = self._open(self.last_event_id)
                with self._lock:
                    self._stream = stream
                if self._is_closed.is_set():
                    return None
            self._is_first = False
            event = self._read_event(self._stream.response)
            self._failures = 0
            return event
        except EOFError:
            wait_s = self._retry_s
        except (UnderstudyError, OSError, http.client.HTTPException) as thrown:
            if self._is_closed.is_set():
                return None
            if not _may_come_again(thrown, self._is_first):
                raise
            self._is_first = False
            self._failures += 1
            wait_s = min(max(self._retry_s, back_off_s(self._failures, thrown)), _RETRY_MAX_S)
        self._leave()
        # Jitter, so that not all readers connect at once after a restart of the service.
        self._is_closed.wait(wait_s * random.uniform(0.75, 1.25))
        return None

    def _read_event(self, response: http.client.HTTPResponse) -> Optional[LiveEvent]:
        """Reads the next block of lines. None: it is not an event. Raises EOFError at the end of the stream."""
        fields: Dict[str, str] = {"id": self.last_event_id}
        data: List[str] = []
        size = 0
        while True:
            line = response.readline(_EVENT_BYTES_MAX + 1)
            size += len(line)
            if size > _EVENT_BYTES_MAX:
                raise UnexpectedAnswerError(f"An event of the stream is longer than {_EVENT_BYTES_MAX} bytes")
            if not line.endswith(b"\n"):
                raise EOFError
            text = line[:-1].decode("utf-8", "replace")
            text = text[:-1] if text.endswith("\r") else text
            if text == "":
                break
            name, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                data.append(value)
            elif name == "retry" and re.fullmatch("[0-9]{1,9}", value):
                self._retry_s = min(int(value) / 1_000, _RETRY_MAX_S)
            elif name != "id" or "\0" not in value:
                fields[name] = value
        # The id is stored only after a whole event, because the service sends an interrupted event again.
        self.last_event_id = fields["id"]
        try:
            value = json.loads("\n".join(data))
        except (ValueError, RecursionError):
            return None
        # Anything that is not an object is skipped.
        return LiveEvent(fields.get("event", ""), self.last_event_id, value) if isinstance(value, dict) else None


def _may_come_again(thrown: BaseException, is_first: bool) -> bool:
    if isinstance(thrown, ApiError):
        return thrown.retryable and not (is_first and thrown.status == 503)
    return not isinstance(thrown, UnderstudyError) or thrown.retryable
