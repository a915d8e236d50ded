"""Tests that the agent's result is the same as without the library, however the service behaves or fails."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

from support import HERE, PATIENCE_S, Service, understudy_gateway

from understudy_gateway import _circuit, _sender, _transport

# The timeout of requests that get no answer. No assertion depends on its length.
TIMEOUT_S = 0.3


class GaveUp(Exception):
    pass


def work(run, thrown=None):
    """Works as an agent, and returns the same result whatever the library returns.

    run: None: the agent does not use the library. thrown: an exception that the agent raises after most of its work.
    """
    result = []
    prompt = "You count." + ("" if run is None else run.patterns())
    for index in range(20):
        result.append((index * index, prompt[:10]))
        if run is not None:
            run.step(action="square", action_input={"of": index}, observation="x" * 10_000_000 if index == 7 else index, tokens=5)
            run.intervention()
            run.difficulty(f"Hmm, maybe {index}")
        if index == 15 and thrown is not None:
            raise thrown
    return result


class Silence:
    """A server that accepts connections and never answers."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def connections(self):
        """Returns the number of connections so far."""
        self._socket.settimeout(0)
        count = 0
        while True:
            try:
                self._socket.accept()[0].close()
                count += 1
            except OSError:
                return count


class Trickle:
    """A server whose answers never end. It sends `part` again and again, with pauses of `pause_s`."""

    def __init__(self, part, pause_s):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._part, self._pause_s = part, pause_s
        self._is_over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            try:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n")
                while not self._is_over.wait(self._pause_s):
                    connection.sendall(self._part)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._socket.close()


def is_finished(requests):
    return bool(requests) and requests[-1].path.endswith("/finish")


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


