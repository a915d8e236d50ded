"""A run: one task of an agent."""

from __future__ import annotations

import collections
import contextvars
import math
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar, Union, cast

from ._context import Held, held_now, hold, let_go
from ._decorator import decorate
from ._difficulty import score_step
from ._labels import run_scope
from ._lane import Lane
from ._machine import Difficulty, DifficultyMachine
from ._marks import bound_marks
from ._numbers import is_number
from ._options import TokenBudgetReached
from ._outcome import name_failure, name_outcome
from ._patterns import PATTERN_TOKENS
from ._texts import STEP_TEXT_UNITS, cut_units, to_text
from ._within import Within

if TYPE_CHECKING:
    from ._client import ClientBase

_STEP_BYTES = 500
_TOKENS_MAX = 100_000_000
_INTERVENTIONS_MAX = 16
# Maximum time that `run_start` waits for an integration to name its framework. The name, the first step, the end of the
# run or a flush ends the wait.
_FRAMEWORK_WAIT_S = 2.0
# Maximum time that `run_finish` waits for answers that an integration expects.
_LATE_ANSWER_S = 5.0
# Maximum time that `run_finish` waits for the rest of a stream that began in the run. Each step restarts the wait.
_LATE_STREAM_S = 60.0
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Self = TypeVar("_Self", bound="BaseRun")


class Intervention(NamedTuple):
    """A message for the agent, before its next call of a model."""

    text: str
    """The text, to pass to the model as a system message."""
    failure_type: str
    """The monitor that fired."""
    level: str
    """`nudge`: the agent should change its approach. `stop`: the nudge did not help."""


# Runs that have begun and not ended. The set holds weak references, so the program can still drop a run.
open_runs: "weakref.WeakSet[BaseRun]" = weakref.WeakSet()
current_in_context: "contextvars.ContextVar[Optional[Held]]" = contextvars.ContextVar("understudy_runs", default=None)


def current_run() -> Optional["BaseRun"]:
    """Returns the innermost run around the caller, of any client; None outside of runs."""
    held = held_now(current_in_context)
    return None if held is None else held.value


def run_for_late_step() -> Optional["BaseRun"]:
    """Returns the innermost run around the caller that still takes steps.

    A run takes steps until it has ended, and all streams that began in it have ended. If no run takes steps, returns
    the innermost run, which counts the step as lost. None: the caller has never been in a run.
    """
    ended: Optional[BaseRun] = None
    held = current_in_context.get()
    while held is not None:
        run: BaseRun = held.value
        is_over = held.is_left or (held.owner is not None and held.owner.outcome is not None)
        if not is_over or run._streams > 0:
            return run
        ended = ended or run
        held = held.outer
    return ended


