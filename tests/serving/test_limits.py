"""The outermost layer of the server: what it lets through, what it answers itself, which hosts and origins it knows."""

import asyncio
import json
import socket

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.limits import Guard, Origins
from t2t_lite.serving.monitoring import Metrics
from t2t_lite.serving.options import ServingOptions


class Application:
    """Answers with the size of the body as soon as `go_on` is set."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.bodies = []

    async def __call__(self, scope, receive, send):
        self.bodies.append((await receive())["body"])
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(self.bodies[-1])})


async def ask(guard, *parts, method="POST", headers=(), taken=None):
    """Sends a request in parts (None: nothing comes any more) and returns (status, content, headers)."""
    scope = {"type": "http", "method": method, "path": "/x", "headers": list(headers), "client": ("127.0.0.1", 1)}
    waiting = list(parts)
    sent = []

    async def receive():
        if not waiting or waiting[0] is None:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message):
        if taken is not None:
            await taken.wait()
        sent.append(message)

    await guard(scope, receive, send)
    if not sent:
        return None
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


def run(test, **options):
    """Runs a test, a function of (guard, application)."""

    async def started():
        application = Application()
        application.go_on.set()
        metrics = Metrics()
        result = await test(Guard(application, ServingOptions(**options), metrics), application)
        return result, metrics.text().decode()

    return asyncio.run(started())


def error_of(answer):
    return json.loads(answer[1])["error"]


def test_a_body_in_parts_arrives_whole_and_a_head_that_is_too_large_is_refused():
    async def test(guard, application):
        assert await ask(guard, b"ab", b"", b"cde") == (200, b"5", {})
        assert await ask(guard, b"\xef\xbb", b"\xbfab") == (200, b"2", {})  # without its byte order mark
        assert application.bodies == [b"abcde", b"ab"]
        header = (b"x-a", b"b" * 1000)
        assert (await ask(guard, b"", headers=[header] * 60))[0] == 200
        answer = await ask(guard, b"", headers=[header] * 70)
        assert answer[0] == 400 and "head of the request is too long" in error_of(answer)

    run(test)


@pytest.mark.parametrize(
    ("parts", "headers"),
    [
        ([b"x" * 60, b"x" * 60], []),
        ([b"x" * 101], [(b"content-length", b"101")]),
        ([None], [(b"content-length", b"99999999999")]),
    ],
    ids=["more in parts", "announced", "far too much"],
)
def test_a_body_that_is_too_large_is_refused_and_the_connection_closed(parts, headers):
    async def test(guard, application):
        answer = await ask(guard, *parts, headers=headers)
        assert answer[0] == 413 and "more than 100 bytes" in error_of(answer)
        assert answer[2][b"connection"] == b"close" and application.bodies == []

    _, figures = run(test, max_body_bytes=100)
    assert 't2t_lite_refused_total{reason="too_large"} 1.0' in figures


def test_a_body_that_does_not_come_is_given_up_and_a_client_that_takes_no_answer_is_left():
    async def test(guard, application):
        answer = await ask(guard, b"x", None)
        assert answer[0] == 408 and application.bodies == []
        assert await ask(guard, b"x", taken=asyncio.Event()) is None
        assert await ask(guard, b"", None, taken=asyncio.Event()) is None

    _, figures = run(test, read_seconds=0.05)
    assert 'status="499"' in figures


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_error_of_the_application_is_one_line_and_its_text_is_not_logged(logged, has_begun):
    async def fails(scope, receive, send):
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError((await receive())["body"].decode())

    metrics = Metrics()
    answer = asyncio.run(ask(Guard(fails, ServingOptions(), metrics), b"the text of a client"))
    assert answer[0] == 500 and error_of(answer) == "internal server error; see the server's log"
    lines = "\n".join(logged())
    assert "ValueError" in lines and "in fails" in lines and "the text of a client" not in lines
    assert 'status="500"' in metrics.text().decode()


def test_more_requests_than_allowed_at_the_same_time_are_refused_but_monitors_are_answered():
    async def test(guard, application):
        application.go_on.clear()
        waiting = [asyncio.create_task(ask(guard, b"a")) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await ask(guard, b"a")
        assert refused[0] == 429 and refused[2][b"retry-after"] == b"1"
        monitor = asyncio.create_task(ask(guard, b"", method="GET"))
        application.go_on.set()
        assert [(await each)[0] for each in (*waiting, monitor)] == [200, 200, 200]
        assert (await ask(guard, b"a"))[0] == 200

    _, figures = run(test, max_requests=2)
    assert 't2t_lite_refused_total{reason="busy"} 1.0' in figures


def refusal(host, origin=None, method="POST", path="/translate", hosts=(), origins=(), **more):
    headers = [] if host is None else [(b"host", host.encode())]
    headers += [] if origin is None else [(b"origin", origin.encode())]
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    return Origins(hosts, origins).refusal(method, path, headers)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8000", "192.168.1.5", "[::1]:8000", "[::ffff:1.2.3.4]", "localhost:8000", "LOCALHOST."),
        *("translator:8000", "t2t_lite", socket.gethostname(), f"{socket.gethostname().partition('.')[0]}.local:80"),
        *("a.localhost", "mt.example.org", "MT.example.org.:443", None, ""),
    ],
)
def test_names_of_this_server_are_answered(host):
    for method in ("GET", "POST"):
        assert refusal(host, method=method, hosts=["mt.example.org"]) == ""


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example"),
        "localhost.evil.example",
        *("x.mt.example.org", "[::1].evil.example", "[evil.example]", "a b", "mt.example.org/x", "\xe4.example", "[]"),
    ],
)
def test_other_names_are_not_but_for_monitors(host):
    for method in ("GET", "POST", "HEAD", "OPTIONS"):
        assert "allowed_hosts" in refusal(host, method=method, path="/", hosts=["mt.example.org"])
    for path in ("/health", "/ready", "/metrics"):
        assert refusal(host, method="GET", path=path) == ""
    assert refusal(host, hosts=["*"]) == ""
    both = [(b"host", b"localhost"), (b"host", host.encode())]
    assert Origins((), ()).refusal("GET", "/", both) != ""


@pytest.mark.parametrize(
    ("host", "origin", "more"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000", {}),
        ("localhost", "http://localhost:80", {}),
        ("localhost", "http://localhost", {}),
        ("localhost:443", "https://LOCALHOST", {}),
        ("t2t_lite", "https://mt.example.org", {"sec_fetch_site": "same-origin"}),  # a proxy that changes the host
        ("127.0.0.1:8000", "https://page.example", {}),
    ],
)
def test_pages_of_the_server_and_of_named_origins_may_send(host, origin, more):
    assert refusal(host, origin, origins=["https://page.example"], **more) == ""


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "null", "", "http://127.0.0.1:9000", "http://localhost:8000", "127.0.0.1:8000"),
        *("https://page.example.evil.example", "http://page.example", "chrome-extension://x"),
    ],
)
def test_pages_of_other_origins_may_not(origin):
    host = "127.0.0.1:8000"
    for site in ("cross-site", "same-site", "none"):
        assert "cors_origins" in refusal(host, origin, origins=["https://page.example"], sec_fetch_site=site)
    assert refusal(host, origin, method="GET") == ""
    assert refusal(host, origin, origins=["*"]) == ""


def test_what_is_no_name_is_a_mistake_and_a_refusal_says_the_name_that_the_option_takes():
    assert "cors_origins" in refusal("localhost", origin="xyz://localhost")
    assert refusal("mt.example.org:8080").startswith("mt.example.org is not a name")
    for origins in (("https://a.org/",), ("a.org",), ("https://a.org", "https://b.org/x")):
        with pytest.raises(UserError, match="pass scheme and host"):
            ServingOptions(cors_origins=origins)
    for name in ("https://a.example", "a.example:80", "a b"):
        with pytest.raises(UserError, match="without scheme and port"):
            ServingOptions(allowed_hosts=(name,))
