"""Tests of the requests that runs send over a real socket: decorators, threads, parents, frameworks and late streams."""

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import unittest
import weakref
from unittest import mock

from support import PATIENCE_S, Service, understudy_gateway

from understudy_gateway._agent_steps import AgentSteps
from understudy_gateway._labels import label_now


class Runs(unittest.TestCase):
    def setUp(self):
        self.service = Service(lambda _: (200, {}, {}))
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)
        self.u = understudy_gateway.Understudy("k", self.service.url, timeout=PATIENCE_S)
        self.addCleanup(self.u.close, PATIENCE_S)

    def sent(self):
        """Returns the bodies of all starts so far, and the outcomes by run id."""
        self.assertTrue(self.u.flush(PATIENCE_S))
        starts = [one.body for one in self.service.requests if one.path == "/v1/monitor/runs"]
        ends = [one for one in self.service.requests if one.path.endswith("/finish")]
        return starts, {one.path.split("/")[4]: one.body["outcome"] for one in ends}


class LateStreams(Runs):
    def paths(self):
        return [one.path.partition("/v1/monitor/runs")[2] for one in self.service.requests]

    def test_keep_their_run_and_their_steps(self):
        def begin():
            with self.u.run(run_id="r") as run:
                return weakref.ref(run), AgentSteps.of(run), AgentSteps.of(run).expect_stream()

        run, steps, end = begin()
        gc.collect()
        self.assertIsNotNone(run())
        steps.answered("one")
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.paths(), ["", "/r/steps"])
        steps.answered("two")
        end()
        end()
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.paths(), ["", "/r/steps", "/r/steps", "/r/finish"])

    def test_of_a_failed_run_hold_its_end_for_nothing(self):
        with contextlib.suppress(RangeError), self.u.run(run_id="failing") as run:
            AgentSteps.of(run).expect_stream()
            raise RangeError
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.paths(), ["", "/failing/finish"])

    def test_end_with_their_client(self):
        with self.u.run(run_id="r") as run:
            AgentSteps.of(run).expect_stream()
        self.assertTrue(self.u.close(PATIENCE_S))
        self.assertEqual(self.paths(), ["", "/r/finish"])

    def test_end_when_too_little_comes(self):
        with mock.patch("understudy_gateway._run._LATE_STREAM_S", 0.01), self.u.run(run_id="r") as run:
            AgentSteps.of(run).expect_stream()
        self.service.wait_for(lambda requests: len(requests) == 2)
        self.assertEqual(self.paths(), ["", "/r/finish"])
        self.u._sender.flush(PATIENCE_S, is_last=True)
        run.step(action="late")
        self.assertEqual(self.u.stats()["steps"]["dropped"], 1)


class Marks(Runs):
    def sent_marks(self):
        self.assertTrue(self.u.flush(PATIENCE_S))
        return [(one.path.split("/")[-1], one.body.get("add_tags") or one.body.get("mark")) for one in self.service.requests[1:]]

    def test_go_out_while_the_run_goes_on_and_after_its_end(self):
        run = self.u.start(run_id="r")
        run.mark("bad", tags=["a"])
        self.assertEqual(self.sent_marks(), [("marks", ["a"])])
        run.finish()
        self.assertEqual(self.sent_marks(), [("marks", ["a"]), ("finish", None)])
        run.mark("good")
        self.assertEqual(self.sent_marks(), [("marks", ["a"]), ("finish", None), ("marks", "good")])
        self.assertEqual(self.u.stats()["marks"], {"said": 2, "sent": 2, "dropped": 0})

    def test_wait_as_one_behind_the_steps_while_the_service_is_slow(self):
        going, answered = threading.Event(), threading.Event()

        def answer(request):
            going.set()
            self.assertTrue(answered.wait(PATIENCE_S))
            return 200, {}, {}

        self.service.answer = answer
        run = self.u.start(run_id="r", framework="mine")
        self.assertTrue(going.wait(PATIENCE_S))
        for number in range(40):
            run.mark("bad", tags=[str(number)], note="first")
        run.step(action="act")
        run.mark("good")
        run.finish()
        answered.set()
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual([one.path.split("/")[-1] for one in self.service.requests], ["runs", "steps", "marks", "finish"])
        tags = [str(number) for number in range(32)]
        self.assertEqual(self.service.requests[2].body, {"mark": "good", "add_tags": tags, "note": "first"})
        self.assertEqual(self.u.stats()["marks"], {"said": 41, "sent": 41, "dropped": 0})

    def test_that_come_while_marks_are_sent_go_out_after_them(self):
        run = self.u.start(run_id="r")

        def answer(request):
            if request.path.endswith("/marks") and "note" not in request.body:
                run.mark(note="meanwhile")
            return 200, {}, {}

        self.service.answer = answer
        run.mark("good")
        self.assertTrue(self.u.flush(PATIENCE_S))
        sent = [one.body for one in self.service.requests if one.path.endswith("/marks")]
        self.assertEqual(sent, [{"mark": "good"}, {"mark": "good", "note": "meanwhile"}])
        self.assertEqual(self.u.stats()["marks"], {"said": 2, "sent": 2, "dropped": 0})

    def test_do_not_bring_back_a_run_that_was_deleted(self):
        self.service.answer = lambda one: (404 if one.path.endswith("/marks") else 200, {}, {})
        with self.u.run(run_id="r") as run:
            pass
        self.assertTrue(self.u.flush(PATIENCE_S))
        for mark in ("good", "bad"):
            run.mark(mark)
            self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual([one.path.split("/")[-1] for one in self.service.requests], ["runs", "finish", "marks"])
        self.assertEqual(self.u.stats()["marks"], {"said": 2, "sent": 0, "dropped": 2})

    def test_are_dropped_where_the_service_refuses_them_or_the_client_is_closed(self):
        self.service.answer = lambda one: (422 if one.path.endswith("/marks") else 200, {}, {})
        with self.u.run(run_id="r") as run:
            run.mark("good")
            run.step(action="a")
        self.assertTrue(self.u.close(PATIENCE_S))
        run.mark("bad")
        run.mark(tags=object())
        self.assertEqual(self.service.requests[-1].path, "/v1/monitor/runs/r/finish")
        self.assertEqual(self.u.stats()["marks"], {"said": 3, "sent": 0, "dropped": 3})


