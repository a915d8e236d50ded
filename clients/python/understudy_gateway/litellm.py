"""Integration for LiteLLM: a callback logs the steps, and `with_intervention` brings interventions.

    import litellm
    from understudy_gateway.litellm import UnderstudyLogger, with_intervention

    litellm.callbacks = [UnderstudyLogger()]
    with u.run(task="..."):
        litellm.completion(model, with_intervention(messages), tools=tools)

LiteLLM reports an answer on another thread, after the agent has it. So the end of a run waits up to five seconds for
answers that were not reported yet.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Tuple

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as missing:
    raise ImportError("understudy_gateway.litellm needs litellm: pip install litellm") from missing

from ._agent_steps import AgentSteps, AskedCall, ToolResult, WatchedRun, text_of_parts
from ._watch import reading, steps_around

__all__ = ["UnderstudyLogger", "with_intervention"]

_NAME = "understudy_gateway.litellm"
_FRAMEWORK = "litellm"
# Maximum number of model calls in progress, and of results that wait for their answer. The oldest is forgotten first.
_KEPT_MAX = 1_000


class _Calls:
    """The model calls in progress for one run, and tool results that arrived before the answer that requested them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.under_way = 0
        self.early: "OrderedDict[str, ToolResult]" = OrderedDict()


class UnderstudyLogger(CustomLogger):
    """Logs the steps of `completion`, `acompletion` and their streams.

    run: the run to log to, by default the run around the call.
    """

    # LiteLLM keeps callbacks, even replaced ones, in several lists. All instances share this state, so each answer
    # counts once.
    _lock = threading.Lock()
    _steps_of: "OrderedDict[str, AgentSteps]" = OrderedDict()
    _calls_of: "weakref.WeakKeyDictionary[AgentSteps, _Calls]" = weakref.WeakKeyDictionary()

    def __init__(self, run: Optional[WatchedRun] = None) -> None:
        super().__init__()
        self._watched = run

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Dict[str, Any]) -> None:
        """Records a model call that begins, and logs the tool results in its messages.

        LiteLLM calls this method in the agent's context before each attempt of a model call.
        """
        with reading(_NAME):
            steps = steps_around(self._watched, _FRAMEWORK)
            call_id = str(kwargs.get("litellm_call_id"))
            asked = kwargs.get("messages")
            if steps is None or not isinstance(asked, list):
                return
            calls = self._begin(steps, call_id)
            if calls is not None:
                _settle_results(steps, calls, asked)

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Logs a whole answer. LiteLLM awaits this method before it returns the answer to the agent.

        LiteLLM may call `async_log_success_event` only after the agent has continued.
        """
        with reading(_NAME):
            if hasattr(_first_choice(response), "message"):
                self._end(request_data, response)

    def log_success_event(self, kwargs: Dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._end(kwargs, response_obj)

    async def async_log_success_event(self, kwargs: Dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._end(kwargs, response_obj)

    def log_failure_event(self, kwargs: Dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._end(kwargs, None)

    async def async_log_failure_event(self, kwargs: Dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        self._end(kwargs, None)

    def _begin(self, steps: AgentSteps, call_id: str) -> Optional[_Calls]:
        """Records a model call that begins. None: it is another attempt of a call in progress."""
        forgotten: Optional[AgentSteps] = None
        with self._lock:
            if call_id in self._steps_of:
                return None
            self._steps_of[call_id] = steps
            if len(self._steps_of) > _KEPT_MAX:
                _, forgotten = self._steps_of.popitem(last=False)
            calls = self._calls_of.setdefault(steps, _Calls())
        steps.expect(1)
        if forgotten is not None:
            forgotten.expect(-1)
        return calls

    def _end(self, kwargs: Dict[str, Any], response: Any) -> None:
        with reading(_NAME):
            call_id = str(kwargs.get("litellm_call_id"))
            complete = kwargs.get("complete_streaming_response") or kwargs.get("async_complete_streaming_response")
            answer = complete if complete is not None else response
            if response is not None and not hasattr(_first_choice(answer), "message"):
                if kwargs.get("stream") and complete is None:
                    return
                answer = None
            with self._lock:
                steps = self._steps_of.pop(call_id, None)
                calls = None if steps is None else self._calls_of.get(steps)
            if steps is None or calls is None:
                return
            try:
                if answer is not None:
                    _log_answer(steps, calls, answer)
            finally:
                with calls.lock:
                    calls.under_way -= 1
                steps.expect(-1)


def with_intervention(messages: List[Any], run: Optional[WatchedRun] = None) -> List[Any]:
    """Returns the messages with an intervention in the system prompt; the same list if there is no intervention."""
    said = None
    with reading(_NAME):
        steps = steps_around(run, _FRAMEWORK)
        said = None if steps is None else steps.take_intervention()
    if said is None:
        return messages
    first = messages[0] if messages else None
    if _field(first, "role") != "system":
        return [{"role": "system", "content": said.text}, *messages]
    content = _field(first, "content")
    if isinstance(content, list):
        return [{"role": "system", "content": [*content, {"type": "text", "text": said.text}]}, *messages[1:]]
    return [{"role": "system", "content": f"{content or ''}\n\n{said.text}".strip()}, *messages[1:]]


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _first_choice(response: Any) -> Any:
    choices = getattr(response, "choices", None)
    return choices[0] if choices else None


def _settle_results(steps: AgentSteps, calls: _Calls, messages: List[Any]) -> None:
    """Logs the results since the model's last answer, or keeps them until LiteLLM has reported that answer."""
    newest: List[Tuple[str, Any]] = []
    for message in reversed(messages):
        if _field(message, "role") == "assistant":
            break
        if _field(message, "role") == "tool":
            newest.append((str(_field(message, "tool_call_id")), _field(message, "content")))
    with calls.lock:
        # The new call is counted after this, because it did not request the results that it contains.
        may_come = calls.under_way > 0
        calls.under_way += 1
        ready: List[ToolResult] = []
        for call_id, content in reversed(newest):
            # A message of a tool does not say whether the tool failed.
            result = ToolResult(call_id, text_of_parts(content), False)
            if steps.awaits(call_id):
                ready.append(result)
            elif may_come:
                calls.early[call_id] = result
                if len(calls.early) > _KEPT_MAX:
                    calls.early.popitem(last=False)
    for result in ready:
        steps.returned(result)


def _log_answer(steps: AgentSteps, calls: _Calls, response: Any) -> None:
    message = _first_choice(response).message
    asked = [
        AskedCall(str(_field(call, "id")), str(_field(function, "name")), _parsed(_field(function, "arguments")))
        for call in getattr(message, "tool_calls", None) or []
        for function in [_field(call, "function")]
    ]
    tokens = getattr(getattr(response, "usage", None), "total_tokens", 0) or 0
    thinking = getattr(message, "reasoning_content", None) or ""
    with calls.lock:
        steps.answered(text_of_parts(message.content), asked, tokens, thinking)
        early = [calls.early.pop(call.id, None) for call in asked]
    for result in early:
        if result is not None:
            steps.returned(result)


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments
