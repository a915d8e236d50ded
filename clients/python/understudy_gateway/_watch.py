"""Which run an integration watches, and what happens when it cannot read what a framework tells."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional, Set

from ._agent_steps import AgentSteps, WatchedRun
from ._log import log
from ._run import current_run

_warned: Set[str] = set()


def steps_around(run: Optional[WatchedRun], framework: str) -> Optional[AgentSteps]:
    """The steps of the given run, else of the run around the caller. None outside of runs: then nothing is watched."""
    watched = current_run() if run is None else run
    if watched is None:
        return None
    steps = AgentSteps.of(watched)
    steps.name_framework(framework)
    return steps


@contextlib.contextmanager
def reading(integration: str) -> Iterator[None]:
    """A shape that the integration does not know never reaches the agent. The first one of an integration is logged."""
    try:
        yield
    except Exception as thrown:
        if integration not in _warned:
            _warned.add(integration)
            log.warning("%s: a step could not be read: %r", integration, thrown, exc_info=True)
