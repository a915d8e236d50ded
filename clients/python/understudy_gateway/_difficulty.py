"""The difficulty score of a text (docs/difficulty.md)."""

from __future__ import annotations

import math
import re
from typing import Optional, Tuple

_WORDS_MAX = 500
_ENTITIES_MAX = 10
# A frequency of one word in 20 counts in full.
_WORDS_A_HIT = 20
# Only the beginning of a text is judged, because the agent waits for the score.
_JUDGED_CHARACTERS = 32_768
# White space is written out, because `\s` differs between Python and JavaScript.
_WORD = re.compile("[^\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# The look-ahead for first letters rejects most positions quickly.
_HEDGE = re.compile(
    r"\b(?=[acdhimnoprsuw])(?:maybe|perhaps|possibly|probably|presumably|supposedly|apparently|might|unsure|uncertain|unclear|unlikely"
    r"|not[ \t\r\n]+(?:sure|certain|clear)"
    "|(?:do[ \t\r\n]+not|don['\u2019]t)[ \t\r\n]+know|no[ \t\r\n]+idea"
    r"|i[ \t\r\n]+(?:guess|suspect|wonder|assume|doubt)|confused|confusing|puzzled|puzzling|wondering"
    r"|hm{2,}|reconsider(?:s|ed|ing)?|rethink(?:ing)?|second[ \t\r\n]+thoughts?|alternatively"
    r"|on[ \t\r\n]+the[ \t\r\n]+other[ \t\r\n]+hand)\b",
    re.IGNORECASE | re.ASCII,
)
# `TypeError` and `java.io.IOException` match too.
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
    """Estimates how difficult a text is, in [0, 1]; 0.5 for a text without words. Never raises."""
    signals = _measure_signals(text)
    if signals is None:
        return 0.5
    hedging, length, error_language, entities = signals
    raw = 0.3 * hedging + 0.25 * length + 0.25 * error_language + 0.2 * entities
    return 1 / (1 + math.exp(-6 * (raw - 0.5)))


def _measure_signals(text: object) -> Optional[Tuple[float, float, float, float]]:
    """Returns hedging, length, error language and entities, each in [0, 1]; None for a text without a word."""
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
