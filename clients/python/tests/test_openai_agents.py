"""The OpenAI Agents SDK, with and without Understudy: the real package against a scripted provider."""

import asyncio
import unittest

from provider import Provider
from support import PATIENCE_S, Service, understudy_gateway
from trial import TOKENS, Place, Trial, search, searches

try:
    import agents
    import openai
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, RunHooks, Runner, function_tool

    from understudy_gateway.openai_agents import UnderstudyHooks, understudy_run_config, watch
except ImportError as missing:
    raise unittest.SkipTest(f"openai-agents is not installed: {missing}") from None


class OpenAIAgents(Trial):
    framework = "openai-agents"

    def setUp(self):
        super().setUp()
        agents.set_tracing_disabled(True)
        self.wire = OpenAIResponsesModel

    def agent(self, place, tools=(search,), name="Finder", **options):
        # Close each connection after its request, so that none outlives the event loop of the test.
        head = {"connection": "close"}
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{place.url}/v1", max_retries=0, default_headers=head)
        return Agent(
            name=name, instructions="You look things up.", model=self.wire("m", client),
            tools=[tool if not callable(tool) else function_tool(tool) for tool in tools], **options,
        )

    def options(self, place):
        return {"hooks": UnderstudyHooks(), "run_config": understudy_run_config()} if place.is_watched else {}

    async def run_it(self, place):
        return (await Runner.run(self.agent(place), "Where is it?", **self.options(place))).final_output

    def run_sync(self, place):
        return Runner.run_sync(self.agent(place), "Where is it?", **self.options(place)).final_output

    async def stream(self, place):
        result = Runner.run_streamed(self.agent(place), "Where is it?", **self.options(place))
        kinds = [event.type async for event in result.stream_events()]
        return kinds, result.final_output

    WAYS = ("run_it", "run_sync", "stream")

    def ways(self):
        for self.wire in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
            for way in self.WAYS:
                yield self.wire.__name__, way, getattr(self, way)

    def test_logs_an_answer(self):
        for wire, way, work in self.ways():
            with self.subTest([wire, way]):
                logged = self.compare(lambda turn: {"text": "Here."}, work)
                expected = {"action": "respond", "action_input": "Here.", "thought": "", "observation": "", "is_error": False}
                self.assertEqual(logged.steps, [{**expected, "tokens": TOKENS}])
                self.assertEqual(logged.outcome, "success")

    def test_logs_tools_side_by_side_and_those_that_fail(self):
        for wire, way, work in self.ways():
            with self.subTest([wire, way]):
                logged = self.compare(searches("a", "bad"), work)
                self.assertEqual(logged.actions(), ["search", "search", "respond"])
                of_input = {step["action_input"]: step for step in logged.steps}
                good, bad = of_input['{"query":"a"}'], of_input['{"query":"bad"}']
                self.assertEqual((good["observation"], good["is_error"], bad["is_error"]), ("found a", False, True))
                self.assertEqual((good["thought"], bad["thought"]), ("Let me look.", ""))
                self.assertEqual(sorted(step["tokens"] for step in logged.steps), [0, TOKENS, TOKENS])

    def test_leaves_the_errors_of_a_provider_as_they_are(self):
        for wire, way, work in self.ways():
            with self.subTest([wire, way]):
                logged = self.compare(lambda turn: {"status": 500}, work)
                self.assertEqual(self.result[0], openai.InternalServerError)
                self.assertEqual((logged.steps, logged.outcome), ([], "failure: InternalServerError"))

    async def begin_stream(self, place):
        return watch(Runner.run_streamed(self.agent(place), "Where is it?", **self.options(place)))

    def test_counts_a_stream_that_is_read_after_the_scope_to_its_run(self):
        async def read(result):
            kinds = [event.type async for event in result.stream_events()]
            return bool(kinds), result.final_output

        for self.wire in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
            with self.subTest(self.wire.__name__):
                read_result, logged = self.read_late(searches("a"), self.begin_stream, read)
                self.assertEqual(read_result, (True, "It said: found a"))
                self.assertEqual(logged.actions(), ["search", "respond"])
                self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS, TOKENS])
                self.assertEqual((logged.start["framework"], logged.outcome), ("openai-agents", "success"))

    def test_ends_the_run_of_a_stream_that_is_cancelled_or_fails(self):
        async def cancel(result):
            result.cancel()

        async def fail(result):
            with self.assertRaises(openai.InternalServerError):
                async for _ in result.stream_events():
                    pass

        for script, read in ((searches("a"), cancel), (lambda turn: {"status": 500}, fail)):
            _, logged = self.read_late(script, self.begin_stream, read)
            self.assertEqual((logged.actions(), logged.outcome), ([], "success"))

    def test_counts_what_an_unwatched_stream_loses_after_the_scope(self):
        warned = []

        async def work(place, u):
            with u.run(run_id="r"):
                result = Runner.run_streamed(self.agent(place), "Where is it?", **self.options(place))
            return [event.type async for event in result.stream_events()]

        with Provider(searches("a")) as provider, Service() as events:
            u = understudy_gateway.Understudy("k", events.url, timeout=PATIENCE_S, on_warning=warned.append)
            self.addCleanup(u.close, 0)
            self.assertTrue(asyncio.run(work(Place(provider.url, True), u)))
            self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual((u.stats()["steps"]["dropped"], [one.cause for one in warned]), (2, ["closed"]))

    def test_ends_as_the_sdk_ends(self):
        async def work(place):
            tools = [function_tool(search, failure_error_function=None)]
            return (await Runner.run(self.agent(place, tools), "Where is it?", **self.options(place))).final_output

        logged = self.compare(searches("bad"), work)
        self.assertEqual(logged.outcome, f"failure: {self.result[0].__name__}")

        async def turn_limit(place):
            return await Runner.run(self.agent(place), "Where is it?", max_turns=1, **self.options(place))

        logged = self.compare(searches("a"), turn_limit)
        self.assertEqual(logged.outcome, "failure: MaxTurnsExceeded")
        self.assertEqual(logged.actions(), ["search"])

    def test_logs_a_hand_over_and_the_agent_after_it(self):
        def script(turn):
            if "inner" in turn["system"]:
                return {"text": "I am the other."}
            return {"text": "You go on.", "calls": [("transfer_to_other", {})]}

        async def work(place):
            other = self.agent(place, name="Other")
            other.instructions = "inner"
            first = self.agent(place, handoffs=[other])
            return (await Runner.run(first, "Where is it?", **self.options(place))).final_output

        logged = self.compare(script, work)
        self.assertEqual(logged.actions(), ["transfer_to_other", "respond"])
        self.assertEqual((logged.steps[0]["thought"], logged.steps[0]["observation"]), ("You go on.", '{"assistant":"Other"}'))
        self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS, TOKENS])
        self.assertFalse(logged.steps[0]["is_error"])

    def test_gives_each_nested_agent_its_own_tokens(self):
        def script(turn):
            if "inner" in turn["system"]:
                return searches("deep")(turn)
            return {"text": "Done."} if turn["results"] else {"text": "I delegate.", "calls": [("ask", {"input": "x"})]}

        async def work(place):
            inner = self.agent(place, name="Inner")
            inner.instructions = "inner"
            tool = inner.as_tool("ask", "Asks.", **self.options(place))
            return (await Runner.run(self.agent(place, [tool]), "Where is it?", **self.options(place))).final_output

        logged = self.compare(script, work)
        self.assertEqual(logged.actions(), ["search", "respond", "ask", "respond"])
        self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS] * 4)
        self.assertEqual(logged.steps[2]["thought"], "I delegate.")

    def test_keeps_the_hooks_and_the_filter_of_the_user(self):
        heard = []

        class Own(RunHooks):
            async def on_tool_end(self, context, agent, tool, result):
                heard.append(result)

        def own_filter(data):
            heard.append("filtered")
            return data.model_data

        async def work(place):
            config = RunConfig(call_model_input_filter=own_filter)
            watched = {"hooks": UnderstudyHooks(own=Own()), "run_config": understudy_run_config(config)}
            options = watched if place.is_watched else {"hooks": Own(), "run_config": config}
            return (await Runner.run(self.agent(place), "Where is it?", **options)).final_output

        self.compare(searches("a"), work)
        self.assertEqual(heard, ["filtered", "found a", "filtered"] * 2)

    def test_tells_the_next_model_call_and_only_that_one(self):
        async def work(place):
            test = self

            class Waits(RunHooks):
                async def on_tool_end(self, *_):
                    test.wait_for_advice()

            options = {"hooks": UnderstudyHooks(own=Waits()), "run_config": understudy_run_config()}
            await Runner.run(self.agent(place), "Where is it?", **options)

        told = self.intervene(work)
        self.assertEqual(told, ["You look things up.", "You look things up.\n\nSTOP searching."])

    def test_tells_it_again_when_the_call_failed(self):
        from provider import Provider

        class Run:
            said = ["STOP"]

            def step(self, **_):
                pass

            def intervention(self):
                from understudy_gateway import Intervention

                return Intervention(self.said.pop(), "loop", "nudge") if self.said else None

        def script(turn):
            return {"status": 500} if turn["number"] <= 2 else {"text": "I stop."}

        async def work(place):
            run = Run()
            options = {"hooks": UnderstudyHooks(run), "run_config": understudy_run_config(run=run)}
            with self.assertRaises(openai.InternalServerError):
                await Runner.run(self.agent(place), "Where is it?", **options)
            with self.assertRaises(openai.InternalServerError):
                result = Runner.run_streamed(self.agent(place), "Where is it?", **options)
                [event async for event in result.stream_events()]
            for _ in range(2):
                await Runner.run(self.agent(place), "Where is it?", **options)

        import asyncio

        from trial import Place

        with Provider(script) as provider:
            asyncio.run(work(Place(provider.url, True)))
            told = [turn["system"].endswith("STOP") for turn in provider.turns]
        self.assertEqual(told, [True, True, True, False])


if __name__ == "__main__":
    unittest.main()
