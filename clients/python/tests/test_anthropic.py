"""The Anthropic SDK, with and without Understudy: the real package against a scripted provider."""

import unittest

from trial import TOKENS, Trial, search, searches

try:
    import anthropic

    from understudy_gateway.anthropic import understudy_middleware
except ImportError as missing:
    raise unittest.SkipTest(f"anthropic is not installed: {missing}") from None

TOOLS = [{"name": "search", "description": "Searches.", "input_schema": {"type": "object", "properties": {}}}]
ASKED = [{"role": "user", "content": "Where is it?"}]


class Anthropic(Trial):
    framework = "claude-messages"

    def client(self, place, kind=anthropic.Anthropic, **options):
        middleware = [understudy_middleware()] if place.is_watched else []
        return kind(api_key="k", base_url=place.url, max_retries=0, middleware=middleware, **options)

    def run_tool(self, block):
        result = {"type": "tool_result", "tool_use_id": block.id}
        try:
            return {**result, "content": search(**block.input)}
        except TypeError as thrown:
            return {**result, "content": f"TypeError: {thrown}", "is_error": True}

    def loop(self, ask):
        """Runs the loop of a simple agent without a framework; `ask` sends the messages."""
        messages = list(ASKED)
        while True:
            message = ask(messages)
            uses = [block for block in message.content if block.type == "tool_use"]
            if not uses:
                return [block.text for block in message.content]
            messages.append({"role": "assistant", "content": message.content})
            messages.append({"role": "user", "content": [self.run_tool(block) for block in uses]})

    async def loop_async(self, ask):
        messages = list(ASKED)
        while True:
            message = await ask(messages)
            uses = [block for block in message.content if block.type == "tool_use"]
            if not uses:
                return [block.text for block in message.content]
            messages.append({"role": "assistant", "content": message.content})
            messages.append({"role": "user", "content": [self.run_tool(block) for block in uses]})

    def create(self, place, **more):
        with self.client(place) as client:
            options = {"model": "m", "max_tokens": 9, "system": "Look.", "tools": TOOLS, **more}
            return self.loop(lambda messages: client.messages.create(messages=messages, **options))

    async def create_async(self, place):
        async with self.client(place, anthropic.AsyncAnthropic) as client:
            options = {"model": "m", "max_tokens": 9, "system": "Look.", "tools": TOOLS}
            return await self.loop_async(lambda messages: client.messages.create(messages=messages, **options))

    def stream(self, place):
        def ask(messages):
            with client.messages.stream(model="m", max_tokens=9, system="Look.", tools=TOOLS, messages=messages) as events:
                list(events)
                return events.get_final_message()

        with self.client(place) as client:
            return self.loop(ask)

    async def stream_async(self, place):
        async def ask(messages):
            options = {"model": "m", "max_tokens": 9, "system": "Look.", "tools": TOOLS, "messages": messages}
            async with client.messages.stream(**options) as events:
                return await events.get_final_message()

        async with self.client(place, anthropic.AsyncAnthropic) as client:
            return await self.loop_async(ask)

    def beta(self, place):
        with self.client(place) as client:
            options = {"model": "m", "max_tokens": 9, "system": "Look.", "tools": TOOLS}
            return self.loop(lambda messages: client.beta.messages.create(messages=messages, **options))

    WAYS = ("create", "create_async", "stream", "stream_async", "beta")

    def test_logs_an_answer(self):
        for way in self.WAYS:
            with self.subTest(way):
                logged = self.compare(lambda turn: {"text": "Here."}, getattr(self, way))
                expected = {"action": "respond", "action_input": "Here.", "thought": "", "observation": "", "is_error": False}
                self.assertEqual(logged.steps, [{**expected, "tokens": TOKENS}])
                self.assertEqual(logged.outcome, "success")

    def test_logs_tools_side_by_side_and_those_that_fail(self):
        for way in self.WAYS:
            with self.subTest(way):
                logged = self.compare(searches("a", "bad"), getattr(self, way))
                self.assertEqual(logged.actions(), ["search", "search", "respond"])
                first, second, last = logged.steps
                self.assertEqual((first["action_input"], first["observation"]), ('{"query":"a"}', "found a"))
                self.assertEqual((first["thought"], first["tokens"]), ("Let me look.", TOKENS))
                self.assertEqual((second["observation"], second["is_error"]), ("TypeError: no such index", True))
                self.assertEqual((second["thought"], second["tokens"], last["tokens"]), ("", 0, TOKENS))

    def test_leaves_the_errors_of_a_provider_as_they_are(self):
        for way in self.WAYS:
            with self.subTest(way):
                logged = self.compare(lambda turn: {"status": 500}, getattr(self, way))
                self.assertEqual(self.result[0], anthropic.InternalServerError)
                self.assertEqual((logged.steps, logged.outcome), ([], "failure: InternalServerError"))

    def test_logs_nothing_of_a_stream_that_breaks(self):
        for way in ("stream", "stream_async"):
            logged = self.compare(lambda turn: {"text": "A long answer.", "cut": True}, getattr(self, way))
            self.assertEqual(logged.steps, [])

    def test_leaves_a_reader_free_to_leave_a_stream(self):
        def leave(place):
            with self.client(place) as client:
                with client.messages.stream(model="m", max_tokens=9, messages=ASKED) as events:
                    for text in events.text_stream:
                        return text

        logged = self.compare(lambda turn: {"text": "A long answer."}, leave)
        self.assertEqual((self.result, logged.outcome), ("A l", "success"))

    def test_counts_a_stream_that_is_read_after_the_scope_to_its_run(self):
        def begin(place):
            client = self.client(place)
            self.addCleanup(client.close)
            return client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)

        events, logged = self.read_late(lambda turn: {"text": "Here."}, begin, lambda stream: len(list(stream)))
        self.assertEqual((events, logged.actions(), logged.outcome), (7, ["respond"], "success"))

    def test_counts_an_asynchronous_stream_that_is_read_after_the_scope_to_its_run(self):
        async def begin(place):
            self.own = self.client(place, anthropic.AsyncAnthropic)
            return await self.own.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)

        async def read(stream):
            events = [event async for event in stream]
            await self.own.close()
            return len(events)

        events, logged = self.read_late(lambda turn: {"text": "Here."}, begin, read)
        self.assertEqual((events, logged.actions(), logged.outcome), (7, ["respond"], "success"))

    def test_ends_the_run_of_a_stream_that_is_closed_unread(self):
        def begin(place):
            client = self.client(place)
            self.addCleanup(client.close)
            return client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)

        _, logged = self.read_late(lambda turn: {"text": "Here."}, begin, lambda stream: stream.close())
        self.assertEqual((logged.actions(), logged.outcome), ([], "success"))

    def test_changes_nothing_outside_of_runs(self):
        from provider import Provider

        with Provider(lambda turn: {"text": "Here."}) as provider:
            with anthropic.Anthropic(api_key="k", base_url=provider.url, middleware=[understudy_middleware()]) as client:
                message = client.messages.create(model="m", max_tokens=9, messages=ASKED)
                self.assertEqual(message.content[0].text, "Here.")

    def test_watches_the_tool_runner(self):
        def work(place):
            with self.client(place) as client:
                tool = anthropic.beta_tool(search)
                runner = client.beta.messages.tool_runner(model="m", max_tokens=9, tools=[tool], messages=ASKED)
                return runner.until_done().content[0].text

        logged = self.compare(searches("a"), work)
        self.assertEqual((logged.actions(), logged.tokens), (["search", "respond"], 2 * TOKENS))

    def test_gives_each_nested_agent_its_own_tokens(self):
        def script(turn):
            if turn["asked"] == "inner":
                return searches("deep")(turn)
            return {"text": "Done."} if turn["results"] else {"text": "I delegate.", "calls": [("search", {"query": "x"})]}

        def work(place):
            with self.client(place) as client:

                def ask(messages):
                    return client.messages.create(model="m", max_tokens=9, tools=TOOLS, messages=messages)

                def inner(block):
                    answer = ask([{"role": "user", "content": "inner"}])
                    use = answer.content[1]
                    ask([
                        {"role": "user", "content": "inner"}, {"role": "assistant", "content": answer.content},
                        {"role": "user", "content": [self.run_tool(use)]},
                    ])
                    return {"type": "tool_result", "tool_use_id": block.id, "content": "delegated"}

                answer = ask(list(ASKED))
                results = [inner(block) for block in answer.content if block.type == "tool_use"]
                last = ask([*ASKED, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}])
                return last.content[0].text

        logged = self.compare(script, work)
        self.assertEqual([step["tokens"] for step in logged.steps], [TOKENS] * 4)
        self.assertEqual([step["observation"] for step in logged.steps], ["found deep", "", "delegated", ""])

    def test_tells_the_next_model_call_and_only_that_one(self):
        systems = {
            "a text": ("Look.", "Look.\n\nSTOP searching."),
            "blocks": ([{"type": "text", "text": "Look."}], "Look.\nSTOP searching."),
            "nothing": (anthropic.omit, "STOP searching."),
        }
        for name, (system, expected) in systems.items():

            def work(place, system=system):
                with self.client(place) as client:
                    asked = []

                    def ask(messages):
                        asked.append(messages)
                        if len(asked) == 3:
                            self.wait_for_advice()
                        return client.messages.create(
                            model="m", max_tokens=9, system=system, tools=TOOLS, messages=messages
                        )

                    self.loop(ask)

            with self.subTest(name):
                told = self.intervene(work)
                self.assertEqual(told[2:], [expected])
                self.assertNotIn("STOP", "".join(told[:2]))


if __name__ == "__main__":
    unittest.main()
