"""Integration for LangChain and LangGraph: a callback handler logs the steps, and a middleware brings interventions.

    from understudy_gateway.langchain import UnderstudyHandler, understudy_middleware

    agent = create_agent(model, tools, middleware=[understudy_middleware()])
    with u.run(task="..."):
        agent.invoke({"messages": [...]}, {"callbacks": [UnderstudyHandler()]})
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Awaitable, Callable, Dict, List, NamedTuple, Optional, Tuple
from uuid import UUID

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
except ImportError as missing:
    needed = "understudy_gateway.langchain needs langchain-core 0.3.29 or later: pip install langchain-core"
    raise ImportError(needed) from missing

from ._agent_steps import AgentSteps, AskedCall, ToolResult, WatchedRun, joined, text_of_error, text_of_parts
from ._run import Intervention
from ._watch import reading, steps_around

__all__ = ["UnderstudyHandler", "understudy_middleware", "with_intervention"]

_NAME = "understudy_gateway.langchain"
_FRAMEWORK = "langchain"
# Maximum numbers of running tools, of running models and of running chains. Beyond that, the oldest is forgotten.
_TOOLS_MAX = 1_000


class _ToolAtWork(NamedTuple):
    steps: Optional[AgentSteps]
    id: str
    name: str
    input: Any


class _Watched(NamedTuple):
    """A call of a model, or a chain."""

    steps: AgentSteps
    end: Callable[[], None]
    """To be called at the end of the call or chain. Until then, the run takes steps even after its scope."""


class UnderstudyHandler(BaseCallbackHandler):
    """Logs the steps of all models, tools and chains that have it as a callback.

    run: the run to log to, by default the run around the call. A stream belongs to the run in which it began.
    """

    # LangChain calls the handler at once and in order, even from asynchronous code. The handler never blocks.
    run_inline = True
    raise_error = False

    def __init__(self, run: Optional[WatchedRun] = None) -> None:
        super().__init__()
        self._run = run
        # By the ids of LangChain's own runs; the steps of a call are those of the run in which the call began.
        self._tools: "OrderedDict[UUID, _ToolAtWork]" = OrderedDict()
        self._models: "OrderedDict[UUID, _Watched]" = OrderedDict()
        # Work that continues after the scope of the run, for example a graph's stream, belongs to the run of the chain
        # around it.
        self._chains: "OrderedDict[UUID, _Watched]" = OrderedDict()

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: Optional[UUID] = None, **kwargs: Any
    ) -> None:
        """Names the framework of the run, and keeps the run for the work inside the chain."""
        with reading(_NAME):
            steps = self._steps_in(parent_run_id)
            if steps is not None:
                _keep(self._chains, run_id, steps)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            _end(self._chains.pop(run_id, None))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            _end(self._chains.pop(run_id, None))

    def on_chat_model_start(
        self, serialized: Any, messages: List[List[BaseMessage]], *, run_id: UUID, parent_run_id: Optional[UUID] = None,
        **kwargs: Any
    ) -> None:
        """Logs results without a tool event: of calls with wrong arguments, and of tools that do not exist."""
        with reading(_NAME):
            steps = self._begin_model(run_id, parent_run_id)
            for message in (message for conversation in messages for message in conversation):
                if steps is not None and isinstance(message, ToolMessage) and steps.awaits(message.tool_call_id):
                    steps.returned(_result_of(message))

    def on_llm_start(
        self, serialized: Any, prompts: List[str], *, run_id: UUID, parent_run_id: Optional[UUID] = None, **kwargs: Any
    ) -> None:
        with reading(_NAME):
            self._begin_model(run_id, parent_run_id)

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            model = self._models.pop(run_id, None)
            try:
                for generations in response.generations if model is not None else []:
                    if model is not None and generations:
                        _log_answer(model.steps, generations[0], response.llm_output)
            finally:
                _end(model)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            _end(self._models.pop(run_id, None))

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, parent_run_id: Optional[UUID] = None,
        inputs: Optional[Dict[str, Any]] = None, **kwargs: Any
    ) -> None:
        with reading(_NAME):
            name = kwargs.get("name") or (serialized or {}).get("name") or ""
            given = input_str if inputs is None else inputs
            steps = self._steps_in(parent_run_id)
            self._tools[run_id] = _ToolAtWork(steps, kwargs.get("tool_call_id") or "", name, given)
            if len(self._tools) > _TOOLS_MAX:
                self._tools.popitem(last=False)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            tool = self._tools.pop(run_id, None)
            if tool is None or tool.steps is None:
                return
            message = _find_tool_message(output, tool.id)
            call_id = tool.id or ("" if message is None else message.tool_call_id)
            observation = output if message is None else text_of_parts(message.content)
            is_error = message is not None and message.status == "error"
            tool.steps.returned(ToolResult(call_id, observation, is_error, tool.name, tool.input))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        with reading(_NAME):
            tool = self._tools.pop(run_id, None)
            # Interrupts for a human and hand-overs to another agent are also exceptions, but the call continues later.
            if tool is None or tool.steps is None or any(cls.__name__ == "GraphBubbleUp" for cls in type(error).__mro__):
                return
            tool.steps.returned(ToolResult(tool.id, text_of_error(error), True, tool.name, tool.input))

    def _steps_in(self, parent_run_id: Optional[UUID]) -> Optional[AgentSteps]:
        steps = steps_around(self._run, _FRAMEWORK)
        chain = None if steps is not None or parent_run_id is None else self._chains.get(parent_run_id)
        return steps if chain is None else chain.steps

    def _begin_model(self, run_id: UUID, parent_run_id: Optional[UUID]) -> Optional[AgentSteps]:
        steps = self._steps_in(parent_run_id)
        if steps is not None:
            _keep(self._models, run_id, steps)
        return steps


def understudy_middleware(run: Optional[WatchedRun] = None) -> Any:
    """Adds an intervention to the system prompt of the next call of the model, and only of that call.

    `create_agent(model, tools, middleware=[understudy_middleware()])`, with langchain 1.0 or later.
    """
    try:
        from langchain.agents.middleware import AgentMiddleware
    except ImportError as missing:
        raise ImportError("understudy_middleware needs langchain 1.0 or later: pip install langchain") from missing

    class UnderstudyMiddleware(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            steps, said = _take_intervention(run)
            if steps is None or said is None:
                return handler(request)
            try:
                return handler(request.override(system_message=_add_text(request.system_message, said.text)))
            except BaseException:
                steps.give_back(said)
                raise

        async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            steps, said = _take_intervention(run)
            if steps is None or said is None:
                return await handler(request)
            try:
                return await handler(request.override(system_message=_add_text(request.system_message, said.text)))
            except BaseException:
                steps.give_back(said)
                raise

    return UnderstudyMiddleware()


def with_intervention(messages: List[BaseMessage], run: Optional[WatchedRun] = None) -> List[BaseMessage]:
    """Adds an intervention in a node of your own graph: `model.invoke(with_intervention(state["messages"]))`.

    Returns the messages unchanged if there is no intervention.
    """
    _, said = _take_intervention(run)
    if said is None:
        return messages
    if messages and isinstance(messages[0], SystemMessage):
        return [_add_text(messages[0], said.text), *messages[1:]]
    return [SystemMessage(said.text), *messages]


def _take_intervention(run: Optional[WatchedRun]) -> Tuple[Optional[AgentSteps], Optional[Intervention]]:
    with reading(_NAME):
        steps = steps_around(run, _FRAMEWORK)
        return steps, None if steps is None else steps.take_intervention()
    return None, None


def _add_text(system: Optional[SystemMessage], text: str) -> SystemMessage:
    if system is None or not system.content:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return SystemMessage(f"{system.content}\n\n{text}")
    return SystemMessage([*system.content, {"type": "text", "text": text}])


def _result_of(message: ToolMessage) -> ToolResult:
    return ToolResult(message.tool_call_id, text_of_parts(message.content), message.status == "error")


def _find_tool_message(output: Any, call_id: str) -> Optional[ToolMessage]:
    """Finds the message with a tool's result. A tool returns the message, a command with the message, or a list of these.

    None: the output has no message of this call.
    """
    candidates = [*output] if isinstance(output, list) else [output]
    for candidate in list(candidates):
        update = getattr(candidate, "update", None)
        messages = update.get("messages") if isinstance(update, dict) else None
        candidates.extend(messages if isinstance(messages, list) else [])
    for candidate in candidates:
        if isinstance(candidate, ToolMessage) and call_id in ("", candidate.tool_call_id):
            return candidate
    return None


def _log_answer(steps: AgentSteps, generation: Any, llm_output: Optional[Dict[str, Any]]) -> None:
    message = getattr(generation, "message", None)
    if not isinstance(message, AIMessage):
        # The answer of a model that completes texts.
        steps.answered(generation.text, tokens=_tokens_of_output(llm_output))
        return
    blocks = message.content if isinstance(message.content, list) else []
    thoughts = [
        str(block.get("thinking") or block.get("reasoning") or "")
        for block in blocks
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning")
    ]
    text = message.content if isinstance(message.content, str) else joined([
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in blocks
        if isinstance(block, str) or block.get("type") == "text"
    ])
    calls = [AskedCall(call.get("id") or "", call["name"], call["args"]) for call in message.tool_calls]
    calls += [
        AskedCall(call.get("id") or "", call.get("name") or "", call.get("args")) for call in message.invalid_tool_calls
    ]
    usage = message.usage_metadata
    tokens = _tokens_of_output(llm_output) if usage is None else usage["total_tokens"]
    steps.answered(text, calls, tokens, joined(thoughts, "\n"))


def _tokens_of_output(llm_output: Optional[Dict[str, Any]]) -> int:
    usage = (llm_output or {}).get("token_usage") or {}
    return int(usage.get("total_tokens") or 0)


def _keep(kept: "OrderedDict[UUID, _Watched]", run_id: UUID, steps: AgentSteps) -> None:
    kept[run_id] = _Watched(steps, steps.expect_stream())
    if len(kept) > _TOOLS_MAX:
        _end(kept.popitem(last=False)[1])


def _end(watched: Optional[_Watched]) -> None:
    if watched is not None:
        watched.end()
