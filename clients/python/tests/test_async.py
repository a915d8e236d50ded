"""Tests of the client for coroutines: it sends the same requests as the blocking client, and never blocks the event loop."""

import asyncio
import threading
import unittest

from support import PATIENCE_S, Service, join, read_cases, understudy_gateway

FOUND = {"traces": [{"fields": {"situation": "s", "dead_ends": "", "unlock": "u"}}]}


class TheAsyncClient(unittest.TestCase):
    def ask(self, answer, work, **options):
        """Runs `work` with a client. Returns its result, and the requests that the service received."""

        async def main(service):
            async with understudy_gateway.AsyncUnderstudy("k", service.url, **{"timeout": PATIENCE_S, **options}) as u:
                return await work(u)

        with Service(answer) as service:
            return asyncio.run(main(service)), service.requests

    def test_sends_runs_with_their_steps(self):
        async def work(u):
            async with u.run(task="t", run_id="r") as run:
                run.step(action="a", tokens=3)
                self.assertIs(understudy_gateway.current_run(), run)
            return await u.flush(PATIENCE_S)

        is_sent, requests = self.ask(lambda _: (200, {}, {}), work)
        self.assertTrue(is_sent)
        paths = ["/v1/monitor/runs", "/v1/monitor/runs/r/steps", "/v1/monitor/runs/r/finish"]
        self.assertEqual([one.path for one in requests], paths)

    def test_decorates_coroutines(self):
        async def work(u):
            @u.run(run_id="d")
            async def fail():
                raise OSError

            with self.assertRaises(OSError):
                await fail()

        _, requests = self.ask(lambda _: (200, {}, {}), work)
        self.assertEqual(requests[-1].body["outcome"], "failure: OSError")

    def test_retrieves_patterns_as_in_the_cases(self):
        for case in read_cases("retrievals"):
            context = {"context": join(case["parts"])} if "parts" in case else {}

            async def work(u, case=case, context=context):
                return await u.start(**case["run"]).patterns(**case["wanted"], **context)

            options = {"live_streaming_enabled": False, **case["options"]}
            with self.subTest(case["name"]):
                text, requests = self.ask(lambda _: (200, FOUND, {}), work, **options)
                self.assertEqual(text[:5], case["text"])
                kept = {"context": join(case["kept"])} if "kept" in case else {}
                self.assertEqual([one.body for one in requests], [] if case["body"] is None else [{**case["body"], **kept}])

    def test_asks_for_findings_as_in_the_cases(self):
        for case in read_cases("findings"):

            async def work(u, case=case):
                given = {**case, "parts": join(case["parts"])} if "parts" in case else case
                first = [given[name] for name in ("content", "finding", "parts", "paths") if name in given]
                return await getattr(u.findings("my code/base"), case["call"])(*first, **case.get("options", {}))

            for answer, expected in ((case.get("answer", {}), "result"), (b"<html>", "failed")):
                with self.subTest([case, expected]):
                    result, requests = self.ask(lambda _, answer=answer: (200, answer, {}), work)
                    self.assertEqual(result, case[expected])
                    self.assertEqual([one.path for one in requests], [case["path"]] if "path" in case else [])

    def test_has_every_operation_and_its_errors(self):
        async def work(u):
            self.assertIn("read_trace", dir(u.api))
            self.assertRaises(AttributeError, getattr, u.api, "sing")
            return await u.api.read_trace(trace_id="t1")

        answer, requests = self.ask(lambda _: (200, {"trace_id": "t1"}, {}), work)
        self.assertEqual((answer, requests[0].path), ({"trace_id": "t1"}, "/v1/traces/t1"))
        with self.assertRaises(understudy_gateway.NotFoundError):
            self.ask(lambda _: (404, {"detail": "no"}, {}), work)

    def test_lets_the_loop_go_on_while_the_service_is_silent(self):
        asked, go_on = threading.Event(), threading.Event()

        def answer(_):
            asked.set()
            go_on.wait(PATIENCE_S)
            return 200, FOUND, {}

        async def work(u):
            waiting = asyncio.ensure_future(u.start(task="t").patterns())
            while not asked.is_set():
                await asyncio.sleep(0.001)
            self.assertFalse(waiting.done())
            go_on.set()
            return await waiting

        text, _ = self.ask(answer, work, live_streaming_enabled=False)
        self.assertIn("What helped: u", text)

    def test_gives_up_a_wait_that_is_cancelled(self):
        asked, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def answer(_):
            asked.set()
            go_on.wait(PATIENCE_S)
            return 200, FOUND, {}

        async def work(u):
            waiting = asyncio.ensure_future(u.start(task="t").patterns())
            while not asked.is_set():
                await asyncio.sleep(0.001)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            go_on.set()

        self.ask(answer, work, live_streaming_enabled=False)

    def test_leaves_the_agent_alone_without_a_service(self):
        async def work():
            u = understudy_gateway.AsyncUnderstudy("k", "http://127.0.0.1:9", on_warning=lambda _: None)
            async with u.run(task="t") as run:
                run.step(action="a")
                found = await run.patterns(), run.intervention(), await u.findings("base").recall("q")
            await u.close(0)
            return found

        self.assertEqual(asyncio.run(work()), ("", None, []))

    def test_reads_the_live_stream_and_loses_no_event_to_a_cancelled_wait(self):
        head = {"content-type": "text/event-stream"}
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def answer(request):
            if "last-event-id" in request.headers:
                go_on.wait(PATIENCE_S)
                return 200, b"retry: 1\nid: 2\nevent: step\ndata: {}\n\n", head
            return 200, b"retry: 1\nid: 1\nevent: step\ndata: {}\n\n", head

        async def work(u):
            async with u.subscribe() as events:
                first = await events.__anext__()
                waiting = asyncio.ensure_future(events.__anext__())
                await asyncio.sleep(0)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                go_on.set()
                second = await events.__anext__()
            with self.assertRaises(StopAsyncIteration):
                await u.subscribe().__anext__() if await u.close() else None
            return first.id, second.id, events.last_event_id

        ids, _ = self.ask(answer, work)
        self.assertEqual(ids, ("1", "2", "2"))


if __name__ == "__main__":
    unittest.main()
