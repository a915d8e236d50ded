"""Values that are held per `contextvars` context: the current run and the current label.

A scope may be left in another context than the one that entered it.
"""

from __future__ import annotations

import contextvars
from typing import Any, List, Optional


class Held:
    """A value, and the value of the scope around it. If it has an `owner` (a run), it is valid until that run ends."""

    __slots__ = ("value", "outer", "owner", "token", "is_left")

    def __init__(self, value: Any, outer: "Optional[Held]", owner: Any) -> None:
        self.value = value
        self.outer = outer
        self.owner = owner
        self.token: Any = None
        # True: every context that still holds the value ignores it.
        self.is_left = False


def held_now(variable: "contextvars.ContextVar[Optional[Held]]") -> Optional[Held]:
    """Returns the innermost value that has not been left; None: no such value exists."""
    held = variable.get()
    while held is not None and (held.is_left or (held.owner is not None and held.owner.outcome is not None)):
        held = held.outer
    return held


def hold(variable: "contextvars.ContextVar[Optional[Held]]", value: Any, own: List[Held], owner: Any = None) -> None:
    """Makes `value` the innermost value, and adds it to `own`.

    own: what the context manager holds, in all contexts that entered it.
    """
    held = Held(value, held_now(variable), owner)
    held.token = variable.set(held)
    own.append(held)


def let_go(variable: "contextvars.ContextVar[Optional[Held]]", own: List[Held], is_over: bool) -> None:
    """Leaves the value that `hold` set. With `is_over`, contexts that were copied from this one leave it too."""
    now = variable.get()
    held = now
    while held is not None and held not in own:
        held = held.outer
    if held is None:
        held = own[-1]
    own.remove(held)
    held.is_left = is_over or held is not now
    try:
        variable.reset(held.token)
    except ValueError:
        # This is not the context that entered, for example if the event loop closes an asynchronous generator. The
        # value cannot be reset here, so every context has to skip it.
        held.is_left = True
        return
    # A value that was entered later may still be in use: a generator can be closed in the middle of another scope.
    if held is not now:
        variable.set(now)
    variable.set(held_now(variable))
