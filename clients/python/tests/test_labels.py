"""Labels on requests to models: by urllib, http.client, requests and httpx over real sockets; each is skipped where it is not installed."""

import asyncio
import concurrent.futures
import contextvars
import http.client
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request
from unittest import mock

from support import HERE, PATIENCE_S, Service, understudy
from understudy import run_scope

LLM = "/v1/messages"


def is_there(name):
    return importlib.util.find_spec(name) is not None


def with_urllib(url, headers=None):
    request = urllib.request.Request(url, data=b"{}", headers=headers or {})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return response.status


def with_http_client(url, headers=None):
    host, _, path = url.partition("//")[2].partition("/")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
    try:
        connection.request("POST", f"/{path}", body=b"{}", headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def with_requests(url, headers=None):
    import requests

    return requests.post(url, data=b"{}", headers=headers, timeout=PATIENCE_S).status_code


def with_httpx(url, headers=None):
    import httpx

    with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as client:
        return client.post(url, content=b"{}", headers=headers).status_code


def with_httpx_async(url, headers=None):
    import httpx

    async def post():
        async with httpx.AsyncClient(timeout=PATIENCE_S, follow_redirects=True) as client:
            return (await client.post(url, content=b"{}", headers=headers)).status_code

    # In the scope of the caller, as a coroutine of its own would be.
    return asyncio.run(post())


class Transport:
    """What holds for each of them; below there is one class for each."""

    post = None

    @classmethod
    def setUpClass(cls):
        understudy.install_labels()

    def setUp(self):
        self.name = f"{type(self).__name__}-{self._testMethodName}"
        self.service = Service(lambda _: (200, {}, {}))
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)
        # Nothing of this machine's own proxies.
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        patch = mock.patch.dict(os.environ, {**clean, "no_proxy": "*", "SVC_HOSTS": ""})
        patch.start()
        self.addCleanup(patch.stop)

    def labels(self):
        return [(one.headers.get("x-svc-run"), one.headers.get("x-svc-seq")) for one in self.service.requests]

    def ask(self, path=LLM, headers=None):
        return type(self).post(self.service.url + path, headers)

    def test_carries_run_and_number_in_a_scope_and_nothing_outside(self):
        self.ask()
        with run_scope(self.name):
            self.ask()
            self.ask("/v1/models")
            self.ask("/v1/chat/completions?x=1")
            with run_scope(f"{self.name}-inner"):
                self.ask()
            self.ask("/v1beta/models/m:generateContent")
        self.ask()
        n, nothing = self.name, (None, None)
        inner = (f"{n}-inner", "1")
        self.assertEqual(self.labels(), [nothing, (n, "1"), nothing, (n, "2"), inner, (n, "3"), nothing])

    def test_goes_on_counting_in_a_later_scope_of_the_same_name(self):
        for _ in range(2):
            with run_scope(self.name):
                self.ask()
        self.assertEqual(self.labels(), [(self.name, "1"), (self.name, "2")])

    def test_is_in_the_scope_of_a_run(self):
        u = understudy.Understudy("k", self.service.url, live_streaming_enabled=False)
        with u.run(run_id=self.name):
            self.ask()
        self.ask()
        self.assertEqual(self.labels(), [(self.name, "1"), (None, None)])

    def test_leaves_a_label_alone_that_somebody_else_put_on(self):
        with run_scope(self.name):
            self.ask(headers={"X-Svc-Run": "mine", "X-Svc-Seq": "7"})
            self.ask()
        self.assertEqual(self.labels(), [("mine", "7"), (self.name, "1")])

    def test_keeps_the_request_as_it_is(self):
        self.ask(headers={"x-api-key": "secret", "accept": "text/plain"})
        with run_scope(self.name):
            self.ask(headers={"x-api-key": "secret", "accept": "text/plain"})
        plain, labelled = self.service.requests
        self.assertEqual(labelled.headers.pop("x-svc-run"), self.name)
        self.assertEqual(labelled.headers.pop("x-svc-seq"), "1")
        self.assertEqual((labelled.headers, labelled.body), (plain.headers, plain.body))

    def test_takes_names_beyond_ascii_and_none_that_a_header_cannot_hold(self):
        with run_scope("größe"):
            self.ask()
        self.assertEqual(self.service.requests[0].headers["x-svc-run"].encode("latin-1").decode("utf-8"), "größe")
        for name in ("a\r\nx: y", "", "x" * 129, " a", None):
            with run_scope(name):
                self.ask()
        self.assertEqual(self.labels()[1:], [(None, None)] * 5)

    def test_takes_no_number_where_there_is_no_connection(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            closed = f"http://127.0.0.1:{server.getsockname()[1]}{LLM}"
        with run_scope(self.name):
            self.ask()
            for _ in range(3):
                # Each library has its own name for it.
                with self.assertRaises(Exception) as caught:
                    type(self).post(closed)
                self.assertNotIsInstance(caught.exception, AssertionError)
            self.ask()
        self.assertEqual(self.labels(), [(self.name, "1"), (self.name, "2")])

    def test_numbers_each_attempt_and_redirect_on_the_wire(self):
        # 308 of a POST is followed by all but urllib, which ends with it.
        self.service.answer = lambda _: (308 if len(self.service.requests) == 1 else 200, {}, {"location": LLM})
        with run_scope(self.name):
            try:
                self.ask()
            except urllib.error.HTTPError as refused:
                refused.close()
            self.ask()
        count = len(self.service.requests)
        self.assertEqual(self.labels(), [(self.name, str(index + 1)) for index in range(count)])

    def test_numbers_concurrent_requests_without_a_gap(self):
        with run_scope(self.name), concurrent.futures.ThreadPoolExecutor(8) as pool:
            contexts = [contextvars.copy_context() for _ in range(40)]
            list(pool.map(lambda context: context.run(self.ask), contexts))
        numbers = sorted(int(seq) for _, seq in self.labels())
        self.assertEqual(numbers, list(range(1, 41)))


class Urllib(Transport, unittest.TestCase):
    post = staticmethod(with_urllib)


class HttpClient(Transport, unittest.TestCase):
    post = staticmethod(with_http_client)


@unittest.skipUnless(is_there("requests"), "requests is not installed")
class Requests(Transport, unittest.TestCase):
    post = staticmethod(with_requests)

    def test_numbers_its_own_retries(self):
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        answers = iter([(503, {}, {}), (503, {}, {})])
        self.service.answer = lambda _: next(answers, (200, {}, {}))
        with requests.Session() as session, run_scope(self.name):
            retry = Retry(total=3, status_forcelist=[503], allowed_methods=None, backoff_factor=0)
            session.mount("http://", HTTPAdapter(max_retries=retry))
            self.assertEqual(session.post(self.service.url + LLM, data=b"{}").status_code, 200)
        self.assertEqual([seq for _, seq in self.labels()], ["1", "2", "3"])


@unittest.skipUnless(is_there("httpx"), "httpx is not installed")
class Httpx(Transport, unittest.TestCase):
    post = staticmethod(with_httpx)

    def test_gives_a_request_that_is_sent_again_another_number_or_none(self):
        import httpx

        with httpx.Client() as client:
            request = client.build_request("POST", self.service.url + LLM, content=b"{}")
            with run_scope(self.name):
                client.send(request)
                client.send(request)
            client.send(request)
        self.assertEqual(self.labels(), [(self.name, "1"), (self.name, "2"), (None, None)])


@unittest.skipUnless(is_there("httpx"), "httpx is not installed")
class HttpxAsync(Transport, unittest.TestCase):
    post = staticmethod(with_httpx_async)

    def test_numbers_concurrent_tasks_without_a_gap(self):
        import httpx

        async def main():
            async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
                url = self.service.url + LLM

                async def work(name):
                    with run_scope(name):
                        await asyncio.gather(*(client.post(url, content=b"{}") for _ in range(10)))

                await asyncio.gather(*(work(f"{self.name}-{index}") for index in range(3)))

        asyncio.run(main())
        for index in range(3):
            numbers = sorted(int(seq) for name, seq in self.labels() if name == f"{self.name}-{index}")
            self.assertEqual(numbers, list(range(1, 11)))


class Hosts(unittest.TestCase):
    """Whether a host is labelled is asked of the connection: a proxy on this machine stands for one that is elsewhere."""

    def test_elsewhere_get_no_label_through_a_proxy_either(self):
        understudy.install_labels()
        with Service() as proxy:
            address = proxy.url.partition("//")[2]
            for name, svc_hosts in (("far", ""), ("listed", "api.provider.example")):
                with mock.patch.dict(os.environ, {"SVC_HOSTS": svc_hosts}), run_scope(name):
                    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
                    connection.request("POST", f"http://api.provider.example{LLM}", body=b"{}")
                    connection.getresponse().read()
                    connection.close()
            got = [(one.headers.get("x-svc-run"), one.headers.get("x-svc-seq")) for one in proxy.requests]
            self.assertEqual(got, [(None, None), ("listed", "1")])


class Installing(unittest.TestCase):
    def run_alone(self, script):
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{script}", str(HERE.parent)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def test_is_asked_for_and_once_is_enough(self):
        script = (
            "import understudy, http.client\n"
            "print(understudy.installed_transports())\n"
            "understudy.install_labels()\n"
            "before = http.client.HTTPConnection.endheaders\n"
            "print(understudy.install_labels() == understudy.installed_transports() != [])\n"
            "print(http.client.HTTPConnection.endheaders is before)\n"
        )
        self.assertEqual(self.run_alone(script), "[]\nTrue\nTrue\n")

    def test_does_without_libraries_that_are_not_there(self):
        script = (
            "sys.modules['httpx'] = None\n"
            "import understudy\n"
            "print(understudy.install_labels())\n"
        )
        self.assertEqual(self.run_alone(script), "['http.client']\n")

    def test_takes_the_run_of_the_whole_process_from_the_environment(self):
        with Service() as service:
            script = (
                "import os, understudy, urllib.request\n"
                "os.environ['SVC_RUN'] = 'nightly'\n"
                "understudy.install_labels()\n"
                f"ask = lambda: urllib.request.urlopen('{service.url}{LLM}', data=b'').read()\n"
                "ask()\n"
                "with understudy.run_scope('inner'): ask()\n"
                "ask()\n"
            )
            self.run_alone(script)
            got = [(one.headers["x-svc-run"], one.headers["x-svc-seq"]) for one in service.requests]
            self.assertEqual(got, [("nightly", "1"), ("inner", "1"), ("nightly", "2")])

    def test_changes_nothing_before(self):
        with Service() as service:
            script = (
                "import understudy, urllib.request\n"
                "with understudy.run_scope('r'):\n"
                f"    urllib.request.urlopen('{service.url}{LLM}', data=b'').read()\n"
            )
            self.run_alone(script)
            self.assertNotIn("x-svc-run", service.requests[0].headers)


if __name__ == "__main__":
    unittest.main()
