"""Findings about a code base."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Dict, List, Optional, Union

from ._caller import Caller
from ._numbers import is_number
from ._options import read_timeout
from ._texts import well_formed

_QUERY_CHARACTERS = 2_000
# Longer texts are cut. The service masks keys and then cuts to the documented 8,000, 512 and 64 characters, so the
# client sends more. Otherwise half of a key could arrive at the cut, which the service would not recognize.
_SENT_CHARACTERS = {"content": 16_192, "file_path": 8_704, "finding_type": 8_256}


class FindingsClient:
    """The findings about a code base: `u.findings("my-code-base")`.

    If the service refuses or does not answer, the result of a call is an empty list, None, 0 or False. A call raises only
    TypeError, for an argument of a wrong type.
    """

    def __init__(self, caller: Caller, codebase_id: str, timeout: float = 10.0) -> None:
        if not isinstance(codebase_id, str) or codebase_id == "":
            raise ValueError("codebase_id must be a non-empty text")
        self.codebase_id = codebase_id
        self._caller = caller
        self._timeout_s = read_timeout(timeout)

    def store(
        self,
        content: Union[str, Mapping[str, Any]],
        file_path: Optional[str] = "",
        finding_type: Optional[str] = "note",
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> Optional[str]:
        """Stores a finding and returns its id; None if the finding was not stored or no answer arrived.

        content: a text, which is cut to 8,000 characters, or a mapping with the key `content`. The mapping may also have the
            keys `file_path`, `finding_type` and `metadata`, which replace these arguments. `file_path` is cut to 512
            characters, `finding_type` to 64.
        """
        given: Dict[str, Any] = {"file_path": file_path, "finding_type": finding_type, "metadata": metadata}
        given.update(content if isinstance(content, Mapping) else {"content": content})
        if given["metadata"] is not None and not isinstance(given["metadata"], Mapping):
            raise TypeError(f"metadata of a finding must be an object, not {type(given['metadata']).__name__}")
        fields = {**self._filter(given["file_path"], given["finding_type"]), "metadata": given["metadata"]}
        text = _cut("content", given.get("content"), _SENT_CHARACTERS["content"])
        return self._ask("store_finding", content=text, **fields).get("finding_id")

    def recall(
        self,
        query: str,
        top_k: int = 5,
        score_threshold: float = 0.25,
        file_path: Optional[str] = None,
        finding_type: Optional[str] = None,
    ) -> List[Dict[str, Any]]:
        """Returns the findings nearest to the query, by descending `score`. The query is cut to 2,000 characters."""
        wanted = {"top_k": top_k, "score_threshold": score_threshold, **self._filter(file_path, finding_type)}
        return _list_of(self._ask("recall_findings", query=_cut("query", query, _QUERY_CHARACTERS), **wanted).get("findings"))

    def list(
        self, limit: int = 50, offset: int = 0, file_path: Optional[str] = None, finding_type: Optional[str] = None
    ) -> List[Dict[str, Any]]:
        """Returns one page of findings, newest first."""
        wanted = {"limit": limit, "offset": offset, **self._filter(file_path, finding_type)}
        return _list_of(self._ask("list_findings", **wanted).get("findings"))

    def coverage(self, file_paths: Iterable[str]) -> float:
        """Returns the share of the paths that have findings; 1.0 for no paths, 0.0 after a failure."""
        paths = self._paths(file_paths)
        return float(_number_of(self._ask("findings_coverage", file_paths=paths).get("coverage"))) if paths else 1.0

    def invalidate(self, file_paths: Iterable[str]) -> int:
        """Deletes the findings about exactly these paths. Returns their number; 0 after a failure."""
        paths = self._paths(file_paths)
        return int(_number_of(self._ask("invalidate_findings", file_paths=paths).get("deleted"))) if paths else 0

    def clear(self) -> bool:
        """Deletes all findings about the code base. Returns False if they were not deleted or no answer arrived."""
        return self._ask("clear_findings").get("cleared") is True

    def _ask(self, name: str, **fields: Any) -> Dict[str, Any]:
        try:
            return self._caller.call(name, {"codebase_id": self.codebase_id, **fields}, self._timeout_s)
        except Exception:
            return {}

    def _filter(self, file_path: Optional[str], finding_type: Optional[str]) -> Dict[str, Optional[str]]:
        given = {"file_path": file_path, "finding_type": finding_type}
        return {name: None if text is None else _cut(name, text, _SENT_CHARACTERS[name]) for name, text in given.items()}

    def _paths(self, file_paths: Iterable[str]) -> List[str]:
        if isinstance(file_paths, (str, bytes, Mapping)) or not isinstance(file_paths, Iterable):
            raise TypeError(f"file_paths of a finding must be a list of texts, not {type(file_paths).__name__}")
        return [_cut("file_paths", path, _SENT_CHARACTERS["file_path"]) for path in file_paths]


def _cut(name: str, text: object, characters: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{name} of a finding must be a text, not {type(text).__name__}")
    return well_formed(text[:characters])


def _list_of(items: object) -> List[Dict[str, Any]]:
    return items if isinstance(items, list) else []


def _number_of(value: Any) -> float:
    return value if is_number(value) and not math.isinf(value) else 0
