"""The client's options: how they are checked, and what their callbacks get."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from ._numbers import is_number

BASE_URL = "http://127.0.0.1:8000"
_TIMEOUT_S_MAX = 600.0


def read_key(key: object) -> str:
    """Checks the key and returns it without white space around it. Raises TypeError or ValueError, which never contain the key.

    The key is sent in a header, so it must be printable ASCII.
    """
    if not isinstance(key, str) or key.strip() == "":
        raise TypeError("api_key is required, as an option or in the variable SVC_API_KEY")
    if re.fullmatch(r"[\x21-\x7e]+", key.strip()) is None:
        raise ValueError("api_key must be printable ASCII characters")
    return key.strip()


def read_base_url(text: object) -> str:
    """Returns the address. Raises ValueError for anything but an http or https address without credentials and query."""
    try:
        parts = urlsplit(text) if isinstance(text, str) else urlsplit("")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_good = is_good and "@" not in parts.netloc and parts.query == ""
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError("base_url must be an http or https address without credentials and query")
    return str(text)


def read_timeout(seconds: object) -> float:
    """Returns the number of seconds. Raises ValueError for anything but a number above 0 and at most 600."""
    if not (is_number(seconds) and 0 < seconds <= _TIMEOUT_S_MAX):  # type: ignore[operator]
        raise ValueError(f"timeout must be a number of seconds above 0, at most {_TIMEOUT_S_MAX:g}")
    return float(seconds)  # type: ignore[arg-type]


class TokenBudgetReached(NamedTuple):
    """The argument of `on_token_budget`, which is called once per run."""

    budget: int
    spent: int
    """Tokens of the run so far, the step that reached the budget included."""


class ClientWarning(NamedTuple):
    """A problem that the program should know about. Each cause is reported once."""

    cause: str
    """Stable: `queue_full`, `refused`, `failed`, `unauthorized`, `closed`, `truncated`, `unknown_field`, `unfit_mark`."""
    message: str