class BaseRun:
    """One task of an agent. A client's `run` makes a run for `with`; `start` makes a run that `finish` or `fail` ends.

    A run also decorates functions: `@u.run(task="...")`. Its methods never raise, and only `patterns` waits for the
    service.
    """

    def __init__(self, client: "ClientBase[Any]", start: Dict[str, Any], again: Callable[[int], "BaseRun"]) -> None:
        self.run_id: str = start["run_id"]
        self.task: str = start["task"]
        self.model: str = start["model"]
        self.arm: Optional[str] = start.get("arm")
        """The arm of the experiment; None: no experiment. In the arm `off` there are no patterns and no interventions."""
        self.outcome: Optional[str] = None
        """None until the run ends."""
        self.tokens = 0
        """The tokens of all steps so far."""
        self._client = client
        self._start = start
        # Makes the run of a further call of a decorated function.
        self._again = again
        self._calls = 0
        self._lane: Optional[Lane] = None
        self._is_started = False
        # Number of answers that an integration still expects.
        self._expected = 0
        # Number of streams that the agent reads and an integration observes.
        self._streams = 0
        self._steps = 0
        self._machine = DifficultyMachine(client._thresholds)
        self._interventions: "collections.deque[Intervention]" = collections.deque(maxlen=_INTERVENTIONS_MAX)
        self._scope = run_scope(self.run_id)
        self._held: List[Held] = []

    def step(
        self,
        action: Any = "",
        action_input: Any = "",
        thought: Any = "",
        observation: Any = "",
        is_error: bool = False,
        tokens: int = 0,
        **unknown: Any,
    ) -> None:
        """Logs what the agent did. Returns at once.

        Texts of more than 131,072 characters are cut. Values that are not texts are written as JSON. Unknown fields are left
        out. The first cut and the first unknown field are reported.
        """
        try:
            if unknown:
                self._client._warn("unknown_field", f"A step has no {', '.join(unknown)}; they are left out")
            self._log(action, action_input, thought, observation, is_error, tokens)
        except Exception as thrown:
            self._client._sender.drop("failed")
            self._client._warn("failed", f"A step could not be read: {thrown!r}")

    def mark(
        self,
        mark: Optional[str] = None,
        *,
        tags: Optional[Sequence[str]] = None,
        note: Optional[str] = None,
        feedback_score: Optional[float] = None,
    ) -> None:
        """Marks the run, during the run or after it. Returns at once. Parts that are not given stay as they were.

        mark: "good" or "bad". tags: added to those of the run. note: replaces the earlier note. feedback_score: a
            user's rating, from 0 to 1. Parts that the service would refuse are left out, which is reported the first
            time.
        """
        client = self._client

        def leave_out(what: str) -> None:
            client._warn("unfit_mark", f"A part of the mark of run {self.run_id} was left out: {what}")

        client._count("marks_said")
        try:
            body = bound_marks(mark, tags, note, feedback_score, leave_out)
            if self._lane is None:
                return
            if not body:
                client._sender.drop_mark()
                return
            for what in client._sender.mark(self._lane, body):
                leave_out(what)
        except Exception as thrown:
            client._sender.drop_mark()
            leave_out(repr(thrown))

    def intervention(self) -> Optional[Intervention]:
        """Returns the oldest intervention that the agent has not received yet; None: there is no message."""
        try:
            said = self._interventions.popleft()
        except IndexError:
            return None
        self._client._count("interventions_handed_over")
        return said

    def difficulty(self, text: Optional[str] = None) -> Difficulty:
        """Scores the text of the last or the next step, and returns the score and the new state.

        Without a text, the score is 0.5 and the state does not change.
        """
        score = score_step(text if isinstance(text, str) else "")
        with self._client._lock:
            state = self._machine.observe(score) if isinstance(text, str) else self._machine.state
        return Difficulty(score, state, self._client._routing.get(state))

    def finish(self, outcome: str = "success") -> None:
        """Ends the run, unless it has ended. Returns at once.

        While an integration watches a stream or expects an answer, the run takes further steps before its end is sent.
        """
        self._finish(name_outcome(outcome), may_wait=True)

    def fail(self, thrown: Union[BaseException, type]) -> None:
        """Ends the run as `failure: <ExceptionName>`, unless it has ended. Returns at once."""
        self._finish(name_outcome(name_failure(thrown)), may_wait=False)

    def __call__(self, function: _Function) -> _Function:
        """Decorates a function, a coroutine function or a generator: each call is a run, with the options of this one.

        Without a `run_id` each call has its own id. With one, the first call has it, the second `<run_id>.2`, and so on.
        """
        return cast(_Function, decorate(self._next_call, function))

    def __enter__(self: _Self) -> _Self:
        self._begin()
        hold(current_in_context, self, self._held)
        self._scope.__enter__()
        return self

    def __exit__(self, kind: Optional[type], thrown: Optional[BaseException], traceback: object) -> None:
        """Ends the run as `success`, or after an exception as `failure: <ExceptionName>`. The exception is raised again."""
        # An ended run labels no requests, neither here nor in a task that outlives it.
        self._scope._leave(is_over=True)
        let_go(current_in_context, self._held, is_over=True)
        self._end(thrown)

    async def __aenter__(self: _Self) -> _Self:
        return self.__enter__()

    async def __aexit__(self, kind: Optional[type], thrown: Optional[BaseException], traceback: object) -> None:
        self.__exit__(kind, thrown, traceback)

    def _next_call(self) -> "BaseRun":
        """Makes the run of the next call of the decorated function."""
        with self._client._lock:
            self._calls += 1
            calls = self._calls
        return self._again(calls)

    def _within(self) -> Within:
        return Within(current_in_context, self)

    def _end(self, thrown: Optional[BaseException]) -> None:
        # `sys.exit()` without a status is a normal end. GeneratorExit only means that a consumer closed a generator
        # early.
        is_exit = isinstance(thrown, SystemExit) and thrown.code in (None, 0)
        if thrown is None or is_exit or isinstance(thrown, GeneratorExit):
            self.finish()
        else:
            self.fail(thrown)

    def _finish(self, outcome: str, may_wait: bool) -> None:
        """Ends the run with this outcome. `may_wait`: `run_finish` may wait for the rest of a stream."""
        with self._client._lock:
            if self.outcome is not None:
                return
            self.outcome = outcome
            self._client._counts["runs_finished"] += 1
            is_stream = may_wait and self._streams > 0
            hold_s = _LATE_STREAM_S if is_stream else _LATE_ANSWER_S if self._expected > 0 else 0.0
            open_runs.discard(self)
        if self._lane is not None:
            self._client._sender.end(self._lane, outcome, hold_s, is_stream)

    @property
    def _takes_steps(self) -> bool:
        return self.outcome is None or self._streams > 0

    def _expect(self, answers: int) -> None:
        """Called by integrations: announces `answers` more answers; -1: one has arrived."""
        with self._client._lock:
            self._expected += answers
            is_complete = self._expected == 0 and self._streams == 0
        if is_complete and self._lane is not None:
            self._client._sender.release_end(self._lane)

    def _expect_stream(self) -> Callable[[], None]:
        """Called by integrations: announces a stream that may be read after the scope of the run.

        Returns a function that must be called at the end of the stream. Only its first call counts.
        """
        with self._client._lock:
            self._streams += 1
            is_late = self.outcome == "success"
        # A model call made in the run may send its request just after the run's scope has ended.
        if is_late and self._lane is not None:
            self._client._sender.reopen(self._lane, _LATE_STREAM_S)
        open_streams = [self._end_stream]

        def end() -> None:
            if open_streams:
                open_streams.pop()()

        return end

    def _end_stream(self) -> None:
        with self._client._lock:
            self._streams -= 1
            is_complete = self._expected == 0 and self._streams == 0
        if is_complete and self._lane is not None:
            self._client._sender.release_end(self._lane)

    def _may_retrieve(self, context: Optional[str]) -> bool:
        return self.arm != "off" and self._client._has_patterns and (self.task if context is None else context) != ""

    def _retrieve(self, max_tokens: int, context: Optional[str], wanted: Dict[str, Any]) -> str:
        return self._client._retrieve(self.task if context is None else context, self.model, max_tokens, wanted)

    def _name_framework(self, name: str) -> None:
        """Called by integrations: sets the framework of a run for which none was given."""
        if self._lane is not None:
            self._client._sender.name_framework(self._lane, name)

    def _begin(self: _Self) -> _Self:
        client = self._client
        parent = client.current()
        with client._lock:
            if self._is_started:
                return self
            self._is_started = True
            open_runs.add(self)
            client._counts["runs_started"] += 1
        if parent is not None:
            self._start["metadata"] = {"parent_run_id": parent.run_id, **self._start.get("metadata", {})}
        if client._is_streaming:
            advise = None if self.arm == "off" else self._take
            self._lane = Lane(self._start, advise, 0.0 if self._start["framework"] else _FRAMEWORK_WAIT_S)
            self._start["framework"] = self._start["framework"] or "custom"
            client._sender.open(self._lane)
        return self

    def _log(self, action: Any, action_input: Any, thought: Any, observation: Any, is_error: bool, tokens: int) -> None:
        client = self._client
        spent = min(int(tokens), _TOKENS_MAX) if is_number(tokens) and 0 < tokens < math.inf else 0
        with client._lock:
            index = self._steps
            self._steps += 1
            before = self.tokens
            self.tokens += spent
            client._counts["steps_logged"] += 1
        budget = client._token_budget
        if budget is not None and before < budget <= before + spent:
            client._tell_budget(TokenBudgetReached(budget, before + spent))
        if self._lane is None:
            return
        if self.outcome is not None and self._expected == 0 and self._streams == 0:
            if client._sender.drop("closed"):
                client._warn("closed", f"Run {self.run_id} has ended, so its later steps are lost")
            return
        texts = {"action": action, "action_input": action_input, "thought": thought, "observation": observation}
        step: Dict[str, Any] = {"step_index": index}
        size = _STEP_BYTES
        cuts: List[str] = []
        for name, value in texts.items():
            text = value if isinstance(value, str) else to_text(value)
            if 2 * len(text) > STEP_TEXT_UNITS:
                cut = cut_units(text, STEP_TEXT_UNITS)
                if len(cut) < len(text):
                    client._count("texts_truncated")
                    cuts.append(f"{name} has {len(text)} characters, of which {len(cut)} are kept")
                text = cut
            step[name] = text
            size += sys.getsizeof(text)
        if cuts:
            client._warn("truncated", f"Step {index} of run {self.run_id} is long: {', '.join(cuts)}")
        step["is_error"] = bool(is_error)
        step["tokens"] = spent
        client._sender.push(self._lane, step, size)

    def _take(self, said: Dict[str, Any]) -> None:
        self._client._count("interventions_received")
        level = "stop" if said.get("level") == "stop" else "nudge"
        # If an agent never asks, the deque keeps the newest interventions.
        self._interventions.append(Intervention(str(said["intervention_text"]), str(said["failure_type"]), level))


class Run(BaseRun):
    """A run of `Understudy`."""

    def patterns(
        self,
        *,
        max_tokens: int = PATTERN_TOKENS,
        top_k: Optional[int] = None,
        tier: Optional[str] = None,
        failure_type: Optional[str] = None,
        min_similarity: Optional[float] = None,
        context: Optional[str] = None,
    ) -> str:
        """Returns what earlier runs learned about a task like this, as a text for the system prompt.

        Returns "" if there are no patterns, the request fails, patterns are switched off, the run is in the arm `off`, or
        the context (by default the task) is empty. It blocks until the answer has arrived; `AsyncUnderstudy` has a version for
        coroutines.
        """
        if not self._may_retrieve(context):
            return ""
        wanted = {"top_k": top_k, "tier": tier, "failure_type": failure_type, "min_similarity": min_similarity}
        try:
            return self._retrieve(max_tokens, context, wanted)
        except Exception as thrown:
            self._client._warn("failed", f"Patterns could not be retrieved: {thrown!r}")
            return ""
