"""The HTTP libraries whose requests are labelled, and how each of them is patched."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from urllib.parse import urlsplit

from ._labels import RUN, SEQ, is_label, is_labelled_host, is_llm_path, label_now, labels
from ._log import log


def installed_transports() -> List[str]:
    """Lists the transports whose requests are labelled; empty before `install_labels()`.

    Possible are `http.client` (urllib, urllib3, requests, botocore), `httpx`, `httpx2` and `aiohttp`, if they are
    installed.
    """
    return list(labels.transports)


def install_labels() -> List[str]:
    """Labels the requests of run scopes from now on, and returns the transports whose requests are labelled.

    Call it once at start-up. Requests to models on labelled hosts get the headers `x-svc-run` and `x-svc-seq`; other requests
    are not changed. SVC_RUN names a run for requests outside of all scopes. A further call reads SVC_RUN again, and adds the
    libraries that could not be imported before.
    """
    named = os.environ.get("SVC_RUN")
    labels.run = named if is_label(named) else None
    for name, install in _INSTALLERS.items():
        if name in labels.transports:
            continue
        try:
            install(importlib.import_module(name))
        except ImportError:
            continue
        except Exception:
            # This version has other classes. Its requests are sent unchanged, and the list does not name it.
            log.warning("Requests of %s are not labelled, because this version is unknown", name, exc_info=True)
            continue
        labels.transports.append(name)
    return installed_transports()


def _label_http_client(module: Any) -> None:
    """Patches `http.client`, through which urllib, urllib3, requests and botocore send each attempt, retries and redirects too."""
    connection = module.HTTPConnection
    putrequest, putheader, endheaders = connection.putrequest, connection.putheader, connection.endheaders

    @functools.wraps(putrequest)
    def put_request(self: Any, method: str, url: str, *arguments: Any, **options: Any) -> Any:
        self._understudy_name = _name_request(self, url)
        return putrequest(self, method, url, *arguments, **options)

    @functools.wraps(putheader)
    def put_header(self: Any, header: Any, *values: Any) -> Any:
        if getattr(self, "_understudy_name", None) is not None:
            text = header.decode("latin-1") if isinstance(header, bytes) else str(header)
            if text.lower() in (RUN, SEQ):
                # The caller has labelled the request.
                self._understudy_name = None
        return putheader(self, header, *values)

    @functools.wraps(endheaders)
    def end_headers(self: Any, *arguments: Any, **options: Any) -> Any:
        name, self._understudy_name = getattr(self, "_understudy_name", None), None
        if name is not None:
            # Connect first, as `endheaders` would do: a failed connection must not take a number.
            if self.sock is None and self.auto_open:
                self.connect()
            putheader(self, RUN, name.encode("utf-8"))
            putheader(self, SEQ, str(labels.take(name)))
        return endheaders(self, *arguments, **options)

    connection.putrequest = put_request
    connection.putheader = put_header
    connection.endheaders = end_headers


def _name_request(connection: Any, url: object) -> Optional[str]:
    """Returns the run that labels a request of `http.client`; None: the request gets no label. Never raises."""
    try:
        name = label_now()
        if name is None or not isinstance(url, str) or not is_llm_path(url):
            return None
        # A request to a proxy has the whole address as its target; in a tunnel `host` is the proxy.
        host = urlsplit(url).hostname if "://" in url[:10] else connection._tunnel_host or connection.host
        return name if host and is_labelled_host(host) else None
    except Exception:
        log.debug("a request could not be labelled", exc_info=True)
        return None


def _label_httpx(httpx: Any) -> None:
    """Patches the transports of httpx or httpx2, which send each attempt, including an SDK's retries and redirects."""
    if hasattr(httpx.HTTPTransport.handle_request, "_understudy_original"):
        # httpx2 can take the name httpx; then both names mean one module.
        return
    never_left = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
    handle, handle_async = httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request

    @contextlib.contextmanager
    def labelled(request: Any) -> Iterator[None]:
        """Labels the request while it is sent. The code that made the request never sees the label."""
        label = _put_on(request)
        try:
            yield
        except never_left:
            if label is not None:
                labels.give_back(*label)
            raise
        finally:
            if label is not None:
                del request.headers[RUN], request.headers[SEQ]

    @functools.wraps(handle)
    def handle_request(self: Any, request: Any) -> Any:
        with labelled(request):
            return handle(self, request)

    @functools.wraps(handle_async)
    async def handle_async_request(self: Any, request: Any) -> Any:
        with labelled(request):
            return await handle_async(self, request)

    handle_request._understudy_original = handle  # type: ignore[attr-defined]
    httpx.HTTPTransport.handle_request = handle_request
    httpx.AsyncHTTPTransport.handle_async_request = handle_async_request


def _put_on(request: Any) -> Optional[Tuple[str, int]]:
    """Labels a request of httpx to a model. Returns the run and the number; None: the request gets no label. Never raises.

    A request that the caller has labelled keeps the caller's label.
    """
    try:
        name = label_now()
        if name is None or not is_llm_path(request.url.raw_path.decode("ascii")) or not is_labelled_host(request.url.host):
            return None
        if RUN in request.headers or SEQ in request.headers:
            return None
        number = labels.take(name)
        request.headers.update({RUN: name.encode("utf-8"), SEQ: str(number).encode("ascii")})
        return name, number
    except Exception:
        # Probably this version of httpx has another request class. The request is sent unchanged.
        log.debug("a request of httpx could not be labelled", exc_info=True)
        return None


def _label_aiohttp(aiohttp: Any) -> None:
    """Patches `ClientRequest.send`, which writes the head of each attempt, including redirects, on an open connection."""
    send = aiohttp.ClientRequest.send

    @functools.wraps(send)
    async def labelled_send(self: Any, *arguments: Any, **options: Any) -> Any:
        is_labelled = _put_on_aiohttp(self)
        try:
            return await send(self, *arguments, **options)
        finally:
            # The response shows the caller's own headers.
            if is_labelled:
                self.headers.popall(RUN, None)
                self.headers.popall(SEQ, None)

    aiohttp.ClientRequest.send = labelled_send


def _put_on_aiohttp(request: Any) -> bool:
    """Labels a request of aiohttp to a model, unless the caller has labelled it. Returns whether it did. Never raises."""
    try:
        name = label_now()
        if name is None or not is_llm_path(request.url.raw_path) or not is_labelled_host(request.url.host or ""):
            return False
        if RUN in request.headers or SEQ in request.headers:
            return False
        request.headers[RUN] = name
        request.headers[SEQ] = str(labels.take(name))
        return True
    except Exception:
        log.debug("a request of aiohttp could not be labelled", exc_info=True)
        return False


_INSTALLERS: Dict[str, Callable[[Any], None]] = {
    "http.client": _label_http_client,
    "httpx": _label_httpx,
    "httpx2": _label_httpx,
    "aiohttp": _label_aiohttp,
}
