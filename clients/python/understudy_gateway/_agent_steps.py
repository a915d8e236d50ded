"""Makes the steps of a run from the answers of models and the results of tools that an integration sees.

A step is one tool call: what the model said before it, and the tool's result. An answer with a text and without a tool
call is a step `respond`. A step is logged as soon as its result arrives, so parallel calls are logged in the order in
which they end.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Protocol, Sequence

from ._run import Intervention


class WatchedRun(Protocol):
    """The part of a run that an integration uses."""

    def step(
        self, action: Any = ..., action_input: Any = ..., thought: Any = ..., observation: Any = ..., is_error: bool = ...,
        tokens: int = ...,
    ) -> None: ...

    def intervention(self) -> Optional[Intervention]: ...


class AskedCall(NamedTuple):
    """A tool call that a model requested."""

    id: str
    name: str
    input: Any


class ToolResult(NamedTuple):
    """The result of a tool call. `name` and `input` are used only for a call that no answer requested."""

    id: str
    """"" if the framework names none."""
    observation: Any
    is_error: bool
    name: str = ""
    input: Any = None


class _Answer:
    """Tokens of one answer. They are logged with the first of its calls that ends."""

    __slots__ = ("tokens",)

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


class _PendingCall(NamedTuple):
    call: AskedCall
    thought: str
    answer: _Answer


# Calls that wait for their results. With more, the oldest is forgotten.
_CALLS_MAX = 1_000


class AgentSteps:
    """Logs the steps of one run, and keeps an intervention until a model has received it. Any thread."""

    _of_runs: "weakref.WeakKeyDictionary[Any, AgentSteps]" = weakref.WeakKeyDictionary()
    _making = threading.Lock()

    def __init__(self, run: WatchedRun) -> None:
        # The table of all runs must not keep the run alive.
        self._run = weakref.ref(run)
        self._lock = threading.Lock()
        # Several calls can have the same id. Their results are then matched in the order of the calls.
        self._calls: "OrderedDict[str, deque[_PendingCall]]" = OrderedDict()
        self._call_count = 0
        # Tokens of answers that became no step, because the answer has no text and no call, or its calls never end. The
        # next step gets these tokens.
        self._tokens = 0
        self._returned: Optional[Intervention] = None
        self._is_framework_named = False

    @classmethod
    def of(cls, run: WatchedRun) -> "AgentSteps":
        """Returns the object of the run, which all integrations share."""
        with cls._making:
            steps = cls._of_runs.get(run)
            if steps is None:
                steps = cls._of_runs[run] = cls(run)
            return steps

    def name_framework(self, name: str) -> None:
        """Names the framework of the run, unless an integration or the agent has named it."""
        if self._is_framework_named:
            return
        self._is_framework_named = True
        name_framework = getattr(self._run(), "_name_framework", None)
        if name_framework is not None:
            name_framework(name)

    def expect(self, answers: int) -> None:
        """Announces `answers` more answers; -1: one has arrived. The end of the run waits for them at most 5 s."""
        expect = getattr(self._run(), "_expect", None)
        if expect is not None:
            expect(answers)

    def expect_stream(self) -> Callable[[], None]:
        """Announces a stream that may be read after the scope of the run. The run takes steps until the stream ends.

        Returns a function that must be called at the end of the stream. The function keeps the run alive.
        """
        expect_stream: Optional[Callable[[], Callable[[], None]]] = getattr(self._run(), "_expect_stream", None)
        return (lambda: None) if expect_stream is None else expect_stream()

    def answered(self, text: str, calls: Sequence[AskedCall] = (), tokens: int = 0, thinking: str = "") -> None:
        """Reports an answer of a model. An answer without calls is logged at once, and a call when its result arrives.

        tokens: the sum for the request and the answer.
        """
        tokens = max(0, tokens)
        if not calls:
            with self._lock:
                if text == "":
                    self._tokens += tokens
                    return
                tokens += self._take_tokens()
            self._step(action="respond", action_input=text, thought=thinking, tokens=tokens)
            return
        with self._lock:
            answer = _Answer(tokens)
            # The text beside the calls is shorter and clearer than the reasoning. It is logged with the first call.
            thought = text or thinking
            # Forget earlier calls with the same ids: no result for them will arrive any more.
            for call in calls:
                while self._forget(call.id):
                    pass
            for call in calls:
                if self._call_count >= _CALLS_MAX:
                    self._forget(next(iter(self._calls)))
                self._calls.setdefault(call.id, deque()).append(_PendingCall(call, thought, answer))
                self._call_count += 1
                thought = ""

    def awaits(self, call_id: str) -> bool:
        """Whether an answer requested this call, and the call has no result yet."""
        with self._lock:
            return call_id in self._calls

    def returned(self, result: ToolResult) -> None:
        """Logs the result of a tool that returned or failed."""
        with self._lock:
            pending = self._take(result.id)
            tokens = self._take_tokens()
            if pending is not None:
                tokens += pending.answer.tokens
                pending.answer.tokens = 0
        call = AskedCall("", "", None) if pending is None else pending.call
        self._step(
            action=call.name or result.name or "tool",
            action_input=result.input if pending is None else call.input,
            thought="" if pending is None else pending.thought,
            observation=result.observation,
            is_error=result.is_error,
            tokens=tokens,
        )

    def take_intervention(self) -> Optional[Intervention]:
        """Returns the intervention for the next model call, once; None without an intervention."""
        with self._lock:
            returned, self._returned = self._returned, None
        run = self._run()
        return returned if returned is not None or run is None else run.intervention()

    def give_back(self, said: Intervention) -> None:
        """Takes back an intervention whose model call failed, so that the next call gets it."""
        with self._lock:
            self._returned = said

    def _step(self, **fields: Any) -> None:
        run = self._run()
        if run is not None:
            run.step(**fields)

    def _take(self, call_id: str) -> Optional[_PendingCall]:
        """Removes and returns the first waiting call with this id; None: no call with it waits. Under the lock."""
        waiting = self._calls.get(call_id)
        if waiting is None:
            return None
        pending = waiting.popleft()
        if not waiting:
            del self._calls[call_id]
        self._call_count -= 1
        return pending

    def _forget(self, call_id: str) -> bool:
        """Forgets a call but keeps its tokens. False: there is no such call. Under the lock."""
        pending = self._take(call_id)
        if pending is None:
            return False
        self._tokens += pending.answer.tokens
        pending.answer.tokens = 0
        return True

    def _take_tokens(self) -> int:
        tokens, self._tokens = self._tokens, 0
        return tokens


def text_of_parts(content: object) -> str:
    """Returns the texts of content blocks of any provider, one a line.

    A block without a text is represented by its type. A value that is neither a text nor a list gives "".
    """
    if isinstance(content, str):
        return content
    return "\n".join(map(_text_of_part, content)) if isinstance(content, (list, tuple)) else ""


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    fields: Dict[str, Any] = part if isinstance(part, dict) else getattr(part, "__dict__", {})
    text, kind = fields.get("text"), fields.get("type")
    if isinstance(text, str):
        return text
    return f"[{kind}]" if isinstance(kind, str) else ""


def text_of_error(thrown: object) -> str:
    """Returns the text of an exception, such as `TypeError: it is not a number`."""
    return f"{type(thrown).__name__}: {thrown}" if isinstance(thrown, BaseException) else str(thrown)


def joined(texts: List[str], separator: str = "") -> str:
    """Joins the texts that are not empty."""
    return separator.join(text for text in texts if text)
