"""Puts texts into the service's form: bounded in UTF-16 units and well formed."""

from __future__ import annotations

import json

# The limit of each text of a step. Four such texts fit into a request of 5 MB, however they are escaped.
STEP_TEXT_UNITS = 131_072
ID_UNITS = 128
NAME_UNITS = 200


def cut_units(text: str, units: int) -> str:
    """Cuts a text to `units` UTF-16 units, in which the service and the TypeScript client count.

    It never cuts between the halves of a surrogate pair.
    """
    if 2 * len(text) <= units:
        return text
    head = text[:units]
    if head.isascii():
        return head
    encoded = head.encode("utf-16-le", "surrogatepass")
    if len(text) <= units and len(encoded) <= 2 * units:
        return text
    encoded = encoded[: 2 * units]
    if encoded[-1] & 0xFC == 0xD8:
        encoded = encoded[:-2]
    return encoded.decode("utf-16-le", "surrogatepass")


def well_formed(text: str) -> str:
    """Replaces each lone surrogate, which the service refuses, by U+FFFD."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_text(value: object) -> str:
    """Returns a text unchanged, "" for None, bytes as text, and any other value as JSON.

    Of bytes, only the first ones are converted, more than a step can hold. In the JSON, `str` converts what JSON cannot
    represent. If the value as a whole cannot be written, the result is its `str`.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: 4 * STEP_TEXT_UNITS]).decode("utf-8", "replace")
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:
        # The value cannot be written as JSON, for example because it is circular.
        return str(value)


def bounded(value: object, units: int) -> str:
    """Converts a value to a text of at most `units` UTF-16 units; "" for None, or if the value's `__str__` raises."""
    try:
        return "" if value is None else well_formed(cut_units(str(value), units))
    except Exception:
        # The value's `__str__` raises.
        return ""
