"""Understudy's client for Python: one file, the standard library, Python 3.9 and later.

    from understudy import Understudy

    u = Understudy(api_key="svc_live_...", base_url="http://127.0.0.1:8000")
    with u.run(task="fix the date parser", codebase_id="my-code-base") as run:
        system = "You fix bugs.\\n\\n" + run.patterns()    # what earlier runs learned; "" when there is nothing
        run.step(action="run_tests", action_input="npm test", observation="1 failed")   # returns at once
        said = run.intervention()                          # what the agent should be told now, or None
        state = run.difficulty("Hmm, not sure why").state  # FAST, SLOW or SKIP

It watches an agent from inside its process and is never in its way. Runs and steps go out on background threads, bounded and in
order; what the agent asks for waits at most for one timeout; nothing but wrong options raises. A clean end of a run is `success`,
an exception `failure: <ExceptionName>`; the exception then goes on.

`install_labels()` puts the run's name and a sequence number on requests to models that go through a local gateway.

Functions may be called from any thread. A run is ambient through `await` and for new tasks; threads of one's own start without it
(`contextvars.copy_context().run(...)` hands it on). The rules are those of the TypeScript client, and one set of cases
(`clients/cases`) holds both to them.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import contextvars
import functools
import hashlib
import heapq
import http.client
import io
import ipaddress
import json
import logging
import math
import os
import queue
import random
import re
import socket
import sys
import threading
import time
import uuid
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

__version__ = "0.2.0"

__all__ = [
    "ApiError", "AuthenticationError", "CircuitOpenError", "ClientWarning", "ConflictError", "Difficulty", "DifficultyMachine",
    "FindingsClient", "Intervention", "LiveEvent", "NotFoundError", "PermissionDeniedError", "RateLimitError", "Run",
    "ServerError", "ServiceConnectionError", "ServiceTimeoutError", "Subscription", "TokenBudgetReached", "Understudy", "UnderstudyError",
    "UnexpectedAnswerError", "ValidationError", "assign_arm", "current_run", "estimate_tokens", "install_labels",
    "installed_transports", "render_patterns", "run_scope", "score_step",
]

_log = logging.getLogger("understudy")

# --- Difficulty: the score of a step (document 2, Difficulty score; docs/difficulty.md) ---------------------------------------

_WORDS_MAX = 500
_ENTITIES_MAX = 10
# A frequency of one word in so many counts in full.
_WORDS_A_HIT = 20
# Judged by its beginning: the score is asked for on the agent's own path.
_JUDGED_CHARACTERS = 32_768

# White space as both languages name it, written out: `\s` of one is not that of the other.
_WORD = re.compile("[^\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")

# The letters that a word may begin with stand before the words: most positions are done with by that.
_HEDGE = re.compile(
    r"\b(?=[acdhimnoprsuw])(?:maybe|perhaps|possibly|probably|presumably|supposedly|apparently|might|unsure|uncertain|unclear|unlikely"
    r"|not[ \t\r\n]+(?:sure|certain|clear)"
    "|(?:do[ \t\r\n]+not|don['\u2019]t)[ \t\r\n]+know|no[ \t\r\n]+idea"
    r"|i[ \t\r\n]+(?:guess|suspect|wonder|assume|doubt)|confused|confusing|puzzled|puzzling|wondering"
    r"|hm{2,}|reconsider(?:s|ed|ing)?|rethink(?:ing)?|second[ \t\r\n]+thoughts?|alternatively"
    r"|on[ \t\r\n]+the[ \t\r\n]+other[ \t\r\n]+hand)\b",
    re.IGNORECASE | re.ASCII,
)

# `TypeError` and `java.io.IOException` are such words, too.
_ERROR_WORD = re.compile(
    r"(?:error|exception)s?\b|\b(?=[tfpcadrsnuib])(?:tracebacks?|fail(?:s|ed|ing|ures?)?|fatal|panic(?:s|ked)?"
    r"|crash(?:es|ed|ing)?|abort(?:s|ed)?|timeouts?|timed[ \t\r\n]+out|denied|refused|segfaults?"
    r"|not[ \t\r\n]+found|unable[ \t\r\n]+to|invalid|unexpected(?:ly)?|broken)\b",
    re.IGNORECASE | re.ASCII,
)

_PART = r"[A-Za-z0-9_.@+-]+"
_ENTITY = re.compile(
    "|".join([
        r'"[^"\n]{1,200}"',
        r"`[^`\n]{1,200}`",
        "\u201c[^\u201d\\n]{1,200}\u201d",
        r"(?<![A-Za-z0-9_])'[^'\n]{1,200}'(?![A-Za-z0-9_])",
        rf"(?<![A-Za-z0-9_.~/\\@+-])(?:~|\.{{1,2}}|[A-Za-z]:)?(?:[/\\]{_PART})+",
        rf"(?<![A-Za-z0-9_.@+-]){_PART}(?:[/\\]{_PART}){{2,}}",
        rf"(?<![A-Za-z0-9_.@+-]){_PART}[/\\][A-Za-z0-9_@+-]*\.[A-Za-z0-9_.@+-]*[A-Za-z0-9_]",
        r"(?<![A-Za-z0-9_.])(?!(?:e\.g|i\.e)(?![A-Za-z0-9_]))[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+",
    ])
)


def score_step(text: str) -> float:
    """How difficult a text looks, in [0, 1]; 0.5 where there is nothing to judge. Never raises."""
    signals = _measure_signals(text)
    if signals is None:
        return 0.5
    hedging, length, error_language, entities = signals
    raw = 0.3 * hedging + 0.25 * length + 0.25 * error_language + 0.2 * entities
    return 1 / (1 + math.exp(-6 * (raw - 0.5)))


def _measure_signals(text: object) -> Optional[Tuple[float, float, float, float]]:
    """Hedging, length, error language and entities, each in [0, 1]; None for a text without a word."""
    if not isinstance(text, str):
        return None
    judged = text[:_JUDGED_CHARACTERS]
    words = _count_matches(_WORD, judged)
    if words == 0:
        return None
    entities = 0
    for _ in _ENTITY.finditer(judged):
        entities += 1
        if entities == _ENTITIES_MAX:
            break
    return (
        min(1.0, _count_matches(_HEDGE, judged) * _WORDS_A_HIT / words),
        min(words, _WORDS_MAX) / _WORDS_MAX,
        min(1.0, _count_matches(_ERROR_WORD, judged) * _WORDS_A_HIT / words),
        entities / _ENTITIES_MAX,
    )


def _count_matches(pattern: "re.Pattern[str]", text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


# --- Difficulty: the machine, the models of its states, the budget -------------------------------------------------------------

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
# Means of equal numbers over different windows differ by their rounding: closer than this is equal.
_EQUAL = 1e-9


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and not math.isnan(value))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_thresholds(given: Optional[Mapping[str, float]]) -> Dict[str, float]:
    """What differs from the defaults, checked; ValueError names the key."""
    read = dict(_DEFAULT_THRESHOLDS)
    for key, value in (given or {}).items():
        if key not in read:
            raise ValueError(f"fsm_thresholds[{key!r}] is unknown; there are {', '.join(read)}")
        if key.endswith("_window"):
            if not (_is_whole(value) and 1 <= value <= _WINDOW_MAX):
                raise ValueError(f"fsm_thresholds[{key!r}] must be a whole number from 1 to {_WINDOW_MAX}")
        elif not (_is_number(value) and 0 <= value <= 1):
            raise ValueError(f"fsm_thresholds[{key!r}] must be a number from 0 to 1")
        read[key] = value
    if not read["skip_threshold"] <= read["fast_threshold"] <= read["slow_threshold"]:
        raise ValueError("fsm_thresholds must rise from skip_threshold over fast_threshold to slow_threshold")
    return read


class DifficultyMachine:
    """How hard the last steps looked decides what the next one is for; the rules are in docs/difficulty.md. One a run."""

    def __init__(self, thresholds: Optional[Mapping[str, float]] = None) -> None:
        self._thresholds = _read_thresholds(thresholds)
        remembered = max(int(self._thresholds[f"{name}_window"]) for name in ("fast", "slow", "skip"))
        self._scores: "collections.deque[float]" = collections.deque(maxlen=remembered)
        self.state = FAST

    def observe(self, score: Optional[float]) -> str:
        """Takes the score of the step that was just made; returns the state from now on, which changes at most once."""
        if _is_number(score):
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
        # Added up one by one from the oldest, as the other language does: sum() of some versions rounds otherwise.
        total = 0.0
        for index in range(len(self._scores) - window, len(self._scores)):
            total += self._scores[index]
        return total / window


class Difficulty(NamedTuple):
    """How hard the next step looks."""

    score: float
    state: str
    model: Optional[str]
    """What `model_routing` has for the state; None: the agent's own."""


def _read_routing(given: Optional[Mapping[str, str]]) -> Dict[str, str]:
    for state, model in (given or {}).items():
        if state not in (FAST, SLOW, SKIP):
            raise ValueError(f"model_routing[{state!r}] is unknown; there are FAST, SLOW, SKIP")
        if not isinstance(model, str) or model == "":
            raise ValueError(f"model_routing[{state!r}] must be the name of a model")
    return dict(given or {})


class TokenBudgetReached(NamedTuple):
    """What `on_token_budget` is told, once a run."""

    budget: int
    spent: int
    """Tokens of the run so far, the step that reached the budget included."""


# --- Texts ---------------------------------------------------------------------------------------------------------------------

# Of each text of a step: the four then fit into a request's 5 MB however they have to be escaped.
_STEP_TEXT_UNITS = 131_072
_STEP_BYTES = 500
_TOKENS_MAX = 100_000_000
_OUTCOME_UNITS = 200
_NAME_UNITS = 200
_TASK_UNITS = 65_536
_ID_UNITS = 128
_METADATA_UNITS = 65_536
_CONTEXT_UNITS = 65_536
_METADATA_DEPTH = 32
_METADATA_VALUES = 10_000


def _cut_units(text: str, units: int) -> str:
    """The first so many UTF-16 units, which the service and the TypeScript client count; no half pair at the end."""
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


