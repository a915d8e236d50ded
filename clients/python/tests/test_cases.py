"""Runs the test cases for both languages (clients/cases), and further tests only for Python."""

import ast
import os
import sys
import unittest
from unittest import mock

from support import HERE, PATIENCE_S, Service, join, read_cases, understudy_gateway

from understudy_gateway import _agent_steps, _difficulty, _labels, _outcome, _texts


class ThePackage(unittest.TestCase):
    def test_is_python_3_9_and_imports_the_standard_library_alone(self):
        # Each integration imports its framework.
        integrations = {"langchain.py", "openai_agents.py", "anthropic.py", "claude_agent_sdk.py", "litellm.py"}
        standard = getattr(sys, "stdlib_module_names", None)
        for path in (HERE.parent / "understudy_gateway").glob("*.py"):
            tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
            names = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.add(node.module.split(".")[0])
            if standard is not None and path.name not in integrations:
                self.assertLessEqual(names, standard, path.name)

    def test_names_what_there_is(self):
        for name in understudy_gateway.__all__:
            self.assertTrue(hasattr(understudy_gateway, name), name)


class TheScore(unittest.TestCase):
    def test_is_that_of_the_cases(self):
        for case in read_cases("difficulty"):
            with self.subTest(case["name"]):
                text = case["text"] if "text" in case else join(case["parts"])
                self.assertAlmostEqual(understudy_gateway.score_step(text), case["score"], delta=1e-9)
                words = case["words"]
                signals = None
                if words > 0:
                    signals = (
                        min(1, 20 * case["hedges"] / words),
                        min(1, words / 500),
                        min(1, 20 * case["errors"] / words),
                        min(1, case["entities"] / 10),
                    )
                self.assertEqual(_difficulty._measure_signals(text), signals)

    def test_counts_the_words_of_the_cases(self):
        words = read_cases("difficulty-words")
        for word in words["hedges"]:
            self.assertEqual(_difficulty._measure_signals(word)[0::2], (1, 0), word)
        for word in words["errors"]:
            self.assertEqual(_difficulty._measure_signals(word)[0::2], (0, 1), word)

    def test_takes_what_is_no_text_as_nothing_to_judge(self):
        for value in (None, 7, {}, [], b"maybe"):
            self.assertEqual(understudy_gateway.score_step(value), 0.5)


class TheMachine(unittest.TestCase):
    def test_moves_as_the_cases_say(self):
        for case in read_cases("machine"):
            with self.subTest(case["name"]):
                machine = understudy_gateway.DifficultyMachine(case["thresholds"])
                self.assertEqual([machine.observe(score) for score in case["scores"]], case["states"])

    def test_refuses_what_the_cases_refuse(self):
        for case in read_cases("machine-refusals"):
            with self.subTest(case["thresholds"]), self.assertRaisesRegex(ValueError, case["names"]):
                understudy_gateway.DifficultyMachine(case["thresholds"])


class Texts(unittest.TestCase):
    def test_of_patterns_are_those_of_the_cases(self):
        for case in read_cases("pattern-texts"):
            with self.subTest(case["name"]):
                patterns = [{"fields": fields} for fields in case["patterns"]]
                self.assertEqual(understudy_gateway.render_patterns(patterns, case["max_tokens"]), case["text"])

    def test_of_steps_are_cut_as_in_the_cases(self):
        for case in read_cases("step-texts"):
            with self.subTest(case["name"]):
                self.assertEqual(_texts.cut_units(join(case["parts"]), 131_072), join(case["kept"]))

    def test_of_values_are_those_of_the_cases(self):
        for case in read_cases("step-values"):
            self.assertEqual(_texts.to_text(case["value"]), case["text"])

    def test_of_values_that_json_has_not(self):
        circle = []
        circle.append(circle)
        self.assertEqual(_texts.to_text(circle), "[[...]]")
        self.assertEqual(_texts.to_text(b"a\xff"), "a\ufffd")
        self.assertEqual(_texts.to_text({"at": HERE}), f'{{"at":"{HERE}"}}')

    def test_of_outcomes_are_those_of_the_cases(self):
        for case in read_cases("outcomes"):
            outcome = case["outcome"] if "outcome" in case else join(case["parts"])
            self.assertEqual(_outcome.name_outcome(outcome), join(case["sent"]))
        self.assertEqual(_outcome.name_failure(ZeroDivisionError("x")), "failure: ZeroDivisionError")
        self.assertEqual(_outcome.name_failure(KeyError), "failure: KeyError")


