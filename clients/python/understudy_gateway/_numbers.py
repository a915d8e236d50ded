"""Decides what counts as a number in an option. `True` and NaN do not count."""

from __future__ import annotations

import math


def is_number(value: object) -> bool:
    return is_whole(value) or (isinstance(value, float) and not math.isnan(value))


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