class TheAgent(unittest.TestCase):
    def setUp(self):
        self.warnings = []

    def client(self, url, **options):
        u = understudy_gateway.Understudy("k", url, **{"timeout": TIMEOUT_S, "on_warning": self.warnings.append, **options})
        self.addCleanup(u.close, 0)
        return u

    def hold(self, url, **options):
        """Checks that each run has the same result or exception as without the library, and that the library's counters are right."""
        alone = work(None)
        u = self.client(url, **options)
        for _ in range(3):
            with u.run(task="count") as run:
                self.assertEqual(work(run), alone)
            thrown = GaveUp("of the agent")
            with self.assertRaises(GaveUp) as caught, u.run(task="count") as run:
                work(run, thrown)
            self.assertIs(caught.exception, thrown)
            self.assertEqual(run.outcome, "failure: GaveUp")
        findings = u.findings("base", timeout=TIMEOUT_S)
        self.assertEqual((findings.recall("q"), findings.store("c"), findings.clear()), ([], None, False))
        u.close(TIMEOUT_S)
        steps = u.stats()["steps"]
        self.assertEqual(steps["logged"], 3 * (20 + 16))
        self.assertEqual(steps["sent"] + steps["dropped"], steps["logged"])
        self.assertEqual((steps["queued"], steps["queued_bytes"]), (0, 0))
        self.assertEqual(len({warning.cause for warning in self.warnings}), len(self.warnings), self.warnings)
        return u

    def test_is_the_same_where_nobody_listens(self):
        self.hold(closed_port())

    def test_is_the_same_where_the_name_leads_nowhere(self):
        # Simulates a name lookup that hangs because the name server does not answer.
        with mock.patch.object(socket, "getaddrinfo", side_effect=lambda *_: threading.Event().wait(PATIENCE_S)):
            self.hold("http://service.example")

    def test_is_the_same_where_nobody_answers_and_that_costs_one_timeout(self):
        with Silence() as service:
            u = self.client(service.url, live_streaming_enabled=False)
            # A long cool-down, so that the circuit stays open during the test even on a busy machine.
            with mock.patch.object(_circuit.Circuit, "_COOL_DOWN_S", 10 * PATIENCE_S), u.run(task="count") as run:
                u._caller.circuit.note_answer()
                self.assertEqual([run.patterns() for _ in range(50)], [""] * 50)
            self.assertEqual(service.connections(), 1)
            self.assertEqual(u.stats()["circuit"], "open")
            self.hold(service.url)

    def test_is_the_same_where_an_answer_never_ends(self):
        for part, pause_s in ((b" ", 0.01), (b" " * 1_000_000, 0)):
            with self.subTest(len(part)), Trickle(part, pause_s) as service:
                self.warnings.clear()
                self.hold(service.url)

    def test_is_the_same_whatever_the_service_answers(self):
        detail = {"detail": "as it is told"}
        answers = {
            "500": (500, detail, {}),
            "503": (503, detail, {"retry-after": "1"}),
            "429": (429, detail, {"retry-after": "1"}),
            "429 for a year": (429, detail, {"retry-after": "31536000"}),
            "429 for no time": (429, detail, {"retry-after": "soon"}),
            "401": (401, detail, {}),
            "404": (404, detail, {}),
            "409": (409, detail, {}),
            "422": (422, {"detail": [{"loc": ["body", "task"], "msg": "no", "type": "x"}, "odd"]}, {}),
            "a redirect": (307, b"", {"location": "http://127.0.0.1:9/"}),
            "a page": (200, b"<html>", {}),
            "a list": (200, [], {}),
            "nothing but brackets": (200, b'{"traces":' + b"[" * 200_000, {}),
            "a refusal of brackets": (422, b'{"detail":' + b"[" * 200_000, {}),
            "other types": (200, {"traces": 7, "fired": 7, "inject": True, "finding_id": None, "findings": None}, {}),
            "nothing": (200, b"", {}),
            "a broken connection": None,
        }
        for name, answer in answers.items():
            with self.subTest(name), Service(lambda _: answer) as service:
                self.warnings.clear()
                self.hold(service.url)

    def test_is_the_same_where_the_process_may_start_no_thread(self):
        with Service() as service, mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no more")):
            u = self.client(service.url)
            with u.run(task="count") as run:
                self.assertEqual(work(run), work(None))
            self.assertFalse(u.flush(PATIENCE_S))
            u.close(0)
            self.assertEqual(u.stats()["steps"]["dropped"], 20)

    def test_is_the_same_when_the_clock_jumps(self):
        times = itertools.cycle((1_700_000_000.0, 1_700_000_000.0 + 40 * 86_400, 5.0))
        with Service() as service, mock.patch.object(time, "time", side_effect=lambda: next(times)):
            u = self.client(service.url, timeout=PATIENCE_S)
            with u.run(task="count") as run:
                self.assertEqual(work(run), work(None))
            self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual(u.stats()["steps"]["sent"], 20)

    def test_gives_each_run_its_turn_however_much_the_others_have(self):
        is_open = threading.Event()

        def answer(_):
            is_open.wait(PATIENCE_S)
            return 200, {}, {}

        with Service(answer) as service:
            u = self.client(service.url, timeout=PATIENCE_S)
            floods = [u.start(run_id=f"flood-{index}") for index in range(_sender._SENDERS)]
            for run in floods:
                for _ in range(200):
                    run.step(action="a")
            with u.run(run_id="small") as run:
                run.step(action="b")
            for run in floods:
                run.finish()
            is_open.set()
            self.assertTrue(u.flush(PATIENCE_S))
            ends = [one.path for one in service.requests if one.path.endswith("/finish")]
            self.assertIn("/small/", ends[0])

    def test_is_the_same_where_its_own_callbacks_raise(self):
        def fail(_):
            raise GaveUp("in a callback")

        with Service(lambda _: (401, {}, {})) as service:
            u = self.client(service.url, on_warning=fail, on_token_budget=fail, token_budget=50)
            with u.run(task="count") as run:
                self.assertEqual(work(run), work(None))
            u.flush(PATIENCE_S)

    def test_does_not_wait_for_a_step_to_be_sent(self):
        is_done = threading.Event()
        # The service answers only after the agent has finished. So an agent that waits for an answer would not finish.
        with Service(lambda _: (200, {"is_done": is_done.wait(PATIENCE_S)}, {})) as service:
            u = self.client(service.url, timeout=PATIENCE_S, e_traces_enabled=False)
            with u.run(task="count") as run:
                self.assertEqual(work(run), work(None))
            service.wait_for(lambda requests: len(requests) == 1)
            is_done.set()
            self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual([one.body.get("step_index") for one in service.requests], [None, *range(20), None])

    def test_ends_as_it_would_where_nobody_answers(self):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from understudy_gateway import Understudy\n"
            "u = Understudy('k', sys.argv[2])\n"
            "with u.run(task='t') as run:\n"
            "    for index in range(30): run.step(action=str(index))\n"
            "print('done')\n"
            "sys.exit(7)\n"
        )
        with Silence() as silence:
            for url in (silence.url, closed_port()):
                command = [sys.executable, "-c", script, str(HERE.parent), url]
                ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual((ended.stdout, ended.stderr, ended.returncode), ("done\n", "", 7))