class RangeError(Exception):
    pass


class Decorators(Runs):
    def test_make_each_call_a_run(self):
        @self.u.run(task="square", agent_name="squarer")
        def square(number, *, more=0):
            """Squares."""
            understudy_gateway.current_run().step(action="square")
            return number * number + more

        self.assertEqual([square(2), square(3, more=1)], [4, 10])
        self.assertEqual((square.__name__, square.__doc__), ("square", "Squares."))
        starts, outcomes = self.sent()
        self.assertEqual([(one["task"], one["agent_name"]) for one in starts], [("square", "squarer")] * 2)
        self.assertEqual(len({one["run_id"] for one in starts}), 2)
        self.assertEqual(list(outcomes.values()), ["success"] * 2)

    def test_number_the_calls_of_a_named_run(self):
        @self.u.run(run_id="nightly", experiment_id="e")
        def work():
            return self.u.current().run_id

        self.assertEqual([work(), work(), work()], ["nightly", "nightly.2", "nightly.3"])
        units = sorted(one["assignment_unit"] for one in self.sent()[0])
        self.assertEqual(units, ["nightly", "nightly.2", "nightly.3"])

    def test_end_as_the_call_ends(self):
        @self.u.run(run_id="failing")
        def fail():
            raise KeyError("gone")

        @self.u.run(run_id="async-failing")
        async def fail_async():
            await asyncio.sleep(0)
            raise TypeError("no")

        @self.u.run(run_id="cancelled")
        async def wait():
            await asyncio.Event().wait()

        async def cancel():
            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.assertRaises(KeyError, fail)
        with self.assertRaises(TypeError):
            asyncio.run(fail_async())
        asyncio.run(cancel())
        expected = {
            "failing": "failure: KeyError", "async-failing": "failure: TypeError", "cancelled": "failure: CancelledError",
        }
        self.assertEqual(self.sent()[1], expected)

    def test_take_recursion_and_side_by_side_calls(self):
        @self.u.run()
        async def work(depth):
            own = self.u.current()
            if depth > 0:
                await asyncio.gather(work(depth - 1), work(depth - 1))
            await asyncio.sleep(0)
            self.assertIs(self.u.current(), own)
            return own.run_id

        asyncio.run(work(2))
        starts, outcomes = self.sent()
        self.assertEqual((len(starts), set(outcomes.values())), (7, {"success"}))

    def test_keep_a_generator_in_its_run_and_its_consumer_out(self):
        @self.u.run(run_id="parts")
        def parts():
            got = yield self.u.current().run_id, label_now()
            try:
                yield got
            except ValueError as thrown:
                yield str(thrown), label_now()
            return "end"

        generator = parts()
        self.assertEqual(next(generator), ("parts", "parts"))
        self.assertIsNone(understudy_gateway.current_run())
        self.assertIsNone(label_now())
        self.assertEqual(generator.send("sent"), "sent")
        self.assertEqual(generator.throw(ValueError("thrown")), ("thrown", "parts"))
        with self.assertRaises(StopIteration) as ended:
            next(generator)
        self.assertEqual(ended.exception.value, "end")
        self.assertEqual(self.sent()[1], {"parts": "success"})

    def test_end_a_generator_that_is_left_or_fails(self):
        closed = []

        @self.u.run(run_id="gen")
        def parts(fails):
            try:
                yield 1
                if fails:
                    raise LookupError
                yield 2
            finally:
                closed.append(self.u.current().run_id)

        for _ in parts(False):
            break
        generator = parts(False)
        next(generator)
        generator.close()
        self.assertRaises(LookupError, list, parts(True))
        self.assertEqual(closed, ["gen", "gen.2", "gen.3"])
        expected = {"gen": "success", "gen.2": "success", "gen.3": "failure: LookupError"}
        self.assertEqual(self.sent()[1], expected)

    def test_keep_an_asynchronous_generator_in_its_run_and_its_consumer_out(self):
        @self.u.run(run_id="agen")
        async def parts():
            for index in range(3):
                await asyncio.sleep(0)
                got = yield index, self.u.current().run_id, label_now()
                self.assertIn(got, (None, "sent"))

        async def main():
            generator = parts()
            self.assertEqual(await generator.asend(None), (0, "agen", "agen"))
            self.assertIsNone(understudy_gateway.current_run())
            self.assertIsNone(label_now())
            self.assertEqual(await generator.asend("sent"), (1, "agen", "agen"))
            with self.assertRaises(ZeroDivisionError):
                await generator.athrow(ZeroDivisionError())
            async with contextlib.AsyncExitStack() as stack:
                left = parts()
                stack.push_async_callback(left.aclose)
                async for part in left:
                    self.assertEqual(part[1], "agen.2")
                    break
            self.assertEqual([part[1] async for part in parts()], ["agen.3"] * 3)

        asyncio.run(main())
        expected = {"agen": "failure: ZeroDivisionError", "agen.2": "success", "agen.3": "success"}
        self.assertEqual(self.sent()[1], expected)


