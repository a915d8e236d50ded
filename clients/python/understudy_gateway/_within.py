"""Makes a started run the current one of a thread or task."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ._context import Held, hold, let_go
from ._labels import run_scope

if TYPE_CHECKING:
    import contextvars
    from typing import Optional

    from ._run import BaseRun


class Within:
    """`with u.within(run):` makes the run current, and labels requests with it. Leaving the block does not end the run."""

    def __init__(self, variable: "contextvars.ContextVar[Optional[Held]]", run: "BaseRun") -> None:
        self._variable = variable
        self._run = run
        self._held: List[Held] = []
        self._scope = run_scope(run.run_id)
        self._scope._owner = run

    def __enter__(self) -> "BaseRun":
        hold(self._variable, self._run, self._held, self._run)
        self._scope.__enter__()
        return self._run

    def __exit__(self, *_: object) -> None:
        self._scope.__exit__()
        let_go(self._variable, self._held, is_over=False)
