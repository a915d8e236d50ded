"""The operations of the v1 API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Tuple

if TYPE_CHECKING:
    from ._caller import Caller

# For each operation: method, path, and whether the client may repeat a request whose answer it did not get. The client
# may not if a repeat would change or count something again, or could get 404.
OPERATIONS: Dict[str, Tuple[str, str, bool]] = {
    "health": ("GET", "/health", True),
    "retrieve_patterns": ("POST", "/v1/traces/retrieve", False),
    "list_patterns": ("GET", "/v1/patterns", True),
    "read_pattern": ("GET", "/v1/patterns/{pattern_id}", True),
    "delete_pattern": ("DELETE", "/v1/patterns/{pattern_id}", False),
    "import_patterns": ("POST", "/v1/patterns", False),
    "start_run": ("POST", "/v1/monitor/runs", True),
    "log_step": ("POST", "/v1/monitor/runs/{id}/steps", True),
    "finish_run": ("POST", "/v1/monitor/runs/{id}/finish", True),
    "stream_ticket": ("POST", "/v1/monitor/stream/tickets", True),
    "list_runs": ("GET", "/v1/monitor/runs", True),
    "list_run_values": ("GET", "/v1/monitor/run-values", True),
    "read_run": ("GET", "/v1/monitor/runs/{id}", True),
    "list_run_steps": ("GET", "/v1/monitor/runs/{id}/steps", True),
    "read_run_marks": ("GET", "/v1/runs/{id}/marks", True),
    "mark_run": ("POST", "/v1/runs/{id}/marks", True),
    "clear_run_marks": ("DELETE", "/v1/runs/{id}/marks", True),
    # A repeat could delete a run that was started in between, or get 404.
    "delete_run": ("DELETE", "/v1/monitor/runs/{id}", False),
    "evaluate": ("POST", "/v1/monitors/evaluate", False),
    "submit_trace": ("POST", "/v1/traces", True),
    "list_traces": ("GET", "/v1/traces", True),
    "read_trace": ("GET", "/v1/traces/{trace_id}", True),
    "delete_trace": ("DELETE", "/v1/traces/{trace_id}", False),
    "list_profiles": ("GET", "/v1/monitor/profiles", True),
    "put_profile": ("POST", "/v1/monitor/profiles", True),
    "delete_profile": ("DELETE", "/v1/monitor/profiles/{name}", False),
    "list_experiments": ("GET", "/v1/monitor/experiments", True),
    "report_experiment": ("GET", "/v1/monitor/experiments/{experiment_id}/report", True),
    "store_finding": ("POST", "/v1/findings/{codebase_id}", True),
    "list_codebases": ("GET", "/v1/findings", True),
    "read_finding": ("GET", "/v1/findings/{codebase_id}/{finding_id}", True),
    "delete_finding": ("DELETE", "/v1/findings/{codebase_id}/{finding_id}", False),
    "list_findings": ("GET", "/v1/findings/{codebase_id}", True),
    "recall_findings": ("POST", "/v1/findings/{codebase_id}/recall", True),
    "invalidate_findings": ("POST", "/v1/findings/{codebase_id}/invalidate", True),
    "findings_coverage": ("POST", "/v1/findings/{codebase_id}/coverage", True),
    "clear_findings": ("DELETE", "/v1/findings/{codebase_id}", True),
}


class Api:
    """Every operation of the v1 API as a function, with the field names of the wire: `u.api.read_trace(trace_id="t1")`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Callable[..., Dict[str, Any]]:
        if name not in OPERATIONS:
            raise AttributeError(f"unknown operation {name}; the operations are {', '.join(OPERATIONS)}")

        def call(**fields: Any) -> Dict[str, Any]:
            return self._caller.call(name, fields)

        call.__name__ = name
        return call

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *OPERATIONS]