def _well_formed(text: str) -> str:
    """Without half surrogate pairs, which the service refuses."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _to_text(value: object) -> str:
    """Texts as they are; anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: 4 * _STEP_TEXT_UNITS]).decode("utf-8", "replace")
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception:
        # In a circle, say.
        return str(value)


def _bounded(value: object, units: int) -> str:
    try:
        return "" if value is None else _well_formed(_cut_units(str(value), units))
    except Exception:
        # An object that cannot be written as a text.
        return ""


def _find_metadata_fault(metadata: object) -> Optional[str]:
    """Why the service would refuse a run for its metadata; None: it takes them."""
    if not isinstance(metadata, dict):
        return "it is no object"
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


def _name_outcome(outcome: object) -> str:
    text = _bounded(outcome, _OUTCOME_UNITS) if isinstance(outcome, str) else ""
    return text or "success"


def _name_failure(thrown: Union[BaseException, type]) -> str:
    """`failure: <ExceptionName>`."""
    name = getattr(thrown if isinstance(thrown, type) else type(thrown), "__name__", "Exception")
    return _bounded(f"failure: {name}", _OUTCOME_UNITS)


def assign_arm(experiment_id: str, unit: str, on_share: float = 0.5) -> str:
    """`on` or `off`, the same for the same unit on every machine and in both languages.

    The first 32 bits of SHA-256 over the experiment, a zero byte and the unit, as a share of 2**32: `on` where it is below.
    """
    digest = hashlib.sha256(_well_formed(f"{experiment_id}\0{unit}").encode("utf-8")).digest()
    return "on" if int.from_bytes(digest[:4], "big") / 2**32 < on_share else "off"


# --- Patterns as a text --------------------------------------------------------------------------------------------------------

