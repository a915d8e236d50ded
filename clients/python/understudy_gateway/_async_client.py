"""The client for coroutines."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine, Dict, Iterable

from ._async_findings import AsyncFindingsClient
from ._async_live_stream import AsyncSubscription
from ._async_run import AsyncRun
from ._background import in_thread
from ._client import FLUSH_S, ClientBase
from ._findings import FindingsClient
from ._operations import OPERATIONS, Api


class AsyncApi:
    """Every operation of the v1 API as a coroutine function: `await u.api.read_trace(trace_id="t1")`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Dict[str, Any]]]:
        operation = getattr(self._api, name)

        async def call(**fields: Any) -> Dict[str, Any]:
            answer: Dict[str, Any] = await in_thread(lambda: operation(**fields))
            return answer

        call.__name__ = name
        return call

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *OPERATIONS]


class AsyncUnderstudy(ClientBase[AsyncRun]):
    __doc__ = ClientBase.__doc__

    @property
    def api(self) -> AsyncApi:
        """Every operation of the v1 API, with the field names of the wire. They raise UnderstudyError."""
        return AsyncApi(Api(self._caller))

    def findings(self, codebase_id: str, timeout: float = 10.0) -> AsyncFindingsClient:
        """Returns the findings about a code base.

        Raises ValueError for an empty `codebase_id` or an invalid `timeout`.
        """
        return AsyncFindingsClient(FindingsClient(self._caller, codebase_id, timeout))

    def subscribe(self, project_id: "str | None" = None, last_event_id: str = "") -> AsyncSubscription:
        """Returns the events of the organization while they happen: `async for event in u.subscribe(): ...`.

        project_id: only the events of this project; default: of the client's project, if it has one.
        last_event_id: continue after this event; "0": everything that the service remembers; default: from now on.
        `live_streaming_enabled` decides only what this client sends. It has no effect here.
        """
        return AsyncSubscription(self._subscribe(project_id, last_event_id))

    async def flush(self, timeout: float = FLUSH_S) -> bool:
        """Waits until everything that was logged so far is sent or dropped.

        Returns False if the time ran out or the service did not answer: then the rest stays in the queue. Also returns False if
        the service refuses the key meanwhile: then the rest is dropped. Returns True even if single events were refused.
        """
        return await in_thread(lambda: self._sender.flush(timeout))

    async def close(self, timeout: float = FLUSH_S) -> bool:
        """Flushes, ends all subscriptions, and sends nothing more: later steps are dropped. Returns the same as `flush`.

        The closing continues if the caller is cancelled.
        """
        return await asyncio.shield(in_thread(lambda: self._close(timeout)))

    async def __aenter__(self) -> "AsyncUnderstudy":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _make_run(self, start: Dict[str, Any], again: Callable[[int], AsyncRun]) -> AsyncRun:
        return AsyncRun(self, start, again)
