"""The difficulty machine: the state of a run, from the scores of its last steps (docs/difficulty.md)."""

from __future__ import annotations

import collections
from typing import Dict, Mapping, NamedTuple, Optional

from ._numbers import is_number, is_whole

FAST, SLOW, SKIP = "FAST", "SLOW", "SKIP"
_DEFAULT_THRESHOLDS: Dict[str, float] = {
    "fast_threshold": 0.15,
    "slow_threshold": 0.3,
    "skip_threshold": 0.06,
    "hysteresis_margin": 0.05,
    "fast_window": 3,
    "slow_window": 2,
    "skip_window": 4,
}
_WINDOW_MAX = 1_000
# Means over different windows differ by rounding; a smaller difference counts as equal.
_EQUAL = 1e-9


def read_thresholds(given: Optional[Mapping[str, float]]) -> Dict[str, float]:
    """Returns the thresholds: the given ones, and defaults for the others.

    Raises ValueError for an unknown key, an invalid value, or thresholds in a wrong order.
    """
    read = dict(_DEFAULT_THRESHOLDS)
    for key, value in (given or {}).items():
        if key not in read:
            raise ValueError(f"fsm_thresholds[{key!r}] is unknown; known are {', '.join(read)}")
        if key.endswith("_window"):
            if not (is_whole(value) and 1 <= value <= _WINDOW_MAX):
                raise ValueError(f"fsm_thresholds[{key!r}] must be a whole number from 1 to {_WINDOW_MAX}")
        elif not (is_number(value) and 0 <= value <= 1):
            raise ValueError(f"fsm_thresholds[{key!r}] must be a number from 0 to 1")
        read[key] = value
    if not read["skip_threshold"] <= read["fast_threshold"] <= read["slow_threshold"]:
        order = f"{read['skip_threshold']}, {read['fast_threshold']}, {read['slow_threshold']}"
        raise ValueError(
            f"fsm_thresholds must increase in the order skip_threshold, fast_threshold, slow_threshold; they are {order}"
        )
    return read


class DifficultyMachine:
    """The difficulty state of one run, decided by the scores of its last steps. docs/difficulty.md has the rules."""

    def __init__(self, thresholds: Optional[Mapping[str, float]] = None) -> None:
        self._thresholds = read_thresholds(thresholds)
        remembered = max(int(self._thresholds[f"{name}_window"]) for name in ("fast", "slow", "skip"))
        self._scores: "collections.deque[float]" = collections.deque(maxlen=remembered)
        self.state = FAST

    def observe(self, score: Optional[float]) -> str:
        """Adds the score of the last step and returns the new state.

        score: in [0, 1]. Other numbers are clamped. NaN and values that are not numbers are ignored.
        """
        if is_number(score):
            self._scores.append(min(1.0, max(0.0, score)))  # type: ignore[type-var,arg-type]
            self.state = self._next_state()
        return self.state

    def _next_state(self) -> str:
        limits = self._thresholds
        slow = self._mean_of_last("slow_window")
        if slow is not None and slow >= limits["slow_threshold"] - _EQUAL:
            return SLOW
        if self.state == FAST:
            skip = self._mean_of_last("skip_window")
            return SKIP if skip is not None and skip <= limits["skip_threshold"] + _EQUAL else FAST
        fast = self._mean_of_last("fast_window")
        if fast is None:
            return self.state
        margin = limits["hysteresis_margin"]
        if self.state == SKIP:
            return FAST if fast > limits["skip_threshold"] + margin + _EQUAL else SKIP
        is_easy = fast <= limits["fast_threshold"] + _EQUAL and fast < limits["slow_threshold"] - margin - _EQUAL
        return FAST if is_easy else SLOW

    def _mean_of_last(self, name: str) -> Optional[float]:
        window = int(self._thresholds[name])
        if len(self._scores) < window:
            return None
        # A plain loop, because `sum` of newer versions rounds differently from the TypeScript client.
        total = 0.0
        for index in range(len(self._scores) - window, len(self._scores)):
            total += self._scores[index]
        return total / window


class Difficulty(NamedTuple):
    """The estimated difficulty of a text, and the state of the run after it."""

    score: float
    state: str
    model: Optional[str]
    """The model that `model_routing` names for the state; None: the agent's own model."""


def read_routing(given: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Checks and copies the routing.

    Raises ValueError for an unknown state, or for a model that is not a non-empty text; the message names the state.
    """
    for state, model in (given or {}).items():
        if state not in (FAST, SLOW, SKIP):
            raise ValueError(f"model_routing[{state!r}] is unknown; known are FAST, SLOW, SKIP")
        if not isinstance(model, str) or model == "":
            raise ValueError(f"model_routing[{state!r}] must be the name of a model")
    return dict(given or {})