class AnUncaughtException(unittest.TestCase):
    def end(self, url, last):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from understudy_gateway import Understudy\n"
            "u = Understudy('k', sys.argv[2])\n"
            "def work():\n"
            "    run = u.start(run_id='r')\n"
            "    run.step(action='look')\n"
            f"    {last}\n"
            "work()\n"
        )
        command = [sys.executable, "-c", script, str(HERE.parent), url]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)

    def test_ends_the_runs_that_are_open(self):
        for last, name in (("raise TypeError('no')", "TypeError"), ("[][1]", "IndexError")):
            with self.subTest(last), Service() as service:
                ended = self.end(service.url, last)
                self.assertEqual((ended.returncode, ended.stderr.splitlines()[-1].split(":")[0]), (1, name))
                paths = [one.path for one in service.requests]
                self.assertEqual(paths, ["/v1/monitor/runs", "/v1/monitor/runs/r/steps", "/v1/monitor/runs/r/finish"])
                self.assertEqual(service.requests[-1].body, {"outcome": f"failure: {name}"})

    def test_is_not_a_normal_end(self):
        with Service() as service:
            self.assertEqual(self.end(service.url, "pass").returncode, 0)
            self.assertEqual([one.path for one in service.requests], ["/v1/monitor/runs", "/v1/monitor/runs/r/steps"])


