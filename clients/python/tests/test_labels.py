"""Tests of labels on requests to models, over real sockets, with each HTTP library and SDK that is installed."""

import asyncio
import concurrent.futures
import contextvars
import functools
import http.client
import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request
from unittest import mock

from support import HERE, PATIENCE_S, Service, understudy_gateway

from understudy_gateway import run_scope
from understudy_gateway._labels import label_now

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


def with_urllib3(url, headers=None):
    import urllib3

    with urllib3.PoolManager(retries=urllib3.Retry(connect=0, read=0, redirect=3)) as pool:
        return pool.request("POST", url, body=b"{}", headers=headers, timeout=PATIENCE_S).status


def with_httpx(url, headers=None, library="httpx"):
    with importlib.import_module(library).Client(timeout=PATIENCE_S, follow_redirects=True) as client:
        return client.post(url, content=b"{}", headers=headers).status_code


def with_httpx_async(url, headers=None, library="httpx"):
    async def post():
        async with importlib.import_module(library).AsyncClient(timeout=PATIENCE_S, follow_redirects=True) as client:
            return (await client.post(url, content=b"{}", headers=headers)).status_code

    # `asyncio.run` copies the context of its caller, so the request is in the caller's scope.
    return asyncio.run(post())


def with_aiohttp(url, headers=None):
    import aiohttp

    async def post():
        async with aiohttp.ClientSession() as session, session.post(url, data=b"{}", headers=headers) as response:
            await response.read()
            return response.status

    return asyncio.run(post())


class Transport:
    """Tests for every HTTP library; each library has a subclass below."""

    post = None

    @classmethod
    def setUpClass(cls):
        understudy_gateway.install_labels()

    def setUp(self):
        self.name = f"{type(self).__name__}-{self._testMethodName}"
        self.service = Service(lambda _: (200, {}, {}))
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)
        # Ignore this machine's proxy settings.
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
        u = understudy_gateway.Understudy("k", self.service.url, live_streaming_enabled=False)
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
                # Each library raises its own class of exception.
                with self.assertRaises(Exception) as caught:
                    type(self).post(closed)
                self.assertNotIsInstance(caught.exception, AssertionError)
            self.ask()
        self.assertEqual(self.labels(), [(self.name, "1"), (self.name, "2")])

    def test_numbers_each_attempt_and_redirect_on_the_wire(self):
        # Most libraries follow a 308 after a POST. http.client does not, and urllib raises an HTTPError.
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


@unittest.skipUnless(is_there("urllib3"), "urllib3 is not installed")
class Urllib3(Transport, unittest.TestCase):
    post = staticmethod(with_urllib3)


class OfHttpx:
    """Tests for httpx and httpx2."""

    library = None

    def test_gives_a_request_that_is_sent_again_another_number_or_none(self):
        with importlib.import_module(self.library).Client() as client:
            request = client.build_request("POST", self.service.url + LLM, content=b"{}")
            with run_scope(self.name):
                client.send(request)
                client.send(request)
            client.send(request)
        self.assertEqual(self.labels(), [(self.name, "1"), (self.name, "2"), (None, None)])


class OfHttpxAsync:
    library = None

    def test_numbers_concurrent_tasks_without_a_gap(self):
        async def main():
            async with importlib.import_module(self.library).AsyncClient(timeout=PATIENCE_S) as client:
                await request_in_tasks(self, lambda url: client.post(url, content=b"{}"))

        asyncio.run(main())
        expect_no_gaps(self)


async def request_in_tasks(test, post):
    """Sends ten concurrent requests in each of three concurrent scopes."""

    async def work(name):
        with run_scope(name):
            await asyncio.gather(*(post(test.service.url + LLM) for _ in range(10)))

    await asyncio.gather(*(work(f"{test.name}-{index}") for index in range(3)))


def expect_no_gaps(test):
    for index in range(3):
        numbers = sorted(int(seq) for name, seq in test.labels() if name == f"{test.name}-{index}")
        test.assertEqual(numbers, list(range(1, 11)))


@unittest.skipUnless(is_there("httpx"), "httpx is not installed")
class Httpx(OfHttpx, Transport, unittest.TestCase):
    library = "httpx"
    post = staticmethod(with_httpx)


@unittest.skipUnless(is_there("httpx"), "httpx is not installed")
class HttpxAsync(OfHttpxAsync, Transport, unittest.TestCase):
    library = "httpx"
    post = staticmethod(with_httpx_async)


