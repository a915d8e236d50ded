"""The client."""

from __future__ import annotations

import functools
import json
import os
import threading
import uuid
import weakref
from typing import Any, Callable, Dict, Generic, Mapping, Optional, Sequence, Set, TypeVar

from ._caller import Caller
from ._context import held_now
from ._difficulty import score_step
from ._errors import UnderstudyError
from ._experiment import assign_arm
from ._findings import FindingsClient
from ._live_stream import Subscription
from ._log import log
from ._machine import read_routing, read_thresholds
from ._metadata import METADATA_UNITS, find_metadata_fault
from ._numbers import is_whole
from ._operations import Api
from ._options import BASE_URL, ClientWarning, TokenBudgetReached, read_base_url, read_key, read_timeout
from ._patterns import render_patterns
from ._run import BaseRun, Run, current_in_context
from ._sender import Sender
from ._texts import ID_UNITS, NAME_UNITS, bounded, well_formed
from ._version import __version__
from ._within import Within

_TASK_UNITS = 65_536
_CONTEXT_UNITS = 65_536
FLUSH_S = 10.0
_COUNTS = (
    "runs_started", "runs_finished", "steps_logged", "texts_truncated", "marks_said", "interventions_received",
    "interventions_handed_over",
)
clients: "weakref.WeakSet[ClientBase[Any]]" = weakref.WeakSet()


_Run = TypeVar("_Run", bound=BaseRun)


