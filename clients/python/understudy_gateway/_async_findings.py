"""Findings about a code base, for coroutines."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, TypeVar, Union

from ._background import in_thread
from ._findings import FindingsClient

_Result = TypeVar("_Result")


class AsyncFindingsClient:
    """The findings about a code base: `u.findings("my-code-base")`.

    If the service refuses or does not answer, the result of a call is an empty list, None, 0 or False. A call raises only
    TypeError, for an argument of a wrong type.
    """

    def __init__(self, findings: FindingsClient) -> None:
        self.codebase_id = findings.codebase_id
        self._findings = findings

    async def store(
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
        return await self._call(lambda: self._findings.store(content, file_path, finding_type, metadata), None)

    async def recall(
        self,
        query: str,
        top_k: int = 5,
        score_threshold: float = 0.25,
        file_path: Optional[str] = None,
        finding_type: Optional[str] = None,
    ) -> List[Dict[str, Any]]:
        """Returns the findings nearest to the query, by descending `score`. The query is cut to 2,000 characters."""
        return await self._call(
            lambda: self._findings.recall(query, top_k, score_threshold, file_path, finding_type), []
        )

    async def list(
        self, limit: int = 50, offset: int = 0, file_path: Optional[str] = None, finding_type: Optional[str] = None
    ) -> "List[Dict[str, Any]]":
        """Returns one page of findings, newest first."""
        return await self._call(lambda: self._findings.list(limit, offset, file_path, finding_type), [])

    async def coverage(self, file_paths: Iterable[str]) -> float:
        """Returns the share of the paths that have findings; 1.0 for no paths, 0.0 after a failure."""
        return await self._call(lambda: self._findings.coverage(file_paths), 0.0)

    async def invalidate(self, file_paths: Iterable[str]) -> int:
        """Deletes the findings about exactly these paths. Returns their number; 0 after a failure."""
        return await self._call(lambda: self._findings.invalidate(file_paths), 0)

    async def clear(self) -> bool:
        """Deletes all findings about the code base. Returns False if they were not deleted or no answer arrived."""
        return await self._call(self._findings.clear, False)

    async def _call(self, work: Callable[[], _Result], failed: _Result) -> _Result:
        try:
            return await in_thread(work)
        except TypeError:
            raise
        except Exception:
            # The process has too many threads.
            return failed