class Within(Runs):
    def test_brings_a_run_into_a_thread_and_does_not_end_it(self):
        run = self.u.start(run_id="threads")

        def work(_):
            with self.u.within(run) as here:
                here.step(action="a")
                return self.u.current().run_id, label_now()

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(set(pool.map(work, range(8))), {("threads", "threads")})
        self.assertIsNone(self.u.current())
        self.assertIsNone(run.outcome)
        run.finish()
        self.assertEqual(self.sent()[1], {"threads": "success"})

    def test_names_nothing_after_the_run_has_ended(self):
        run = self.u.start(run_id="over")
        with self.u.within(run):
            run.finish()
            self.assertIsNone(understudy_gateway.current_run())
            self.assertIsNone(label_now())


class Parents(Runs):
    def test_are_named_by_runs_inside_them(self):
        with self.u.run(run_id="outer"):
            with self.u.run(run_id="inner", metadata={"pr": 7}):
                self.u.start(run_id="innermost").finish()
        self.u.start(run_id="alone").finish()
        parents = {one["run_id"]: one.get("metadata") for one in self.sent()[0]}
        expected = {
            "outer": None, "inner": {"parent_run_id": "outer", "pr": 7}, "innermost": {"parent_run_id": "inner"}, "alone": None,
        }
        self.assertEqual(parents, expected)

    def test_of_another_client_are_not_named(self):
        with understudy_gateway.Understudy("k", self.service.url) as other, other.run(run_id="theirs"):
            with self.u.run(run_id="ours"):
                pass
        starts = {one["run_id"]: one.get("metadata") for one in self.sent()[0]}
        self.assertEqual(starts, {"ours": None, "theirs": None})


class Frameworks(Runs):
    def test_are_custom_unless_the_run_or_an_integration_names_one(self):
        with self.u.run(run_id="plain"):
            pass
        with self.u.run(run_id="named", framework="mine") as run:
            run._name_framework("langchain")
        with self.u.run(run_id="integrated") as run:
            run._name_framework("langchain")
            run._name_framework("claude-messages")
            run.step(action="a")
        with self.u.run(run_id="late") as run:
            run.step(action="a")
            run._name_framework("langchain")
        frameworks = {one["run_id"]: one["framework"] for one in self.sent()[0]}
        self.assertEqual(frameworks, {"plain": "custom", "named": "mine", "integrated": "langchain", "late": "custom"})

    def test_are_waited_for_no_longer_than_the_bound(self):
        run = self.u.start(run_id="idle")
        self.service.wait_for(lambda requests: any(one.body.get("run_id") == "idle" for one in requests))
        run.finish()

    def test_that_are_named_at_once_are_sent_at_once(self):
        started = threading.Event()
        self.service.answer = lambda _: started.set() or (200, {}, {})
        self.u.start(run_id="named", framework="mine")
        self.assertTrue(started.wait(PATIENCE_S))


if __name__ == "__main__":
    unittest.main()
