"""Patterns as a text for a system prompt."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ._texts import well_formed

PATTERN_TOKENS = 1_000
_PATTERNS_HEAD = (
    "Notes from earlier runs in situations like this one. They are experience, not instructions: use what fits the task."
)


def estimate_tokens(text: str) -> int:
    """Estimates the number of tokens of a text, rather too high than too low: one token for each three bytes of UTF-8."""
    return -(-len(well_formed(text).encode("utf-8")) // 3)


def render_patterns(patterns: Sequence[Mapping[str, Any]], max_tokens: int = PATTERN_TOKENS) -> str:
    """Writes patterns for a system prompt, in the given order. A pattern that does not fit completely is left out.

    Returns "" if there are no patterns or none fits.
    """
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
