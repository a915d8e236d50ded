"""The circuit breaker that all parts of a client share."""

from __future__ import annotations

import threading
import time


class Circuit:
    """Decides whether a request to the service is allowed now. The states are those of the TypeScript client's circuit."""

    _FAILURES_MAX = 5
    _COOL_DOWN_S = 1.0
    _COOL_DOWN_MAX_S = 30.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state = "closed"
        self._failures = 0
        self._cool_down_s = self._COOL_DOWN_S
        self._opens_until = 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until the pause of an open circuit ends; 0 without a pause."""
        return max(0.0, self._opens_until - time.monotonic()) if self.state == "open" else 0.0

    def admit(self) -> bool:
        """Whether a request may be sent. After True the caller must report the result by one of the `note_` functions."""
        with self._lock:
            if self.state == "closed":
                return True
            if self.state == "half-open" or self.wait_s > 0:
                return False
            self.state = "half-open"
            return True

    def hurry(self) -> None:
        """Ends the pause of an open circuit, so that the next request may be sent at once. Otherwise changes nothing."""
        with self._lock:
            self._opens_until = 0.0

    def note_answer(self) -> None:
        """Closes the circuit, because the service answered, with success or with a refusal."""
        with self._lock:
            self.state = "closed"
            self._failures = 0
            self._cool_down_s = self._COOL_DOWN_S

    def note_server_error(self) -> None:
        """Counts an error of the server or a broken connection. Opens the circuit after five in a row, or if it was half-open."""
        with self._lock:
            self._failures += 1
            if self.state == "half-open" or self._failures >= self._FAILURES_MAX:
                self._open()

    def note_silence(self) -> None:
        """Opens the circuit, because the service did not answer in time or refused the connection."""
        with self._lock:
            self._open()

    def note_nothing(self) -> None:
        """Notes that a request was abandoned. A half-open circuit opens again, without a pause before the next request."""
        with self._lock:
            if self.state == "half-open":
                self.state = "open"

    def _open(self) -> None:
        # If several requests in flight fail, the first failure opens the circuit and the others change nothing.
        if self.state == "open":
            return
        if self.state == "half-open":
            self._cool_down_s = min(2 * self._cool_down_s, self._COOL_DOWN_MAX_S)
        self.state = "open"
        self._failures = 0
        self._opens_until = time.monotonic() + self._cool_down_s
