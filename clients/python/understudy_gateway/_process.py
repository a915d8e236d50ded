"""What the client does when the process ends or forks."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time

from ._client import clients
from ._labels import labels
from ._run import open_runs
from ._sender import senders

_EXIT_FLUSH_S = 2.0


def _flush_at_exit() -> None:
    """Sends what is queued, in two seconds at most for all clients together. An uncaught exception ends open runs as failures."""
    deadline = time.monotonic() + _EXIT_FLUSH_S
    # The interpreter keeps the exception that it printed. An interactive prompt continues after an exception, so there
    # no run ends.
    uncaught = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if uncaught is not None and not hasattr(sys, "ps1"):
        for run in list(open_runs):
            run.fail(uncaught)
    for sender in list(senders):
        sender.flush(max(0.0, deadline - time.monotonic()), is_last=True)


def _forget_after_fork() -> None:
    for sender in list(senders):
        sender.forget()
        sender._caller.forget()
    for client in list(clients):
        client._lock = threading.Lock()
    # The parent ends its runs.
    open_runs.clear()
    labels.forget()


atexit.register(_flush_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
