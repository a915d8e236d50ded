"""The queue of one run's events."""

from __future__ import annotations

import collections
import time
from typing import Any, Callable, Dict, Optional, Tuple


Marks = Tuple[Dict[str, Any], int]


class Lane:
    """The events of one run, in order: `run_start`, its steps, `run_finish`. The sender's lock guards it.

    Marks are sent as soon as no step waits, even after the end.
    """

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
        # Number of events that were queued, and of events that were sent or dropped.
        self.accepted = 1
        self.settled = 0
        self._is_restarted = False
        # Monotonic time until which `run_start` waits for an integration to name its framework; 0: it does not wait. The
        # framework's name, the first step, the end of the run or a flush ends the wait.
        self.held_until = time.monotonic() + hold_s if hold_s > 0 else 0.0
        # Time until which `run_finish` waits for answers that an integration still expects, or for the rest of a stream.
        self.finish_held_until = 0.0
        # Each step of a stream restarts the wait of `run_finish` with this length; 0: it does not wait for streams.
        self.stream_hold_s = 0.0
        # The marks that wait, as one event, and the number of calls that made them. `accepted` and `settled` do not count
        # this event.
        self.marks: Optional[Marks] = None
        self._sent_marks: Optional[Marks] = None
        self.is_ending = False

    @property
    def run_id(self) -> str:
        return str(self.start["run_id"])

    @property
    def not_before(self) -> float:
        """The monotonic time from which the next event may be sent; 0: now."""
        if self.state == "waiting":
            return self.held_until
        return 0.0 if self.steps or self.marks is not None else self.finish_held_until

    @property
    def waits_for_stream(self) -> bool:
        return self.stream_hold_s > 0 and self.finish_held_until > time.monotonic()

    def name_framework(self, name: str) -> None:
        """Puts a framework into `run_start` if `run_start` still waits for one."""
        if self.state == "waiting" and self.held_until > 0:
            self.start["framework"] = name
            self.held_until = 0.0

    def next(self) -> Optional[Tuple[str, Dict[str, Any]]]:
        """Returns the kind and the fields of the next event, which stays in the lane; None: there is nothing to send."""
        if self.state == "waiting":
            return "run_start", self.start
        if self.state == "lost":
            return None
        if self.steps:
            return "step", {"id": self.run_id, **self.steps[0][0]}
        if self.marks is not None:
            self._sent_marks = self.marks
            return "run_mark", {"id": self.run_id, **self.marks[0]}
        if self.outcome is None or self.state == "finished":
            return None
        return "run_finish", {"id": self.run_id, "outcome": self.outcome}

    def settle(self, kind: str) -> int:
        """Removes the event that `next` gave. Returns the bytes of a step; 0 for `run_start` and `run_finish`."""
        self.attempts = 0
        # A second start of the run is not counted again.
        if kind != "run_start" or not self._is_restarted:
            self.settled += 1
        if kind == "step":
            return self.steps.popleft()[1]
        self.state = "started" if kind == "run_start" else "finished"
        return 0

    def settle_marks(self) -> int:
        """Removes the marks that `next` gave. Returns the number of calls that set them."""
        self.attempts = 0
        if self.marks is None or self._sent_marks is None:
            return 0
        calls = self._sent_marks[1]
        # Marks that arrived meanwhile were added to the event that was sent. Sending the earlier marks again changes
        # nothing.
        self.marks = None if self.marks is self._sent_marks else (self.marks[0], self.marks[1] - calls)
        return calls

    def restart(self) -> bool:
        """Makes `run_start` the next event again, because the service does not know the run.

        Returns False, and changes nothing, if the run was already restarted or is finished. The service knew a finished run,
        so the run was deleted there, and marks must not create it again.
        """
        if self._is_restarted or self.state == "finished":
            return False
        self._is_restarted = True
        self.state = "waiting"
        return True
