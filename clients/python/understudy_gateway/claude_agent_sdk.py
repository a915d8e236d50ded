"""Integration for the Claude Agent SDK: reads the steps from its messages, and hooks bring interventions.

    from understudy_gateway.claude_agent_sdk import understudy_hooks, watch

    with u.run(task="..."):
        options = ClaudeAgentOptions(hooks=understudy_hooks())
        async for message in watch(query(prompt="...", options=options)):
            ...
"""

from __future__ import annotations

import contextlib
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, TypeVar

try:
    from claude_agent_sdk import HookMatcher
except ImportError as missing:
    raise ImportError("understudy_gateway.claude_agent_sdk needs claude-agent-sdk: pip install claude-agent-sdk") from missing

from ._agent_steps import AgentSteps, AskedCall, ToolResult, WatchedRun, joined, text_of_parts
from ._run import current_run
from ._watch import reading, steps_around

__all__ = ["understudy_hooks", "watch"]

_NAME = "understudy_gateway.claude_agent_sdk"
_FRAMEWORK = "claude-agent-sdk"
_TOOL_EVENTS = ("PostToolUse", "PostToolUseFailure")
_Message = TypeVar("_Message")


def watch(messages: AsyncIterator[_Message], run: Optional[WatchedRun] = None) -> AsyncIterator[_Message]:
    """Yields the messages of `query(…)` or `client.receive_response()` unchanged, and logs their steps.

    run: the run to log to, by default the run around this call.
    """
    with reading(_NAME):
        steps = steps_around(run, _FRAMEWORK)
        if steps is not None:
            return _watch(messages, _Session(steps), steps.expect_stream())
    return messages


async def _watch(
    messages: AsyncIterator[_Message], session: "_Session", end: Callable[[], None]
) -> AsyncIterator[_Message]:
    try:
        async for message in messages:
            with reading(_NAME):
                session.take(message)
            yield message
    finally:
        end()
        # A consumer that closes this generator also closes the SDK's. asyncio closes both when its loop ends.
        close = getattr(messages, "aclose", None)
        with contextlib.suppress(RuntimeError):
            if close is not None:
                await close()


def understudy_hooks(run: Optional[WatchedRun] = None, own: Optional[Mapping[Any, List[HookMatcher]]] = None) -> Dict[Any, Any]:
    """Returns hooks that give the agent an intervention together with a tool's result.

    Pass them as `ClaudeAgentOptions(hooks=understudy_hooks())`.

    own: your own hooks, which still work. The added hooks do not keep an agent from stopping.
    """
    # The run is determined here, because the SDK calls hooks outside of the run's scope.
    watched = current_run() if run is None else run
    # The framework is named here, because `run_start` waits for the name only a short time, and the SDK's client may
    # need longer to connect.
    with reading(_NAME):
        steps_around(watched, _FRAMEWORK)

    async def tell(given: Any, tool_use_id: Optional[str], context: Any) -> Any:
        with reading(_NAME):
            said = None if watched is None else AgentSteps.of(watched).take_intervention()
            if said is not None:
                event = given["hook_event_name"]
                return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": said.text}}
        return {}

    hooks: Dict[Any, Any] = {event: list(matchers) for event, matchers in (own or {}).items()}
    for event in _TOOL_EVENTS:
        hooks.setdefault(event, []).append(HookMatcher(hooks=[tell]))
    return hooks


class _Conversation:
    """The texts, thoughts and tokens of an agent or a sub-agent since its last tool call."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self.thoughts: List[str] = []
        # By id of the answer. The SDK sends an answer in several messages, each with a usage, of which the last counts.
        self.usage_of: Dict[Any, int] = {}
        self.told_tokens = 0

    def answered(self, steps: AgentSteps, calls: List[AskedCall], total: Optional[int] = None) -> None:
        """Reports the collected answer, with its calls, to the run's steps.

        total: all tokens of the conversation's turn, including those that were already reported; None: not known.
        """
        tokens = (sum(self.usage_of.values()) if total is None else total) - self.told_tokens
        self.told_tokens += max(0, tokens)
        steps.answered(joined(self.texts), calls, tokens, joined(self.thoughts, "\n"))
        self.texts, self.thoughts = [], []


class _Session:
    """Logs the steps in the messages of one session: the steps of the agent and those of its sub-agents."""

    def __init__(self, steps: AgentSteps) -> None:
        self._steps = steps
        # The key is the id of the call that started the sub-agent; None: the agent itself.
        self._conversations: Dict[Optional[str], _Conversation] = {}

    def take(self, message: Any) -> None:
        kind = type(message).__name__
        if kind == "AssistantMessage":
            self._take_answer(message)
        elif kind == "UserMessage" and not isinstance(message.content, str):
            for block in message.content:
                if type(block).__name__ == "ToolResultBlock":
                    self._take_result(block, getattr(message, "tool_use_result", None))
        elif kind == "ResultMessage":
            self._take_end(message)

    def _take_answer(self, message: Any) -> None:
        if getattr(message, "error", None) is not None:
            # The SDK reports a provider's error as an AssistantMessage, which is not an answer of the model.
            return
        conversation = self._conversations.setdefault(message.parent_tool_use_id, _Conversation())
        usage = getattr(message, "usage", None)
        if usage:
            conversation.usage_of[getattr(message, "message_id", None)] = _tokens_of(usage)
        calls: List[AskedCall] = []
        for block in message.content:
            name = type(block).__name__
            if name == "TextBlock":
                conversation.texts.append(block.text)
            elif name == "ThinkingBlock":
                conversation.thoughts.append(block.thinking)
            elif name == "ToolUseBlock":
                calls.append(AskedCall(block.id, block.name, block.input))
        if calls:
            conversation.answered(self._steps, calls)

    def _take_result(self, block: Any, details: Any) -> None:
        # The result of the call that started a sub-agent ends the sub-agent. The sub-agent's last answer comes only in
        # this result, not as a message.
        sub_agent = self._conversations.pop(block.tool_use_id, None)
        if sub_agent is not None and isinstance(details, dict) and isinstance(details.get("content"), list):
            texts = [str(part.get("text") or "") for part in details["content"]]
            sub_agent.texts = [text for text in texts if not text.startswith("<tools-used")]
            tokens = _tokens_of(details.get("usage") or {})
            sub_agent.answered(self._steps, [], sub_agent.told_tokens + tokens)
        result = ToolResult(block.tool_use_id, text_of_parts(block.content), block.is_error is True)
        self._steps.returned(result)

    def _take_end(self, message: Any) -> None:
        # Only the ResultMessage has the number of all tokens of the turn.
        agent = self._conversations.pop(None, _Conversation())
        agent.answered(self._steps, [], _tokens_of(message.usage) if message.usage else None)


def _tokens_of(usage: Mapping[str, Any]) -> int:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(usage.get(name) or 0 for name in names)
