"""Finds the run that an integration watches, and handles data of a framework that the integration cannot read."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional, Set

from ._agent_steps import AgentSteps, WatchedRun
from ._log import log
from ._run import current_run

_warned: Set[str] = set()


def steps_around(run: Optional[WatchedRun], framework: str) -> Optional[AgentSteps]:
    """Returns the steps of the given run, or of the run around the caller, and names the run's framework.

    None: there is no such run, so nothing is watched.
    """
    watched = current_run() if run is None else run
    if watched is None:
        return None
    steps = AgentSteps.of(watched)
    steps.name_framework(framework)
    return steps


@contextlib.contextmanager
def reading(integration: str) -> Iterator[None]:
    """Suppresses exceptions in its block, so that data of unknown form never disturb the agent.

    The first exception of each integration is logged.
    """
    try:
        yield
    except Exception as thrown:
        if integration not in _warned:
            _warned.add(integration)
            log.warning("%s: a step could not be read: %r", integration, thrown, exc_info=True)