class TheQueue(unittest.TestCase):
    def setUp(self):
        self.warnings = []
        self.may_answer = threading.Event()
        self.addCleanup(self.may_answer.set)

    def client(self, url, **options):
        u = understudy_gateway.Understudy("k", url, **{"timeout": PATIENCE_S, "on_warning": self.warnings.append, **options})
        self.addCleanup(u.close, 0)
        return u

    def hold_answers(self, _):
        self.may_answer.wait(PATIENCE_S)
        return 200, {}, {}

    def test_is_bounded_in_steps_and_drops_the_newest_with_one_warning(self):
        with Service(self.hold_answers) as service:
            u = self.client(service.url, max_queued_steps=10)
            run = u.start()
            for index in range(100):
                run.step(action=str(index))
            steps = u.stats()["steps"]
            self.assertEqual((steps["logged"], steps["queued"], steps["dropped"]), (100, 10, 90))
            self.assertEqual([warning.cause for warning in self.warnings], ["queue_full"])
            self.may_answer.set()
            self.assertTrue(u.flush(PATIENCE_S))
            run.step(action="room again")
            self.assertTrue(u.flush(PATIENCE_S))
            sent = [one.body["step_index"] for one in service.requests[1:]]
            self.assertEqual(sent, [*range(10), 100])

    def test_is_bounded_in_bytes(self):
        with Service(self.hold_answers) as service:
            u = self.client(service.url, max_queued_bytes=1_000_000)
            run = u.start()
            for _ in range(100):
                run.step(observation="x" * 100_000)
            steps = u.stats()["steps"]
            self.assertEqual((steps["queued"], steps["dropped"]), (9, 91))
            self.assertLessEqual(steps["queued_bytes"], 1_000_000)

    def test_is_bounded_in_runs(self):
        with Service(self.hold_answers) as service:
            u = self.client(service.url)
            runs = [u.start() for _ in range(1_010)]
            for run in runs:
                run.step(action="a")
            self.assertEqual(u.stats()["steps"]["dropped"], 10)
            self.assertEqual([warning.cause for warning in self.warnings], ["queue_full"])

    def test_keeps_the_order_over_faults_and_repeats_what_may_have_been_lost(self):
        answers = iter([(503, {}, {}), None, (429, {}, {"retry-after": "0"}), (500, {}, {})])
        with Service(lambda _: next(answers, (200, {}, {}))) as service:
            u = self.client(service.url)
            with u.run(run_id="r") as run:
                for index in range(5):
                    run.step(action=str(index))
            service.wait_for(is_finished)
            self.assertTrue(u.flush(PATIENCE_S))
            steps = [one.body.get("step_index") for one in service.requests]
            self.assertEqual(steps, [None] * 5 + [*range(5), None])
            self.assertEqual((u.stats()["steps"]["sent"], self.warnings), (5, []))

    def test_drops_a_step_that_the_service_fails_at_each_time_and_goes_on(self):
        def answer(request):
            is_bad = request.body.get("step_index") == 1
            return (500 if is_bad else 200), {}, {}

        with Service(answer) as service:
            u = self.client(service.url)
            with u.run() as run:
                for index in range(3):
                    run.step(action=str(index))
            service.wait_for(is_finished)
            steps = [one.body.get("step_index") for one in service.requests]
            self.assertEqual(steps, [None, 0, 1, 1, 1, 1, 1, 2, None])
            self.assertTrue(u.flush(PATIENCE_S))
            stats = u.stats()["steps"]
            self.assertEqual((stats["sent"], stats["dropped"]), (2, 1))
            self.assertEqual([warning.cause for warning in self.warnings], ["failed"])

    def test_starts_a_run_again_that_the_service_has_forgotten_once(self):
        known = set()

        def answer(request):
            if request.path == "/v1/monitor/runs":
                known.add("r")
            elif request.body.get("step_index") == 2 and len(service.requests) < 6:
                known.clear()
            return (200, {}, {}) if known else (404, {"detail": "no such run"}, {})

        with Service(answer) as service:
            u = self.client(service.url)
            with u.run(run_id="r") as run:
                for index in range(4):
                    run.step(action=str(index))
            self.assertTrue(u.flush(PATIENCE_S))
            paths = [one.path.rpartition("/")[2] for one in service.requests]
            self.assertEqual(paths, ["runs", "steps", "steps", "steps", "runs", "steps", "steps", "finish"])
            self.assertEqual((u.stats()["steps"]["sent"], self.warnings), (4, []))

    def test_asks_again_when_the_service_is_back(self):
        is_back = threading.Event()
        with Service(lambda _: (200, {}, {}) if is_back.is_set() else (503, {}, {})) as service:
            u = self.client(service.url)
            run = u.start()
            service.wait_for(lambda requests: len(requests) >= 3)
            is_back.set()
            self.assertTrue(u.flush(PATIENCE_S))
            run.step(action="a")
            self.assertTrue(u.flush(PATIENCE_S))
            self.assertEqual((u.stats()["circuit"], u.stats()["steps"]["sent"]), ("closed", 1))

    def test_counts_what_comes_after_the_end(self):
        with Service() as service:
            u = self.client(service.url)
            with u.run() as run:
                pass
            run.step(action="late")
            run.finish("another outcome")
            self.assertTrue(u.close(PATIENCE_S))
            with u.run() as late:
                late.step(action="later")
            self.assertEqual(u.stats()["steps"]["dropped"], 2)
            self.assertEqual([one.path.rpartition("/")[2] for one in service.requests], ["runs", "finish"])

    def test_hands_over_each_intervention_once_and_keeps_the_last_ones(self):
        said = {"inject": True, "failure_type": "infinite_loop"}

        def answer(request):
            if request.path.endswith("/evaluate"):
                count = sum(one.path.endswith("/evaluate") for one in service.requests)
                return 200, {**said, "intervention_text": f"text {count}", "level": "stop" if count == 20 else "nudge"}, {}
            return 200, {"fired": ["infinite_loop"]}, {}

        with Service(answer) as service:
            u = self.client(service.url)
            run = u.start(run_id="r")
            for _ in range(20):
                run.step(action="a")
            run.finish()
            # The client sends the finish after the evaluation of the last step.
            service.wait_for(is_finished)
            got = [run.intervention() for _ in range(17)]
            self.assertEqual([one.text for one in got[:16]], [f"text {index}" for index in range(5, 21)])
            self.assertEqual([one.level for one in got[:16]], ["nudge"] * 15 + ["stop"])
            self.assertIsNone(got[16])
            asked = [one.body for one in service.requests if one.path.endswith("/evaluate")]
            self.assertEqual(asked, [{"run_id": "r"}] * 20)
            self.assertEqual(u.stats()["interventions"], {"received": 20, "handed_over": 16})