class Arms(unittest.TestCase):
    def test_are_those_of_the_cases(self):
        for case in read_cases("experiment-arms"):
            unit = case["experiment_id"], case["unit"]
            self.assertEqual(understudy_gateway.assign_arm(*unit), case["arm"])
            self.assertEqual(understudy_gateway.assign_arm(*unit, case["share"] + 1e-8), "on")
            self.assertEqual(understudy_gateway.assign_arm(*unit, case["share"] - 1e-8), "off")

    def test_are_all_one_at_the_ends(self):
        self.assertEqual({understudy_gateway.assign_arm("e", str(unit), 0) for unit in range(50)}, {"off"})
        self.assertEqual({understudy_gateway.assign_arm("e", str(unit), 1) for unit in range(50)}, {"on"})


class Labels(unittest.TestCase):
    def test_go_to_the_hosts_and_paths_of_the_cases(self):
        cases = read_cases("labels")
        for case in cases["hosts"]:
            with self.subTest(case["host"]), mock.patch.dict(os.environ, {"SVC_HOSTS": case.get("svc_hosts", "")}):
                self.assertEqual(_labels.is_labelled_host(case["host"]), case["labelled"])
        for case in cases["paths"]:
            with self.subTest(case["path"]):
                self.assertEqual(_labels.is_llm_path(case["path"]), case["labelled"])


class Events(unittest.TestCase):
    def test_are_those_of_the_cases(self):
        for case in read_cases("step-events"):
            with self.subTest(case["name"]), Service() as service:
                u = understudy_gateway.Understudy("k", service.url, **case["options"])
                self.addCleanup(u.close)
                run = u.start(**case["run"])
                for step in case["steps"]:
                    run.step(**step)
                run.finish(*([] if case["outcome"] is None else [case["outcome"]]))
                self.assertTrue(u.close(PATIENCE_S))
                got = [{"path": one.path, "body": one.body} for one in service.requests]
                self.assertEqual(got, case["requests"])
                for one in service.requests:
                    self.assertEqual((one.method, one.headers["authorization"]), ("POST", "Bearer k"))


class AgentSteps(unittest.TestCase):
    """The steps that integrations make from answers and results."""

    NAMES = ("action", "action_input", "thought", "observation", "is_error", "tokens")

    def test_are_those_of_the_cases(self):
        for case in read_cases("agent-steps"):
            with self.subTest(case["name"]), Service() as service:
                u = understudy_gateway.Understudy("k", service.url)
                self.addCleanup(u.close)
                run = u.start(run_id="r")
                steps = _agent_steps.AgentSteps.of(run)
                for event in case["events"]:
                    if "answered" in event:
                        said = event["answered"]
                        calls = [_agent_steps.AskedCall(**call) for call in said["calls"]]
                        steps.answered(said["text"], calls, said["tokens"], said["thinking"])
                    else:
                        steps.returned(_agent_steps.ToolResult(**event["returned"]))
                self.assertTrue(u.close(PATIENCE_S))
                logged = [one.body for one in service.requests if one.path.endswith("/steps")]
                self.assertEqual([{name: step[name] for name in self.NAMES} for step in logged], case["steps"])

    def test_of_late_streams_are_those_of_the_cases(self):
        for case in read_cases("late-streams"):
            with self.subTest(case["name"]), Service() as service:
                u = understudy_gateway.Understudy("k", service.url, timeout=PATIENCE_S, on_warning=lambda _: None)
                self.addCleanup(u.close, 0)
                run = u.start(run_id="r")
                steps, ends = _agent_steps.AgentSteps.of(run), []
                for event in case["events"]:
                    kind, _, text = event.partition(" ")
                    if kind == "log":
                        steps.answered(text)
                    elif kind == "begin":
                        ends.append(steps.expect_stream())
                    elif kind == "end":
                        ends.pop()()
                    else:
                        run.finish()
                self.assertTrue(u.close(PATIENCE_S))
                logged = [one.body["action_input"] for one in service.requests if one.path.endswith("/steps")]
                self.assertEqual((logged, u.stats()["steps"]["dropped"]), (case["logged"], case["lost"]))
                self.assertEqual(service.requests[-1].path, "/v1/monitor/runs/r/finish")

    def test_have_the_texts_of_the_cases(self):
        for case in read_cases("part-texts"):
            self.assertEqual(_agent_steps.text_of_parts(case["content"]), case["text"])


