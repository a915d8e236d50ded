"""Runs blocking calls of a coroutine on threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any, Callable, Optional, TypeVar

_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result]) -> _Result:
    """Runs `work` on a new daemon thread and waits for its result.

    It does not use the loop's executor: a service that does not answer must not occupy the threads that the program needs, and
    the end of the program must not wait for them.
    """
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[Any]" = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, thrown: Optional[BaseException]) -> None:
        if future.done():
            return
        if thrown is None:
            future.set_result(result)
        else:
            future.set_exception(thrown)

    def run() -> None:
        result: Any = None
        thrown: Optional[BaseException] = None
        try:
            result = context.run(work)
        except BaseException as caught:
            thrown = caught
        try:
            loop.call_soon_threadsafe(deliver, result, thrown)
        except RuntimeError:
            # The loop is closed, so nothing waits for the result.
            pass

    threading.Thread(target=run, name="understudy-call", daemon=True).start()
    result: _Result = await future
    return result
