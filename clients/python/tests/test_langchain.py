"""LangChain and LangGraph, with and without Understudy: the real packages against a scripted provider."""

import unittest
import warnings

from trial import TOKENS, Trial, search, searches

try:
    import langgraph  # noqa: F401
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    from understudy_gateway.langchain import UnderstudyHandler, understudy_middleware, with_intervention
except ImportError as missing:
    raise unittest.SkipTest(f"langchain is not installed: {missing}") from None


ASKED = {"messages": [{"role": "user", "content": "Where is it?"}]}


def tell(messages):
    return [(message.type, message.content) for message in messages]


class LangChain(Trial):
    framework = "langchain"
    search = staticmethod(tool(search))

    def model(self, place, **options):
        return ChatOpenAI(model="m", base_url=f"{place.url}/v1", max_retries=0, **options)

    def agent(self, place, tools=None, model=None):
        middleware = [understudy_middleware()] if place.is_watched else []
        return create_agent(
            model or self.model(place), tools or [self.search], system_prompt="You look things up.", middleware=middleware
        )

    def config(self, place):
        return {"callbacks": [UnderstudyHandler()] if place.is_watched else []}

    def invoke(self, place):
        return tell(self.agent(place).invoke(ASKED, self.config(place))["messages"])

    async def ainvoke(self, place):
        return tell((await self.agent(place).ainvoke(ASKED, self.config(place)))["messages"])

    def test_logs_an_answer(self):
        for work in (self.invoke, self.ainvoke):
            logged = self.compare(lambda turn: {"text": "Here."}, work)
            expected = {"action": "respond", "action_input": "Here.", "thought": "", "observation": "", "is_error": False}
            self.assertEqual(logged.steps, [{**expected, "tokens": TOKENS}])
            self.assertEqual(logged.outcome, "success")

    def test_counts_streams_that_are_read_after_the_scope_to_its_run(self):
        def begin(place):
            chunks = self.agent(place).stream(ASKED, self.config(place))
            # A generator begins when it is first read.
            return next(chunks), chunks

        def begin_model(place):
            chunks = self.model(place).stream("Where is it?", self.config(place))
            return next(chunks), chunks

        async def begin_async(place):
            chunks = self.agent(place).astream(ASKED, self.config(place))
            return await chunks.__anext__(), chunks

        async def read_async(begun):
            return [chunk async for chunk in begun[1]]

        for start, read in ((begin, lambda begun: list(begun[1])), (begin_async, read_async)):
            _, logged = self.read_late(searches("a"), start, read)
            self.assertEqual((logged.actions(), logged.outcome), (["search", "respond"], "success"))
        _, logged = self.read_late(lambda turn: {"text": "Here."}, begin_model, lambda begun: list(begun[1]))
        self.assertEqual((logged.actions(), logged.outcome), (["respond"], "success"))

    def test_logs_tools_side_by_side(self):
        for work in (self.invoke, self.ainvoke):
            logged = self.compare(searches("a", "b"), work)
            first, second = sorted(logged.steps[:2], key=lambda step: step["action_input"])
            self.assertEqual((first["action_input"], second["action_input"]), ('{"query":"a"}', '{"query":"b"}'))
            self.assertEqual((first["observation"], second["observation"]), ("found a", "found b"))
            self.assertEqual(first["thought"], "Let me look.")
            self.assertEqual(sorted(step["tokens"] for step in logged.steps[:2]), [0, TOKENS])
            self.assertEqual(logged.steps[2]["action_input"], self.result[-1][1])
            self.assertEqual(logged.tokens, 2 * TOKENS)

    def test_logs_a_tool_that_fails_and_ends_the_run_with_its_exception(self):
        logged = self.compare(searches("bad"), self.invoke)
        self.assertEqual(self.result, (TypeError, "no such index"))
        self.assertEqual(logged.steps[0]["observation"], "TypeError: no such index")
        self.assertTrue(logged.steps[0]["is_error"])
        self.assertEqual(logged.outcome, "failure: TypeError")

    def test_logs_calls_that_no_tool_gets(self):
        def script(turn):
            return {"text": "So be it."} if turn["results"] else {"calls": [("search", {"q": 7}), ("sing", {})]}

        logged = self.compare(script, self.invoke)
        self.assertEqual(sorted(logged.actions()), ["respond", "search", "sing"])
        self.assertEqual([step["is_error"] for step in logged.steps], [True, True, False])

    def test_logs_streams_and_streams_that_are_left(self):
        def stream(place):
            model = self.model(place, stream_usage=True)
            parts = self.agent(place, model=model).stream(ASKED, self.config(place), stream_mode="messages")
            return tell(part for part, _ in parts)

        async def astream(place):
            model = self.model(place, stream_usage=True)
            parts = self.agent(place, model=model).astream(ASKED, self.config(place), stream_mode="messages")
            return tell([part async for part, _ in parts])

        for work in (stream, astream):
            logged = self.compare(searches("a"), work)
            self.assertEqual(logged.actions(), ["search", "respond"])
            self.assertEqual(logged.tokens, 2 * TOKENS)

        def leave(place):
            for part, _ in self.agent(place).stream(ASKED, self.config(place), stream_mode="messages"):
                return part.content

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.assertEqual(self.compare(lambda turn: {"text": "A long answer."}, leave).outcome, "success")

    def test_leaves_the_errors_of_a_provider_as_they_are(self):
        for work in (self.invoke, self.ainvoke):
            logged = self.compare(lambda turn: {"status": 500}, work)
            self.assertEqual((logged.steps, logged.outcome), ([], f"failure: {self.result[0].__name__}"))

    def test_gives_each_nested_agent_its_own_tokens(self):
        def script(turn):
            if turn["asked"] == "inner":
                return searches("deep")(turn)
            return {"text": "Done."} if turn["results"] else {"text": "I delegate.", "calls": [("delegate", {"job": "x"})]}

        def work(place):
            @tool
            def delegate(job: str) -> str:
                """Delegates."""
                asked = {"messages": [{"role": "user", "content": "inner"}]}
                return self.agent(place).invoke(asked)["messages"][-1].content

            return tell(self.agent(place, [delegate]).invoke(ASKED, self.config(place))["messages"])

        logged = self.compare(script, work)
        self.assertEqual(logged.actions(), ["search", "respond", "delegate", "respond"])
        self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS] * 4)
        self.assertEqual(logged.steps[2]["thought"], "I delegate.")

    def test_watches_other_models(self):
        def work(place):
            model = ChatAnthropic(model="m", base_url=place.url, max_retries=0)
            return tell(self.agent(place, model=model).invoke(ASKED, self.config(place))["messages"])

        logged = self.compare(searches("a"), work)
        self.assertEqual((logged.actions(), logged.tokens), (["search", "respond"], 2 * TOKENS))
        self.assertEqual(logged.steps[0]["thought"], "Let me look.")

    def test_tells_the_next_model_call_and_only_that_one(self):
        def waiting_search(query: str) -> str:
            """Searches."""
            return f"found {query}"

        def work(place):
            base = tool("search")(waiting_search)
            wait = self.wait_for_advice

            class Waits(UnderstudyHandler):
                def on_tool_end(self, *arguments, **options):
                    super().on_tool_end(*arguments, **options)
                    wait()

            self.agent(place, [base]).invoke(ASKED, {"callbacks": [Waits()]})

        told = self.intervene(work)
        self.assertEqual(told, ["You look things up.", "You look things up.\n\nSTOP searching."])

    def test_adds_a_message_in_a_graph_of_ones_own(self):
        from langchain_core.messages import HumanMessage, SystemMessage

        class Run:
            def __init__(self, *said):
                self.said = list(said)

            def step(self, **_):
                pass

            def intervention(self):
                return self.said.pop() if self.said else None

        class Said:
            text = "STOP"

        asked = [HumanMessage("hi")]
        self.assertIs(with_intervention(asked, Run()), asked)
        self.assertEqual(tell(with_intervention(asked, Run(Said))), [("system", "STOP"), ("human", "hi")])
        system = [SystemMessage("Be good."), *asked]
        self.assertEqual(tell(with_intervention(system, Run(Said)))[0], ("system", "Be good.\n\nSTOP"))
        self.assertIs(with_intervention(asked), asked)


if __name__ == "__main__":
    unittest.main()
