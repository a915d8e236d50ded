"""Logs a run with the client that openapi-python-client generated: `use_client.py FOLDER URL KEY`. The package is FOLDER/own."""
import importlib
import pathlib
import sys

folder, url, key = sys.argv[1:]
sys.path.insert(0, folder)
# Loads every module of the generated client.
for path in pathlib.Path(folder, "own").rglob("*.py"):
    importlib.import_module(".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"))

from own import AuthenticatedClient  # noqa: E402
from own.api.runs import log_step, read_run, start_run  # noqa: E402
from own.models.log_step_body import LogStepBody  # noqa: E402
from own.models.start_run_body import StartRunBody  # noqa: E402

client = AuthenticatedClient(base_url=url, token=key)
tenant = {"org_id": "acme"}
started = start_run.sync(client=client, body=StartRunBody.from_dict({"run_id": "generated", "task": "try it", **tenant}))
assert started.status == "running", started
step = LogStepBody.from_dict({"step_index": 1, "action": "run_tests", "observation": "1 failed", **tenant})
assert log_step.sync(id="generated", client=client, body=step) is not None
read = read_run.sync(id="generated", client=client, org_id="acme")
assert read.steps == 1, read
print("a run started, logged and read")
