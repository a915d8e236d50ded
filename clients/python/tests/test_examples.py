"""Runs each program of `examples/python` as a process, and checks its output and the requests to the service."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from provider import Provider
from support import HERE, PATIENCE_S, Service

EXAMPLES = HERE.parent.parent.parent / "examples/python"
# For each example: the packages that it needs, and the name of its framework.
NEEDS = {
    "anthropic_agent": (["anthropic"], "claude-messages"),
    "claude_agent": (["claude_agent_sdk"], "claude-agent-sdk"),
    "langchain_agent": (["langchain", "langchain_openai"], "langchain"),
    "litellm_agent": (["litellm"], "litellm"),
    "openai_agent": (["agents"], "openai-agents"),
}


def script(turn):
    if turn["results"]:
        return {"text": "; ".join(turn["results"])}
    # The Claude Agent SDK puts the tool server's name before the tool's name.
    name = next((name for name in ("mcp__finder__search", "search") if name in turn["all"]), "")
    return {"calls": [(name, {"query": "Ada"})]}


class Examples(unittest.TestCase):
    def check(self, name):
        packages, framework = NEEDS[name]
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
        path = EXAMPLES / f"{name}.py"
        if not path.exists():
            self.skipTest("the examples are not beside the tests")
        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        with Provider(script) as provider, Service() as service:
            env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
            env.update({
                "PYTHONPATH": str(HERE.parent), "SVC_API_KEY": "k", "SVC_BASE_URL": service.url, "NO_PROXY": "*",
                "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_AGENTS_DISABLE_TRACING": "1",
                "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider.url, "LANGSMITH_TRACING": "false",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "HOME": home,
                "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1",
            })
            ended = subprocess.run(
                [sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=PATIENCE_S
            )
            self.assertEqual((ended.returncode, ended.stdout), (0, "Nothing about Ada.\n"), ended.stderr)
        start, *rest = [one.body for one in service.requests]
        self.assertEqual((start["task"], start["framework"]), ("Find Ada", framework))
        actions = [one.get("action") for one in rest]
        self.assertEqual([action and action.rpartition("__")[2] for action in actions], ["search", "respond", None])
        self.assertEqual(rest[-1]["outcome"], "success")

    def test_of_anthropic(self):
        self.check("anthropic_agent")

    def test_of_claude_agent_sdk(self):
        self.check("claude_agent")

    def test_of_litellm(self):
        self.check("litellm_agent")

    def test_of_langchain(self):
        self.check("langchain_agent")

    def test_of_openai_agents(self):
        self.check("openai_agent")


if __name__ == "__main__":
    unittest.main()