class RunStarts(unittest.TestCase):
    def start(self, options):
        """Starts a run with these options. Returns the body of the request that the client sends."""
        with Service() as service:
            u = understudy_gateway.Understudy("k", service.url, on_warning=lambda _: None)
            u.start(**options)
            self.assertTrue(u.close(PATIENCE_S))
            return service.requests[0].body

    def test_hold_as_much_as_in_the_cases(self):
        for case in read_cases("run-texts"):
            with self.subTest(case["field"]):
                body = self.start({"experiment_id": "e", "arm": "on", case["field"]: join(case["parts"])})
                self.assertEqual(body[case["field"]], join(case["kept"]))

    def test_hold_metadata_as_in_the_cases(self):
        for case in read_cases("run-metadata"):
            with self.subTest(case["name"]):
                if "filled" in case:
                    given = {"text": case["filled"][0] * case["filled"][1]}
                elif "nested" in case:
                    given = {}
                    for _ in range(case["nested"] - 1):
                        given = {"deep": given}
                else:
                    given = case["metadata"]
                body = self.start({"metadata": given})
                self.assertEqual(body.get("metadata"), given if case.get("kept_whole") else case["kept"])

    def test_hold_what_json_has_not_as_null_or_as_a_text(self):
        body = self.start({"metadata": {"of": [float("nan"), float("inf"), HERE]}, "task": object})
        self.assertEqual(body["metadata"], {"of": [None, None, str(HERE)]})
        self.assertEqual(body["task"], "<class 'object'>")

    def test_hold_nothing_of_what_cannot_be_written(self):
        class Hostile:
            def __str__(self):
                raise KeyError("no")

        body = self.start({"task": Hostile(), "metadata": {"of": Hostile()}})
        self.assertEqual((body["task"], body.get("metadata")), ("", None))


class Marks(unittest.TestCase):
    def test_are_sent_as_in_the_cases(self):
        for case in read_cases("run-marks"):
            warned = []
            with self.subTest(case["name"]), Service() as service:
                u = understudy_gateway.Understudy("k", service.url, timeout=PATIENCE_S, on_warning=warned.append)
                run = u.start(run_id="r")
                note = {"note": join(case["note_parts"])} if "note_parts" in case else {}
                run.mark(**case["said"], **note)
                self.assertTrue(u.close(PATIENCE_S))
                sent = [one.body for one in service.requests if one.path == "/v1/runs/r/marks"]
                kept = {"note": join(case["kept_note"])} if "kept_note" in case else {}
                self.assertEqual(sent, [] if case["body"] is None else [{**case["body"], **kept}])
                self.assertEqual([one.cause for one in warned], ["unfit_mark"] if "left_out" in case else [])
                counts = {"sent": 0, "dropped": 1} if case["body"] is None else {"sent": 1, "dropped": 0}
                self.assertEqual(u.stats()["marks"], {"said": 1, **counts})


class Retrievals(unittest.TestCase):
    def test_ask_as_in_the_cases(self):
        fields = {"situation": "s", "dead_ends": "", "unlock": "u"}
        found = {"traces": [{"tier": "e2", "pattern_id": "p", "similarity": 1, "fields": fields}]}
        for case in read_cases("retrievals"):
            with self.subTest(case["name"]), Service(lambda _: (200, found, {})) as service:
                options = {"timeout": PATIENCE_S, "live_streaming_enabled": False, **case["options"]}
                u = understudy_gateway.Understudy("k", service.url, **options)
                self.addCleanup(u.close)
                context = {"context": join(case["parts"])} if "parts" in case else {}
                text = u.start(**case["run"]).patterns(**case["wanted"], **context)
                self.assertEqual(text[:5], case["text"])
                kept = {"context": join(case["kept"])} if "kept" in case else {}
                expected = [] if case["body"] is None else [{**case["body"], **kept}]
                self.assertEqual([one.body for one in service.requests], expected)


