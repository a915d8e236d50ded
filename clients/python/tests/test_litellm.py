"""LiteLLM, with and without Understudy: the real package against a scripted provider."""

import os
import unittest

from trial import TOKENS, Trial, search, searches

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
try:
    import litellm

    from understudy_gateway.litellm import UnderstudyLogger, with_intervention
except ImportError as missing:
    raise unittest.SkipTest(f"litellm is not installed: {missing}") from None

TOOLS = [{"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": {"type": "object"}}}]
ASKED = [{"role": "system", "content": "Look."}, {"role": "user", "content": "Where is it?"}]


def run_tools(message):
    """Runs the calls of an answer. Returns the answer and the messages with the results."""
    import json

    results = [
        {"role": "tool", "tool_call_id": call.id, "content": search(**json.loads(call.function.arguments))}
        for call in message.tool_calls
    ]
    return [message, *results]


class LiteLlm(Trial):
    framework = "litellm"

    def setUp(self):
        super().setUp()
        litellm.suppress_debug_info = True
        self.model = "openai/m"
        self.addCleanup(setattr, litellm, "callbacks", [])

    def options(self, place, messages):
        litellm.callbacks = [UnderstudyLogger()] if place.is_watched else []
        base = place.url if self.model.startswith("anthropic") else f"{place.url}/v1"
        options = {"model": self.model, "api_base": base, "api_key": "k", "max_tokens": 9, "tools": TOOLS, "num_retries": 0}
        return {**options, "messages": messages}

    def loop(self, place):
        messages = list(ASKED)
        while True:
            message = litellm.completion(**self.options(place, messages)).choices[0].message
            if not message.tool_calls:
                return message.content
            messages += run_tools(message)

    async def loop_async(self, place):
        messages = list(ASKED)
        while True:
            message = (await litellm.acompletion(**self.options(place, messages))).choices[0].message
            if not message.tool_calls:
                return message.content
            messages += run_tools(message)

    def stream(self, place):
        messages = list(ASKED)
        while True:
            options = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = list(litellm.completion(**self.options(place, messages), **options))
            message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
            if not message.tool_calls:
                return message.content
            messages += run_tools(message)

    async def stream_async(self, place):
        messages = list(ASKED)
        while True:
            options = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = [chunk async for chunk in await litellm.acompletion(**self.options(place, messages), **options)]
            message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
            if not message.tool_calls:
                return message.content
            messages += run_tools(message)

    def ways(self):
        for self.model in ("openai/m", "anthropic/m"):
            for way in ("loop", "loop_async", "stream", "stream_async"):
                yield self.model, way, getattr(self, way)

    def test_logs_an_answer(self):
        for model, way, work in self.ways():
            with self.subTest([model, way]):
                logged = self.compare(lambda turn: {"text": "Here."}, work)
                expected = {"action": "respond", "action_input": "Here.", "thought": "", "observation": "", "is_error": False}
                self.assertEqual(logged.steps, [{**expected, "tokens": TOKENS}])
                self.assertEqual(logged.outcome, "success")

    def test_logs_tools_side_by_side(self):
        for model, way, work in self.ways():
            with self.subTest([model, way]):
                logged = self.compare(searches("a", "b"), work)
                self.assertEqual(logged.actions(), ["search", "search", "respond"])
                self.assertEqual([step["observation"] for step in logged.steps], ["found a", "found b", ""])
                self.assertEqual([step["thought"] for step in logged.steps], ["Let me look.", "", ""])
                self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS, 0, TOKENS])

    def test_leaves_the_errors_of_a_provider_as_they_are(self):
        for model, way, work in self.ways():
            with self.subTest([model, way]):
                logged = self.compare(lambda turn: {"status": 500}, work)
                self.assertEqual((logged.steps, logged.outcome), ([], "failure: InternalServerError"))

    def test_ends_with_the_exception_of_the_agent(self):
        logged = self.compare(searches("bad"), self.loop)
        self.assertEqual((self.result, logged.outcome), ((TypeError, "no such index"), "failure: TypeError"))

    def test_gives_each_nested_agent_its_own_tokens(self):
        def script(turn):
            if turn["asked"] == "inner":
                return {"text": "From inside."}
            return {"text": "Done."} if turn["results"] else {"text": "I delegate.", "calls": [("search", {"query": "x"})]}

        def work(place):
            first = litellm.completion(**self.options(place, ASKED)).choices[0].message
            asked = [{"role": "user", "content": "inner"}]
            inner = litellm.completion(**self.options(place, asked)).choices[0].message
            result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": inner.content}
            return litellm.completion(**self.options(place, [*ASKED, first, result])).choices[0].message.content

        logged = self.compare(script, work)
        self.assertEqual(sorted(logged.actions()), ["respond", "respond", "search"])
        of_search = logged.steps[logged.actions().index("search")]
        self.assertEqual((of_search["observation"], of_search["tokens"]), ("From inside.", TOKENS))
        self.assertEqual(logged.tokens, 3 * TOKENS)

    def test_tells_the_next_model_call_and_only_that_one(self):
        def work(place):
            messages, count = list(ASKED), 0
            while True:
                count += 1
                if count == 3:
                    self.wait_for_advice()
                told = with_intervention(messages)
                message = litellm.completion(**self.options(place, told)).choices[0].message
                if not message.tool_calls:
                    return message.content
                messages += run_tools(message)

        self.assertEqual(self.intervene(work), ["Look.", "Look.", "Look.\n\nSTOP searching."])

    def test_changes_nothing_without_a_run(self):
        self.assertIs(with_intervention(ASKED), ASKED)


if __name__ == "__main__":
    unittest.main()
