"""Tests the package as users install it: for each case, the built wheel and real packages from PyPI in a new environment.

    python3 clients/python/tests/packages.py [case …]

A case whose packages cannot be installed is skipped, and the output names it. The last line has the numbers of cases.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
# The versions for which the tests were written. They are pinned, so that only a change of this table updates a package.
CASES = {
    "core": ([], ["test_cases", "test_runs", "test_async", "test_faults"]),
    # Another project's package, whose import name our package formerly had. Both are installed.
    "beside-understudy": (["understudy==0.6.0"], ["test_cases"]),
    "httpx": (["httpx==0.28.1", "httpx2==2.16.2"], ["test_labels"]),
    "requests": (["requests==2.34.2", "urllib3==2.8.0"], ["test_labels"]),
    "aiohttp": (["aiohttp==3.14.5"], ["test_labels"]),
    "boto3": (["boto3==1.44.8"], ["test_labels"]),
    "openai": (["openai==3.57.0"], ["test_labels"]),
    "openai-before-httpx2": (["openai==1.109.1"], ["test_labels"]),
    "anthropic": (["anthropic==2.14.0"], ["test_labels", "test_anthropic", "test_examples"]),
    "langchain": (
        ["langchain==1.5.2", "langgraph==1.2.24", "langchain-openai==1.7.4", "langchain-anthropic==1.7.10"],
        ["test_langchain", "test_langgraph", "test_examples"],
    ),
    "claude-agent-sdk": (["claude-agent-sdk==0.2.189"], ["test_claude_agent_sdk", "test_examples"]),
    "litellm": (["litellm==1.110.2"], ["test_labels", "test_litellm", "test_examples"]),
    # The oldest versions that the integrations are tested with.
    "langgraph-oldest": (["langchain-core==0.3.29", "langchain-openai==0.3.0", "langgraph==0.2.61"], ["test_langgraph"]),
    "anthropic-oldest": (["anthropic==2.0.0"], ["test_anthropic"]),
    "openai-agents-oldest": (["openai-agents==0.10.0", "openai==2.19.0"], ["test_openai_agents"]),
    "openai-agents": (["openai-agents==0.24.0"], ["test_openai_agents", "test_examples"]),
}
USER_FILE = '''
import asyncio
from understudy_gateway import AsyncUnderstudy, Understudy, current_run, install_labels, run_scope

u = Understudy("key", "http://127.0.0.1:8000", token_budget=50_000)


@u.run(task="typed")
def work(number: int) -> str:
    run = current_run()
    if run is not None:
        run.step(action="work", observation=number)
    return str(number)


with u.run(task="t") as run:
    text: str = run.patterns() + work(1)
    said = run.intervention()
    if said is not None:
        text += said.text
    for finding in u.findings("base").recall("q"):
        print(finding["content"])
with run_scope("nightly"):
    names: list[str] = install_labels()


async def main() -> str:
    async with AsyncUnderstudy("key") as client, client.run(task="t") as own:
        answer = await client.api.read_trace(trace_id="t")
        return await own.patterns() + str(answer["status"])


asyncio.run(main())
'''


class CannotInstall(Exception):
    pass


def make_environment(folder, *requirements):
    """Makes a new environment with the requirements. Returns its interpreter."""
    venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if requirements:
        installed = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        if installed.returncode != 0:
            last = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
            raise CannotInstall(last[-1] if last else "pip failed")
    return python


def run(*command, cwd=None, env=None):
    return subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)


def check(finished):
    if finished.returncode != 0:
        raise AssertionError(f"{finished.stdout}\n{finished.stderr}".strip())
    return finished.stdout


def size_of(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def build(folder):
    """Builds the wheel and the sdist twice without a network, and checks that both builds have the same bytes."""
    python = make_environment(folder / "builder", "build==1.3.0", "hatchling==1.27.0")
    digests = []
    for name in ("first", "second"):
        source = folder / name / "source"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        # The proxy's port is closed, so the build fails if it fetches anything.
        offline = {**os.environ, "PIP_NO_INDEX": "1", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
        out = folder / name / "out"
        check(run(python, "-m", "build", "--no-isolation", "--outdir", out, source, env=offline))
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())})
    assert digests[0] == digests[1], digests
    assert len(digests[0]) == 2, digests
    return next((folder / "second/out").glob("*.whl"))


def check_types(folder, wheel):
    """Checks that a user's file passes mypy --strict and pyright, which read the types of the installed package."""
    python = make_environment(folder / "types", wheel, "mypy==2.4.1", "pyright==1.1.414")
    user = folder / "user.py"
    user.write_text(USER_FILE, "utf-8")
    check(run(python, "-m", "mypy", "--strict", user, cwd=folder))
    strict = folder / "pyrightconfig.json"
    strict.write_text('{"typeCheckingMode": "strict", "include": ["user.py"]}', "utf-8")
    check(run(python, "-m", "pyright", "--pythonpath", python, cwd=folder))


def check_case(folder, wheel, name):
    requirements, modules = CASES[name]
    began = time.monotonic()
    python = make_environment(folder / name, wheel, *requirements)
    seconds = time.monotonic() - began
    site = next((folder / name).rglob("site-packages"))
    own = size_of(site / "understudy_gateway")
    print(f"{name}: installed in {seconds:.0f} s, {size_of(site):.0f} MB with pip, of which ours {own:.2f} MB", flush=True)
    # The tests run in a copy of their folder, so that they import the installed package and not the sources.
    place = folder / "copy"
    if not place.exists():
        shutil.copytree(HERE, place / "python/tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(PACKAGE.parent / "cases", place / "cases")
        shutil.copytree(PACKAGE.parent.parent / "examples/python", folder / "examples/python")
    for module in modules:
        finished = run(python, "-m", "unittest", "-v", module, cwd=place / "python/tests")
        check(finished)
        reasons = {line.partition(" ... skipped ")[2] for line in finished.stderr.splitlines()} - {""}
        for reason in sorted(reasons):
            print(f"  {module}: some tests are skipped, {reason}", flush=True)


def main(wanted):
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def attempt(name, work):
        if wanted and name not in wanted and name != "build":
            return None
        try:
            result = work()
        except CannotInstall as thrown:
            counts["skipped"] += 1
            print(f"{name}: skipped, {thrown}", flush=True)
            return None
        except AssertionError as thrown:
            counts["failed"] += 1
            print(f"{name}: failed\n{thrown}", flush=True)
            return None
        counts["passed"] += 1
        print(f"{name}: passed", flush=True)
        return result

    with tempfile.TemporaryDirectory(prefix="understudy-packages-") as temporary:
        folder = Path(temporary)
        wheel = attempt("build", lambda: build(folder))
        if wheel is not None:
            attempt("types", lambda: check_types(folder, wheel))
            for name in CASES:
                attempt(name, lambda name=name: check_case(folder, wheel, name))
                shutil.rmtree(folder / name, ignore_errors=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return 1 if counts["failed"] or counts["passed"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
