"""The API against its OpenAPI document, and a generated Python client against the API: `npm run test:openapi`.

It installs Schemathesis and openapi-python-client from PyPI into an environment for this run alone, starts the service, and lets
Schemathesis send what the document allows and what it forbids, as an API key and as a signed-in user. Then it generates a client and
logs a run with it. Where PyPI cannot be reached, the check says so and is skipped.

SECONDS (60) is the time of each of the two runs of Schemathesis, SEED makes them repeatable.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["schemathesis==4.32.5", "openapi-python-client==0.29.1"]
KEY = "key-of-the-check"
# What Schemathesis cannot know of this API (docs/api-decisions.md):
EXCLUDED = [
    # A cursor, an encoded name and a trace's steps are checked beyond what a schema can say: 422.
    "positive_data_acceptance",
    # `limit` and `offset` are held within their bounds; fields that a credential makes superfluous are not read.
    "negative_data_rejection",
    # What only operators may see is not there (404) for others, whatever they send.
    "ignored_auth",
    "missing_required_header",
    # A path like /v1/findings/{codebase_id}/recall is a finding's, too: another method finds that one.
    "unsupported_method",
    "allow_header_conformance",
]
# The first two answer 503 without Stripe's secrets. The schema of the stream is that of an event's data; Schemathesis reads it as that of
# the whole event.
LEFT_OUT = "^/billing/webhook|^/v1/monitor/stream$"


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        venv.EnvBuilder(with_pip=True).create(folder / "env")
        tools = folder / "env/bin"
        command = [tools / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES, "httpx", "attrs"]
        installed = subprocess.run(command, capture_output=True, text=True)
        if installed.returncode != 0:
            print(f"skipped: {PACKAGES} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
            return 0
        service, url = start(folder)
        try:
            document = folder / "openapi.json"
            document.write_bytes(urllib.request.urlopen(f"{url}/openapi.json").read())
            failed = False
            for who, credential in {"an API key": KEY, "a user": owner_token(folder)}.items():
                failed = not fuzz(tools, url, who, credential) or failed
            failed = not generate(tools, folder, document, url) or failed
            return 1 if failed else 0
        finally:
            service.terminate()
            service.wait(60)


def environment(folder):
    engines = {name: "embedded:" for name in ["VECTOR_STORE_URL", "AUTH_DB_URL", "AUTH_DB_CONN_URL"]}
    limits = {"RATE_LIMIT_PER_SEC": "1000000", "RATE_LIMIT_BURST": "1000000", "AUTH_FAIL_RATE_PER_SEC": "0"}
    own = {"DATA_DIR": str(folder / "data"), "SVC_KEYS": KEY, "PORT": "0", "LOG_LEVEL": "error"}
    return {"PATH": os.environ["PATH"], **engines, **limits, **own}


def start(folder):
    node = os.environ.get("npm_node_execpath", "node")
    command = [node, ROOT / "src/cli/understudy.mjs", "serve"]
    service = subprocess.Popen(command, env=environment(folder), stdout=subprocess.PIPE, text=True)
    for line in service.stdout:
        found = re.search(r"API +(http://\S+)", line)
        if found:
            return service, found[1]
    raise SystemExit("the service did not start")


def owner_token(folder):
    node = os.environ.get("npm_node_execpath", "node")
    command = [node, ROOT / "src/cli/understudy.mjs", "token", "--owner"]
    return subprocess.run(command, env=environment(folder), capture_output=True, text=True, check=True).stdout.split()[-1]


def fuzz(tools, url, who, credential):
    command = [tools / "schemathesis", "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {credential}"]
    command += ["--phases", "examples,coverage,fuzzing", "--max-time", os.environ.get("SECONDS", "60"), "--continue-on-failure"]
    command += ["--exclude-checks", ",".join(EXCLUDED), "--exclude-path-regex", LEFT_OUT, "--warnings", "off", "--no-color"]
    if "SEED" in os.environ:
        command += ["--seed", os.environ["SEED"]]
    # It keeps what it has found in the folder that it runs in.
    done = subprocess.run(command, capture_output=True, text=True, cwd=tools.parent)
    failures = re.findall(r"^_{3,} ([A-Z]+ /\S*) _+$((?:.|\n)*?)(?=^_{3,} |^={3,})", done.stdout.partition("= FAILURES =")[2], re.M)
    cases = re.search(r"(\d+) generated", done.stdout)
    print(f"{'FAILED' if failures or cases is None else 'ok'} Schemathesis as {who}: {cases[1] if cases else 0} cases")
    for operation, text in failures:
        lines = [line[:200] for line in text.strip().splitlines()]
        print("\n".join([operation, *lines[:60], ""]))
    if cases is None:
        print(done.stdout[-2000:], done.stderr[-2000:])
    return not failures and cases is not None


def generate(tools, folder, document, url):
    command = [tools / "openapi-python-client", "generate", "--path", document, "--output-path", folder / "own", "--meta", "none"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not (folder / "own/client.py").exists():
        print(f"FAILED openapi-python-client: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return False
    check = [tools / "python", ROOT / "test/openapi/use_client.py", folder, url, KEY]
    used = subprocess.run(check, capture_output=True, text=True)
    print(f"{'ok' if used.returncode == 0 else 'FAILED'} openapi-python-client: {used.stdout.strip() or used.stderr[-2000:]}")
    return used.returncode == 0


sys.exit(main())
