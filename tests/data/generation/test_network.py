"""Without a network, generation fails within seconds and names every file to place by hand."""

import socket
import time

import pytest

from t2t_lite.data.generation.sources import why_unreachable


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_a_server_that_accepts_connections_is_reachable(server):
    assert why_unreachable(f"http://127.0.0.1:{server}/a/file") == ""


def test_a_refused_connection_or_unknown_host_is_reported_with_the_reason(closed_port):
    assert why_unreachable(f"http://127.0.0.1:{closed_port}") == "Connection refused"
    assert why_unreachable("https://no-such-host.invalid") != ""
    assert why_unreachable("http://127.0.0.1:99999999") != ""


def test_with_a_proxy_only_the_proxy_must_be_reachable(server, closed_port, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server}")
    assert why_unreachable("http://no-such-host.invalid") == ""
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{closed_port}")
    message = f"the proxy 127.0.0.1:{closed_port}: Connection refused"
    assert why_unreachable("http://no-such-host.invalid") == message
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert why_unreachable(f"http://127.0.0.1:{server}") == ""


def test_a_name_server_that_does_not_answer_times_out(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: time.sleep(1) or [])
    assert why_unreachable("http://example.org", seconds=0.1) == "no answer within 0.1 s"


TEXTS = [f"{split}.de-en.{side}" for split in ("train", "newstest2013", "newstest2014") for side in ("en", "de")]
CAPTIONS = [f"{split}.{side}.gz" for split in ("train", "val", "test_2016_flickr") for side in ("en", "de")]


@pytest.mark.parametrize(("problem", "files"), [("wmt_ende", TEXTS), ("multi30k_ende", CAPTIONS)])
def test_datagen_without_a_network_names_every_file_and_where_to_place_it(
    command, monkeypatch, tmp_path, closed_port, problem, files
):
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{closed_port}")
    result = command("datagen", f"--problem={problem}", f"--data_dir={tmp_path / 'data'}")
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1 and "Connection refused" in result.stderr
    assert f"place by hand in {tmp_path / 'data' / 'downloads'} (--tmp_dir): {', '.join(files)} (" in result.stderr
    assert not (tmp_path / "data").exists()


def test_when_some_text_files_are_missing_they_are_named(command, tmp_path):
    (tmp_path / TEXTS[0]).write_text("a\n")
    result = command("datagen", "--problem=wmt_ende", f"--data_dir={tmp_path / 'data'}", f"--tmp_dir={tmp_path}")
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert f"{tmp_path} contains {TEXTS[0]} but not {', '.join(TEXTS[1:])} (plain or with .gz)" in result.stderr
