"""Checks deploy/kubernetes and the chart in deploy/helm: `python3 test/deploy/manifests.py` (npm run test:deploy).

It makes a new environment for this run, and installs Helm as a library (helm-python-sdk) and Kubernetes' own schemas
(kubernetes-validate) from PyPI. Helm lints the chart and renders it with several values. Then every document is
validated strictly against the schemas. If PyPI cannot be reached, the check says so and is skipped.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["helm-python-sdk==0.2.2", "kubernetes-validate==1.37.0"]
VERSION = "1.33"
VALUES = {
    "defaults": {},
    "by digest, with TLS": {
        "image": {"digest": "sha256:" + "0" * 64},
        "tlsSecret": "understudy-tls",
        "envFromSecrets": ["understudy", "prices"],
        "storage": {"className": "fast", "size": "100Gi"},
    },
    "without a policy, over a claim that exists": {
        "networkPolicy": {"enabled": False},
        "storage": {"existingClaim": "mine"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
RENDER = """
import json, sys
import helm_python as helm
chart_path, values = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps({"rendered": helm.Chart.load(chart_path).render(values, name="demo", namespace="agents"), "lint": helm.lint(chart_path)}, default=str))
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        venv.EnvBuilder(with_pip=True).create(folder / "env")
        python = folder / "env/bin/python"
        installed = subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], capture_output=True, text=True
        )
        if installed.returncode != 0:
            print(f"skipped: {PACKAGES} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
            return 0
        failed = False
        for file in sorted((ROOT / "deploy/kubernetes").glob("*.yaml")):
            failed = not validate(python, file, f"deploy/kubernetes/{file.name}") or failed
        chart = ROOT / "deploy/helm/understudy"
        for name, values in VALUES.items():
            done = subprocess.run([python, "-c", RENDER, chart, json.dumps(values)], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"FAILED helm, {name}: {done.stderr.strip().splitlines()[-1]}")
                failed = True
                continue
            answer = json.loads(done.stdout)
            # Severity 1 is information.
            troubles = [note["error"] for note in answer["lint"]["messages"] if note["severity"] > 1]
            if troubles:
                print(f"FAILED helm lint: {troubles}")
                failed = True
            file = folder / "rendered.yaml"
            file.write_text(join(answer["rendered"]))
            failed = not validate(python, file, f"deploy/helm, {name}") or failed
        return 1 if failed else 0


def join(rendered):
    """What Helm rendered, by template, as one text of documents."""
    return "\n---\n".join(text for text in rendered.values() if text.strip())


def validate(python, file, name):
    command = [python.parent / "kubernetes-validate", "--strict", "-k", VERSION, file]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).strip().splitlines()
    passed = sum(" passed for " in line for line in lines)
    ok = done.returncode == 0 and passed >= 3
    print(f"{'ok' if ok else 'FAILED'} {name}: {passed} documents valid for Kubernetes {VERSION}")
    if not ok:
        print("\n".join(lines))
    return ok


sys.exit(main())
