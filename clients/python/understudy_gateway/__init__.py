"""Understudy's client for Python: only the standard library, Python 3.9 and later.

    from understudy_gateway import Understudy

    u = Understudy(api_key="svc_live_...", base_url="http://127.0.0.1:8000")
    with u.run(task="fix the date parser", codebase_id="my-code-base") as run:
        system = "You fix bugs.\\n\\n" + run.patterns()    # what earlier runs learned; "" if there is nothing
        run.step(action="run_tests", action_input="npm test", observation="1 failed")   # returns at once
        said = run.intervention()                          # a message for the agent, or None
        state = run.difficulty("Hmm, not sure why").state  # FAST, SLOW or SKIP

The client watches an agent from inside its process and never gets in its way. Background threads send runs and steps in
order, from a bounded queue. Calls that need an answer wait for one timeout at most. Only wrong options and arguments
raise, and `api` and `subscribe` if the service fails. The outcome of a run that ends normally is `success`. After an
exception it is `failure: <ExceptionName>`, and the exception is raised again.

`install_labels()` adds the run's name and a sequence number to requests to models through a local gateway.

Every function may be called from any thread. The current run follows `await` and new tasks. New threads start without
it; `contextvars.copy_context().run(...)` passes it on. The rules are those of the TypeScript client, and both run the
cases in `clients/cases`.
"""

from . import _process  # noqa: F401 - registers what happens at exit and after a fork
from ._async_client import AsyncUnderstudy
from ._async_findings import AsyncFindingsClient
from ._async_live_stream import AsyncSubscription
from ._async_run import AsyncRun
from ._client import Understudy
from ._difficulty import score_step
from ._errors import (
    ApiError,
    AuthenticationError,
    CircuitOpenError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    ServiceConnectionError,
    ServiceTimeoutError,
    UnderstudyError,
    UnexpectedAnswerError,
    ValidationError,
)
from ._experiment import assign_arm
from ._findings import FindingsClient
from ._labelled_transports import install_labels, installed_transports
from ._labels import run_scope
from ._live_stream import LiveEvent, Subscription
from ._machine import FAST, SKIP, SLOW, Difficulty, DifficultyMachine
from ._options import ClientWarning, TokenBudgetReached
from ._patterns import estimate_tokens, render_patterns
from ._run import BaseRun, Intervention, Run, current_run
from ._version import __version__

__all__ = [
    "FAST",
    "SKIP",
    "SLOW",
    "ApiError",
    "AsyncFindingsClient",
    "AsyncRun",
    "AsyncSubscription",
    "AsyncUnderstudy",
    "AuthenticationError",
    "BaseRun",
    "CircuitOpenError",
    "ClientWarning",
    "ConflictError",
    "Difficulty",
    "DifficultyMachine",
    "FindingsClient",
    "Intervention",
    "LiveEvent",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "Run",
    "ServerError",
    "ServiceConnectionError",
    "ServiceTimeoutError",
    "Subscription",
    "TokenBudgetReached",
    "Understudy",
    "UnderstudyError",
    "UnexpectedAnswerError",
    "ValidationError",
    "__version__",
    "assign_arm",
    "current_run",
    "estimate_tokens",
    "install_labels",
    "installed_transports",
    "render_patterns",
    "run_scope",
    "score_step",
]
