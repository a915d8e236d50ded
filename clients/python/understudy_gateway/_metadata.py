"""The bounds of a run's metadata."""

from __future__ import annotations

from typing import List, Optional, Tuple

METADATA_UNITS = 65_536
_METADATA_DEPTH = 32
_METADATA_VALUES = 10_000


def find_metadata_fault(metadata: object) -> Optional[str]:
    """Returns why the service would refuse the metadata; None: the service accepts them."""
    if not isinstance(metadata, dict):
        return "it is not an object"
    values = 0
    waiting: List[Tuple[object, int]] = [(metadata, 1)]
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if values > _METADATA_VALUES:
            return f"it has more than {_METADATA_VALUES} values"
        if not isinstance(value, (dict, list)):
            continue
        if depth > _METADATA_DEPTH:
            return f"it is nested more than {_METADATA_DEPTH} levels deep"
        if isinstance(value, dict) and "__proto__" in value:
            return "it has a key __proto__"
        waiting.extend((item, depth + 1) for item in (value.values() if isinstance(value, dict) else value))
    return None
