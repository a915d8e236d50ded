"""The Claude Agent SDK, with and without Understudy: the real package with its Claude Code, against a scripted provider."""

import asyncio
import json
import re
import shutil
import tempfile
import unittest

from provider import INPUT_TOKENS, Provider
from support import PATIENCE_S, Service, understudy_gateway
from trial import TOKENS, Place, Trial, search, searches

try:
    from claude_agent_sdk import (
        AgentDefinition,
        ClaudeAgentOptions,
        ClaudeSDKClient,
        HookMatcher,
        create_sdk_mcp_server,
        query,
        tool,
    )

    from understudy_gateway import Intervention
    from understudy_gateway.claude_agent_sdk import understudy_hooks, watch
except ImportError as missing:
    raise unittest.SkipTest(f"claude-agent-sdk is not installed: {missing}") from None

SEARCH = "mcp__finder__search"


def tell(messages):
    """Returns the conversation without its random parts."""
    told = []
    for message in messages:
        kind = type(message).__name__
        if kind in ("AssistantMessage", "UserMessage"):
            blocks = message.content if isinstance(message.content, list) else [message.content]
            told += [(kind, str(block)) for block in blocks]
        elif kind == "ResultMessage":
            told.append((kind, message.result, message.is_error))
    return told


class ClaudeAgentSdk(Trial):
    framework = "claude-agent-sdk"

    def setUp(self):
        super().setUp()
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.turns_compared = None

    def options(self, place, **more):
        @tool("search", "Searches.", {"query": str})
        async def find(given):
            return {"content": [{"type": "text", "text": search(**given)}]}

        # With these settings, Claude Code sends requests only to its model, and does not retry.
        env = {
            "HOME": self.home, "ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": "k", "NO_PROXY": "127.0.0.1,localhost",
            "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "60000", "MCP_CONNECTION_NONBLOCKING": "0", "MCP_TIMEOUT": "60000",
        }
        given = {
            "model": "claude-demo-large", "system_prompt": "You look things up.", "cwd": self.home, "env": env,
            "mcp_servers": {"finder": create_sdk_mcp_server("finder", tools=[find])}, "allowed_tools": [SEARCH, "Agent"],
            "tools": [], "setting_sources": [], "stderr": lambda line: None, **more,
        }
        if place.is_watched:
            given["hooks"] = understudy_hooks(own=given.get("hooks"))
        return ClaudeAgentOptions(**given)

    async def run_query(self, place, **more):
        messages = query(prompt="Where is it?", options=self.options(place, **more))
        return tell([message async for message in (watch(messages) if place.is_watched else messages)])

    async def run_client(self, place):
        async with ClaudeSDKClient(self.options(place)) as client:
            told = []
            for prompt in ("Where is it?", "And now?"):
                await client.query(prompt)
                answer = client.receive_response()
                told += tell([message async for message in (watch(answer) if place.is_watched else answer)])
            return told

    def tell_turns(self, turns):
        # The id of a sub-agent and its duration differ from run to run.
        told = re.sub(r"agentId: \w+|duration_ms: \d+", "", json.dumps(turns))
        # If the consumer stops early, Claude Code may already have sent one more request.
        return json.loads(told)[: self.turns_compared]

    @staticmethod
    def searches(*queries):
        script = searches(*queries)

        def of_server(turn):
            said = script(turn)
            return {**said, "calls": [(SEARCH, given) for _, given in said.get("calls", [])]}

        return of_server

    def test_logs_an_answer(self):
        logged = self.compare(lambda turn: {"text": "Here."}, self.run_query)
        expected = {"action": "respond", "action_input": "Here.", "thought": "", "observation": "", "is_error": False}
        self.assertEqual(logged.steps, [{**expected, "tokens": TOKENS}])
        self.assertEqual(logged.outcome, "success")

    def test_logs_tools_side_by_side_and_those_that_fail(self):
        logged = self.compare(self.searches("a", "bad"), self.run_query)
        self.assertEqual(logged.actions(), [SEARCH, SEARCH, "respond"])
        good, bad = sorted(logged.steps[:2], key=lambda step: step["action_input"])
        self.assertEqual((good["observation"], good["thought"]), ("found a", "Let me look."))
        self.assertEqual((good["is_error"], bad["is_error"]), (False, True))
        self.assertEqual(logged.tokens, 2 * TOKENS)

    def test_names_the_framework_before_a_client_is_connected(self):
        with Service() as events:
            u = understudy_gateway.Understudy("k", events.url, timeout=PATIENCE_S)
            self.addCleanup(u.close, 0)
            with u.run(run_id="r"):
                understudy_hooks()
                self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual(events.requests[0].body["framework"], self.framework)

    def test_logs_each_turn_of_a_client(self):
        logged = self.compare(lambda turn: {"text": "Here."}, self.run_client)
        self.assertEqual(logged.actions(), ["respond", "respond"])
        self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS, TOKENS])

    def test_leaves_the_errors_of_a_provider_as_they_are(self):
        logged = self.compare(lambda turn: {"status": 500}, self.run_query)
        self.assertEqual((logged.steps, logged.outcome), ([], f"failure: {self.result[0].__name__}"))

    def test_leaves_a_consumer_free_to_leave(self):
        async def leave(place):
            messages = query(prompt="Where is it?", options=self.options(place))
            async for message in watch(messages) if place.is_watched else messages:
                if type(message).__name__ == "AssistantMessage":
                    return tell([message])

        self.turns_compared = 1
        logged = self.compare(self.searches("a"), leave)
        self.assertEqual(logged.outcome, "success")

    def test_gives_each_nested_agent_its_own_steps(self):
        def script(turn):
            if "inner" in turn["system"]:
                return self.searches("deep")(turn)
            if turn["results"]:
                return {"text": "Done."}
            given = {"description": "look", "prompt": "Look.", "subagent_type": "finder", "run_in_background": False}
            return {"text": "I delegate.", "calls": [("Agent", given)]}

        async def work(place):
            agents = {"finder": AgentDefinition(description="Finds.", prompt="inner", tools=[SEARCH])}
            messages = await self.run_query(place, agents=agents, tools=["Agent"])
            return messages[-1]

        logged = self.compare(script, work)
        self.assertEqual(logged.actions(), [SEARCH, "respond", "Agent", "respond"])
        self.assertEqual(logged.steps[1]["action_input"], "It said: found deep")
        self.assertEqual(logged.steps[2]["thought"], "I delegate.")
        # For an answer with a call, Claude Code reports only the first output tokens. Its report at the end has the right sum.
        partial = INPUT_TOKENS + 1
        self.assertEqual([step["tokens"] for step in logged.steps], [partial, TOKENS, partial, 2 * TOKENS - partial])

    def test_keeps_the_hooks_of_the_user_and_tells_the_agent(self):
        heard = []

        async def own(given, tool_use_id, context):
            heard.append(given["hook_event_name"])
            return {}

        async def work(place):
            return await self.run_query(place, hooks={"PostToolUse": [HookMatcher(hooks=[own])]})

        logged = self.compare(self.searches("a"), work)
        self.assertEqual(logged.actions(), [SEARCH, "respond"])
        self.assertEqual(heard, ["PostToolUse"] * 2)

    def test_brings_an_intervention_beside_the_result_of_a_tool(self):
        class Run:
            said = [Intervention("STOP searching.", "loop", "nudge")]

            def step(self, **_):
                pass

            def intervention(self):
                return self.said.pop() if self.said else None

        told = []

        def script(turn):
            told.append("STOP searching." in turn["all"])
            return self.searches("a")(turn)

        async def work(url):
            hooks = understudy_hooks(Run())
            return [message async for message in query(prompt="?", options=self.options(Place(url, False), hooks=hooks))]

        with Provider(script) as provider:
            asyncio.run(work(provider.url))
        self.assertEqual(told, [False, True])


if __name__ == "__main__":
    unittest.main()
