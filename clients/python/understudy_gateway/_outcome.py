"""Outcomes of runs."""

from __future__ import annotations

from typing import Union

from ._texts import bounded

_OUTCOME_UNITS = 200


def name_outcome(outcome: object) -> str:
    """Cuts an outcome to the service's limit; `success` for an empty text, or a value that is not a text."""
    text = bounded(outcome, _OUTCOME_UNITS) if isinstance(outcome, str) else ""
    return text or "success"


def name_failure(thrown: Union[BaseException, type]) -> str:
    """Returns the outcome of a run that ended with this exception: `failure: <ExceptionName>`."""
    name = getattr(thrown if isinstance(thrown, type) else type(thrown), "__name__", "Exception")
    return bounded(f"failure: {name}", _OUTCOME_UNITS)
