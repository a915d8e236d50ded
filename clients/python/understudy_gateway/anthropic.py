"""Integration for the Anthropic SDK and its tool runner: a middleware of the client logs the steps and brings interventions.

    from understudy_gateway.anthropic import understudy_middleware

    client = Anthropic(middleware=[understudy_middleware()])      # or AsyncAnthropic
    with u.run(task="..."):
        client.messages.create(...)

The middleware must be the last one, next to the network. It sees a tool's result in the request that sends it to the
model.
"""

from __future__ import annotations

import json
import re
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterator, List, Optional, Tuple

try:
    from anthropic import Middleware
except ImportError as missing:
    raise ImportError("understudy_gateway.anthropic needs anthropic 2.0 or later: pip install --upgrade anthropic") from missing

from ._agent_steps import AgentSteps, AskedCall, ToolResult, WatchedRun, text_of_parts
from ._message_stream import MessageStream, tell_message
from ._run import Intervention
from ._watch import reading, steps_around

__all__ = ["understudy_middleware"]

_NAME = "understudy_gateway.anthropic"
_FRAMEWORK = "claude-messages"
# Token counts, batches and models have other paths.
_MESSAGES_PATH = re.compile(r"/v1/messages/?(?:\?|$)")


class _UnderstudyMiddleware(Middleware):
    def __init__(self, run: Optional[WatchedRun]) -> None:
        self._run = run

    def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
        steps, said, told = self._begin(request)
        if steps is None:
            return call_next(request)
        is_heard = False
        try:
            response = call_next(told)
            is_heard = response.status_code < 400
        finally:
            if said is not None and not is_heard:
                steps.give_back(said)
        if is_heard:
            with reading(_NAME):
                _watch_answer(steps, response.http_response, request.stream)
        return response

    async def handle_async(self, request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        steps, said, told = self._begin(request)
        if steps is None:
            return await call_next(request)
        is_heard = False
        try:
            response = await call_next(told)
            is_heard = response.status_code < 400
        finally:
            if said is not None and not is_heard:
                steps.give_back(said)
        if is_heard:
            with reading(_NAME):
                _watch_answer(steps, response.http_response, request.stream)
        return response

    def _begin(self, request: Any) -> Tuple[Optional[AgentSteps], Optional[Intervention], Any]:
        """Logs the tool results in the request. Returns the run's steps, the intervention, and the request with the intervention.

        The steps are None if the request is no model call or there is no run. The intervention is None if none waits.
        """
        steps: Optional[AgentSteps] = None
        said: Optional[Intervention] = None
        with reading(_NAME):
            if request.method.lower() == "post" and _MESSAGES_PATH.search(request.url):
                steps = steps_around(self._run, _FRAMEWORK)
        if steps is None:
            return None, None, request
        with reading(_NAME):
            _settle_results(steps, request.json)
            said = steps.take_intervention()
            if said is not None:
                return steps, said, request.copy(body=_add_text(request.json, said.text))
        if said is not None:
            steps.give_back(said)
        return steps, None, request


def understudy_middleware(run: Optional[WatchedRun] = None) -> Middleware:
    """Returns the middleware for a client. run: the run to log to, by default the run around each request."""
    return _UnderstudyMiddleware(run)


def _settle_results(steps: AgentSteps, body: Dict[str, Any]) -> None:
    """Logs the results that came back since the model's last answer."""
    newest: List[Any] = []
    for message in reversed(body.get("messages") or []):
        if _field(message, "role") == "assistant":
            break
        newest.append(message)
    for message in reversed(newest):
        content = _field(message, "content")
        for block in [] if isinstance(content, str) else content or []:
            if _field(block, "type") != "tool_result" or not steps.awaits(_field(block, "tool_use_id")):
                continue
            is_error = _field(block, "is_error") is True
            steps.returned(ToolResult(_field(block, "tool_use_id"), text_of_parts(_field(block, "content")), is_error))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _add_text(body: Dict[str, Any], text: str) -> Dict[str, Any]:
    """Adds the text to the system prompt, or to the last message if the server keeps the conversation (`thread`)."""
    block = {"type": "text", "text": text}
    if body.get("thread"):
        *earlier, last = body["messages"]
        content = _field(last, "content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        return {**body, "messages": [*earlier, {"role": _field(last, "role"), "content": [*blocks, block]}]}
    system = body.get("system")
    if isinstance(system, str) and system:
        return {**body, "system": f"{system}\n\n{text}"}
    # An iterable of blocks, or nothing: NOT_GIVEN is an object without `__iter__`.
    given = [*system] if system and hasattr(system, "__iter__") else []
    return {**body, "system": [*given, block] if given else text}


def _watch_answer(steps: AgentSteps, response: Any, is_stream: bool) -> None:
    def listener(text: str, calls: List[AskedCall], tokens: int, thinking: str) -> None:
        with reading(_NAME):
            steps.answered(text, calls, tokens, thinking)

    if is_stream:
        _tap(response, MessageStream(listener), steps.expect_stream())
    elif hasattr(response, "_content"):
        tell_message(json.loads(response.content), listener)


def _tap(response: Any, stream: MessageStream, end: Callable[[], None]) -> None:
    """Passes the bytes that the SDK reads from the response to `stream`, after decompression.

    At the end of the response, `stream.end` and `end` are called.
    """
    iter_bytes, aiter_bytes, close, aclose = response.iter_bytes, response.aiter_bytes, response.close, response.aclose
    # True while bytes are read from the response. The response then closes itself after its last bytes, but the
    # decompressor may still give some of them.
    is_asked = False

    def tapped(*arguments: Any, **options: Any) -> Iterator[bytes]:
        nonlocal is_asked
        is_asked = True
        try:
            for data in iter_bytes(*arguments, **options):
                stream.take(data)
                is_asked = False
                yield data
                is_asked = True
        finally:
            stream.end()
            end()

    async def tapped_async(*arguments: Any, **options: Any) -> AsyncIterator[bytes]:
        nonlocal is_asked
        is_asked = True
        try:
            async for data in aiter_bytes(*arguments, **options):
                stream.take(data)
                is_asked = False
                yield data
                is_asked = True
        finally:
            stream.end()
            end()

    def closing() -> None:
        close()
        if not is_asked:
            stream.end()
            end()

    async def closing_async() -> None:
        await aclose()
        if not is_asked:
            stream.end()
            end()

    response.iter_bytes, response.aiter_bytes = tapped, tapped_async
    response.close, response.aclose = closing, closing_async
