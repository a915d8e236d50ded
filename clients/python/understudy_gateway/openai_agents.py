"""Integration for the OpenAI Agents SDK: run hooks log the steps, and a filter of the run's configuration brings interventions.

    from understudy_gateway.openai_agents import UnderstudyHooks, understudy_run_config

    with u.run(task="..."):
        await Runner.run(agent, "...", hooks=UnderstudyHooks(), run_config=understudy_run_config())
        result = watch(Runner.run_streamed(agent, "...", hooks=UnderstudyHooks(), run_config=understudy_run_config()))
    async for event in result.stream_events():
        ...

The SDK's tracing is neither changed nor needed.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
import json
import weakref
from collections import OrderedDict
from typing import Any, Dict, List, Optional, TypeVar

try:
    from agents import RunConfig, RunHooks
except ImportError as missing:
    raise ImportError("understudy_gateway.openai_agents needs openai-agents: pip install openai-agents") from missing

from ._agent_steps import AgentSteps, AskedCall, ToolResult, WatchedRun, joined, text_of_parts
from ._run import BaseRun, Intervention, run_for_late_step
from ._watch import reading, steps_around

__all__ = ["UnderstudyHooks", "understudy_run_config", "watch"]

_NAME = "understudy_gateway.openai_agents"
_FRAMEWORK = "openai-agents"
# The text that the SDK gives the model after a tool raised an exception. Newer versions leave out the error.
_FAILED = "An error occurred while running the tool. Please try again."
# Maximum number of interventions that are being sent to models, and of contexts. The oldest is forgotten first.
_KEPT_MAX = 100
_Streamed = TypeVar("_Streamed")


class UnderstudyHooks(RunHooks[Any]):
    """Logs the steps of a run of the SDK. The hooks return at once and never raise.

    run: the run to log to, by default the run around the call.
    own: your own hooks, which still work.
    """

    def __init__(self, run: Optional[WatchedRun] = None, own: Optional[RunHooks[Any]] = None) -> None:
        self._run = run
        self._own: RunHooks[Any] = own if own is not None else RunHooks()
        # The calls of the last answer in each context of the SDK, because a hand-over does not say which call it was.
        # The key is the identity of the context, because some versions cannot hash contexts. An answer replaces the
        # entry before its hand-over, so a reused identity does no harm.
        self._calls: "OrderedDict[int, List[AskedCall]]" = OrderedDict()

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        with reading(_NAME):
            _steps_of(self._run)
        await self._own.on_agent_start(context, agent)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Optional[str], input_items: Any) -> None:
        with reading(_NAME):
            steps = _steps_of(self._run)
            if steps is not None:
                _settle_results(steps, input_items)
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        with reading(_NAME):
            told = _told_in_context.get()
            if told is not None:
                told.is_heard = True
            steps = _steps_of(self._run)
            if steps is not None:
                self._calls[id(context)] = _log_answer(steps, response)
                if len(self._calls) > _KEPT_MAX:
                    self._calls.popitem(last=False)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        with reading(_NAME):
            steps = _steps_of(self._run)
            if steps is not None:
                call_id = str(getattr(context, "tool_call_id", ""))
                given = _parsed(getattr(context, "tool_arguments", None))
                is_error = isinstance(result, str) and result.startswith(_FAILED)
                steps.returned(ToolResult(call_id, _observation_of(result), is_error, getattr(tool, "name", ""), given))
        await self._own.on_tool_end(context, agent, tool, result)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        with reading(_NAME):
            steps = _steps_of(self._run)
            if steps is not None:
                self._log_handoff(steps, context, from_agent, to_agent)
        await self._own.on_handoff(context, from_agent, to_agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._own.on_agent_end(context, agent, output)

    def _log_handoff(self, steps: AgentSteps, context: Any, from_agent: Any, to_agent: Any) -> None:
        tools = {getattr(tool, "name", "") for tool in from_agent.tools}
        pending = [call for call in self._calls.get(id(context), []) if call.name not in tools and steps.awaits(call.id)]
        if pending:
            # If an answer has several hand-overs, the SDK follows the first.
            steps.returned(ToolResult(pending[0].id, {"assistant": to_agent.name}, False))


def understudy_run_config(config: Optional[RunConfig] = None, run: Optional[WatchedRun] = None) -> RunConfig:
    """Adds an intervention to the instructions of the next call of the model, and only of that call.

    config: your own configuration, which is copied. Its `call_model_input_filter` still works.
    """
    config = RunConfig() if config is None else config
    own = config.call_model_input_filter

    async def add_intervention(data: Any) -> Any:
        changed = data.model_data if own is None else own(data)
        model_data = await changed if inspect.isawaitable(changed) else changed
        with reading(_NAME):
            around = run_for_late_step() if run is None else run
            # A run that has ended has no more interventions.
            is_over = isinstance(around, BaseRun) and not around._takes_steps
            steps = None if is_over else steps_around(around, _FRAMEWORK)
            said = None if steps is None else _take_intervention(steps)
            if said is not None:
                texts = [model_data.instructions or "", said.text]
                return dataclasses.replace(model_data, instructions=joined(texts, "\n\n"))
        return model_data

    return dataclasses.replace(config, call_model_input_filter=add_intervention)


def watch(streamed: _Streamed, run: Optional[WatchedRun] = None) -> _Streamed:
    """Returns the result of `Runner.run_streamed(…)`. Its run takes steps until the stream ends, even after the run's scope.

    run: the run to log to, the same as for the hooks; by default the run around this call.
    """
    with reading(_NAME):
        steps = steps_around(run, _FRAMEWORK)
        task = getattr(streamed, "run_loop_task", None)
        if steps is not None and task is not None and not task.done():
            end = steps.expect_stream()
            task.add_done_callback(lambda _: end())
    return streamed


def _steps_of(run: Optional[WatchedRun]) -> Optional[AgentSteps]:
    """Returns the steps of the run to log to; None: there is no run.

    The SDK calls hooks in separate tasks, which may outlive the scope of the run in which they began.
    """
    return steps_around(run_for_late_step() if run is None else run, _FRAMEWORK)


class _Told:
    """An intervention that is being sent to a model. `is_heard` is set after the model has answered."""

    def __init__(self, said: Intervention) -> None:
        self.said = said
        self.task = asyncio.current_task()
        self.is_heard = False


# Hooks run in separate tasks, each with a copy of the model call's context.
_told_in_context: "contextvars.ContextVar[Optional[_Told]]" = contextvars.ContextVar("understudy_told", default=None)
_told_of_runs: "weakref.WeakKeyDictionary[AgentSteps, List[_Told]]" = weakref.WeakKeyDictionary()


def _take_intervention(steps: AgentSteps) -> Optional[Intervention]:
    """Returns the intervention whose model call failed, otherwise the run's next one; None without an intervention.

    The SDK has no hook for a failed model call. A call counts as failed if its task ended, or asks again, without an answer.
    """
    waiting = [told for told in _told_of_runs.get(steps, []) if not told.is_heard]
    own = _told_in_context.get()
    failed = next((told for told in waiting if told is own or told.task is None or told.task.done()), None)
    said = steps.take_intervention() if failed is None else failed.said
    told = None if said is None else _Told(said)
    kept = [other for other in waiting if other is not failed]
    _told_of_runs[steps] = [*kept, *([] if told is None else [told])][-_KEPT_MAX:]
    _told_in_context.set(told)
    return said


def _settle_results(steps: AgentSteps, items: Any) -> None:
    """Logs results without a hook: of hand-overs, and of calls that reached no tool."""
    for item in items if isinstance(items, list) else []:
        fields: Dict[str, Any] = item if isinstance(item, dict) else {}
        call_id = fields.get("call_id")
        if str(fields.get("type")).endswith("_call_output") and isinstance(call_id, str) and steps.awaits(call_id):
            steps.returned(ToolResult(call_id, _observation_of(fields.get("output")), True))


def _log_answer(steps: AgentSteps, response: Any) -> List[AskedCall]:
    texts: List[str] = []
    thoughts: List[str] = []
    calls: List[AskedCall] = []
    for item in response.output:
        if item.type == "message":
            texts.append(text_of_parts(item.content))
        elif item.type == "reasoning":
            thoughts.append(text_of_parts(getattr(item, "content", None) or getattr(item, "summary", None)))
        elif getattr(item, "call_id", None) and not item.type.endswith("_output"):
            given = getattr(item, "arguments", None)
            given = _parsed(given) if given is not None else getattr(item, "input", None) or getattr(item, "action", None)
            calls.append(AskedCall(item.call_id, getattr(item, "name", "") or item.type, given))
    steps.answered(joined(texts), calls, response.usage.total_tokens, joined(thoughts, "\n"))
    return calls


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def _observation_of(output: Any) -> Any:
    return text_of_parts(output) if isinstance(output, list) else output