@unittest.skipUnless(is_there("httpx2"), "httpx2 is not installed")
class Httpx2(OfHttpx, Transport, unittest.TestCase):
    library = "httpx2"
    post = staticmethod(functools.partial(with_httpx, library="httpx2"))


@unittest.skipUnless(is_there("httpx2"), "httpx2 is not installed")
class Httpx2Async(OfHttpxAsync, Transport, unittest.TestCase):
    library = "httpx2"
    post = staticmethod(functools.partial(with_httpx_async, library="httpx2"))


@unittest.skipUnless(is_there("aiohttp"), "aiohttp is not installed")
class Aiohttp(Transport, unittest.TestCase):
    post = staticmethod(with_aiohttp)

    def test_numbers_concurrent_tasks_without_a_gap(self):
        import aiohttp

        async def main():
            async with aiohttp.ClientSession() as session:

                async def post(url):
                    async with session.post(url, data=b"{}") as response:
                        await response.read()

                await request_in_tasks(self, post)

        asyncio.run(main())
        expect_no_gaps(self)

    def test_shows_the_caller_the_headers_of_the_caller(self):
        import aiohttp

        async def main():
            async with aiohttp.ClientSession() as session, session.post(self.service.url + LLM, data=b"{}") as response:
                return [name.lower() for name in response.request_info.headers]

        with run_scope(self.name):
            names = asyncio.run(main())
        self.assertEqual(self.labels(), [(self.name, "1")])
        self.assertNotIn("x-svc-run", names)
        self.assertNotIn("x-svc-seq", names)


MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None,
    "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}
COMPLETION = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}}, "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1},
}
HELLO = [{"role": "user", "content": "hello"}]


def ask_anthropic(url):
    import anthropic

    with anthropic.Anthropic(api_key="k", base_url=url) as client:
        return client.messages.create(model="m", max_tokens=9, messages=HELLO).content[0].text


def ask_anthropic_async(url):
    import anthropic

    async def ask():
        async with anthropic.AsyncAnthropic(api_key="k", base_url=url) as client:
            return (await client.messages.create(model="m", max_tokens=9, messages=HELLO)).content[0].text

    return asyncio.run(ask())


def ask_openai(url):
    import openai

    with openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
        return client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content


def ask_openai_async(url):
    import openai

    async def ask():
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
            return (await client.chat.completions.create(model="m", messages=HELLO)).choices[0].message.content

    return asyncio.run(ask())


def ask_bedrock(url):
    import boto3

    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    client = boto3.client("bedrock-runtime", endpoint_url=f"{url}/bedrock/us-east-1", **keys)
    answer = client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "hello"}]}])
    client.close()
    return answer["output"]["message"]["content"][0]["text"]


def ask_litellm(url):
    import litellm

    answer = litellm.completion("openai/m", messages=HELLO, api_base=f"{url}/v1", api_key="k")
    return answer.choices[0].message.content


def ask_litellm_async(url):
    import litellm

    async def ask():
        answer = await litellm.acompletion("anthropic/m", messages=HELLO, api_base=url, api_key="k")
        return answer.choices[0].message.content

    return asyncio.run(ask())


SDKS = {
    "anthropic": [ask_anthropic, ask_anthropic_async],
    "openai": [ask_openai, ask_openai_async],
    "boto3": [ask_bedrock],
    "litellm": [ask_litellm, ask_litellm_async],
}