class ClientBase(Generic[_Run]):
    """A client of the service. `api_key` and `base_url` default to SVC_API_KEY and SVC_BASE_URL.

    Wrong options raise TypeError or ValueError here. After that only `api` and `subscribe` raise, and `findings` for a
    wrong argument.

    token_budget, on_token_budget: a soft cap on the tokens of each run, and a function that is called with a
        TokenBudgetReached once per run.
    fsm_thresholds: when the difficulty machine changes its state. model_routing: the model for each state
        (docs/difficulty.md).
    e_traces_enabled: whether patterns of earlier runs are retrieved.
    live_streaming_enabled: whether runs, steps and marks are sent.
    monitor_names: accepted, without effect.
    task_profile: the profile that scores runs.
    org_id, project_id: the tenant, for a static key.
    svc_version: the version of the agent, for experiments.
    timeout: maximum time of a call in seconds, including retries.
    max_queued_steps, max_queued_bytes: the bounds of the queue; a further step is dropped.
    on_warning: called once for each kind of problem; default: the logger `understudy_gateway`.
    """

    def __init__(
        self,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        *,
        token_budget: Optional[int] = None,
        on_token_budget: Optional[Callable[[TokenBudgetReached], object]] = None,
        fsm_thresholds: Optional[Mapping[str, float]] = None,
        model_routing: Optional[Mapping[str, str]] = None,
        e_traces_enabled: bool = True,
        monitor_names: Optional[Sequence[str]] = None,
        live_streaming_enabled: bool = True,
        task_profile: str = "coding",
        org_id: Optional[str] = None,
        project_id: Optional[str] = None,
        svc_version: str = __version__,
        timeout: float = 5.0,
        max_queued_steps: int = 10_000,
        max_queued_bytes: int = 32 * 1024 * 1024,
        on_warning: Optional[Callable[[ClientWarning], object]] = None,
    ) -> None:
        if token_budget is not None and not (is_whole(token_budget) and token_budget > 0):
            raise ValueError("token_budget must be a whole number above 0")
        for name, value in (("max_queued_steps", max_queued_steps), ("max_queued_bytes", max_queued_bytes)):
            if not (is_whole(value) and value > 0):
                raise ValueError(f"{name} must be a whole number above 0")
        for name, callback in (("on_token_budget", on_token_budget), ("on_warning", on_warning)):
            if callback is not None and not callable(callback):
                raise TypeError(f"{name} must be a function")
        self._token_budget = token_budget
        self._on_token_budget = on_token_budget
        self._thresholds = read_thresholds(fsm_thresholds)
        self._routing = read_routing(model_routing)
        self._has_patterns = bool(e_traces_enabled)
        self._is_streaming = bool(live_streaming_enabled)
        self._task_profile = task_profile
        self._svc_version = svc_version
        self._on_warning = on_warning
        self._warned: Set[str] = set()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._subscriptions: "weakref.WeakSet[Subscription]" = weakref.WeakSet()
        self._is_closed = False
        timeout_s = read_timeout(timeout)
        tenant = {name: value for name, value in (("org_id", org_id), ("project_id", project_id)) if value is not None}
        address = read_base_url(base_url or os.environ.get("SVC_BASE_URL") or BASE_URL)
        self._caller = Caller(address, read_key(api_key or os.environ.get("SVC_API_KEY")), timeout_s, tenant)
        self._sender = Sender(self._caller, timeout_s, max_queued_steps, max_queued_bytes, self._warn)
        clients.add(self)

    def run(
        self,
        task: str = "",
        run_id: Optional[str] = None,
        *,
        agent_name: str = "",
        model: str = "",
        framework: str = "",
        task_profile: Optional[str] = None,
        codebase_id: str = "",
        metadata: Optional[Mapping[str, Any]] = None,
        experiment_id: Optional[str] = None,
        assignment_unit: Optional[str] = None,
        on_share: float = 0.5,
        arm: Optional[str] = None,
        svc_version: Optional[str] = None,
    ) -> _Run:
        """Makes a run, to be used with `with`, with `async with` or as a decorator.

        The outcome of the run is `success`, or `failure: <ExceptionName>` after an exception, unless the run was ended before.

        framework: by default the one of the integration that logs the run, otherwise `custom`.
        metadata: any JSON object. A run inside another run of this client gets that run's id there, as `parent_run_id`.
        assignment_unit: what an experiment assigns to an arm; default: the run. `arm` names the arm instead.
        """
        identifier = bounded(run_id, ID_UNITS) or f"run_{uuid.uuid4()}"
        start: Dict[str, Any] = {
            "run_id": identifier,
            "agent_name": bounded(agent_name, NAME_UNITS),
            "task": bounded(task, _TASK_UNITS),
            "model": bounded(model, NAME_UNITS),
            "framework": bounded(framework, NAME_UNITS),
            "task_profile": bounded(task_profile, ID_UNITS) or self._task_profile,
            "codebase_id": bounded(codebase_id, ID_UNITS),
        }
        copy = self._copy_metadata(metadata)
        if copy is not None:
            start["metadata"] = copy
        experiment = bounded(experiment_id, ID_UNITS)
        if experiment:
            unit = bounded(assignment_unit, NAME_UNITS) or identifier
            start["experiment_id"] = experiment
            start["arm"] = arm or assign_arm(experiment, unit, on_share)
            start["assignment_unit"] = unit
            start["svc_version"] = bounded(svc_version, NAME_UNITS) or self._svc_version

        def again(calls: int) -> _Run:
            """Makes the run for the call number `calls` of a decorated function."""
            named = None if run_id is None else run_id if calls == 1 else f"{run_id}.{calls}"
            return self.run(
                task, named, agent_name=agent_name, model=model, framework=framework, task_profile=task_profile,
                codebase_id=codebase_id, metadata=metadata, experiment_id=experiment_id, assignment_unit=assignment_unit,
                on_share=on_share, arm=arm, svc_version=svc_version,
            )

        return self._make_run(start, again)

    def start(self, task: str = "", run_id: Optional[str] = None, **options: Any) -> _Run:
        """Begins a run that `finish` or `fail` ends. The run does not become the current run. `options` are those of `run`."""
        return self.run(task, run_id, **options)._begin()

    def within(self, run: _Run) -> Within:
        """`with u.within(run):` makes a run of this client current in another thread or task. It does not end the run."""
        return run._within()

    def current(self) -> Optional[_Run]:
        """Returns the innermost run of this client around the caller; None outside of its runs."""
        held = held_now(current_in_context)
        while held is not None:
            run: _Run = held.value
            if run._client is self and not held.is_left:
                return run
            held = held.outer
        return None

    def _make_run(self, start: Dict[str, Any], again: Callable[[int], _Run]) -> _Run:
        raise NotImplementedError

    def score_step(self, text: str) -> float:
        """Estimates how difficult a text is, in [0, 1]; 0.5 for a text without words."""
        return score_step(text)

    def stats(self) -> Dict[str, Any]:
        """Returns the counters of this client and the state of its circuit."""
        sender = self._sender
        with self._lock:
            counts = dict(self._counts)
        return {
            "runs": {"started": counts["runs_started"], "finished": counts["runs_finished"]},
            "steps": {
                "logged": counts["steps_logged"],
                "sent": sender.sent,
                "queued": sender.queued,
                "dropped": sender.dropped,
                "queued_bytes": sender.queued_bytes,
                "truncated": counts["texts_truncated"],
            },
            "marks": {"said": counts["marks_said"], "sent": sender.sent_marks, "dropped": sender.dropped_marks},
            "interventions": {
                "received": counts["interventions_received"],
                "handed_over": counts["interventions_handed_over"],
            },
            "requests": dict(self._caller.counts),
            "circuit": self._caller.circuit.state,
        }

    def _subscribe(self, project_id: Optional[str], last_event_id: str) -> Subscription:
        fields = {} if project_id is None else {"project_id": project_id}
        subscription = Subscription(functools.partial(self._caller.open_stream, "/v1/monitor/stream", fields), last_event_id)
        with self._lock:
            if self._is_closed:
                subscription.close()
            self._subscriptions.add(subscription)
        return subscription

    def _close(self, timeout: float) -> bool:
        is_sent = self._sender.flush(timeout, is_last=True)
        self._sender.stop()
        with self._lock:
            self._is_closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()
        self._caller.close()
        return is_sent

    def _retrieve(self, context: str, model: str, max_tokens: int, wanted: Dict[str, Any]) -> str:
        context = bounded(context, _CONTEXT_UNITS)
        if not self._has_patterns or context.strip() == "":
            return ""
        fields = {"context": context, "model": model or None, **wanted}
        try:
            return render_patterns(self._caller.call("retrieve_patterns", fields)["traces"], max_tokens)
        except UnderstudyError:
            return ""

    def _copy_metadata(self, metadata: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
        """Copies the metadata, because the agent may change its object later."""
        if metadata is None:
            return None
        try:
            text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), default=str)
            units = len(text.encode("utf-16-le", "surrogatepass")) // 2
            if units > METADATA_UNITS:
                raise ValueError(f"it has {units} characters as JSON")
            # NaN and infinities become null, as in the TypeScript client.
            copy: Dict[str, Any] = json.loads(well_formed(text), parse_constant=lambda _: None)
            fault = find_metadata_fault(copy)
            if fault is not None:
                raise ValueError(fault)
            return copy
        except Exception as thrown:
            self._warn("truncated", f"The metadata of a run was left out: {thrown}")
            return None

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _tell_budget(self, reached: TokenBudgetReached) -> None:
        if self._on_token_budget is None:
            return
        try:
            self._on_token_budget(reached)
        except Exception:
            log.debug("on_token_budget raised", exc_info=True)

    def _warn(self, cause: str, message: str) -> None:
        with self._lock:
            if cause in self._warned:
                return
            self._warned.add(cause)
        try:
            if self._on_warning is not None:
                self._on_warning(ClientWarning(cause, message))
            else:
                log.warning("%s", message)
        except Exception:
            # An error in the agent's own callback must not break the step.
            log.debug("on_warning raised", exc_info=True)