class TheStream(unittest.TestCase):
    HEAD = {"content-type": "text/event-stream"}

    def client(self, url, **options):
        u = understudy_gateway.Understudy("k", url, timeout=PATIENCE_S, **options)
        self.addCleanup(u.close, 0)
        return u

    @staticmethod
    def one(number):
        return f'retry: 1\nid: {number}\nevent: step\ndata: {{"run_id":"r"}}\n\n'.encode()

    def test_comes_again_behind_the_last_whole_event_whatever_happens(self):
        broken = self.one(2) + b"id: 3\nevent: step\n"
        answers = iter([
            (200, self.one(1), self.HEAD), (200, broken, self.HEAD), (500, {}, {}), None, (503, {}, {}),
            (200, self.one(3), self.HEAD),
        ])
        with Service(lambda _: next(answers)) as service, self.client(service.url, org_id="acme").subscribe("p") as events:
            self.assertEqual([next(events).id for _ in range(3)], ["1", "2", "3"])
            ids = [one.headers.get("last-event-id") for one in service.requests]
            self.assertEqual(ids, [None, "1", "2", "2", "2", "2"])
            self.assertEqual(service.requests[0].path, "/v1/monitor/stream?org_id=acme&project_id=p")
            self.assertEqual(service.requests[0].headers["accept"], "text/event-stream")

    def test_passes_over_an_event_that_no_parser_can_follow(self):
        deep = b"id: 2\nevent: step\ndata: " + b"[" * 200_000 + b"\n\n"
        with Service(lambda _: (200, self.one(1) + deep + self.one(3), self.HEAD)) as service:
            with self.client(service.url).subscribe() as events:
                self.assertEqual([next(events).id for _ in range(2)], ["1", "3"])

    def test_ends_with_an_error_where_it_is_of_no_use_to_come_again(self):
        no_end = (200, b"x" * 2_000_000, self.HEAD)
        for error, answer in (
            (understudy_gateway.AuthenticationError, (401, {}, {})),
            (understudy_gateway.ValidationError, (422, {}, {})),
            (understudy_gateway.ServerError, (503, {}, {})),
            (understudy_gateway.UnexpectedAnswerError, (200, b"<h1>", {})),
            (understudy_gateway.UnexpectedAnswerError, (204, b"", {})),
            (understudy_gateway.UnexpectedAnswerError, no_end),
        ):
            with self.subTest(error), Service(lambda _: answer) as service:
                events = self.client(service.url).subscribe()
                self.assertRaises(error, next, events)
                self.assertRaises(StopIteration, next, events)

    def test_that_falls_silent_is_opened_again(self):
        answers = iter([self.one(1), self.one(2)])
        is_over = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as server:
            kept = []

            def serve():
                for text in answers:
                    connection = server.accept()[0]
                    kept.append(connection)
                    connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + text)
                is_over.set()

            threading.Thread(target=serve, daemon=True).start()
            u = self.client(f"http://127.0.0.1:{server.getsockname()[1]}")
            with mock.patch.object(_transport, "_SILENCE_S", 0.2), u.subscribe() as events:
                self.assertEqual([next(events).id for _ in range(2)], ["1", "2"])
            self.assertTrue(is_over.wait(PATIENCE_S))
            for connection in kept:
                connection.close()

    def test_ends_while_it_is_waited_for(self):
        for name in ("of the subscription", "of the client"):
            with self.subTest(name), socket.create_server(("127.0.0.1", 0)) as server:
                u = self.client(f"http://127.0.0.1:{server.getsockname()[1]}")
                events = u.subscribe()
                heard = []
                is_heard = threading.Event()

                def listen():
                    for event in events:
                        heard.append(event.id)
                        is_heard.set()

                thread = threading.Thread(target=listen, daemon=True)
                thread.start()
                with server.accept()[0] as connection:
                    connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + self.one(1))
                    self.assertTrue(is_heard.wait(PATIENCE_S))
                    events.close() if name == "of the subscription" else u.close(0)
                    thread.join(PATIENCE_S)
                    self.assertFalse(thread.is_alive())
                self.assertEqual(heard, ["1"])
                self.assertEqual(list(events), [])
                u.close(0)
                self.assertEqual(list(u.subscribe()), [])