class Sdks(unittest.TestCase):
    """Real SDKs against a fake provider: their requests are labelled, whichever HTTP library an SDK uses."""

    def setUp(self):
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        settings = {"no_proxy": "*", "SVC_HOSTS": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "3"}
        # Otherwise LiteLLM fetches a list of prices.
        settings["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        patch = mock.patch.dict(os.environ, {**clean, **settings})
        patch.start()
        self.addCleanup(patch.stop)
        understudy_gateway.install_labels()

    def check(self, name):
        if not is_there(name):
            self.skipTest(f"{name} is not installed")
        for ask in SDKS[name]:
            with self.subTest(ask.__name__), Service() as provider:
                # The first attempt fails, so that the SDK retries.
                provider.answer = lambda request, provider=provider: (
                    (503, {}, {"retry-after-ms": "1"}) if len(provider.requests) == 1 else self.answer(request)
                )
                label = f"of-{ask.__name__}"
                with run_scope(label):
                    try:
                        self.assertEqual(ask(provider.url), "hello")
                    except Exception:
                        # LiteLLM does not retry by default.
                        self.assertEqual(ask(provider.url), "hello")
                    self.assertEqual(ask(provider.url), "hello")
                self.assertEqual(ask(provider.url), "hello")
                got = [(one.headers.get("x-svc-run"), one.headers.get("x-svc-seq")) for one in provider.requests]
                self.assertEqual(got, [(label, "1"), (label, "2"), (label, "3"), (None, None)])

    def answer(self, request):
        if request.path.endswith("/messages"):
            return 200, MESSAGE, {"content-type": "application/json"}
        if request.path.endswith("/converse"):
            return 200, CONVERSED, {"content-type": "application/json"}
        return 200, COMPLETION, {"content-type": "application/json"}

    def test_of_anthropic(self):
        self.check("anthropic")

    def test_of_openai(self):
        self.check("openai")

    def test_of_boto3(self):
        self.check("boto3")

    def test_of_litellm(self):
        self.check("litellm")


class Hosts(unittest.TestCase):
    """Hosts behind a proxy. The proxy runs on this machine, and answers in place of the hosts."""

    def test_elsewhere_get_a_label_through_a_proxy_only_if_listed(self):
        understudy_gateway.install_labels()
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


class Generators(unittest.TestCase):
    """Runs and scopes inside generators, which a consumer may leave at any time."""

    def setUp(self):
        self.service = Service(lambda _: (200, {}, {}))
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        patch = mock.patch.dict(os.environ, {**clean, "no_proxy": "*", "SVC_HOSTS": ""})
        patch.start()
        self.addCleanup(patch.stop)
        understudy_gateway.install_labels()
        # The service that receives the events of the runs; no test uses its answers.
        self.events = Service(lambda _: (200, {}, {}))
        self.events.__enter__()
        self.addCleanup(self.events.__exit__)
        self.client = understudy_gateway.Understudy(api_key="k", base_url=self.events.url)
        self.addCleanup(self.client.close)

    def label(self):
        """Sends a request in this context. Returns the run in its label; None: no label."""
        with_urllib(self.service.url + LLM)
        return self.service.requests[-1].headers.get("x-svc-run")

    def test_left_asynchronously_hold_no_context(self):
        run = self.client.run(task="parts", run_id="tenant-a")

        async def agent():
            async with run:
                for part in range(3):
                    yield await asyncio.to_thread(self.label)

        async def main():
            async for label in agent():
                self.assertEqual(label, "tenant-a")
                break
            # The loop closes the abandoned generator in a separate context.
            while run.outcome is None:
                await asyncio.sleep(0)
            self.assertIsNone(understudy_gateway.current_run())
            self.assertIsNone(await asyncio.to_thread(self.label))
            with self.client.run(run_id="tenant-b"):
                self.assertEqual(await asyncio.to_thread(self.label), "tenant-b")
            self.assertIsNone(self.label())

        asyncio.run(main())
        self.assertEqual(run.outcome, "success")

    def test_closed_in_the_middle_of_another_run_leave_that_one_alone(self):
        run = self.client.run(run_id="inside")

        def agent():
            with run:
                yield 1
                yield 2

        with self.client.run(run_id="outer"):
            parts = agent()
            next(parts)
            with self.client.run(run_id="later") as later:
                parts.close()
                self.assertEqual(run.outcome, "success")
                self.assertIs(understudy_gateway.current_run(), later)
                self.assertIs(self.client.current(), later)
                self.assertEqual(self.label(), "later")
            self.assertEqual(understudy_gateway.current_run().run_id, "outer")
            self.assertEqual(self.label(), "outer")
        self.assertIsNone(understudy_gateway.current_run())
        self.assertIsNone(self.label())

    def test_that_fail_still_end_their_run_as_a_failure(self):
        run = self.client.run(run_id="failing")

        def agent():
            with run:
                yield 1
                raise KeyError("gone")

        with self.assertRaises(KeyError):
            list(agent())
        self.assertEqual(run.outcome, "failure: KeyError")

    def test_whose_consumer_fails_have_not_failed_themselves(self):
        run = self.client.run(run_id="consumed")

        def agent():
            with run:
                yield 1

        parts = agent()
        next(parts)
        del parts
        self.assertEqual(run.outcome, "success")

    def test_an_ended_run_names_nothing_in_a_task_that_outlives_it(self):
        async def main():
            go_on = asyncio.Event()

            async def work():
                await go_on.wait()
                return await asyncio.to_thread(self.label), understudy_gateway.current_run()

            async with self.client.run(run_id="ended"):
                task = asyncio.create_task(work())
            go_on.set()
            self.assertEqual(await task, (None, None))

        asyncio.run(main())

    def test_a_scope_labels_a_task_that_outlives_it(self):
        async def main():
            with run_scope("kept"):
                task = asyncio.create_task(asyncio.to_thread(self.label))
            self.assertEqual(await task, "kept")

        asyncio.run(main())

    def test_one_scope_is_entered_by_many_threads_at_once(self):
        scope = run_scope("shared")
        all_inside, first_left = threading.Barrier(2, timeout=PATIENCE_S), threading.Event()

        def leave_first():
            with scope:
                all_inside.wait()
            first_left.set()
            return self.label()

        def stay():
            with scope:
                all_inside.wait()
                self.assertTrue(first_left.wait(PATIENCE_S))
                return label_now()

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first, second = pool.submit(leave_first), pool.submit(stay)
            self.assertEqual((first.result(), second.result()), (None, "shared"))


class Installing(unittest.TestCase):
    def run_alone(self, script):
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, sys.argv[1])\n{script}", str(HERE.parent)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def test_is_asked_for_and_once_is_enough(self):
        script = (
            "import understudy_gateway, http.client\n"
            "print(understudy_gateway.installed_transports())\n"
            "understudy_gateway.install_labels()\n"
            "before = http.client.HTTPConnection.endheaders\n"
            "print(understudy_gateway.install_labels() == understudy_gateway.installed_transports() != [])\n"
            "print(http.client.HTTPConnection.endheaders is before)\n"
        )
        self.assertEqual(self.run_alone(script), "[]\nTrue\nTrue\n")

    def test_does_without_libraries_that_are_not_there(self):
        script = (
            "for name in ('httpx', 'httpx2', 'aiohttp'): sys.modules[name] = None\n"
            "import understudy_gateway\n"
            "print(understudy_gateway.install_labels())\n"
        )
        self.assertEqual(self.run_alone(script), "['http.client']\n")

    def test_lists_what_is_labelled_and_nothing_else(self):
        there = [name for name in ("http.client", "httpx", "httpx2", "aiohttp") if name == "http.client" or is_there(name)]
        script = (
            "import understudy_gateway, json\n"
            "understudy_gateway.install_labels()\n"
            "print(json.dumps(understudy_gateway.installed_transports()))\n"
        )
        self.assertEqual(json.loads(self.run_alone(script)), there)

    @unittest.skipUnless(is_there("httpx"), "httpx is not installed")
    def test_does_not_list_a_version_that_it_cannot_label(self):
        script = (
            "import httpx, logging\n"
            "logging.disable()\n"
            "del httpx.AsyncHTTPTransport\n"
            "import understudy_gateway\n"
            "print('httpx' in understudy_gateway.install_labels())\n"
        )
        self.assertEqual(self.run_alone(script), "False\n")

    @unittest.skipUnless(is_there("httpx2"), "httpx2 is not installed")
    def test_labels_once_where_httpx2_has_the_name_httpx(self):
        with Service() as service:
            script = (
                "import httpx2\n"
                "sys.modules['httpx'] = httpx2\n"
                "import understudy_gateway\n"
                "print(understudy_gateway.install_labels()[:3])\n"
                "with understudy_gateway.run_scope('r'):\n"
                f"    for _ in range(2): httpx2.post('{service.url}{LLM}', content=b'')\n"
            )
            self.assertEqual(self.run_alone(script), "['http.client', 'httpx', 'httpx2']\n")
            got = [(one.headers["x-svc-run"], one.headers["x-svc-seq"]) for one in service.requests]
            self.assertEqual(got, [("r", "1"), ("r", "2")])

    def test_takes_the_run_of_the_whole_process_from_the_environment(self):
        with Service() as service:
            script = (
                "import os, understudy_gateway, urllib.request\n"
                "os.environ['SVC_RUN'] = 'nightly'\n"
                "understudy_gateway.install_labels()\n"
                f"ask = lambda: urllib.request.urlopen('{service.url}{LLM}', data=b'').read()\n"
                "ask()\n"
                "with understudy_gateway.run_scope('inner'): ask()\n"
                "ask()\n"
            )
            self.run_alone(script)
            got = [(one.headers["x-svc-run"], one.headers["x-svc-seq"]) for one in service.requests]
            self.assertEqual(got, [("nightly", "1"), ("inner", "1"), ("nightly", "2")])

    def test_changes_nothing_before(self):
        with Service() as service:
            script = (
                "import understudy_gateway, urllib.request\n"
                "with understudy_gateway.run_scope('r'):\n"
                f"    urllib.request.urlopen('{service.url}{LLM}', data=b'').read()\n"
            )
            self.run_alone(script)
            self.assertNotIn("x-svc-run", service.requests[0].headers)


if __name__ == "__main__":
    unittest.main()
