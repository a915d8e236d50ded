"""The live stream of an organization, for coroutines."""

from __future__ import annotations

import asyncio
from typing import Optional

from ._background import in_thread
from ._live_stream import LiveEvent, Subscription


class AsyncSubscription:
    """The events of an organization: `async for event in u.subscribe(): ...`.

    It behaves like `Subscription`. A cancelled wait loses no event: the next wait returns that event.
    """

    def __init__(self, events: Subscription) -> None:
        self._events = events
        self._coming: "Optional[asyncio.Future[Optional[LiveEvent]]]" = None

    @property
    def last_event_id(self) -> str:
        """The id of the last event; before the first event, the id that the stream began with."""
        return self._events.last_event_id

    def __aiter__(self) -> "AsyncSubscription":
        return self

    async def __anext__(self) -> LiveEvent:
        if self._coming is None:
            self._coming = asyncio.ensure_future(in_thread(lambda: next(self._events, None)))
        coming = self._coming
        event = await asyncio.shield(coming)
        self._coming = None
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> "AsyncSubscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration, even while it waits. Never raises."""
        self._events.close()
