"""Labels of requests: which run a request belongs to, its number, and where labels may go (docs/label.md)."""

from __future__ import annotations

import collections
import contextvars
import heapq
import ipaddress
import os
import re
import threading
from typing import Any, List, Optional, Tuple

from ._context import Held, held_now, hold, let_go
from ._log import log
from ._texts import ID_UNITS

_LABELLED_RUNS_MAX = 10_000
# Paths of model calls. A request's path must end with one of them, because a base address may have a path. Deeper paths
# are other calls. Only the verbs of Gemini may have something behind them.
_LLM_PATH = re.compile(
    r"/v1/(?:messages|chat/completions|responses|complete)/?$|(?::|%3[aA])(?:generate|streamGenerate)Content"
    r"|/model/.+/(?:converse|converse-stream|invoke|invoke-with-response-stream)$"
)
# Loopback, private and link-local addresses, and the address that means "this machine".
_OWN_NETWORKS = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/32", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "::/127", "fc00::/7", "fe80::/10",
    )
]
# A resolver reads a name of digits as an address, which may be on any network.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def _normalize_host(host: str) -> str:
    name = host.lower()
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return name[:-1] if name.endswith(".") else name


def is_labelled_host(host: str) -> bool:
    """Whether requests to the host get labels.

    True for loopback, private and link-local addresses, names of one label, names in `.local`, `.internal` and `.localhost`,
    and the names in SVC_HOSTS.
    """
    name = _normalize_host(host)
    listed = re.split(r"[\s,]+", os.environ.get("SVC_HOSTS", ""))
    if name == "" or name in (_normalize_host(re.sub(r"^(\[.*\]|[^:]+):\d+$", r"\1", listed_name)) for listed_name in listed):
        return name != ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        is_single = re.search(r"[.:]", name) is None and _NUMBER.fullmatch(name) is None
        return is_single or name.endswith((".local", ".internal", ".localhost"))
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in _OWN_NETWORKS if network.version == plain.version)


def is_llm_path(target: str) -> bool:
    """Whether the path of a request is one of a model call. The query is ignored."""
    return _LLM_PATH.search(target.partition("?")[0]) is not None


class _Labels:
    """Numbers the requests of each run from 1. The process has one such object.

    A number that was given back is used again. With more than `_LABELLED_RUNS_MAX` runs, the run whose last request is the
    oldest is forgotten, and its numbers begin again.
    """

    def __init__(self) -> None:
        self.forget()
        self.transports: List[str] = []
        # SVC_RUN: the run of requests outside of all scopes.
        self.run: Optional[str] = None

    def forget(self) -> None:
        self._lock = threading.Lock()
        # The last number of each run, and the numbers that were given back.
        self._runs: "collections.OrderedDict[str, Tuple[List[int], List[int]]]" = collections.OrderedDict()

    def take(self, name: str) -> int:
        """Returns the number of the run's next request."""
        with self._lock:
            last, free = self._runs.setdefault(name, ([0], []))
            self._runs.move_to_end(name)
            if len(self._runs) > _LABELLED_RUNS_MAX:
                self._runs.popitem(last=False)
            if free:
                return heapq.heappop(free)
            last[0] += 1
            return last[0]

    def give_back(self, name: str, number: int) -> None:
        """Takes back the number of a request that was never sent, so that the next request gets it."""
        with self._lock:
            if name in self._runs:
                heapq.heappush(self._runs[name][1], number)


labels = _Labels()
label_in_context: "contextvars.ContextVar[Optional[Held]]" = contextvars.ContextVar("understudy_label", default=None)
RUN, SEQ = "x-svc-run", "x-svc-seq"


def is_label(name: object) -> bool:
    """Whether the value is a label: 1 to `ID_UNITS` printable characters, without white space at its ends."""
    return isinstance(name, str) and 0 < len(name) <= ID_UNITS and name.isprintable() and name == name.strip()


class run_scope:
    """Labels the requests to models that are made in its block: `with run_scope("name"): ...`.

    The labels need a call of `install_labels()`. A block of `Understudy.run` is a scope with the run's id. A later scope with the
    same name continues the numbers.
    """

    def __init__(self, name: str) -> None:
        if not is_label(name):
            log.debug("Requests of a run are not labelled: a label is 1 to %d printable characters", ID_UNITS)
        self._name = name if is_label(name) else None
        self._held: List[Held] = []
        # The run to which the scope belongs. After the run has ended, the scope labels no more requests.
        self._owner: Any = None

    def __enter__(self) -> "run_scope":
        hold(label_in_context, self._name, self._held, self._owner)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(is_over=False)

    def _leave(self, is_over: bool) -> None:
        let_go(label_in_context, self._held, is_over)


def label_now() -> Optional[str]:
    """Returns the label for requests of this context; None: no label."""
    held = held_now(label_in_context)
    return (None if held is None else held.value) or labels.run