class Understudy(ClientBase[Run]):
    __doc__ = ClientBase.__doc__

    @property
    def api(self) -> Api:
        """Every operation of the v1 API, with the field names of the wire. They raise UnderstudyError."""
        return Api(self._caller)

    def findings(self, codebase_id: str, timeout: float = 10.0) -> FindingsClient:
        """Returns the findings about a code base.

        Raises ValueError for an empty `codebase_id` or an invalid `timeout`.
        """
        return FindingsClient(self._caller, codebase_id, timeout)

    def subscribe(self, project_id: Optional[str] = None, last_event_id: str = "") -> Subscription:
        """Returns the events of the organization while they happen: `for event in u.subscribe(): ...`.

        project_id: only the events of this project; default: of the client's project, if it has one.
        last_event_id: continue after this event; "0": everything that the service remembers; default: from now on.
        `live_streaming_enabled` decides only what this client sends. It has no effect here.
        """
        return self._subscribe(project_id, last_event_id)

    def flush(self, timeout: float = FLUSH_S) -> bool:
        """Waits until everything that was logged so far is sent or dropped.

        Returns False if the time ran out or the service did not answer: then the rest stays in the queue. Also returns False if
        the service refuses the key meanwhile: then the rest is dropped. Returns True even if single events were refused.
        """
        return self._sender.flush(timeout)

    def close(self, timeout: float = FLUSH_S) -> bool:
        """Flushes, ends all subscriptions, and sends nothing more: later steps are dropped. Returns the same as `flush`."""
        return self._close(timeout)

    def _make_run(self, start: Dict[str, Any], again: Callable[[int], Run]) -> Run:
        return Run(self, start, again)

    def __enter__(self) -> "Understudy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
