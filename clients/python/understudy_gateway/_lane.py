"""The queue of one run's events."""

from __future__ import annotations

import collections
import time
from typing import Any, Callable, Dict, Optional, Tuple


class Lane:
    """The events of one run, in order: `run_start`, its steps, `run_finish`. The sender's lock guards it."""

    def __init__(
        self, start: Dict[str, Any], advise: Optional[Callable[[Dict[str, Any]], None]], hold_s: float = 0.0
    ) -> None:
        self.start = start
        self.advise = advise
        self.steps: "collections.deque[Tuple[Dict[str, Any], int]]" = collections.deque()
        self.outcome: Optional[str] = None
        # `waiting`: the service does not know the run yet. `lost`: the client sends nothing more of the run.
        self.state = "waiting"
        self.is_busy = False
        self.attempts = 0
        # Events that were queued, and events that were sent or dropped.
        self.accepted = 1
        self.settled = 0
        self._is_restarted = False
        # `run_start` waits until then for an integration that names its framework; the run's first event ends the wait.
        self.held_until = time.monotonic() + hold_s if hold_s > 0 else 0.0
        # `run_finish` waits until then for the last answers that an integration still expects, or for the rest of a stream.
        self.finish_held_until = 0.0
        # How long each step of a stream lets `run_finish` wait anew; 0: it waits for no stream.
        self.stream_hold_s = 0.0
        # `run_finish` is on its way, so nothing can go before it any more.
        self.is_ending = False

    @property
    def run_id(self) -> str:
        return str(self.start["run_id"])

    @property
    def not_before(self) -> float:
        """When the next event may be sent."""
        if self.state == "waiting":
            return self.held_until
        return 0.0 if self.steps else self.finish_held_until

    @property
    def waits_for_stream(self) -> bool:
        return self.stream_hold_s > 0 and self.finish_held_until > time.monotonic()

    def name_framework(self, name: str) -> None:
        """Puts a framework into `run_start` if that still waits for one."""
        if self.state == "waiting" and self.held_until > 0:
            self.start["framework"] = name
            self.held_until = 0.0

    def next(self) -> Optional[Tuple[str, Dict[str, Any]]]:
        if self.state == "waiting":
            return "run_start", self.start
        if self.state != "started":
            return None
        if self.steps:
            return "step", {"id": self.run_id, **self.steps[0][0]}
        return None if self.outcome is None else ("run_finish", {"id": self.run_id, "outcome": self.outcome})

    def settle(self, kind: str) -> int:
        """Removes the event that `next` gave. Returns the bytes that it took."""
        self.attempts = 0
        # A second start of the run is not counted again.
        if kind != "run_start" or not self._is_restarted:
            self.settled += 1
        if kind == "step":
            return self.steps.popleft()[1]
        self.state = "started" if kind == "run_start" else "finished"
        return 0

    def restart(self) -> bool:
        """Starts the run once more. Returns False from the second time on."""
        if self._is_restarted:
            return False
        self._is_restarted = True
        self.state = "waiting"
        return True
