"""Runs an agent with and without Understudy against the same scripted provider, and checks that the results are the same."""

import asyncio
import inspect
import os
import re
import threading
import unittest
from unittest import mock

from provider import INPUT_TOKENS, OUTPUT_TOKENS, Provider
from support import PATIENCE_S, Service, understudy_gateway

TOKENS = INPUT_TOKENS + OUTPUT_TOKENS


def searches(*queries, text="Let me look."):
    """Returns a script: the model makes one parallel call of `search` for each query, and then repeats the results."""

    def script(turn):
        if turn["results"]:
            return {"text": "It said: " + "; ".join(turn["results"])}
        return {"text": text, "calls": [("search", {"query": query}) for query in queries]}

    return script


def search(query: str) -> str:
    """Searches."""
    if query == "bad":
        raise TypeError("no such index")
    return f"found {query}"


class Place:
    """Where an agent runs: the provider's address, and whether Understudy watches."""

    def __init__(self, url, is_watched):
        self.url = url
        self.is_watched = is_watched


class Watched:
    """The requests of the watched run that the service received."""

    def __init__(self, requests, run_id):
        starts = [one.body for one in requests if one.path == "/v1/monitor/runs" and one.body["run_id"] == run_id]
        ends = [one.body for one in requests if one.path == f"/v1/monitor/runs/{run_id}/finish"]
        self.start = starts[0]
        self.outcome = ends[0]["outcome"] if ends else None
        names = ("action", "action_input", "thought", "observation", "is_error", "tokens")
        steps = [one.body for one in requests if one.path == f"/v1/monitor/runs/{run_id}/steps"]
        self.steps = [{name: step[name] for name in names} for step in steps]

    def actions(self):
        return [step["action"] for step in self.steps]

    @property
    def tokens(self):
        return sum(step["tokens"] for step in self.steps)


class Trial(unittest.TestCase):
    framework = None

    def setUp(self):
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        settings = {"no_proxy": "*", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "LANGSMITH_TRACING": "false"}
        settings.update({"OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
        patch = mock.patch.dict(os.environ, {**clean, **settings})
        patch.start()
        self.addCleanup(patch.stop)

    def result_of(self, work, place):
        """Returns the agent's result, or the class and the message of its exception."""
        try:
            result = work(place)
            return asyncio.run(result) if inspect.iscoroutine(result) else result
        except Exception as thrown:
            return type(thrown), re.sub(r"127\.0\.0\.1:\d+", "it", str(thrown))

    def tell_turns(self, turns):
        """Returns the provider's requests in the form in which they are compared; a subclass may remove what always differs."""
        return turns

    def compare(self, script, work, service=None):
        """Runs the agent without and with the library. Returns what was logged, after comparing results and requests."""
        with Provider(script) as provider:
            alone = self.result_of(work, Place(provider.url, False))
            asked_alone = self.tell_turns(provider.turns)
        with Provider(script) as provider, Service(service or (lambda _: (200, {}, {}))) as events:
            u = understudy_gateway.Understudy("k", events.url, timeout=PATIENCE_S)
            self.addCleanup(u.close, 0)

            def watched(place):
                # The agent runs inside the run's scope, and an exception of the agent passes through the scope.
                result = None
                with u.run(task="t", run_id="watched"):
                    result = work(place)
                    return asyncio.run(result) if inspect.iscoroutine(result) else result

            result = self.result_of(watched, Place(provider.url, True))
            self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual(result, alone)
            self.assertEqual(self.tell_turns(provider.turns), asked_alone)
            logged = Watched(events.requests, "watched")
        self.assertEqual(logged.start["framework"], self.framework)
        self.result = result
        return logged

    def read_late(self, script, begin, read):
        """Begins a stream in the scope of a run and reads it after the scope. Returns the result of `read`, and what was logged."""
        with Provider(script) as provider, Service() as events:
            u = understudy_gateway.Understudy("k", events.url, timeout=PATIENCE_S)
            self.addCleanup(u.close, 0)
            place = Place(provider.url, True)

            def both():
                with u.run(task="t", run_id="late"):
                    stream = begin(place)
                return read(stream)

            async def both_async():
                with u.run(task="t", run_id="late"):
                    stream = await begin(place)
                return await read(stream)

            result = asyncio.run(both_async()) if inspect.iscoroutinefunction(begin) else both()
            self.assertTrue(u.flush(PATIENCE_S))
            return result, Watched(events.requests, "late")

    def intervene(self, work, turns=6):
        """Runs an agent that repeats itself until it gets an intervention. Returns the system prompt of each of the model's turns."""

        def script(turn):
            if "STOP" in turn["system"] or turn["number"] >= turns:
                return {"text": "I stop."}
            return {"calls": [("search", {"query": "same"})]}

        said = {"inject": True, "intervention_text": "STOP searching.", "failure_type": "loop", "level": "nudge"}
        evaluated = []

        def answer(request):
            if request.path.endswith("/steps"):
                return 200, {"fired": ["semantic_loop"]}, {}
            if request.path.endswith("/evaluate") and not evaluated:
                evaluated.append(True)
                return 200, said, {}
            return 200, {}, {}

        with Provider(script) as provider, Service(answer) as events:
            u = understudy_gateway.Understudy("k", events.url, timeout=PATIENCE_S)
            self.addCleanup(u.close, 0)
            with u.run(task="t", run_id="watched") as run:
                # The agent waits for the intervention before it calls the model again, so that the test does not depend on time.
                received, take = threading.Event(), run._take

                def take_and_tell(said):
                    take(said)
                    received.set()

                run._lane.advise = take_and_tell
                self.wait_for_advice = lambda: self.assertTrue(received.wait(PATIENCE_S))
                result = work(Place(provider.url, True))
                if inspect.iscoroutine(result):
                    asyncio.run(result)
                self.assertIsNone(run.intervention())
            return [turn["system"] for turn in provider.turns]
