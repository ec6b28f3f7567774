"""Which hosts and origins a server answers."""

import socket

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.limits import Origins
from t2t_lite.serving.options import ServingOptions


def refusal(host, origin=None, method="POST", path="/translate", hosts=(), origins=(), **more):
    headers = [] if host is None else [(b"host", host.encode())]
    headers += [] if origin is None else [(b"origin", origin.encode())]
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    return Origins(hosts, origins).refusal(method, path, headers)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1:8000",
            "192.168.1.5",
            "[::1]:8000",
            "[::ffff:1.2.3.4]",
            "localhost:8000",
            "LOCALHOST.",
            "a.localhost",
        ),
        *("translator:8000", "t2t_lite", socket.gethostname(), f"{socket.gethostname().partition('.')[0]}.local:80"),
        *("mt.example.org", "MT.example.org.:443", None, ""),
    ],
)
def test_names_of_this_server_are_answered(host):
    for method in ("GET", "POST"):
        assert refusal(host, method=method, hosts=["mt.example.org"]) == ""


def test_a_refusal_says_the_name_that_the_option_takes():
    assert refusal("mt.example.org:8080").startswith("mt.example.org is not a name")
    for origins in (("https://a.org/",), ("a.org",), ("https://a.org", "https://b.org/x")):
        with pytest.raises(UserError, match="pass scheme and host"):
            ServingOptions(cors_origins=origins)


def test_a_page_of_another_kind_is_no_page_of_this_server():
    assert "cors_origins" in refusal("localhost", origin="xyz://localhost")
    assert refusal("localhost", origin="http://localhost") == ""


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:8000",
            "127.0.0.1.evil.example",
            "127.0.0.1:80@evil.example",
            "localhost.evil.example",
        ),
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


def test_names_with_scheme_or_port_are_a_mistake():
    for name in ("https://a.example", "a.example:80", "a b"):
        with pytest.raises(UserError, match="without scheme and port"):
            ServingOptions(allowed_hosts=(name,))
