"""The background threads that send the events of runs."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._caller import Caller, back_off_s
from ._errors import ApiError, CircuitOpenError, ServiceTimeoutError, UnderstudyError
from ._lane import Lane
from ._marks import join_marks

# Maximum number of sending threads. Two events of the same run are never sent at the same time.
_SENDERS = 8
# Number of events that a run may send in its turn while other runs wait.
_TURN_EVENTS = 32
# While this many runs have events to send, a new run is dropped, and so are marks of a run that has no events to send.
_LANES_MAX = 1_000
# Maximum number of runs whose end waits for the rest of a stream. The end of a further run does not wait.
_STREAMS_MAX = 1_000
# Time after which an idle sending thread ends.
_IDLE_SENDER_S = 10.0
# Number of attempts to send an event. After that the event is dropped.
_EVENT_ATTEMPTS = 5
# The pause before a thread tries again while another thread's request tests whether the service answers.
_PROBE_WAIT_S = 0.1
# The longest pause that the service can ask for.
_PAUSE_MAX_S = 60.0
_OPERATIONS = {"run_start": "start_run", "step": "log_step", "run_mark": "mark_run", "run_finish": "finish_run"}
senders: "weakref.WeakSet[Sender]" = weakref.WeakSet()


class Sender:
    """Sends the events of several runs at once, each run's in order. The queue is bounded in steps and bytes.

    The agent's calls only add an event to a lane. An event that cannot be sent is dropped and counted. A warning reports the
    first drop of each cause, except drops because the client was closed.
    """

    def __init__(
        self, caller: Caller, timeout_s: float, steps_max: int, bytes_max: int, warn: Callable[[str, str], None]
    ) -> None:
        self._caller = caller
        self._timeout_s = timeout_s
        self._steps_max = steps_max
        self._bytes_max = bytes_max
        self._warn = warn
        self.sent = 0
        self.dropped = 0
        self.sent_marks = 0
        self.dropped_marks = 0
        self.forget()
        senders.add(self)

    def forget(self) -> None:
        """Empties the queue in a forked child, because the parent sends these events."""
        for lane in getattr(self, "_ready", ()):
            lane.steps.clear()
            lane.marks = None
            lane.settled = lane.accepted
            lane.is_busy = False
        self._lock = threading.Lock()
        # `_wanted` is notified when there may be work, `_settled` when an event was sent or dropped.
        self._wanted = threading.Condition(self._lock)
        self._settled = threading.Condition(self._lock)
        self._ready: "collections.OrderedDict[Lane, None]" = collections.OrderedDict()
        self._threads = 0
        self._idle = 0
        self._stopped_by: Optional[str] = None
        self._not_before = 0.0
        # Increases with each failure to reach the service. A flush that sees an increase stops waiting.
        self._silences = 0
        self._told: Optional[Tuple[str, str]] = None
        self.queued = 0
        self.queued_bytes = 0

    def open(self, lane: Lane) -> None:
        """Starts sending a run. Drops the run if the sender has stopped, or if `_LANES_MAX` runs have events to send."""
        with self._lock:
            if self._stopped_by is None and len(self._ready) < _LANES_MAX:
                self._enqueue(lane)
            else:
                self._lose(lane, self._stopped_by or "queue_full")
                if self._stopped_by is None:
                    self._told = "queue_full", f"The service is too slow: runs are dropped while {_LANES_MAX} runs wait"
        self._tell()

    def push(self, lane: Lane, step: Dict[str, Any], size: int) -> None:
        """Queues a step. Drops and counts it if the queue is full, the run was dropped or ends, or the sender has stopped."""
        with self._lock:
            is_room = self.queued < self._steps_max and self.queued_bytes + size <= self._bytes_max
            if not is_room or self._stopped_by is not None or lane.is_ending or lane.state in ("lost", "finished"):
                cause = "refused" if lane.state == "lost" else "closed" if lane.is_ending else "queue_full"
                self._drop(1, self._stopped_by or cause)
            else:
                lane.held_until = 0.0
                if lane.waits_for_stream:
                    lane.finish_held_until = time.monotonic() + lane.stream_hold_s
                lane.steps.append((step, size))
                lane.accepted += 1
                self.queued += 1
                self.queued_bytes += size
                self._enqueue(lane)
        self._tell()

    def end(self, lane: Lane, outcome: str, hold_s: float, is_stream: bool = False) -> None:
        """Queues `run_finish`, which waits at most `hold_s` for `release_end`. For a stream, each step restarts the wait.

        Does nothing if the run was dropped or the sender has stopped.
        """
        with self._lock:
            if self._stopped_by is None and lane.state != "lost":
                lane.held_until = 0.0
                self._hold_end(lane, hold_s, is_stream)
                lane.outcome = outcome
                lane.accepted += 1
                self._enqueue(lane)

    def mark(self, lane: Lane, body: Dict[str, Any]) -> List[str]:
        """Queues a mark. Returns the parts that exceed the run's bounds.

        The waiting marks of a run form one event. Drops and counts the mark if too many runs have events to send, the run was
        dropped, or the sender has stopped.
        """
        left_out: List[str] = []
        with self._lock:
            is_room = lane in self._ready or len(self._ready) < _LANES_MAX
            if self._stopped_by is not None or lane.state == "lost" or not is_room:
                self.dropped_marks += 1
                if not is_room:
                    self._drop(0, "queue_full")
            else:
                before, calls = lane.marks or ({}, 0)
                lane.marks = join_marks(before, body, left_out.append), calls + 1
                self._enqueue(lane)
        self._tell()
        return left_out

    def drop_mark(self) -> None:
        """Counts a mark that was dropped before it reached a lane."""
        with self._lock:
            self.dropped_marks += 1

    def reopen(self, lane: Lane, hold_s: float) -> None:
        """Makes `run_finish` wait for a stream as `end` says, if `run_finish` is not being sent yet."""
        with self._lock:
            is_open = lane.outcome is not None and not lane.is_ending and lane.state in ("waiting", "started")
            if is_open and self._stopped_by is None and not lane.waits_for_stream:
                self._hold_end(lane, hold_s, True)
                self._settled.notify_all()

    def release_end(self, lane: Lane) -> None:
        """Ends the wait of `run_finish`."""
        with self._lock:
            lane.finish_held_until = lane.stream_hold_s = 0.0
            self._wanted.notify()

    def name_framework(self, lane: Lane, name: str) -> None:
        """Sets the framework of a run whose `run_start` still waits for it. `run_start` then stops waiting."""
        with self._lock:
            lane.name_framework(name)
            self._wanted.notify()

    def drop(self, cause: str) -> bool:
        """Counts a step that was dropped before it reached a lane. False: the sender has stopped and has reported why."""
        with self._lock:
            self._drop(1, self._stopped_by or cause)
            return self._stopped_by is None

    def flush(self, timeout_s: float, is_last: bool = False) -> bool:
        """Waits until the events that are queued now are sent or dropped.

        Does not wait for a `run_finish` that waits for the rest of a stream. With `is_last`, that `run_finish` is sent now.
        Returns False if the time ran out, the service did not answer, the sender stopped, or no sending thread runs. Returns
        True even if single events were dropped.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            for lane in self._ready if is_last else ():
                if lane.stream_hold_s > 0:
                    lane.finish_held_until = lane.stream_hold_s = 0.0
            marks = [(lane, lane.accepted, lane.outcome is not None) for lane in self._ready]
            for lane in self._ready:
                lane.held_until = 0.0
            silences = self._silences
            stopped_by = self._stopped_by
            self._caller.circuit.hurry()
            if self._caller.circuit.state != "closed":
                self._not_before = 0.0
            self._ensure_thread()
            self._wanted.notify_all()
            while any(_is_unsettled(*mark) for mark in marks):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self._silences > silences or self._threads == 0:
                    return False
                self._settled.wait(left_s)
            # Events that were dropped because the sender stopped count as settled.
            return self._stopped_by == stopped_by

    def stop(self) -> None:
        """Drops the queue and sends nothing more."""
        with self._lock:
            if self._stopped_by is None:
                self._halt("closed")

    # The functions from here to `_take` are called under the lock.

    def _hold_end(self, lane: Lane, hold_s: float, is_stream: bool) -> None:
        if is_stream and sum(other.waits_for_stream for other in self._ready) >= _STREAMS_MAX:
            is_stream, hold_s = False, 0.0
        lane.finish_held_until = time.monotonic() + hold_s
        lane.stream_hold_s = hold_s if is_stream else 0.0

    def _enqueue(self, lane: Lane) -> None:
        if lane not in self._ready:
            self._ready[lane] = None
        if not lane.is_busy:
            self._ensure_thread()
            self._wanted.notify()

    def _ensure_thread(self) -> None:
        if self._idle > 0 or self._threads >= _SENDERS or not self._ready:
            return
        try:
            threading.Thread(target=self._work, name="understudy-sender", daemon=True).start()
            self._threads += 1
        except RuntimeError:
            # The interpreter is shutting down, or the process has too many threads: the existing threads continue.
            pass

    def _settle(self, lane: Lane, kind: str) -> int:
        """Removes an event that was sent or dropped from its lane. Returns the number of `run.mark` calls in it."""
        calls = lane.settle_marks() if kind == "run_mark" else 0
        size = 0 if kind == "run_mark" else lane.settle(kind)
        if kind == "step":
            self.queued -= 1
            self.queued_bytes -= size
        self._settled.notify_all()
        return calls

    def _lose(self, lane: Lane, cause: str) -> None:
        """Drops all events of the run."""
        steps = len(lane.steps)
        self.queued -= steps
        self.queued_bytes -= sum(size for _, size in lane.steps)
        lane.steps.clear()
        self.dropped_marks += 0 if lane.marks is None else lane.marks[1]
        lane.marks = None
        lane.state = "lost"
        lane.settled = lane.accepted
        self._ready.pop(lane, None)
        if steps > 0:
            self._drop(steps, cause)
        self._settled.notify_all()

    def _drop(self, steps: int, cause: str) -> None:
        self.dropped += steps
        if cause == "queue_full":
            self._told = (
                cause,
                f"The service is too slow: steps are dropped while the queue of {self._steps_max} steps is full "
                "(stats() counts them)",
            )

    def _halt(self, cause: str) -> None:
        self._stopped_by = cause
        for lane in list(self._ready):
            self._lose(lane, cause)
        self._silences += 1
        self._settled.notify_all()
        self._wanted.notify_all()

    def _take(self) -> Optional[Lane]:
        """Waits for a lane with work that may be sent now. None: this thread may end."""
        idle_until = time.monotonic() + _IDLE_SENDER_S
        while True:
            circuit = self._caller.circuit
            now = time.monotonic()
            wait_s = idle_until - now
            free, held_s = self._find_free(now)
            if free is not None:
                pause_s = max(self._not_before - now, circuit.wait_s)
                if circuit.state == "half-open":
                    pause_s = max(pause_s, _PROBE_WAIT_S)
                if pause_s <= 0:
                    free.is_busy = True
                    # Round robin.
                    self._ready.move_to_end(free)
                    if any(not lane.is_busy for lane in self._ready):
                        self._ensure_thread()
                    return free
                wait_s = pause_s
            elif held_s is not None:
                wait_s = held_s
            elif wait_s <= 0 or self._stopped_by is not None:
                return None
            self._idle += 1
            self._wanted.wait(wait_s)
            self._idle -= 1

    def _find_free(self, now: float) -> Tuple[Optional[Lane], Optional[float]]:
        """Returns a lane with work, or the seconds until the first held lane may be sent; (None, None) without such lanes."""
        held_s: Optional[float] = None
        for lane in self._ready:
            if lane.is_busy:
                continue
            left_s = lane.not_before - now
            if left_s <= 0:
                return lane, None
            held_s = left_s if held_s is None else min(held_s, left_s)
        return None, held_s

    # The functions from here on are called without the lock.

    def _tell(self) -> None:
        """Calls `warn` for a problem that was noted under the lock, where a callback must not run."""
        if self._told is not None:
            told, self._told = self._told, None
            self._warn(*told)

    def _work(self) -> None:
        """The main function of a sending thread: takes lanes and sends their events until it has been idle for too long."""
        while True:
            with self._lock:
                lane = self._take()
                if lane is None:
                    self._threads -= 1
                    self._settled.notify_all()
                    return
            try:
                self._drain(lane)
            except BaseException as thrown:
                # A fault of this library, or a shutdown of the interpreter. The run is dropped, and the thread continues.
                self._warn("failed", f"A run could not be sent: {thrown!r}")
                with self._lock:
                    self._lose(lane, "failed")
            with self._lock:
                lane.is_busy = False
                if lane.next() is None:
                    self._ready.pop(lane, None)

    def _drain(self, lane: Lane) -> None:
        """Sends a lane's events until it is empty, the service needs a pause, or another run has its turn."""
        sent = 0
        while True:
            with self._lock:
                is_held = self._stopped_by is not None or lane.not_before > time.monotonic()
                event = None if is_held else lane.next()
                lane.is_ending = lane.is_ending or (event is not None and event[0] == "run_finish")
                if sent >= _TURN_EVENTS and any(not other.is_busy for other in self._ready):
                    return
            if event is None or not self._send(lane, *event):
                return
            sent += 1

    def _send(self, lane: Lane, kind: str, fields: Dict[str, Any]) -> bool:
        """Sends an event, and removes it from its lane unless it is to be sent again. False: the lane must pause first."""
        operation = _OPERATIONS[kind]
        try:
            answer = self._caller.call(operation, fields, self._timeout_s, attempts=1, is_background=True)
        except UnderstudyError as thrown:
            return self._judge(lane, kind, thrown)
        with self._lock:
            if lane.state == "lost":
                return True
            self.sent_marks += self._settle(lane, kind)
            if kind == "step":
                self.sent += 1
        if kind == "step" and answer.get("fired") and lane.advise is not None:
            self._evaluate(lane)
        return True

    def _evaluate(self, lane: Lane) -> None:
        """Asks for an intervention and passes it to the run. A failure is ignored.

        The request is not repeated, except after status 429.
        """
        try:
            said = self._caller.call("evaluate", {"run_id": lane.run_id}, self._timeout_s, is_background=True)
        except UnderstudyError:
            return
        if said.get("inject") is True and lane.advise is not None:
            lane.advise(said)

    def _judge(self, lane: Lane, kind: str, thrown: UnderstudyError) -> bool:
        """Decides what happens to an event that was not sent. Returns the same as `_send`."""
        if isinstance(thrown, ApiError) and thrown.status < 500:
            if thrown.status == 429:
                return self._pause(back_off_s(1, thrown))
            return self._accept_refusal(lane, kind, thrown)
        is_silent = isinstance(thrown, (ServiceTimeoutError, CircuitOpenError)) or getattr(thrown, "unsent", False)
        if is_silent:
            with self._lock:
                self._silences += 1
                self._settled.notify_all()
            return False
        # The event may be the cause, so the number of attempts is bounded.
        lane.attempts += 1
        if lane.attempts < _EVENT_ATTEMPTS:
            return self._pause(back_off_s(lane.attempts, thrown))
        self._give_up(lane, kind, "failed", thrown)
        return True

    def _accept_refusal(self, lane: Lane, kind: str, refused: ApiError) -> bool:
        """Handles an event that the service refused. Returns the same as `_send`."""
        if refused.status in (401, 403):
            reason = f"HTTP {refused.status}: {refused}"
            self._warn("unauthorized", f"The service refuses the key ({reason}); no more requests are sent")
            with self._lock:
                self._halt("unauthorized")
            return True
        with self._lock:
            # The service has lost the run, for example because it was started with another data folder.
            is_restarted = refused.status == 404 and kind != "run_start" and lane.restart()
        if not is_restarted:
            self._give_up(lane, kind, "refused", refused)
        return True

    def _pause(self, seconds: float) -> bool:
        """Sends no event of any run for this time, at most `_PAUSE_MAX_S`. Returns False, as the result of `_send`."""
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + min(seconds, _PAUSE_MAX_S))
        return False

    def _give_up(self, lane: Lane, kind: str, cause: str, thrown: UnderstudyError) -> None:
        """Drops an event. Drops the whole lane if the event is `run_start`, or if the service answered 404 or 409."""
        self._warn(cause, f"The service did not accept a {kind} of run {lane.run_id}: {thrown}")
        with self._lock:
            if lane.state == "lost":
                return
            if kind == "run_start" or getattr(thrown, "status", 0) in (404, 409):
                self._lose(lane, cause)
                return
            self.dropped_marks += self._settle(lane, kind)
            if kind == "step":
                self._drop(1, cause)


def _is_unsettled(lane: Lane, mark: int, is_ended: bool) -> bool:
    """Whether a flush still waits for the lane.

    mark: the number of settled events that the lane must reach. is_ended: whether the run had ended when the flush began; late
        steps may precede its `run_finish`, so the flush waits for the state `finished`.
    """
    if lane.marks is not None:
        return True
    if lane.waits_for_stream:
        return lane.settled < min(mark, lane.accepted - 1)
    return lane.settled < mark or (is_ended and lane.state not in ("finished", "lost"))
