"""Tests with the real service, which test/client/python.test.ts starts. UNDERSTUDY_TEST_URL and UNDERSTUDY_TEST_KEY name it."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import uuid

from support import HERE, PATIENCE_S, understudy_gateway

URL = os.environ.get("UNDERSTUDY_TEST_URL")
KEY = os.environ.get("UNDERSTUDY_TEST_KEY")


@unittest.skipUnless(URL, "no service to ask: UNDERSTUDY_TEST_URL is not set")
class TheService(unittest.TestCase):
    def setUp(self):
        self.warnings = []
        # Each test has its own organization.
        self.org = f"org-{uuid.uuid4().hex[:12]}"
        self.u = self.client()

    def client(self, key=None, **options):
        patient = {"timeout": PATIENCE_S, "org_id": self.org, "on_warning": self.warnings.append}
        u = understudy_gateway.Understudy(key or KEY, URL, **{**patient, **options})
        self.addCleanup(u.close, 0)
        return u

    def finish_again(self, run_id, outcome):
        """Finishes a run again. With the same outcome, the service answers as it did the first time."""
        return self.u.api.finish_run(id=run_id, outcome=outcome)

    def test_takes_a_run_with_its_steps_in_order(self):
        with self.u.run(task="fix the date parser", run_id="ordered", agent_name="fixer", metadata={"pr": 7}) as run:
            self.assertIs(self.u.current(), run)
            for index in range(200):
                run.step(action=f"step {index}", tokens=index)
        self.assertIsNone(self.u.current())
        self.assertTrue(self.u.flush(PATIENCE_S))
        ended = self.finish_again("ordered", "success")
        self.assertEqual((ended["steps"], ended["tokens"]), (200, sum(range(200))))
        stats = self.u.stats()
        self.assertEqual(stats["runs"], {"started": 1, "finished": 1})
        self.assertEqual({name: stats["steps"][name] for name in ("logged", "sent", "queued", "dropped")},
                         {"logged": 200, "sent": 200, "queued": 0, "dropped": 0})
        self.assertEqual((stats["steps"]["queued_bytes"], stats["circuit"], self.warnings), (0, "closed", []))

    def test_keeps_the_marks_of_a_run_that_goes_on_and_that_has_ended(self):
        with self.u.run(run_id="marked") as run:
            run.mark("bad", tags=["night"], note="wrong file")
        self.assertTrue(self.u.flush(PATIENCE_S))
        run.mark("good", tags=["seen"], feedback_score=0.5)
        self.assertTrue(self.u.flush(PATIENCE_S))
        marks = self.u.api.read_run_marks(id="marked")
        self.assertEqual((marks["mark"], marks["tags"]), ("good", ["night", "seen"]))
        self.assertEqual((marks["note"], marks["feedback_score"]), ("wrong file", 0.5))
        self.assertEqual((self.u.stats()["marks"], self.warnings), ({"said": 2, "sent": 2, "dropped": 0}, []))

    def test_has_what_was_flushed_before_the_process_was_killed(self):
        script = (
            "import os, signal, sys; sys.path.insert(0, sys.argv[1]); from understudy_gateway import Understudy\n"
            "u = Understudy(sys.argv[3], sys.argv[2], timeout=60, org_id=sys.argv[4]) if len(sys.argv) > 2 else None\n"
            "run = u.start(run_id='killed') if u is not None else None\n"
            "for index in range(300):\n"
            "    if run is not None: run.step(action=str(index))\n"
            "    if index == 99 and u is not None: assert u.flush(60)\n"
            "print('done', flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        ended = []
        for arguments in ([], [URL, KEY, self.org]):
            command = [sys.executable, "-c", script, str(HERE.parent), *arguments]
            one = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S)
            ended.append((one.stdout, one.stderr, one.returncode))
        self.assertEqual(ended, [("done\n", "", -9)] * 2)
        indexes, cursor = [], None
        while True:
            page = self.u.api.list_run_steps(id="killed", limit=200, cursor=cursor)
            indexes += [one["step_index"] for one in page["steps"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        # The service has the first steps, without a gap.
        self.assertGreaterEqual(len(indexes), 100)
        self.assertEqual(sorted(indexes), list(range(len(indexes))))

    def test_subscribers_receive_events_without_thoughts(self):
        with self.u.run(run_id="heard") as run:
            run.step(action="look", thought="kept from subscribers", tokens=3)
        self.assertTrue(self.u.flush(PATIENCE_S))
        with self.u.subscribe(last_event_id="0") as events:
            heard = [next(events) for _ in range(3)]
        self.assertEqual([one.kind for one in heard], ["run_start", "step", "run_finish"])
        self.assertEqual((heard[1].data["run_id"], heard[1].data["action"], heard[1].data["tokens"]), ("heard", "look", 3))
        self.assertNotIn("kept from", str(heard))
        with self.u.subscribe(last_event_id=heard[0].id) as events:
            self.assertEqual([next(events) for _ in range(2)], heard[1:])
        with self.u.subscribe(last_event_id="of another service") as events:
            self.assertEqual([next(events).kind for _ in range(2)], ["reset", "run_start"])

    def test_is_told_of_a_failure_by_its_name_and_the_exception_goes_on(self):
        class OutOfIdeas(Exception):
            pass

        thrown = OutOfIdeas("of the agent")
        with self.assertRaises(OutOfIdeas) as caught:
            with self.u.run(run_id="failed"):
                raise thrown
        self.assertIs(caught.exception, thrown)
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.finish_again("failed", "failure: OutOfIdeas")

    def test_takes_sys_exit_without_a_status_for_a_clean_end_and_with_one_for_a_failure(self):
        for run_id, status, outcome in (("clean", None, "success"), ("unclean", 3, "failure: SystemExit")):
            with self.assertRaises(SystemExit):
                with self.u.run(run_id=run_id):
                    sys.exit(status)
            self.assertTrue(self.u.flush(PATIENCE_S))
            self.finish_again(run_id, outcome)

    def test_hands_interventions_over_once_nudge_before_stop(self):
        with self.u.run(task="make the tests pass", run_id="loop") as run:
            self.assertIsNone(run.intervention())
            for _ in range(4):
                run.step(action="run_tests", action_input="npm test", observation="1 failed")
            deadline = time.monotonic() + PATIENCE_S
            said = None
            while said is None and time.monotonic() < deadline:
                said = run.intervention()
                time.sleep(0.01)
            self.assertEqual((said.failure_type, said.level), ("infinite_loop", "nudge"))
            self.assertIn("run_tests", said.text)
        stats = self.u.stats()["interventions"]
        self.assertEqual(stats["handed_over"], 1)

    def test_says_nothing_to_the_off_arm_of_an_experiment(self):
        with self.u.run(task="make the tests pass", experiment_id="exp-1", assignment_unit="user-1") as run:
            self.assertEqual(run.arm, "off")
            for _ in range(6):
                run.step(action="run_tests", action_input="npm test", observation="1 failed")
            self.assertEqual(run.patterns(), "")
        self.assertTrue(self.u.flush(PATIENCE_S))
        with self.u.run(experiment_id="exp-1", assignment_unit="user-3") as run:
            self.assertEqual(run.arm, "on")
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.u.stats()["interventions"]["received"], 0)
        arms = self.u.api.report_experiment(experiment_id="exp-1")["arms"]
        self.assertEqual((arms["on"]["finished"], arms["off"]["finished"]), (1, 1))

    def test_gives_patterns_for_a_system_prompt(self):
        situation = "The unit tests of the date parser fail by one day"
        lesson = {"situation": situation, "dead_ends": "Adding a day", "unlock": "Parse as UTC"}
        self.u.api.import_patterns(tier="e2", patterns=[lesson])
        with self.u.run(task="the unit tests of the date parser fail by one day") as run:
            text = run.patterns()
            self.assertIn(f"1. Situation: {situation}\n   What did not help: Adding a day\n   What helped: Parse as UTC", text)
            self.assertEqual(run.patterns(max_tokens=20), "")
            self.assertEqual(run.patterns(context="zebras of the savannah", tier="e1"), "")
            self.assertEqual(run.patterns(context="  "), "")
        quiet = self.client(e_traces_enabled=False)
        with quiet.run(task=situation) as run:
            self.assertEqual(run.patterns(), "")

    def test_keeps_findings(self):
        findings = self.u.findings("my code/base")
        self.assertEqual((findings.list(), findings.recall("commas"), findings.coverage(["a.ts"])), ([], [], 0.0))
        stored = findings.store("The parser drops trailing commas", "src/parser.ts", "bug", {"pr": 7})
        self.assertRegex(stored, r"^find_")
        self.assertEqual(findings.store("\ud800 half a character, and " + "x" * 9_000), findings.list(limit=1)[0]["finding_id"])
        found = findings.recall("trailing commas in the parser", top_k=1)
        self.assertEqual((found[0]["finding_id"], found[0]["metadata"], len(found)), (stored, {"pr": 7}, 1))
        self.assertGreater(found[0]["score"], 0.25)
        self.assertEqual([len(one["content"]) for one in findings.list(finding_type="note")], [8_000])
        self.assertEqual(findings.coverage(["parser.ts", "lexer.ts"]), 0.5)
        self.assertEqual((findings.invalidate(["src/parser.ts"]), findings.invalidate(["src/parser.ts"])), (1, 0))
        self.assertEqual((findings.clear(), findings.list()), (True, []))

    def test_cuts_a_step_of_ten_megabytes_and_says_so(self):
        with self.u.run(run_id="long") as run:
            thought = "\x00\"\\\u00fc" * 60_000
            run.step(action="read", observation="x" * 10_000_000, thought=thought, action_input=["😀" * 200_000])
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.finish_again("long", "success")["steps"], 1)
        stats = self.u.stats()["steps"]
        self.assertEqual((stats["sent"], stats["dropped"], stats["truncated"]), (1, 0, 3))
        self.assertEqual([warning.cause for warning in self.warnings], ["truncated"])
        self.assertIn("10000000 characters, of which 131072 are kept", self.warnings[0].message)

    def test_takes_whatever_a_step_holds(self):
        with self.u.run(run_id="odd") as run:
            for value in ("\ud800", "\udc00x\ud83d\ude00", b"\xff", {"a": {1, 2}}, object(), float("nan"), 10**400, None):
                run.step(action=value, action_input=value, thought=value, observation=value, is_error=value, tokens=value)
            run.step(action="known", cost=3)
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.finish_again("odd", "success")["steps"], 9)
        self.assertEqual([warning.cause for warning in self.warnings], ["unknown_field"])

    def test_refuses_a_wrong_key_and_the_agent_goes_on(self):
        u = self.client("svc_live_wrong")
        with u.run(task="t") as run:
            self.assertEqual(run.patterns(), "")
            for _ in range(10):
                run.step(action="a")
        u.flush(PATIENCE_S)
        run.step(action="late")
        stats = u.stats()["steps"]
        self.assertEqual((stats["logged"], stats["sent"], stats["queued"], stats["dropped"]), (11, 0, 0, 11))
        self.assertEqual([warning.cause for warning in self.warnings], ["unauthorized"])
        self.assertNotIn("svc_live_wrong", self.warnings[0].message)
        with self.assertRaises(understudy_gateway.AuthenticationError) as caught:
            u.api.read_trace(trace_id="t")
        self.assertEqual((caught.exception.status, caught.exception.retryable), (401, False))

    def test_an_invalid_run_is_refused_and_the_agent_goes_on(self):
        with self.u.run(task_profile="no such profile") as run:
            run.step(action="a")
        self.u.flush(PATIENCE_S)
        self.assertEqual([warning.cause for warning in self.warnings], ["refused"])
        with self.u.run(run_id="good after bad") as run:
            run.step(action="a")
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.finish_again("good after bad", "success")["steps"], 1)

    def test_has_typed_errors(self):
        with self.assertRaises(understudy_gateway.NotFoundError):
            self.u.api.read_trace(trace_id="unknown")
        with self.assertRaises(understudy_gateway.ValidationError) as caught:
            self.u.api.retrieve_patterns(context="x", top_k=51)
        self.assertEqual(caught.exception.violations[0]["loc"], ["body", "top_k"])
        self.assertEqual(self.u.api.health()["status"], "ok")
        with self.assertRaises(AttributeError):
            self.u.api.no_such_thing()

    def test_gives_back_what_was_logged(self):
        with self.u.run(task="t", run_id="read back") as run:
            run.step(action="first")
            run.step(action="second")
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual([one["run_id"] for one in self.u.api.list_runs(limit=5)["runs"]], ["read back"])
        self.assertEqual(self.u.api.read_run(id="read back")["outcome"], "success")
        steps = self.u.api.list_run_steps(id="read back")["steps"]
        self.assertEqual([one["action"] for one in steps], ["first", "second"])

    def test_takes_a_trace_and_an_evaluation(self):
        answer = self.u.api.submit_trace(trace_id="t1", outcome="success", steps=[{"step_index": 0, "action": "a"}])
        self.assertEqual(answer["status"], "accepted")
        steps = [{"action": "run_tests", "action_input": "npm test", "observation": "1 failed"}] * 3
        self.assertIn("infinite_loop", self.u.api.evaluate(steps=steps)["fired"])

    def test_tells_nested_and_concurrent_runs_apart(self):
        async def work(name, depth):
            async with self.u.run(run_id=name) as run:
                for _ in range(5):
                    await asyncio.sleep(0)
                    self.assertIs(self.u.current(), run)
                    understudy_gateway.current_run().step(action=name)
                if depth > 0:
                    await asyncio.gather(work(f"{name}.0", depth - 1), work(f"{name}.1", depth - 1))
                self.assertIs(self.u.current(), run)
                # A thread that asyncio starts is in the run, too.
                self.assertIs(await asyncio.to_thread(self.u.current), run)

        async def main():
            await asyncio.gather(*(work(f"async-{index}", 2) for index in range(4)))
            self.assertIsNone(self.u.current())

        asyncio.run(main())
        self.assertTrue(self.u.flush(PATIENCE_S))
        for index in range(4):
            for suffix in ("", ".0", ".1.0", ".1.1"):
                self.assertEqual(self.finish_again(f"async-{index}{suffix}", "success")["steps"], 5)

    def test_takes_steps_from_many_threads_each_once(self):
        with self.u.run(run_id="threads") as run:
            threads = [threading.Thread(target=lambda: [run.step(action="a", tokens=1) for _ in range(100)]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertTrue(self.u.flush(PATIENCE_S))
        ended = self.finish_again("threads", "success")
        self.assertEqual((ended["steps"], ended["tokens"]), (800, 800))

    def test_has_what_a_short_process_logged_when_that_has_ended(self):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from understudy_gateway import Understudy\n"
            f"u = Understudy(org_id={self.org!r})\n"
            "with u.run(run_id='short') as run:\n"
            "    for index in range(30): run.step(action=str(index))\n"
        )
        env = {**os.environ, "SVC_API_KEY": KEY, "SVC_BASE_URL": URL}
        subprocess.run([sys.executable, "-c", script, str(HERE.parent)], env=env, check=True, timeout=PATIENCE_S)
        self.assertEqual(self.finish_again("short", "success")["steps"], 30)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork on this system")
    def test_goes_on_in_a_forked_process_that_sends_nothing_of_its_parent_twice(self):
        with self.u.run(run_id="parent") as run:
            for _ in range(50):
                run.step(action="of the parent")
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    with self.u.run(run_id="child") as own:
                        own.step(action="of the child")
                    stats = self.u.stats()["steps"]
                    status = 0 if self.u.flush(PATIENCE_S) and stats["dropped"] == 0 else 2
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(self.u.flush(PATIENCE_S))
        self.assertEqual(self.finish_again("child", "success")["steps"], 1)
        self.assertEqual(self.finish_again("parent", "success")["steps"], 50)


@unittest.skipUnless(URL, "no service to ask: UNDERSTUDY_TEST_URL is not set")
class TheLiveStream(unittest.TestCase):
    def test_shows_what_the_client_streams(self):
        import urllib.request

        org = f"org-{uuid.uuid4().hex[:12]}"
        request = urllib.request.Request(f"{URL}/v1/monitor/stream?org_id={org}", headers={"authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as stream:
            with understudy_gateway.Understudy(KEY, URL, org_id=org) as u:
                with u.run(run_id="live", task_profile="qa") as run:
                    run.step(action="a")
            events = []
            while len(events) < 3:
                line = stream.readline().decode()
                if line.startswith("event:"):
                    events.append(line[6:].strip())
                elif line.startswith("data:") and len(events) == 1:
                    self.assertEqual(json.loads(line[5:])["task_profile"], "qa")
        self.assertEqual(events, ["run_start", "step", "run_finish"])


if __name__ == "__main__":
    unittest.main()
