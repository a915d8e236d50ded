"""An agent of LangGraph without the package langchain. It also works with older versions of langchain-core."""

import asyncio
import unittest
import warnings

from trial import TOKENS, Trial, search, searches

try:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    from understudy_gateway.langchain import UnderstudyHandler
except ImportError as missing:
    raise unittest.SkipTest(f"langgraph is not installed: {missing}") from None

ASKED = {"messages": [("user", "Where is it?")]}


class LangGraph(Trial):
    framework = "langchain"

    def agent(self, place):
        with warnings.catch_warnings():
            # Newer versions warn that `create_react_agent` is deprecated.
            warnings.simplefilter("ignore")
            model = ChatOpenAI(model="m", base_url=f"{place.url}/v1", max_retries=0)
            return create_react_agent(model, [tool(search)])

    def config(self, place):
        return {"callbacks": [UnderstudyHandler()] if place.is_watched else []}

    def invoke(self, place):
        return self.agent(place).invoke(ASKED, self.config(place))["messages"][-1].content

    def ainvoke(self, place):
        async def work():
            return (await self.agent(place).ainvoke(ASKED, self.config(place)))["messages"][-1].content

        return asyncio.run(work())

    def test_logs_tools_side_by_side(self):
        for work in (self.invoke, self.ainvoke):
            logged = self.compare(searches("a", "b"), work)
            self.assertEqual(logged.actions(), ["search", "search", "respond"])
            self.assertEqual(sorted(step["observation"] for step in logged.steps), ["", "found a", "found b"])
            self.assertEqual((logged.tokens, logged.outcome), (2 * TOKENS, "success"))


if __name__ == "__main__":
    unittest.main()
