"""Makes a run a decorator: each call of the function is a run."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, AsyncGenerator, Callable, Generator

if TYPE_CHECKING:
    from ._run import BaseRun

MakeRun = Callable[[], "BaseRun"]


def decorate(make_run: MakeRun, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps functions, coroutine functions, generators and asynchronous generators.

    A generator is in its run only while its own code runs. What its consumer does in between is not part of the run.
    """
    if inspect.isasyncgenfunction(function):
        return _decorate_async_generator(make_run, function)
    if inspect.iscoroutinefunction(function):
        return _decorate_coroutine(make_run, function)
    if inspect.isgeneratorfunction(function):
        return _decorate_generator(make_run, function)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with make_run():
            return function(*arguments, **options)

    return call


def _decorate_coroutine(make_run: MakeRun, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*arguments: Any, **options: Any) -> Any:
        async with make_run():
            return await function(*arguments, **options)

    return call


def _decorate_generator(make_run: MakeRun, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Generator[Any, Any, Any]:
        run = make_run()._begin()
        generator = function(*arguments, **options)
        resume: Callable[[], Any] = functools.partial(next, generator)
        try:
            while True:
                with run._within():
                    try:
                        item = resume()
                    except StopIteration as ended:
                        run._end(None)
                        return ended.value
                try:
                    sent = yield item
                except GeneratorExit:
                    with run._within():
                        generator.close()
                    raise
                except BaseException as thrown:
                    resume = functools.partial(generator.throw, thrown)
                else:
                    resume = functools.partial(generator.send, sent)
        except BaseException as thrown:
            run._end(thrown)
            raise

    return call


def _decorate_async_generator(make_run: MakeRun, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*arguments: Any, **options: Any) -> AsyncGenerator[Any, Any]:
        run = make_run()._begin()
        generator = function(*arguments, **options)
        resume: Callable[[], Any] = generator.__anext__
        try:
            while True:
                with run._within():
                    try:
                        item = await resume()
                    except StopAsyncIteration:
                        run._end(None)
                        return
                try:
                    sent = yield item
                except GeneratorExit:
                    with run._within():
                        await generator.aclose()
                    raise
                except BaseException as thrown:
                    resume = functools.partial(generator.athrow, thrown)
                else:
                    resume = functools.partial(generator.asend, sent)
        except BaseException as thrown:
            run._end(thrown)
            raise

    return call
