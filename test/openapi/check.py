"""The API against its OpenAPI document, and a generated Python client against the API: `npm run test:openapi`.

It installs Schemathesis and openapi-python-client from PyPI into a new environment and starts the service. Schemathesis
sends allowed and forbidden requests, with a static key and as a signed-in user. schemathesis.toml has what Schemathesis
cannot know. Then the check generates a client and logs a run with it. If PyPI cannot be reached, the check says so and
is skipped.

EXAMPLES (20) is the number of random requests per operation, in addition to the bounds of each field. SEED makes them
repeatable.
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
            token = owner_token(folder)
            for who, credential, org in [("a static key", KEY, "default"), ("a user", token, own_organization(url, token))]:
                failed = not fuzz(tools, url, who, credential, org) or failed
            failed = not generate(tools, folder, document, url) or failed
            return 1 if failed else 0
        finally:
            service.terminate()
            service.wait(60)


def environment(folder):
    engines = {name: "embedded:" for name in ["VECTOR_STORE_URL", "AUTH_DB_URL", "AUTH_DB_CONN_URL"]}
    limits = {"RATE_LIMIT_PER_SEC": "1000000", "RATE_LIMIT_BURST": "1000000", "AUTH_FAIL_RATE_PER_SEC": "0"}
    limits |= {"STRIPE_WEBHOOK_SECRET": "whsec_check", "STRIPE_WEBHOOK_THIN_SECRET": "whsec_check"}
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


def own_organization(url, token):
    request = urllib.request.Request(f"{url}/organizations/", headers={"Authorization": f"Bearer {token}"})
    return json.load(urllib.request.urlopen(request))[0]["id"]


def fuzz(tools, url, who, credential, org):
    folder = pathlib.Path(__file__).parent
    command = [tools / "schemathesis", "--config-file", folder / "schemathesis.toml", "run", f"{url}/openapi.json"]
    command += ["-H", f"Authorization: Bearer {credential}", "--phases", "examples,coverage,fuzzing", "--continue-on-failure"]
    command += ["--max-examples", os.environ.get("EXAMPLES", "20"), "--warnings", "off", "--no-color"]
    if "SEED" in os.environ:
        command += ["--seed", os.environ["SEED"]]
    # Schemathesis keeps its findings in its working folder.
    settings = os.environ | {"ORG": org, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tools.parent, env=settings)
    cases = re.search(r"(\d+) generated", done.stdout)
    passed = done.returncode == 0 and cases is not None
    print(f"{'ok' if passed else 'FAILED'} Schemathesis as {who}: {cases[1] if cases else 0} cases")
    if not passed:
        told = done.stdout.partition("\n====")[2] or done.stdout
        print("\n".join(line[:200] for line in told.splitlines()[:400]), done.stderr[-2000:])
    return passed


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
