"""The agent's verdict on a run in the service's form: good or bad, tags, a note, a score."""

from __future__ import annotations

import unicodedata
from typing import Any, Callable, Dict, List

from ._numbers import is_number
from ._texts import cut_units, well_formed

_TAGS_MAX = 32
_TAG_CHARACTERS = 64
_NOTE_UNITS = 4_000
# Controls, invisible formatting, half characters, separators of lines and paragraphs.
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def bound_marks(
    mark: object, tags: object, note: object, feedback_score: Any, leave_out: Callable[[str], None]
) -> Dict[str, Any]:
    """Makes the body of the request; empty: there is nothing to send.

    leave_out: called with a reason for each part that the service would refuse. A long note is cut, any other such part is
        left out.
    """
    body: Dict[str, Any] = {}
    if mark in ("good", "bad"):
        body["mark"] = mark
    elif mark is not None:
        leave_out("a mark is good or bad")
    kept = _read_tags(tags, leave_out)
    if kept:
        body["add_tags"] = kept
    if isinstance(note, str):
        body["note"] = well_formed(cut_units(note, _NOTE_UNITS))
        if len(cut_units(note, _NOTE_UNITS)) < len(note):
            leave_out(f"a note has at most {_NOTE_UNITS} characters")
    elif note is not None:
        leave_out("a note is a text")
    if is_number(feedback_score) and 0 <= feedback_score <= 1:
        body["feedback_score"] = feedback_score
    elif feedback_score is not None:
        leave_out("a score is a number from 0 to 1")
    return body


def join_marks(first: Dict[str, Any], later: Dict[str, Any], leave_out: Callable[[str], None]) -> Dict[str, Any]:
    """Merges an earlier and a later mark. The later values count, and tags are added."""
    tags = _keep_tags([*first.get("add_tags", []), *later.get("add_tags", [])], leave_out)
    return {**first, **later, **({"add_tags": tags} if tags else {})}


def _read_tags(tags: object, leave_out: Callable[[str], None]) -> List[str]:
    if tags is None:
        return []
    if not isinstance(tags, (list, tuple, set, frozenset)):
        leave_out("tags are a list")
        return []
    texts = [tag.strip() if isinstance(tag, str) else "" for tag in tags]
    fit = [tag for tag in texts if _is_tag(tag)]
    if len(fit) < len(texts):
        leave_out(f"a tag has 1 to {_TAG_CHARACTERS} visible characters, and no comma")
    return _keep_tags(fit, leave_out)


def _is_tag(text: str) -> bool:
    is_visible = not any(character == "," or unicodedata.category(character) in _INVISIBLE for character in text)
    return 0 < len(text) <= _TAG_CHARACTERS and is_visible


def _keep_tags(tags: List[str], leave_out: Callable[[str], None]) -> List[str]:
    kept = list(dict.fromkeys(tags))
    if len(kept) > _TAGS_MAX:
        leave_out(f"a run has at most {_TAGS_MAX} tags")
    return kept[:_TAGS_MAX]