_PATTERN_TOKENS = 1_000
_PATTERNS_HEAD = (
    "Notes from earlier runs in situations like this one. They are experience, not instructions: use what fits the task."
)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather more than fewer: a token stands for three bytes of UTF-8 at least."""
    return -(-len(_well_formed(text).encode("utf-8")) // 3)


def render_patterns(patterns: Sequence[Mapping[str, Any]], max_tokens: int = _PATTERN_TOKENS) -> str:
    """Whole patterns for a system prompt, best first, as many as fit; "" when there is none."""
    text = _PATTERNS_HEAD
    count = 0
    for pattern in patterns:
        longer = f"{text}\n\n{count + 1}. {_render_pattern(pattern['fields'])}"
        if estimate_tokens(longer) > max_tokens:
            continue
        text = longer
        count += 1
    return "" if count == 0 else text


def _render_pattern(fields: Mapping[str, str]) -> str:
    parts = [f"Situation: {fields['situation']}"]
    if fields["dead_ends"] != "":
        parts.append(f"What did not help: {fields['dead_ends']}")
    if fields["unlock"] != "":
        parts.append(f"What helped: {fields['unlock']}")
    return "\n   ".join(re.sub(r"\n\s*", "\n   ", part.strip()) for part in parts)


# --- What a call can end with --------------------------------------------------------------------------------------------------


class UnderstudyError(Exception):
    """Anything that went wrong between this client and the service."""

    retryable = False


class ServiceConnectionError(UnderstudyError):
    """No connection, or one that broke before the answer was whole."""

    retryable = True

    def __init__(self, message: str, unsent: bool) -> None:
        super().__init__(message)
        self.unsent = unsent
        """Nothing of the request can have arrived: sending it again repeats nothing."""


class ServiceTimeoutError(UnderstudyError):
    """No answer within the time that the call had, retries included."""

    retryable = True


class CircuitOpenError(UnderstudyError):
    """Nothing was sent: the service did not answer lately, and the client waits before it asks again."""

    retryable = True


class UnexpectedAnswerError(UnderstudyError):
    """A success that is no answer of this API: something else listens there."""


class ApiError(UnderstudyError):
    """An answer that is no success."""

    def __init__(self, status: int, detail: object, retry_after: Optional[float], request_id: Optional[str]) -> None:
        self.status = status
        faults = detail if isinstance(detail, list) else []
        self.violations: List[Dict[str, Any]] = [one for one in faults if isinstance(one, dict)]
        """What is wrong, field by field; empty unless the status is 422."""
        self.retry_after = retry_after
        """Seconds after which to try again, where the service says so."""
        self.request_id = request_id
        """Names the request in the service's log."""
        words = "; ".join(f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" for one in self.violations)
        super().__init__(detail if isinstance(detail, str) else words or f"HTTP {status}")
        self.retryable = status == 429 or status >= 500


class AuthenticationError(ApiError):
    """401: the key is missing, unknown or revoked."""


class PermissionDeniedError(ApiError):
    """403: the key is good, and may not do this."""


class NotFoundError(ApiError):
    """404: there is no such thing, or it is somebody else's."""


class ConflictError(ApiError):
    """409: it conflicts with what is there."""


class ValidationError(ApiError):
    """422: a field is not what it must be."""


class RateLimitError(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the service failed."""


_ERRORS = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: ValidationError,
    429: RateLimitError,
}


# --- One request, over connections of its own ----------------------------------------------------------------------------------

_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 65_536
_CONNECTIONS_KEPT = 8
# Sooner than the service ends an idle connection (10 s), so that no request meets its end.
_IDLE_CONNECTION_S = 5.0


class _Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: Optional[float]
    request_id: Optional[str]


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a moment, however slowly the bytes drip."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(_left_of(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineSocket:
    """What `http.client` wants of a socket that it reads an answer from."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._parts = (sock, deadline)

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(*self._parts))


def _left_of(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _begin_answer(deadline: float, sock: socket.socket, *arguments: Any, **options: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_DeadlineSocket(sock, deadline), *arguments, **options)  # type: ignore[arg-type]


class _Transport:
    def __init__(self, base_url: str, headers: Dict[str, str]) -> None:
        parts = urlsplit(base_url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._is_https = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._headers = headers
        self.forget()

    def forget(self) -> None:
        """Begins anew, in a process that was forked: the connections are the parent's."""
        self._lock = threading.Lock()
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []

    def send(self, method: str, target: str, body: Optional[bytes], timeout_s: float) -> _Answer:
        """Raises ServiceConnectionError, ServiceTimeoutError, UnexpectedAnswerError. Redirects are not followed."""
        deadline = time.monotonic() + timeout_s
        connection = self._take()
        is_connected = connection.sock is not None
        try:
            connection.timeout = timeout_s
            if not is_connected:
                connection.connect()
                is_connected = True
            connection.sock.settimeout(_left_of(deadline))
            connection.response_class = functools.partial(_begin_answer, deadline)  # type: ignore[assignment]
            connection.request(method, target, body=body, headers=self._headers)
            with connection.getresponse() as response:
                answer = _to_answer(response)
                is_open = not response.will_close
        except UnderstudyError:
            connection.close()
            raise
        except socket.timeout:
            connection.close()
            raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as thrown:
            connection.close()
            words = str(thrown) or type(thrown).__name__
            raise ServiceConnectionError(f"Cannot reach {self.origin}: {words}", not is_connected) from thrown
        except BaseException:
            connection.close()
            raise
        if is_open:
            self._put_back(connection)
        else:
            connection.close()
        return answer

    def open(self, target: str, headers: Dict[str, str], timeout_s: float) -> "_Stream":
        """An answer that is read as it comes. Raises ServiceConnectionError, ServiceTimeoutError."""
        connection = self._connect()
        connection.timeout = timeout_s
        try:
            connection.connect()
            # An answer that says `connection: close` takes it from the connection.
            sock = connection.sock
            connection.request("GET", target, headers={**self._headers, **headers})
            response = connection.getresponse()
            sock.settimeout(_SILENCE_S)
        except socket.timeout:
            connection.close()
            raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as thrown:
            connection.close()
            words = str(thrown) or type(thrown).__name__
            raise ServiceConnectionError(f"Cannot reach {self.origin}: {words}", False) from thrown
        except BaseException:
            connection.close()
            raise
        return _Stream(connection, sock, response)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def __del__(self) -> None:
        for connection, _ in self._idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        now = time.monotonic()
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if now - since < _IDLE_CONNECTION_S:
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        if self._is_https:
            return http.client.HTTPSConnection(self._host, self._port)
        return http.client.HTTPConnection(self._host, self._port)

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _CONNECTIONS_KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def _to_answer(response: http.client.HTTPResponse) -> _Answer:
    return _Answer(
        response.status,
        _read_whole(response),
        _read_seconds(response.headers.get("retry-after")),
        response.headers.get("x-request-id"),
    )


def _read_whole(response: http.client.HTTPResponse) -> bytes:
    parts: List[bytes] = []
    size = 0
    while True:
        part = response.read(_READ_BYTES)
        if not part:
            break
        size += len(part)
        if size > _ANSWER_BYTES_MAX:
            raise UnexpectedAnswerError(f"The answer is longer than {_ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _read_seconds(value: Optional[str]) -> Optional[float]:
    try:
        seconds = float(value) if value else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


class _Circuit:
    """Whether it makes sense to ask the service now; the states are those of the TypeScript client's circuit."""

    _FAILURES_MAX = 5
    _COOL_DOWN_S = 1.0
    _COOL_DOWN_MAX_S = 30.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state = "closed"
        self._failures = 0
        self._cool_down_s = self._COOL_DOWN_S
        self._opens_until = 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until a request may try; 0: now."""
        return max(0.0, self._opens_until - time.monotonic()) if self.state == "open" else 0.0

    def admit(self) -> bool:
        """Asks to send a request. Who gets True reports what came of it."""
        with self._lock:
            if self.state == "closed":
                return True
            if self.state == "half-open" or self.wait_s > 0:
                return False
            self.state = "half-open"
            return True

    def hurry(self) -> None:
        """The next request may try, however short ago the last one failed."""
        with self._lock:
            self._opens_until = 0.0

    def note_answer(self) -> None:
        with self._lock:
            self.state = "closed"
            self._failures = 0
            self._cool_down_s = self._COOL_DOWN_S

    def note_server_error(self) -> None:
        with self._lock:
            self._failures += 1
            if self.state == "half-open" or self._failures >= self._FAILURES_MAX:
                self._open()

    def note_silence(self) -> None:
        with self._lock:
            self._open()

    def note_nothing(self) -> None:
        """The request was given up: nothing is known of the service."""
        with self._lock:
            if self.state == "half-open":
                self.state = "open"

    def _open(self) -> None:
        # Of several requests under way when it fell silent, the first opens the circuit and the others change nothing.
        if self.state == "open":
            return
        if self.state == "half-open":
            self._cool_down_s = min(2 * self._cool_down_s, self._COOL_DOWN_MAX_S)
        self.state = "open"
        self._failures = 0
        self._opens_until = time.monotonic() + self._cool_down_s


# --- The live stream -----------------------------------------------------------------------------------------------------------

# The service says something every 15 s: a connection that says nothing for so long is dead.
_SILENCE_S = 45.0
# Unless the service says how long.
_RETRY_S = 3.0
_RETRY_MAX_S = 30.0
_EVENT_BYTES_MAX = 1_048_576


class LiveEvent(NamedTuple):
    """One event of the live stream."""

    kind: str
    """`run_start`, `step`, `run_finish`, `intervention`, `pattern_created`, `retrieval_capped`; `reset`: some are lost."""
    id: str
    """What `last_event_id` takes."""
    data: Dict[str, Any]
    """In the words of the wire."""


class _Stream(NamedTuple):
    """An answer that is read as it comes."""

    connection: http.client.HTTPConnection
    sock: socket.socket
    response: http.client.HTTPResponse

    def wake(self) -> None:
        """Ends what another thread waits for."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It is not connected any more.
            pass

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class Subscription:
    """`for event in u.subscribe(): ...`: what happens in the organization, as it happens. It waits for the next event.

    A connection that ends is opened again and goes on behind the last event. `close`, of any thread, and leaving a `with` end it.
    It raises UnderstudyError where the service refuses (401, 403, 422), has no stream (503) or something else answers.
    """

    def __init__(self, open_stream: Callable[[str], _Stream], last_event_id: str) -> None:
        self.last_event_id = last_event_id
        """What to go on from: of the last event, or what the stream began with."""
        self._open = open_stream
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._stream: Optional[_Stream] = None
        self._is_reading = False
        self._is_first = True
        self._failures = 0
        self._retry_s = _RETRY_S

    def __iter__(self) -> "Subscription":
        return self

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __next__(self) -> LiveEvent:
        with self._lock:
            self._is_reading = True
        try:
            while not self._is_closed.is_set():
                event = self._advance()
                if event is not None:
                    return event
            raise StopIteration
        except BaseException:
            self._is_closed.set()
            raise
        finally:
            with self._lock:
                self._is_reading = False
            if self._is_closed.is_set():
                self._leave()

    def close(self) -> None:
        """Ends the iteration, also one that waits in another thread. Never raises."""
        self._is_closed.set()
        with self._lock:
            stream, is_reading = self._stream, self._is_reading
        if stream is not None and is_reading:
            stream.wake()
        elif stream is not None:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _advance(self) -> Optional[LiveEvent]:
        """One block of lines, or one attempt to come (again); None: that was no event."""
        try:
            if self._stream is None:
                stream = self._open(self.last_event_id)
                with self._lock:
                    self._stream = stream
                if self._is_closed.is_set():
                    return None
            self._is_first = False
            event = self._read_event(self._stream.response)
            self._failures = 0
            return event
        except EOFError:
            wait_s = self._retry_s
        except (UnderstudyError, OSError, http.client.HTTPException) as thrown:
            if self._is_closed.is_set():
                return None
            if not _may_come_again(thrown, self._is_first):
                raise
            self._is_first = False
            self._failures += 1
            wait_s = min(max(self._retry_s, _back_off_s(self._failures, thrown)), _RETRY_MAX_S)
        self._leave()
        # All readers of a service that was started anew should not come at once.
        self._is_closed.wait(wait_s * random.uniform(0.75, 1.25))
        return None

    def _read_event(self, response: http.client.HTTPResponse) -> Optional[LiveEvent]:
        """The next block of lines; None: it is no event. Raises EOFError where the stream ends."""
        fields: Dict[str, str] = {"id": self.last_event_id}
        data: List[str] = []
        size = 0
        while True:
            line = response.readline(_EVENT_BYTES_MAX + 1)
            size += len(line)
            if size > _EVENT_BYTES_MAX:
                raise UnexpectedAnswerError(f"An event of the stream is longer than {_EVENT_BYTES_MAX} bytes")
            if not line.endswith(b"\n"):
                raise EOFError
            text = line[:-1].decode("utf-8", "replace")
            text = text[:-1] if text.endswith("\r") else text
            if text == "":
                break
            name, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                data.append(value)
            elif name == "retry" and re.fullmatch("[0-9]{1,9}", value):
                self._retry_s = min(int(value) / 1_000, _RETRY_MAX_S)
            elif name != "id" or "\0" not in value:
                fields[name] = value
        # Not before: an event that breaks off is sent again.
        self.last_event_id = fields["id"]
        try:
            value = json.loads("\n".join(data))
        except (ValueError, RecursionError):
            return None
        # What is no event of ours harms itself alone.
        return LiveEvent(fields.get("event", ""), self.last_event_id, value) if isinstance(value, dict) else None


def _may_come_again(thrown: BaseException, is_first: bool) -> bool:
    if isinstance(thrown, ApiError):
        return thrown.retryable and not (is_first and thrown.status == 503)
    return not isinstance(thrown, UnderstudyError) or thrown.retryable


# --- The v1 API ----------------------------------------------------------------------------------------------------------------

# Name: method, path, and whether the same request sent again changes nothing and counts nothing.
_OPERATIONS: Dict[str, Tuple[str, str, bool]] = {
    "health": ("GET", "/health", True),
    "retrieve_patterns": ("POST", "/v1/traces/retrieve", False),
    "list_patterns": ("GET", "/v1/patterns", True),
    "read_pattern": ("GET", "/v1/patterns/{pattern_id}", True),
    "delete_pattern": ("DELETE", "/v1/patterns/{pattern_id}", False),
    "import_patterns": ("POST", "/v1/patterns", False),
    "start_run": ("POST", "/v1/monitor/runs", True),
    "log_step": ("POST", "/v1/monitor/runs/{id}/steps", True),
    "finish_run": ("POST", "/v1/monitor/runs/{id}/finish", True),
    "stream_ticket": ("POST", "/v1/monitor/stream/tickets", True),
    "list_runs": ("GET", "/v1/monitor/runs", True),
    "read_run": ("GET", "/v1/monitor/runs/{id}", True),
    "list_run_steps": ("GET", "/v1/monitor/runs/{id}/steps", True),
    # Sent again it would delete a run that was begun anew in between, or answer that there is none.
    "delete_run": ("DELETE", "/v1/monitor/runs/{id}", False),
    "evaluate": ("POST", "/v1/monitors/evaluate", False),
    "submit_trace": ("POST", "/v1/traces", True),
    "list_traces": ("GET", "/v1/traces", True),
    "read_trace": ("GET", "/v1/traces/{trace_id}", True),
    "delete_trace": ("DELETE", "/v1/traces/{trace_id}", False),
    "list_profiles": ("GET", "/v1/monitor/profiles", True),
    "put_profile": ("POST", "/v1/monitor/profiles", True),
    "delete_profile": ("DELETE", "/v1/monitor/profiles/{name}", False),
    "list_experiments": ("GET", "/v1/monitor/experiments", True),
    "report_experiment": ("GET", "/v1/monitor/experiments/{experiment_id}/report", True),
    "store_finding": ("POST", "/v1/findings/{codebase_id}", True),
    "list_codebases": ("GET", "/v1/findings", True),
    "read_finding": ("GET", "/v1/findings/{codebase_id}/{finding_id}", True),
    "delete_finding": ("DELETE", "/v1/findings/{codebase_id}/{finding_id}", False),
    "list_findings": ("GET", "/v1/findings/{codebase_id}", True),
    "recall_findings": ("POST", "/v1/findings/{codebase_id}/recall", True),
    "invalidate_findings": ("POST", "/v1/findings/{codebase_id}/invalidate", True),
    "findings_coverage": ("POST", "/v1/findings/{codebase_id}/coverage", True),
    "clear_findings": ("DELETE", "/v1/findings/{codebase_id}", True),
}

_ATTEMPTS = 3
_BACK_OFF_S = 0.1
_BACK_OFF_MAX_S = 2.0
# What a thread that asks for somebody may be late beyond its timeout.
_GRACE_S = 0.25


def _back_off_s(attempt: int, thrown: BaseException) -> float:
    """Twice as long each time, with jitter; never sooner than the service says."""
    own = min(_BACK_OFF_S * 2 ** (attempt - 1), _BACK_OFF_MAX_S) * random.uniform(0.5, 1)
    return max(own, getattr(thrown, "retry_after", None) or 0.0)


def _may_repeat(thrown: UnderstudyError, is_repeatable: bool) -> bool:
    if isinstance(thrown, ServiceConnectionError):
        # Where nobody listens, nobody should be asked at once again.
        return is_repeatable and not thrown.unsent
    if isinstance(thrown, ApiError) and thrown.retryable:
        # A 429 was refused before it did anything.
        return is_repeatable or thrown.status == 429
    return False


class _Caller:
    """The connection that all parts of a client share, with its circuit."""

    def __init__(self, base_url: str, api_key: str, timeout_s: float, tenant: Dict[str, str]) -> None:
        self._timeout_s = timeout_s
        self._tenant = tenant
        self._prefix = urlsplit(base_url).path.rstrip("/")
        self._transport = _Transport(base_url, {
            "accept": "application/json",
            "content-type": "application/json",
            "authorization": f"Bearer {api_key}",
            "user-agent": f"understudy-python/{__version__}",
        })
        self.counts = {"sent": 0, "repeated": 0, "failed": 0}
        self.forget()

    def forget(self) -> None:
        self._transport.forget()
        self._lock = threading.Lock()
        self.circuit = _Circuit()

    def close(self) -> None:
        self._transport.close()

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def open_stream(self, path: str, fields: Mapping[str, Any], last_event_id: str) -> _Stream:
        """A stream of events, over a connection of its own and outside of the circuit. Raises UnderstudyError."""
        target, _ = self._render("GET", path, fields)
        headers = {"accept": "text/event-stream", "cache-control": "no-cache"}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        stream = self._transport.open(target, headers, self._timeout_s)
        response = stream.response
        try:
            if response.status != 200:
                _read_answer(_to_answer(response))
                raise UnexpectedAnswerError(f"HTTP {response.status} where a stream of events was asked for")
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise UnexpectedAnswerError("What answers is no stream of events")
        except (OSError, http.client.HTTPException) as thrown:
            stream.close()
            raise ServiceConnectionError(f"The answer broke: {thrown!r}", False) from thrown
        except BaseException:
            stream.close()
            raise
        return stream

    def call(
        self,
        name: str,
        fields: Mapping[str, Any],
        timeout_s: Optional[float] = None,
        attempts: int = _ATTEMPTS,
        is_background: bool = False,
    ) -> Dict[str, Any]:
        """Fields of the path, the query and the body, in the words of the wire. Raises UnderstudyError."""
        method, path, is_repeatable = _OPERATIONS[name]
        target, body = self._render(method, path, fields)
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        attempt = 1
        while True:
            left_s = max(0.001, deadline - time.monotonic())
            try:
                return _read_answer(self._ask(method, target, body, left_s, is_background))
            except UnderstudyError as thrown:
                self._count("failed")
                if attempt >= attempts or not _may_repeat(thrown, is_repeatable):
                    raise
                wait_s = _back_off_s(attempt, thrown)
                # What would come too late is not waited for.
                if time.monotonic() + wait_s >= deadline:
                    raise
            time.sleep(wait_s)
            attempt += 1
            self._count("repeated")

    def _ask(self, method: str, target: str, body: Optional[bytes], timeout_s: float, is_background: bool) -> _Answer:
        circuit = self.circuit
        if not circuit.admit():
            raise CircuitOpenError(f"{self._transport.origin} did not answer lately; it is not asked for the time being")
        self._count("sent")
        send = functools.partial(self._transport.send, method, target, body, timeout_s)
        try:
            answer = send() if is_background else _call_within(timeout_s + _GRACE_S, send)
        except (ServiceTimeoutError, ServiceConnectionError, UnexpectedAnswerError) as thrown:
            if isinstance(thrown, ServiceTimeoutError) or getattr(thrown, "unsent", False):
                circuit.note_silence()
            else:
                circuit.note_server_error()
            raise
        except BaseException:
            circuit.note_nothing()
            raise
        if answer.status >= 500:
            circuit.note_server_error()
        else:
            circuit.note_answer()
        return answer

    def _render(self, method: str, path: str, fields: Mapping[str, Any]) -> Tuple[str, Optional[bytes]]:
        """The tenant goes into the body where there is one, as static keys want it."""
        rest = {**self._tenant, **{name: value for name, value in fields.items() if value is not None}}
        for name in re.findall(r"\{(\w+)\}", path):
            path = path.replace(f"{{{name}}}", quote(_well_formed(str(rest.pop(name))), safe=""))
        if method == "POST":
            return self._prefix + path, _encode(rest)
        query = urlencode({name: _query_text(value) for name, value in rest.items()})
        return f"{self._prefix}{path}?{query}" if query else self._prefix + path, None


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _well_formed(str(value))


def _encode(body: object) -> bytes:
    return _well_formed(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str)).encode("utf-8")


def _call_within(timeout_s: float, work: Callable[[], _Answer]) -> _Answer:
    """On a thread of its own: looking up a name, say, knows no timeout."""
    box: "queue.SimpleQueue[Tuple[Optional[_Answer], Optional[BaseException]]]" = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((work(), None))
        except BaseException as thrown:
            box.put((None, thrown))

    try:
        threading.Thread(target=run, name="understudy-call", daemon=True).start()
    except RuntimeError:
        # The interpreter is ending, or the process has as many threads as it may.
        return work()
    try:
        answer, thrown = box.get(timeout=timeout_s)
    except queue.Empty:
        raise ServiceTimeoutError(f"No answer within {timeout_s:g} s") from None
    if thrown is not None:
        raise thrown
    assert answer is not None
    return answer


def _read_answer(answer: _Answer) -> Dict[str, Any]:
    if answer.status == 204:
        return {}
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        # A proxy on the way may answer in its own words, and nobody promises how deep they are nested.
        value = None
    if 200 <= answer.status < 300:
        if isinstance(value, dict):
            return value
        raise UnexpectedAnswerError(f"HTTP {answer.status} without a JSON object: this is no answer of the API")
    detail = value.get("detail") if isinstance(value, dict) else None
    error = _ERRORS.get(answer.status, ServerError if answer.status >= 500 else ApiError)
    raise error(answer.status, detail, answer.retry_after, answer.request_id)


class _Api:
    """Every operation of the v1 API as a function, in the words of the wire: `u.api.read_trace(trace_id="t1")`."""

    def __init__(self, caller: _Caller) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Callable[..., Dict[str, Any]]:
        if name not in _OPERATIONS:
            raise AttributeError(f"there is no operation {name}; there are {', '.join(_OPERATIONS)}")

        def call(**fields: Any) -> Dict[str, Any]:
            return self._caller.call(name, fields)

        call.__name__ = name
        return call

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *_OPERATIONS]


# --- Runs on their way to the service ------------------------------------------------------------------------------------------

# Threads that send; a run's events are always sent one after the other.
_SENDERS = 8
# Events that a run sends in its turn, where others wait for theirs.
_TURN_EVENTS = 32
# Runs that have something to send at once; one more is not sent.
_LANES_MAX = 1_000
# How long a sending thread without work stays.
_IDLE_SENDER_S = 10.0
# Attempts at an event that the service fails at, before it is dropped.
_EVENT_ATTEMPTS = 5
_INTERVENTIONS_MAX = 16
# How soon it is looked again whether somebody else's probe has closed the circuit.
_PROBE_WAIT_S = 0.1
# However long the service asks for.
_PAUSE_MAX_S = 60.0


class _Lane:
    """What one run has for the service, in order: `run_start`, its steps, `run_finish`. Under the sender's lock."""

    def __init__(self, start: Dict[str, Any], advise: Optional[Callable[[Dict[str, Any]], None]]) -> None:
        self.start = start
        self.advise = advise
        self.steps: "collections.deque[Tuple[Dict[str, Any], int]]" = collections.deque()
        self.outcome: Optional[str] = None
        # `waiting`: the service does not know the run yet. `lost`: nothing of the run is sent any more.
        self.state = "waiting"
        self.is_busy = False
        self.attempts = 0
        # Events that were put in, and those that are done with: sent or dropped.
        self.accepted = 1
        self.settled = 0
        self._is_restarted = False

    @property
    def run_id(self) -> str:
        return self.start["run_id"]

    def next(self) -> Optional[Tuple[str, Dict[str, Any]]]:
        if self.state == "waiting":
            return "run_start", self.start
        if self.state != "started":
            return None
        if self.steps:
            return "step", {"id": self.run_id, **self.steps[0][0]}
        return None if self.outcome is None else ("run_finish", {"id": self.run_id, "outcome": self.outcome})

    def settle(self, kind: str) -> int:
        """The event that `next` gave is done with. Returns the bytes that it took."""
        self.attempts = 0
        # The second start of a run was counted with the first.
        if kind != "run_start" or not self._is_restarted:
            self.settled += 1
        if kind == "step":
            return self.steps.popleft()[1]
        self.state = "started" if kind == "run_start" else "finished"
        return 0

    def restart(self) -> bool:
        """Whether the run should be started once more, which is so the first time."""
        if self._is_restarted:
            return False
        self._is_restarted = True
        self.state = "waiting"
        return True


class _Sender:
    """Takes what runs have to the service: each run's events in order, several runs at once, bounded in number and bytes.

    The agent's own calls only put something into a lane. What cannot be sent is dropped, counted and told once.
    """

    def __init__(
        self, caller: _Caller, timeout_s: float, steps_max: int, bytes_max: int, warn: Callable[[str, str], None]
    ) -> None:
        self._caller = caller
        self._timeout_s = timeout_s
        self._steps_max = steps_max
        self._bytes_max = bytes_max
        self._warn = warn
        self.sent = 0
        self.dropped = 0
        self.forget()
        _senders.add(self)

    def forget(self) -> None:
        """Begins anew, in a process that was forked: what waits is the parent's to send."""
        for lane in getattr(self, "_ready", ()):
            lane.steps.clear()
            lane.settled = lane.accepted
            lane.is_busy = False
        self._lock = threading.Lock()
        # There may be something to send; something was sent or dropped.
        self._wanted = threading.Condition(self._lock)
        self._settled = threading.Condition(self._lock)
        self._ready: "collections.OrderedDict[_Lane, None]" = collections.OrderedDict()
        self._threads = 0
        self._idle = 0
        self._stopped_by: Optional[str] = None
        self._not_before = 0.0
        # Grows when the service turns out not to be there: who waits for a flush need not wait on.
        self._silences = 0
        self._told: Optional[Tuple[str, str]] = None
        self.queued = 0
        self.queued_bytes = 0

    def open(self, lane: _Lane) -> None:
        with self._lock:
            if self._stopped_by is None and len(self._ready) < _LANES_MAX:
                self._enqueue(lane)
            else:
                self._lose(lane, self._stopped_by or "queue_full")
                if self._stopped_by is None:
                    self._told = "queue_full", f"The service does not keep up: runs are dropped while {_LANES_MAX} wait"
        self._tell()

    def push(self, lane: _Lane, step: Dict[str, Any], size: int) -> None:
        with self._lock:
            is_room = self.queued < self._steps_max and self.queued_bytes + size <= self._bytes_max
            if not is_room or self._stopped_by is not None or lane.state == "lost":
                self._drop(1, self._stopped_by or ("refused" if lane.state == "lost" else "queue_full"))
            else:
                lane.steps.append((step, size))
                lane.accepted += 1
                self.queued += 1
                self.queued_bytes += size
                self._enqueue(lane)
        self._tell()

    def end(self, lane: _Lane, outcome: str) -> None:
        with self._lock:
            if self._stopped_by is None and lane.state != "lost":
                lane.outcome = outcome
                lane.accepted += 1
                self._enqueue(lane)

    def drop(self, cause: str) -> None:
        """Counts a step that never came into a lane."""
        with self._lock:
            self._drop(1, cause)

    def flush(self, timeout_s: float) -> bool:
        """Waits until what is queued now is sent or dropped; False when the time was over first or nobody answers."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            marks = [(lane, lane.accepted) for lane in self._ready]
            silences = self._silences
            self._caller.circuit.hurry()
            if self._caller.circuit.state != "closed":
                self._not_before = 0.0
            self._ensure_thread()
            self._wanted.notify_all()
            while any(lane.settled < mark for lane, mark in marks):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self._silences > silences or self._threads == 0:
                    return False
                self._settled.wait(left_s)
        return True

    def stop(self) -> None:
        """Sends nothing more, and drops what waits."""
        with self._lock:
            if self._stopped_by is None:
                self._halt("closed")

    # From here on everything up to `_work` is called under the lock.

    def _enqueue(self, lane: _Lane) -> None:
        if lane not in self._ready:
            self._ready[lane] = None
        if not lane.is_busy:
            self._ensure_thread()
            self._wanted.notify()

    def _ensure_thread(self) -> None:
        if self._idle > 0 or self._threads >= _SENDERS or not self._ready:
            return
        try:
            threading.Thread(target=self._work, name="understudy-sender", daemon=True).start()
            self._threads += 1
        except RuntimeError:
            # The interpreter is ending, or the process has as many threads as it may: those that are there go on.
            pass

    def _settle(self, lane: _Lane, kind: str) -> None:
        size = lane.settle(kind)
        if kind == "step":
            self.queued -= 1
            self.queued_bytes -= size
        self._settled.notify_all()

    def _lose(self, lane: _Lane, cause: str) -> None:
        """Gives up what the run has."""
        steps = len(lane.steps)
        self.queued -= steps
        self.queued_bytes -= sum(size for _, size in lane.steps)
        lane.steps.clear()
        lane.state = "lost"
        lane.settled = lane.accepted
        self._ready.pop(lane, None)
        if steps > 0:
            self._drop(steps, cause)
        self._settled.notify_all()

    def _drop(self, steps: int, cause: str) -> None:
        self.dropped += steps
        if cause == "queue_full":
            self._told = (
                cause,
                f"The service does not keep up: steps are dropped while {self._steps_max} or their bytes wait "
                "(stats() counts them)",
            )

    def _halt(self, cause: str) -> None:
        self._stopped_by = cause
        for lane in list(self._ready):
            self._lose(lane, cause)
        self._silences += 1
        self._settled.notify_all()
        self._wanted.notify_all()

    def _take(self) -> Optional[_Lane]:
        """The next lane with work, when one may be sent; None: this thread may end."""
        idle_until = time.monotonic() + _IDLE_SENDER_S
        while True:
            circuit = self._caller.circuit
            now = time.monotonic()
            wait_s = idle_until - now
            free = next((lane for lane in self._ready if not lane.is_busy), None)
            if free is not None:
                pause_s = max(self._not_before - now, circuit.wait_s)
                if circuit.state == "half-open":
                    pause_s = max(pause_s, _PROBE_WAIT_S)
                if pause_s <= 0:
                    free.is_busy = True
                    # To the end: every run has its turn.
                    self._ready.move_to_end(free)
                    if any(not lane.is_busy for lane in self._ready):
                        self._ensure_thread()
                    return free
                wait_s = pause_s
            elif wait_s <= 0 or self._stopped_by is not None:
                return None
            self._idle += 1
            self._wanted.wait(wait_s)
            self._idle -= 1

    # Without the lock.

    def _tell(self) -> None:
        """Warns of what happened under the lock: a callback must not run there."""
        if self._told is not None:
            told, self._told = self._told, None
            self._warn(*told)

    def _work(self) -> None:
        """A sending thread."""
        while True:
            with self._lock:
                lane = self._take()
                if lane is None:
                    self._threads -= 1
                    self._settled.notify_all()
                    return
            try:
                self._drain(lane)
            except BaseException as thrown:
                # A fault of this library's, or the end of the interpreter: the run is given up, and the thread goes on.
                self._warn("failed", f"A run could not be sent: {thrown!r}")
                with self._lock:
                    self._lose(lane, "failed")
            with self._lock:
                lane.is_busy = False
                if lane.next() is None:
                    self._ready.pop(lane, None)

    def _drain(self, lane: _Lane) -> None:
        """Sends a lane's events until it is empty, the service wants a pause or it is another run's turn."""
        sent = 0
        while True:
            with self._lock:
                event = None if self._stopped_by is not None else lane.next()
                if sent >= _TURN_EVENTS and any(not other.is_busy for other in self._ready):
                    return
            if event is None or not self._send(lane, *event):
                return
            sent += 1

    def _send(self, lane: _Lane, kind: str, fields: Dict[str, Any]) -> bool:
        """False: the event did not get through, and its lane has another turn after a pause."""
        operation = {"run_start": "start_run", "step": "log_step", "run_finish": "finish_run"}[kind]
        try:
            answer = self._caller.call(operation, fields, self._timeout_s, attempts=1, is_background=True)
        except UnderstudyError as thrown:
            return self._judge(lane, kind, thrown)
        with self._lock:
            if lane.state == "lost":
                return True
            self._settle(lane, kind)
            if kind == "step":
                self.sent += 1
        if kind == "step" and answer.get("fired") and lane.advise is not None:
            self._evaluate(lane)
        return True

    def _evaluate(self, lane: _Lane) -> None:
        """Asks what the agent should be told; of the same step the service says the same again."""
        try:
            said = self._caller.call("evaluate", {"run_id": lane.run_id}, self._timeout_s, is_background=True)
        except UnderstudyError:
            return
        if said.get("inject") is True and lane.advise is not None:
            lane.advise(said)

    def _judge(self, lane: _Lane, kind: str, thrown: UnderstudyError) -> bool:
        """What is to be done about an event that did not get through. Returns as `_send`."""
        if isinstance(thrown, ApiError) and thrown.status < 500:
            if thrown.status == 429:
                return self._pause(_back_off_s(1, thrown))
            return self._accept_refusal(lane, kind, thrown)
        is_silent = isinstance(thrown, (ServiceTimeoutError, CircuitOpenError)) or getattr(thrown, "unsent", False)
        if is_silent:
            with self._lock:
                self._silences += 1
                self._settled.notify_all()
            return False
        # The event may be to blame: it is tried some times.
        lane.attempts += 1
        if lane.attempts < _EVENT_ATTEMPTS:
            return self._pause(_back_off_s(lane.attempts, thrown))
        self._give_up(lane, kind, "failed", thrown)
        return True

    def _accept_refusal(self, lane: _Lane, kind: str, refused: ApiError) -> bool:
        """The service has looked at the event and does not want it. Returns as `_send`."""
        if refused.status in (401, 403):
            reason = f"HTTP {refused.status}: {refused}"
            self._warn("unauthorized", f"The service refuses the key ({reason}); nothing more is sent")
            with self._lock:
                self._halt("unauthorized")
            return True
        with self._lock:
            # It has forgotten the run: it was started anew over another folder, say.
            is_restarted = refused.status == 404 and kind != "run_start" and lane.restart()
        if not is_restarted:
            self._give_up(lane, kind, "refused", refused)
        return True

    def _pause(self, seconds: float) -> bool:
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + min(seconds, _PAUSE_MAX_S))
        return False

    def _give_up(self, lane: _Lane, kind: str, cause: str, thrown: UnderstudyError) -> None:
        """Drops an event; without its start or with a run that is not there, the whole lane."""
        self._warn(cause, f"The service did not take a {kind} of run {lane.run_id}: {thrown}")
        with self._lock:
            if lane.state == "lost":
                return
            if kind == "run_start" or getattr(thrown, "status", 0) in (404, 409):
                self._lose(lane, cause)
                return
            self._settle(lane, kind)
            if kind == "step":
                self._drop(1, cause)


_clients: "weakref.WeakSet[Understudy]" = weakref.WeakSet()
_senders: "weakref.WeakSet[_Sender]" = weakref.WeakSet()
_EXIT_FLUSH_S = 2.0


def _flush_at_exit() -> None:
    """What waits has a last chance, within a bound for all clients together."""
    deadline = time.monotonic() + _EXIT_FLUSH_S
    for sender in list(_senders):
        sender.flush(max(0.0, deadline - time.monotonic()))


def _forget_after_fork() -> None:
    for sender in list(_senders):
        sender.forget()
        sender._caller.forget()
    for client in list(_clients):
        client._lock = threading.Lock()
    _labels.forget()


atexit.register(_flush_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


# --- A run ---------------------------------------------------------------------------------------------------------------------


class Intervention(NamedTuple):
    """What the agent should be told before its next call of a model."""

    text: str
    """For the model, as a system message."""
    failure_type: str
    """The monitor that fired."""
    level: str
    """`nudge`: change course. `stop`: the nudge did not help."""


_current: "contextvars.ContextVar[Tuple[Run, ...]]" = contextvars.ContextVar("understudy_runs", default=())


def current_run() -> Optional["Run"]:
    """The innermost run around the caller, of whichever client; None: there is none."""
    runs = _current.get()
    return runs[-1] if runs else None


class Run:
    """One task of an agent: made by `Understudy.run` and entered with `with`, or by `Understudy.start` and ended by hand.

    None of its functions raises, and only `patterns` waits, for an answer that the agent asked for.
    """

    def __init__(self, client: "Understudy", start: Dict[str, Any]) -> None:
        self.run_id: str = start["run_id"]
        self.task: str = start["task"]
        self.model: str = start["model"]
        self.arm: Optional[str] = start.get("arm")
        """Of the experiment; None: the run is in none. With `off` nothing is retrieved and nothing is said."""
        self.outcome: Optional[str] = None
        """None while the run goes on."""
        self.tokens = 0
        """Of the steps so far."""
        self._client = client
        self._start = start
        self._lane: Optional[_Lane] = None
        self._is_started = False
        self._steps = 0
        self._machine = DifficultyMachine(client._thresholds)
        self._interventions: "collections.deque[Intervention]" = collections.deque(maxlen=_INTERVENTIONS_MAX)
        self._scope = run_scope(self.run_id)

    def patterns(
        self,
        *,
        max_tokens: int = _PATTERN_TOKENS,
        top_k: Optional[int] = None,
        tier: Optional[str] = None,
        failure_type: Optional[str] = None,
        min_similarity: Optional[float] = None,
        context: Optional[str] = None,
    ) -> str:
        """What earlier runs learned about such a task, as a text for the system prompt.

        "" when there is nothing, when patterns are switched off, and when the service does not answer. It waits for the answer:
        in a coroutine, `await asyncio.to_thread(run.patterns)`.
        """
        if self.arm == "off":
            return ""
        try:
            return self._client._retrieve(
                self.task if context is None else context, self.model, max_tokens,
                {"top_k": top_k, "tier": tier, "failure_type": failure_type, "min_similarity": min_similarity},
            )
        except Exception as thrown:
            self._client._warn("failed", f"Patterns could not be retrieved: {thrown!r}")
            return ""

    def step(
        self,
        action: Any = "",
        action_input: Any = "",
        thought: Any = "",
        observation: Any = "",
        is_error: bool = False,
        tokens: int = 0,
        **unknown: Any,
    ) -> None:
        """Logs what the agent did. Returns at once; texts of more than 131,072 characters are cut, and it is said.

        What is no text is written as JSON. A name that is no field of a step is left out, and said once.
        """
        try:
            if unknown:
                self._client._warn("unknown_field", f"A step has no {', '.join(unknown)}; it is left out")
            self._log(action, action_input, thought, observation, is_error, tokens)
        except Exception as thrown:
            self._client._sender.drop("failed")
            self._client._warn("failed", f"A step could not be read: {thrown!r}")

    def intervention(self) -> Optional[Intervention]:
        """What the agent should be told now, each once, in the order in which it came; None: nothing."""
        try:
            said = self._interventions.popleft()
        except IndexError:
            return None
        self._client._count("interventions_handed_over")
        return said

    def difficulty(self, text: Optional[str] = None) -> Difficulty:
        """Takes a text into account, of the step that was just made or is about to be. Without one: how things stand."""
        score = score_step(text if isinstance(text, str) else "")
        with self._client._lock:
            state = self._machine.observe(score) if isinstance(text, str) else self._machine.state
        return Difficulty(score, state, self._client._routing.get(state))

    def finish(self, outcome: str = "success") -> None:
        """Ends the run; what comes after the first call changes nothing. Returns at once."""
        with self._client._lock:
            if self.outcome is not None:
                return
            self.outcome = _name_outcome(outcome)
            self._client._counts["runs_finished"] += 1
        if self._lane is not None:
            self._client._sender.end(self._lane, self.outcome)

    def fail(self, thrown: Union[BaseException, type]) -> None:
        """Ends the run as `failure: <ExceptionName>`. Returns at once."""
        self.finish(_name_failure(thrown))

    def __enter__(self) -> "Run":
        self._begin()
        self._token = _current.set((*_current.get(), self))
        self._scope.__enter__()
        return self

    def __exit__(self, kind: Optional[type], thrown: Optional[BaseException], traceback: object) -> None:
        """A clean end is a `success`; an exception ends the run as a failure and goes on."""
        self._scope.__exit__(None, None, None)
        _reset(_current, self._token)
        # `sys.exit()` without a status is how some programs end well.
        is_clean = kind is None or (isinstance(thrown, SystemExit) and thrown.code in (None, 0))
        if is_clean:
            self.finish()
        else:
            self.fail(thrown if thrown is not None else kind)  # type: ignore[arg-type]

    async def __aenter__(self) -> "Run":
        return self.__enter__()

    async def __aexit__(self, kind: Optional[type], thrown: Optional[BaseException], traceback: object) -> None:
        self.__exit__(kind, thrown, traceback)

    def _begin(self) -> "Run":
        client = self._client
        with client._lock:
            if self._is_started:
                return self
            self._is_started = True
            client._counts["runs_started"] += 1
        if client._is_streaming:
            self._lane = _Lane(self._start, None if self.arm == "off" else self._take)
            client._sender.open(self._lane)
        return self

    def _log(self, action: Any, action_input: Any, thought: Any, observation: Any, is_error: bool, tokens: int) -> None:
        client = self._client
        spent = min(int(tokens), _TOKENS_MAX) if _is_number(tokens) and 0 < tokens < math.inf else 0
        with client._lock:
            index = self._steps
            self._steps += 1
            before = self.tokens
            self.tokens += spent
            client._counts["steps_logged"] += 1
        budget = client._token_budget
        if budget is not None and before < budget <= before + spent:
            client._tell_budget(TokenBudgetReached(budget, before + spent))
        if self._lane is None:
            return
        if self.outcome is not None:
            client._sender.drop("closed")
            return
        texts = {"action": action, "action_input": action_input, "thought": thought, "observation": observation}
        step: Dict[str, Any] = {"step_index": index}
        size = _STEP_BYTES
        cuts: List[str] = []
        for name, value in texts.items():
            text = value if isinstance(value, str) else _to_text(value)
            if 2 * len(text) > _STEP_TEXT_UNITS:
                cut = _cut_units(text, _STEP_TEXT_UNITS)
                if len(cut) < len(text):
                    client._count("texts_truncated")
                    cuts.append(f"{name} has {len(text)} characters, of which {len(cut)} are kept")
                text = cut
            step[name] = text
            size += sys.getsizeof(text)
        if cuts:
            client._warn("truncated", f"Step {index} of run {self.run_id} is long: {', '.join(cuts)}")
        step["is_error"] = bool(is_error)
        step["tokens"] = spent
        client._sender.push(self._lane, step, size)

    def _take(self, said: Dict[str, Any]) -> None:
        self._client._count("interventions_received")
        level = "stop" if said.get("level") == "stop" else "nudge"
        # An agent that never asks keeps the last ones.
        self._interventions.append(Intervention(str(said["intervention_text"]), str(said["failure_type"]), level))


def _reset(variable: "contextvars.ContextVar[Any]", token: "contextvars.Token[Any]") -> None:
    try:
        variable.reset(token)
    except ValueError:
        # Left in another context than it was entered in, as asynchronous generators do.
        pass


# --- Findings ------------------------------------------------------------------------------------------------------------------

_QUERY_CHARACTERS = 2_000
# Longer texts are not sent whole. The service masks keys and then cuts to the documented 8,000, 512 and 64 characters; so much
# more goes along that no half of a key is left at the end.
_SENT_CHARACTERS = {"content": 16_192, "file_path": 8_704, "finding_type": 8_256}


class FindingsClient:
    """What is known about a code base: `u.findings("my-code-base")`.

    It never raises: where the service does not answer or refuses, there is an empty list, None, 0 or False.
    """

    def __init__(self, caller: _Caller, codebase_id: str, timeout: float = 10.0) -> None:
        if not isinstance(codebase_id, str) or codebase_id == "":
            raise ValueError("codebase_id must be a text that is not empty")
        self.codebase_id = codebase_id
        self._caller = caller
        self._timeout_s = _read_timeout(timeout)

    def store(
        self, content: str, file_path: str = "", finding_type: str = "note", metadata: Optional[Mapping[str, Any]] = None
    ) -> Optional[str]:
        """The id of the finding, or None. `content` is cut to 8,000 characters, `file_path` to 512, `finding_type` to 64."""
        fields = {**self._filter(file_path, finding_type), "metadata": metadata}
        answer = self._ask("store_finding", content=_cut(content, _SENT_CHARACTERS["content"]), **fields)
        return answer.get("finding_id")

    def recall(
        self,
        query: str,
        top_k: int = 5,
        score_threshold: float = 0.25,
        file_path: Optional[str] = None,
        finding_type: Optional[str] = None,
    ) -> List[Dict[str, Any]]:
        """What is nearest to the query (of which 2,000 characters count), by descending `score`."""
        wanted = {"top_k": top_k, "score_threshold": score_threshold, **self._filter(file_path, finding_type)}
        return _list_of(self._ask("recall_findings", query=_cut(query, _QUERY_CHARACTERS), **wanted).get("findings"))

    def list(
        self, limit: int = 50, offset: int = 0, file_path: Optional[str] = None, finding_type: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """One page, newest first."""
        wanted = {"limit": limit, "offset": offset, **self._filter(file_path, finding_type)}
        return _list_of(self._ask("list_findings", **wanted).get("findings"))

    def coverage(self, file_paths: Iterable[str]) -> float:
        """The share of the paths about which something is known; 1.0 of no paths."""
        paths = self._paths(file_paths)
        return float(_number_of(self._ask("findings_coverage", file_paths=paths).get("coverage"))) if paths else 1.0

    def invalidate(self, file_paths: Iterable[str]) -> int:
        """Deletes the findings about exactly these paths; returns how many there were."""
        paths = self._paths(file_paths)
        return int(_number_of(self._ask("invalidate_findings", file_paths=paths).get("deleted"))) if paths else 0

    def clear(self) -> bool:
        """Deletes all findings about the code base; returns whether that was done."""
        return self._ask("clear_findings").get("cleared") is True

    def _ask(self, name: str, **fields: Any) -> Dict[str, Any]:
        try:
            return self._caller.call(name, {"codebase_id": self.codebase_id, **fields}, self._timeout_s)
        except Exception:
            return {}

    def _filter(self, file_path: Optional[str], finding_type: Optional[str]) -> Dict[str, Optional[str]]:
        given = {"file_path": file_path, "finding_type": finding_type}
        return {name: None if text is None else _cut(text, _SENT_CHARACTERS[name]) for name, text in given.items()}

    def _paths(self, file_paths: Iterable[str]) -> List[str]:
        try:
            return [_cut(path, _SENT_CHARACTERS["file_path"]) for path in file_paths]
        except Exception:
            # No list of texts: it is as good as none.
            return []


def _cut(text: object, characters: int) -> str:
    return _well_formed(("" if text is None else str(text))[:characters])


def _list_of(items: object) -> List[Dict[str, Any]]:
    return items if isinstance(items, list) else []


def _number_of(value: Any) -> float:
    return value if _is_number(value) and not math.isinf(value) else 0


# --- The client ----------------------------------------------------------------------------------------------------------------

_BASE_URL = "http://127.0.0.1:8000"
_TIMEOUT_S_MAX = 600.0
_FLUSH_S = 10.0


class ClientWarning(NamedTuple):
    """Trouble of which a program should know; each cause is told once."""

    cause: str
    """Stable: `queue_full`, `refused`, `failed`, `unauthorized`, `truncated`, `unknown_field`."""
    message: str


class Understudy:
    """A client of the service. Options as in document 2; `api_key` and `base_url` may come from SVC_API_KEY and SVC_BASE_URL.

    Wrong options raise TypeError or ValueError here; afterwards nothing raises into the agent but `api`, whose functions are
    the plain operations.

    token_budget, on_token_budget: a soft cap on the tokens of each run, and who is told, once a run, with a TokenBudgetReached.
    fsm_thresholds, model_routing: when the difficulty machine changes its state, and the model of each (docs/difficulty.md).
    e_traces_enabled: whether patterns of earlier runs are retrieved. live_streaming_enabled: whether runs are sent.
    monitor_names: accepted, without effect. task_profile: by which profile runs are scored.
    org_id, project_id: where the key does not say them (a static key). svc_version: of the agent, for experiments.
    timeout: seconds that a call may take, repeated requests included.
    max_queued_steps, max_queued_bytes: what waits to be sent at most; one more step is dropped.
    on_warning: is told of each cause of trouble once; default: the logger `understudy`.
    """

    def __init__(
        self,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        *,
        token_budget: Optional[int] = None,
        on_token_budget: Optional[Callable[[TokenBudgetReached], object]] = None,
        fsm_thresholds: Optional[Mapping[str, float]] = None,
        model_routing: Optional[Mapping[str, str]] = None,
        e_traces_enabled: bool = True,
        monitor_names: Optional[Sequence[str]] = None,
        live_streaming_enabled: bool = True,
        task_profile: str = "coding",
        org_id: Optional[str] = None,
        project_id: Optional[str] = None,
        svc_version: str = __version__,
        timeout: float = 5.0,
        max_queued_steps: int = 10_000,
        max_queued_bytes: int = 32 * 1024 * 1024,
        on_warning: Optional[Callable[[ClientWarning], object]] = None,
    ) -> None:
        if token_budget is not None and not (_is_whole(token_budget) and token_budget > 0):
            raise ValueError("token_budget must be a whole number above 0")
        for name, value in (("max_queued_steps", max_queued_steps), ("max_queued_bytes", max_queued_bytes)):
            if not (_is_whole(value) and value > 0):
                raise ValueError(f"{name} must be a whole number above 0")
        for name, value in (("on_token_budget", on_token_budget), ("on_warning", on_warning)):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function")
        self._token_budget = token_budget
        self._on_token_budget = on_token_budget
        self._thresholds = _read_thresholds(fsm_thresholds)
        self._routing = _read_routing(model_routing)
        self._has_patterns = bool(e_traces_enabled)
        self._is_streaming = bool(live_streaming_enabled)
        self._task_profile = task_profile
        self._svc_version = svc_version
        self._on_warning = on_warning
        self._warned: set = set()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._subscriptions: "weakref.WeakSet[Subscription]" = weakref.WeakSet()
        self._is_closed = False
        timeout_s = _read_timeout(timeout)
        tenant = {name: value for name, value in (("org_id", org_id), ("project_id", project_id)) if value is not None}
        address = _read_base_url(base_url or os.environ.get("SVC_BASE_URL") or _BASE_URL)
        self._caller = _Caller(address, _read_key(api_key or os.environ.get("SVC_API_KEY")), timeout_s, tenant)
        self._sender = _Sender(self._caller, timeout_s, max_queued_steps, max_queued_bytes, self._warn)
        self.api = _Api(self._caller)
        """Every operation of the v1 API, in the words of the wire; they raise UnderstudyError."""
        _clients.add(self)

    def run(
        self,
        task: str = "",
        run_id: Optional[str] = None,
        *,
        agent_name: str = "",
        model: str = "",
        framework: str = "custom",
        task_profile: Optional[str] = None,
        codebase_id: str = "",
        metadata: Optional[Mapping[str, Any]] = None,
        experiment_id: Optional[str] = None,
        assignment_unit: Optional[str] = None,
        on_share: float = 0.5,
        arm: Optional[str] = None,
        svc_version: Optional[str] = None,
    ) -> Run:
        """A run for `with` or `async with`: a clean end is a `success`, an exception `failure: <ExceptionName>`.

        With an experiment its unit (default: the run) is assigned to an arm, unless `arm` says which.
        """
        identifier = _bounded(run_id, _ID_UNITS) or f"run_{uuid.uuid4()}"
        start: Dict[str, Any] = {
            "run_id": identifier,
            "agent_name": _bounded(agent_name, _NAME_UNITS),
            "task": _bounded(task, _TASK_UNITS),
            "model": _bounded(model, _NAME_UNITS),
            "framework": _bounded(framework, _NAME_UNITS) or "custom",
            "task_profile": _bounded(task_profile, _ID_UNITS) or self._task_profile,
            "codebase_id": _bounded(codebase_id, _ID_UNITS),
        }
        copy = self._copy_metadata(metadata)
        if copy is not None:
            start["metadata"] = copy
        experiment = _bounded(experiment_id, _ID_UNITS)
        if experiment:
            unit = _bounded(assignment_unit, _NAME_UNITS) or identifier
            start["experiment_id"] = experiment
            start["arm"] = arm or assign_arm(experiment, unit, on_share)
            start["assignment_unit"] = unit
            start["svc_version"] = _bounded(svc_version, _NAME_UNITS) or self._svc_version
        return Run(self, start)

    def start(self, task: str = "", run_id: Optional[str] = None, **options: Any) -> Run:
        """Begins a run that somebody ends by `finish` or `fail`; options as of `run`. It is not ambient."""
        return self.run(task, run_id, **options)._begin()

    def current(self) -> Optional[Run]:
        """The innermost run of this client around the caller; None: there is none."""
        return next((run for run in reversed(_current.get()) if run._client is self), None)

    def score_step(self, text: str) -> float:
        """How difficult a text looks, in [0, 1]; "" is 0.5."""
        return score_step(text)

    def findings(self, codebase_id: str, timeout: float = 10.0) -> FindingsClient:
        """What is known about a code base. Raises ValueError for one without a name."""
        return FindingsClient(self._caller, codebase_id, timeout)

    def subscribe(self, project_id: Optional[str] = None, last_event_id: str = "") -> Subscription:
        """What happens in the organization, as it happens: `for event in u.subscribe(): ...`.

        project_id: only this project's events. last_event_id: goes on behind this event; "0": with all that the service
        remembers; default: with what happens from now on. It is apart from live_streaming_enabled, which is about what this client sends.
        """
        fields = {} if project_id is None else {"project_id": project_id}
        subscription = Subscription(functools.partial(self._caller.open_stream, "/v1/monitor/stream", fields), last_event_id)
        with self._lock:
            if self._is_closed:
                subscription.close()
            self._subscriptions.add(subscription)
        return subscription

    def stats(self) -> Dict[str, Any]:
        """Counters since the client was made."""
        sender = self._sender
        with self._lock:
            counts = dict(self._counts)
        return {
            "runs": {"started": counts["runs_started"], "finished": counts["runs_finished"]},
            "steps": {
                "logged": counts["steps_logged"],
                "sent": sender.sent,
                "queued": sender.queued,
                "dropped": sender.dropped,
                "queued_bytes": sender.queued_bytes,
                "truncated": counts["texts_truncated"],
            },
            "interventions": {
                "received": counts["interventions_received"],
                "handed_over": counts["interventions_handed_over"],
            },
            "requests": dict(self._caller.counts),
            "circuit": self._caller.circuit.state,
        }

    def flush(self, timeout: float = _FLUSH_S) -> bool:
        """Waits until all that was logged so far is sent or dropped.

        False when the time was over first, or the service does not answer; it then waits on to be sent.
        """
        return self._sender.flush(timeout)

    def close(self, timeout: float = _FLUSH_S) -> bool:
        """Flushes, then sends nothing more: runs go on, and what they log is dropped. Subscriptions end. Returns as `flush`."""
        is_sent = self._sender.flush(timeout)
        self._sender.stop()
        with self._lock:
            self._is_closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()
        self._caller.close()
        return is_sent

    def __enter__(self) -> "Understudy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _retrieve(self, context: str, model: str, max_tokens: int, wanted: Dict[str, Any]) -> str:
        context = _bounded(context, _CONTEXT_UNITS)
        if not self._has_patterns or context.strip() == "":
            return ""
        fields = {"context": context, "model": model or None, **wanted}
        try:
            return render_patterns(self._caller.call("retrieve_patterns", fields)["traces"], max_tokens)
        except UnderstudyError:
            return ""

    def _copy_metadata(self, metadata: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
        """As it is now: the agent may go on writing into its own."""
        if metadata is None:
            return None
        try:
            text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), default=str)
            units = len(text.encode("utf-16-le", "surrogatepass")) // 2
            if units > _METADATA_UNITS:
                raise ValueError(f"it has {units} characters as JSON")
            # What is no number in JSON is null, as the TypeScript client has it.
            copy = json.loads(_well_formed(text), parse_constant=lambda _: None)
            fault = _find_metadata_fault(copy)
            if fault is not None:
                raise ValueError(fault)
            return copy
        except Exception as thrown:
            self._warn("truncated", f"The metadata of a run is left out: {thrown}")
            return None

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _tell_budget(self, reached: TokenBudgetReached) -> None:
        if self._on_token_budget is None:
            return
        try:
            self._on_token_budget(reached)
        except Exception:
            _log.debug("on_token_budget raised", exc_info=True)

    def _warn(self, cause: str, message: str) -> None:
        with self._lock:
            if cause in self._warned:
                return
            self._warned.add(cause)
        try:
            if self._on_warning is not None:
                self._on_warning(ClientWarning(cause, message))
            else:
                _log.warning("%s", message)
        except Exception:
            # The agent's own function; its step goes on.
            _log.debug("on_warning raised", exc_info=True)


_COUNTS = (
    "runs_started", "runs_finished", "steps_logged", "texts_truncated", "interventions_received", "interventions_handed_over",
)


def _read_key(key: object) -> str:
    """The key goes into a header: what cannot stand there is no key. It is never part of an error."""
    if not isinstance(key, str) or key.strip() == "":
        raise TypeError("api_key is required, as an option or in the variable SVC_API_KEY")
    if re.fullmatch(r"[\x21-\x7e]+", key.strip()) is None:
        raise ValueError("api_key holds what no key holds")
    return key.strip()


def _read_base_url(text: object) -> str:
    try:
        parts = urlsplit(text) if isinstance(text, str) else urlsplit("")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_good = is_good and "@" not in parts.netloc and parts.query == ""
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError("base_url must be an http or https address without credentials")
    return str(text)


def _read_timeout(seconds: object) -> float:
    if not (_is_number(seconds) and 0 < seconds <= _TIMEOUT_S_MAX):  # type: ignore[operator]
        raise ValueError(f"timeout must be a number of seconds above 0, at most {_TIMEOUT_S_MAX:g}")
    return float(seconds)  # type: ignore[arg-type]


# --- Labels (document 3, client labelling) -------------------------------------------------------------------------------------

_LABELLED_RUNS_MAX = 10_000
# How a path of a model call ends; a base address may carry a path of its own. What lives beside a call is none.
_LLM_PATH = re.compile(
    r"/v1/(?:messages|chat/completions|responses|complete)/?$|(?::|%3[aA])(?:generate|streamGenerate)Content"
    r"|/model/.+/(?:converse|converse-stream|invoke|invoke-with-response-stream)$"
)
# Loopback, private and link-local addresses, and the one that means "this machine".
_OWN_NETWORKS = [
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/32", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "::/127", "fc00::/7", "fe80::/10",
    )
]
# To the resolver a number is an address, and may be anybody's.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def _normalize_host(host: str) -> str:
    name = host.lower()
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return name[:-1] if name.endswith(".") else name


def _is_labelled_host(host: str) -> bool:
    """Loopback and private addresses, single-label names, `.local`, `.internal`, and those that SVC_HOSTS lists."""
    name = _normalize_host(host)
    listed = re.split(r"[\s,]+", os.environ.get("SVC_HOSTS", ""))
    if name == "" or name in (_normalize_host(re.sub(r"^(\[.*\]|[^:]+):\d+$", r"\1", one)) for one in listed):
        return name != ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        is_single = re.search(r"[.:]", name) is None and _NUMBER.fullmatch(name) is None
        return is_single or name.endswith((".local", ".internal", ".localhost"))
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in _OWN_NETWORKS if network.version == plain.version)


def _is_llm_path(target: str) -> bool:
    return _LLM_PATH.search(target.partition("?")[0]) is not None


class _Labels:
    """The numbers of each run's requests: from 1, without a gap. One for the process."""

    def __init__(self) -> None:
        self.forget()
        self.transports: List[str] = []
        # SVC_RUN: the run of the whole process, where no scope says otherwise.
        self.run: Optional[str] = None

    def forget(self) -> None:
        self._lock = threading.Lock()
        # The last number of each run, and those that were given back.
        self._runs: "collections.OrderedDict[str, Tuple[List[int], List[int]]]" = collections.OrderedDict()

    def take(self, name: str) -> int:
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
        """The request never left: another one has its number, so that there is no gap."""
        with self._lock:
            if name in self._runs:
                heapq.heappush(self._runs[name][1], number)


_labels = _Labels()
_label: "contextvars.ContextVar[Optional[str]]" = contextvars.ContextVar("understudy_label", default=None)
_RUN, _SEQ = "x-svc-run", "x-svc-seq"


def _is_label(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _ID_UNITS and name.isprintable() and name == name.strip()


class run_scope:
    """`with run_scope("name"):` requests to models made inside are labelled with the name, once `install_labels()` was called.

    A run of `Understudy.run` is such a scope by itself. Scopes of one name go on counting.
    """

    def __init__(self, name: str) -> None:
        if not _is_label(name):
            _log.debug("Requests of a run are not labelled: a label is 1 to %d printable characters", _ID_UNITS)
        self._name = name if _is_label(name) else None

    def __enter__(self) -> "run_scope":
        self._token = _label.set(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        _reset(_label, self._token)


def installed_transports() -> List[str]:
    """What is labelled: `http.client` (urllib, requests, urllib3, botocore) and `httpx`; empty before `install_labels()`."""
    return list(_labels.transports)


def install_labels() -> List[str]:
    """Labels requests of run scopes from now on; called once at start-up, and again it changes nothing.

    Only requests to models on labelled hosts carry `x-svc-run` and `x-svc-seq`; nothing else is changed. SVC_RUN names a run
    for the whole process. Returns as `installed_transports`.
    """
    named = os.environ.get("SVC_RUN")
    _labels.run = named if _is_label(named) else None
    if "http.client" not in _labels.transports:
        _labels.transports.append("http.client")
        _label_http_client()
    if "httpx" not in _labels.transports:
        try:
            import httpx  # type: ignore[import-not-found]
        except ImportError:
            return installed_transports()
        _labels.transports.append("httpx")
        _label_httpx(httpx)
    return installed_transports()


def _label_http_client() -> None:
    """Under urllib and requests: each attempt on the wire passes here, retries and redirects too."""
    connection = http.client.HTTPConnection
    putrequest, putheader, endheaders = connection.putrequest, connection.putheader, connection.endheaders

    @functools.wraps(putrequest)
    def put_request(self: Any, method: str, url: str, *arguments: Any, **options: Any) -> Any:
        self._understudy_name = _name_request(self, url)
        return putrequest(self, method, url, *arguments, **options)

    @functools.wraps(putheader)
    def put_header(self: Any, header: Any, *values: Any) -> Any:
        if getattr(self, "_understudy_name", None) is not None:
            text = header.decode("latin-1") if isinstance(header, bytes) else str(header)
            if text.lower() in (_RUN, _SEQ):
                # Somebody labels it himself.
                self._understudy_name = None
        return putheader(self, header, *values)

    @functools.wraps(endheaders)
    def end_headers(self: Any, *arguments: Any, **options: Any) -> Any:
        name, self._understudy_name = getattr(self, "_understudy_name", None), None
        if name is not None:
            # As it would do next: a connection that cannot be had takes no number.
            if self.sock is None and self.auto_open:
                self.connect()
            putheader(self, _RUN, name.encode("utf-8"))
            putheader(self, _SEQ, str(_labels.take(name)))
        return endheaders(self, *arguments, **options)

    connection.putrequest = put_request  # type: ignore[method-assign]
    connection.putheader = put_header  # type: ignore[method-assign]
    connection.endheaders = end_headers  # type: ignore[method-assign]


def _name_request(connection: Any, url: object) -> Optional[str]:
    """The run that a request of `http.client` is labelled with. Never raises."""
    try:
        name = _label.get() or _labels.run
        if name is None or not isinstance(url, str) or not _is_llm_path(url):
            return None
        # Through a proxy the target is the whole address, and in a tunnel the host is another one.
        host = urlsplit(url).hostname if "://" in url[:10] else connection._tunnel_host or connection.host
        return name if host and _is_labelled_host(host) else None
    except Exception:
        _log.debug("a request could not be labelled", exc_info=True)
        return None


def _label_httpx(httpx: Any) -> None:
    """Its transports: each attempt on the wire passes here, retries of an SDK and redirects too."""
    never_left = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
    handle, handle_async = httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request

    @contextlib.contextmanager
    def labelled(request: Any) -> Iterator[None]:
        """The request carries the label only on its way: to its owner it is what it was."""
        label = _put_on(request)
        try:
            yield
        except never_left:
            if label is not None:
                _labels.give_back(*label)
            raise
        finally:
            if label is not None:
                del request.headers[_RUN], request.headers[_SEQ]

    @functools.wraps(handle)
    def handle_request(self: Any, request: Any) -> Any:
        with labelled(request):
            return handle(self, request)

    @functools.wraps(handle_async)
    async def handle_async_request(self: Any, request: Any) -> Any:
        with labelled(request):
            return await handle_async(self, request)

    httpx.HTTPTransport.handle_request = handle_request
    httpx.AsyncHTTPTransport.handle_async_request = handle_async_request


def _put_on(request: Any) -> Optional[Tuple[str, int]]:
    """Labels a request of httpx, unless somebody labels it himself. Never raises."""
    try:
        name = _label.get() or _labels.run
        if name is None or not _is_llm_path(request.url.raw_path.decode("ascii")) or not _is_labelled_host(request.url.host):
            return None
        if _RUN in request.headers or _SEQ in request.headers:
            return None
        number = _labels.take(name)
        request.headers.update({_RUN: name.encode("utf-8"), _SEQ: str(number).encode("ascii")})
        return name, number
    except Exception:
        # Another version of the library, say: the request goes out as it is.
        _log.debug("a request of httpx could not be labelled", exc_info=True)
        return None
