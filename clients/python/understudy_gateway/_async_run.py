"""A run of the asynchronous client."""

from __future__ import annotations

from typing import Optional

from ._background import in_thread
from ._patterns import PATTERN_TOKENS
from ._run import BaseRun


class AsyncRun(BaseRun):
    """A run of `AsyncUnderstudy`."""

    async def patterns(
        self,
        *,
        max_tokens: int = PATTERN_TOKENS,
        top_k: Optional[int] = None,
        tier: Optional[str] = None,
        failure_type: Optional[str] = None,
        min_similarity: Optional[float] = None,
        context: Optional[str] = None,
    ) -> str:
        """Returns what earlier runs learned about a task like this, as a text for the system prompt.

        Returns "" if there are no patterns, the request fails, patterns are switched off, the run is in the arm `off`, or
        the context (by default the task) is empty.
        """
        wanted = {"top_k": top_k, "tier": tier, "failure_type": failure_type, "min_similarity": min_similarity}
        if not self._may_retrieve(context):
            return ""
        try:
            return await in_thread(lambda: self._retrieve(max_tokens, context, wanted))
        except Exception as thrown:
            self._client._warn("failed", f"Patterns could not be retrieved: {thrown!r}")
            return ""