class TheApi(unittest.TestCase):
    def test_raises_its_own_errors_for_answers_that_no_parser_can_follow(self):
        deep = b'{"detail":' + b"[" * 200_000
        for status, error in ((200, understudy_gateway.UnexpectedAnswerError), (422, understudy_gateway.ApiError)):
            with self.subTest(status), Service(lambda _: (status, deep, {})) as service:
                u = understudy_gateway.Understudy("k", service.url, timeout=PATIENCE_S)
                self.addCleanup(u.close, 0)
                with self.assertRaises(error):
                    u.api.read_trace(trace_id="t")


class Options(unittest.TestCase):
    def test_that_are_wrong_are_told_by_their_name_where_the_client_is_made(self):
        wrong = {
            "api_key": ["", " ", 7, "a b", "a\nb", "ü"],
            "base_url": ["nowhere", "ftp://x", "http://", "http://user:secret@x", "http://x?y", "http://x:99999", 7],
            "token_budget": [0, -1, 1.5, "5", True],
            "fsm_thresholds": [{"fast_threshold": 2}],
            "model_routing": [{"fast": "m"}, {"FAST": ""}],
            "timeout": [0, -1, float("nan"), 1e9, "5"],
            "max_queued_steps": [0, 1.5],
            "max_queued_bytes": [0, None],
            "on_warning": ["f"],
            "on_token_budget": [7],
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest([name, value]), self.assertRaisesRegex((TypeError, ValueError), name) as caught:
                    understudy_gateway.Understudy(**{"api_key": "k", **{name: value}})
                self.assertNotIn("secret", str(caught.exception))
        with self.assertRaises(TypeError):
            understudy_gateway.Understudy("k", monitor_nmaes=[])

    def test_come_from_the_environment_where_they_are_not_given(self):
        with mock.patch.dict(os.environ, {"SVC_API_KEY": "", "SVC_BASE_URL": ""}):
            with self.assertRaisesRegex(TypeError, "SVC_API_KEY"):
                understudy_gateway.Understudy()
        with Service() as service, mock.patch.dict(os.environ, {"SVC_API_KEY": "of-env", "SVC_BASE_URL": f"{service.url}/base/"}):
            u = understudy_gateway.Understudy(monitor_names=["semantic_loop"])
            self.addCleanup(u.close, 0)
            u.api.health()
            asked = service.requests[0]
            self.assertEqual((asked.path, asked.headers["authorization"]), ("/base/health", "Bearer of-env"))

    def test_give_a_service_with_several_boxes_back_the_highest_position_that_it_has_told(self):
        told = iter(["7", None, "9", "8", "many", "9"])

        def answer(_):
            position = next(told)
            return 200, {}, {} if position is None else {"x-svc-position": position}

        with Service(answer) as service:
            u = understudy_gateway.Understudy("k", base_url=service.url, monitor_names=["semantic_loop"])
            self.addCleanup(u.close, 0)
            for _ in range(6):
                u.api.health()
            seen = [request.headers.get("x-svc-position") for request in service.requests]
        self.assertEqual(seen, [None, "7", "7", "9", "9", "9"])

    def test_route_models_and_tell_of_the_budget_once_a_run(self):
        told = []
        u = understudy_gateway.Understudy(
            "k", live_streaming_enabled=False, token_budget=100, on_token_budget=told.append,
            fsm_thresholds={"slow_window": 1, "slow_threshold": 0.2}, model_routing={"SLOW": "large", "FAST": "small"},
        )
        for _ in range(2):
            with u.run() as run:
                for tokens in (60, None, -5, float("inf"), 39, 1, 70):
                    run.step(action="a", tokens=tokens)
                self.assertEqual(run.tokens, 170)
        self.assertEqual(told, [(100, 100), (100, 100)])
        with u.run() as run:
            self.assertEqual(run.difficulty("List the files.")[1:], ("FAST", "small"))
            self.assertEqual(run.difficulty("Hmm, maybe. Not sure.")[1:], ("SLOW", "large"))
            self.assertEqual(run.difficulty(), (0.5, "SLOW", "large"))
        self.assertEqual(u.score_step(""), 0.5)


if __name__ == "__main__":
    unittest.main()