class LiveStreams(unittest.TestCase):
    def test_are_read_as_in_the_cases(self):
        head = {"content-type": "text/event-stream; charset=utf-8"}
        end = ("the_end", "last", {})
        for case in read_cases("event-streams"):
            answers = iter([case["text"]])
            rest = "retry: 1\n\nid: last\nevent: the_end\ndata: {}\n\n"
            with self.subTest(case["name"]), Service(lambda _: (200, next(answers, rest).encode(), head)) as service:
                u = understudy_gateway.Understudy("k", service.url, timeout=PATIENCE_S)
                self.addCleanup(u.close)
                with u.subscribe() as events:
                    events._retry_s = 0
                    heard = [tuple(next(events)) for _ in range(len(case["events"]) + 1)]
                expected = [(one["kind"], one["id"], one["data"]) for one in case["events"]]
                self.assertEqual(heard, [*expected, end])
                self.assertEqual(service.requests[1].headers.get("last-event-id", ""), case["last_id"])


class Findings(unittest.TestCase):
    def call(self, findings, case):
        given = {**case, "parts": join(case["parts"])} if "parts" in case else case
        first = [given[name] for name in ("content", "finding", "parts", "paths") if name in given]
        return getattr(findings, case["call"])(*first, **case.get("options", {}))

    def test_are_asked_as_in_the_cases(self):
        for case in read_cases("findings"):
            with self.subTest(case), Service(lambda _: (200, case["answer"], {})) as service:
                u = understudy_gateway.Understudy("k", service.url)
                self.addCleanup(u.close)
                self.assertEqual(self.call(u.findings("my code/base"), case), case["result"])
                asked = [(case["method"], case["path"])] if "method" in case else []
                self.assertEqual([(one.method, one.path) for one in service.requests], asked)
                if asked:
                    more = {name: join(parts) for name, parts in case.get("body_parts", {}).items()}
                    expected = None if case["body"] is None else {**case["body"], **more}
                    self.assertEqual(service.requests[0].body, expected)

    def test_are_empty_where_the_service_refuses_fails_or_says_something_else(self):
        for status, body in ((401, {"detail": "no"}), (422, {"detail": []}), (500, {}), (200, b"<html>"), (200, [])):
            for case in read_cases("findings"):
                with self.subTest([status, case]), Service(lambda _: (status, body, {})) as service:
                    u = understudy_gateway.Understudy("k", service.url)
                    self.assertEqual(self.call(u.findings("my code/base"), case), case["failed"])

    def test_are_empty_whatever_they_are_given_and_answered(self):
        odd = {"findings": [None], "coverage": "x", "deleted": [], "cleared": 1, "finding_id": None}
        with Service(lambda _: (200, odd, {})) as service:
            findings = understudy_gateway.Understudy("k", service.url).findings("base")
            self.assertEqual((findings.coverage(["a"]), findings.invalidate(["a"]), findings.clear()), (0, 0, False))
            self.assertIsNone(findings.store("c"))

    def test_refuse_an_argument_of_a_wrong_type_by_its_name(self):
        with Service() as service:
            findings = understudy_gateway.Understudy("k", service.url).findings("base")
            for case in read_cases("finding-refusals"):
                with self.subTest(case), self.assertRaises(TypeError) as raised:
                    getattr(findings, case["call"])(case["argument"], **case.get("options", {}))
                self.assertIn(f"{case['field']} of a finding must be {case['needs']}, not ", str(raised.exception))
            self.assertEqual(service.requests, [])

    def test_need_the_name_of_a_code_base(self):
        u = understudy_gateway.Understudy("k")
        for name in ("", None, 7):
            with self.assertRaises(ValueError):
                u.findings(name)
        self.assertEqual(u.findings("base")._timeout_s, 10.0)


if __name__ == "__main__":
    unittest.main()
