"""docs/deploy.md: its nginx file, Prometheus files and updates, with two servers on this machine."""

import configparser
import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from support.server import Server

from t2t_lite.bin.serve import make_parser

pytest.importorskip("ctranslate2", reason="needs ctranslate2 (pip install -e '.[dev]')")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
HOST = "mt.example.org"


def block(start):
    """The block of the page that begins with a text."""
    (found,) = re.findall(rf"^```\w+\n({re.escape(start)}.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def changed(text, changes):
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_the_unit_of_systemd_starts_a_server_with_flags_that_exist():
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(block("[Unit]"))
    program, *flags = shlex.split(unit["Service"]["ExecStart"].replace("%i", "8000"))
    assert program == "/opt/t2t-lite/bin/t2t-lite-serve"
    arguments = make_parser().parse_args(flags)
    assert (arguments.port, arguments.allowed_hosts) == (8000, (HOST,))
    assert int(unit["Service"]["TimeoutStopSec"]) > arguments.timeout_seconds


class Site:
    """nginx with the page's file in front of two servers, at `port`.

    Args:
      folder: for the files of nginx; it has the folder `ende`, an export.
    """

    def __init__(self, folder):
        self.folder, self._stack = folder, ExitStack()
        self.flags = (
            f"--export_dir={folder}/ende",
            "--languages=en-de",
            f"--allowed_hosts={HOST}",
            f"--api_keys={folder}/keys",
        )
        (folder / "keys").write_text("KEY\n")

    def __enter__(self):
        self.servers = [self._stack.enter_context(Server(*self.flags)) for _ in range(2)]
        self.port = free_port()
        first, second = (str(server.port) for server in self.servers)
        at = {
            ":8000": f":{first}",
            ":8001": f":{second}",
            "listen 443 ": f"listen {self.port} ",
            "listen 80;": f"listen {free_port()};",
        }
        settings = changed(block("upstream"), at | {"/etc/nginx": str(self.folder)})
        self.file = self.folder / "nginx.conf"
        paths = "".join(f"{kind}_temp_path t_{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        self.file.write_text(f"daemon off; pid pid; events {{}} http {{ access_log off; {paths} {settings} }}")
        self.nginx = ["nginx", "-p", str(self.folder), "-e", "errors", "-c", str(self.file)]
        certificate, check = block("openssl").split("nginx -t", 1)
        subprocess.run(changed(certificate, {"/etc/nginx": str(self.folder)}), shell=True, check=True)
        subprocess.run([*self.nginx, "-t"], check=True)
        process = subprocess.Popen(self.nginx)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        while subprocess.run(["curl", "-ks", f"https://127.0.0.1:{self.port}/health"], capture_output=True).returncode:
            assert process.poll() is None
            time.sleep(0.02)
        request = check.partition("\n")[2]
        self.curl = changed(
            request, {"/etc/nginx": str(self.folder), ":443:": f":{self.port}:", f"{HOST}/": f"{HOST}:{self.port}/"}
        )
        return self

    def __exit__(self, *error):
        self._stack.close()

    def restart(self, number):
        """Ends a server and starts another at its port."""
        server = self.servers[number]
        assert server.stop() == 0
        self.servers[number] = self._stack.enter_context(Server(*self.flags, port=server.port))

    def post(self):
        """Translates a line through nginx and returns the model's output, as a browser at the site does."""
        context = ssl.create_default_context(cafile=self.folder / f"{HOST}.pem")
        context.check_hostname = False  # the name leads to another machine, if to any
        content = json.dumps({"q": "The old man sees a dog.", "source": "en", "target": "de", "api_key": "KEY"})
        headers = {"Content-Type": "application/json", "Host": HOST, "Origin": f"https://{HOST}"}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/translate", content.encode(), headers)
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            return json.load(response)["translatedText"]


@pytest.fixture(scope="module")
def site(served_exports, tmp_path_factory):
    if not shutil.which("nginx"):
        pytest.skip("needs nginx (apt-get install nginx)")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(served_exports / "old", folder / "ende")
    shutil.copytree(served_exports / "new", folder / "new")
    with Site(folder) as site:
        yield site


@pytest.mark.heavy
def test_the_model_is_updated_behind_nginx_without_a_lost_request(site):
    done = subprocess.run(site.curl, shell=True, capture_output=True, text=True, check=True)
    assert "translatedText" in done.stdout, done.stdout
    old = json.loads(done.stdout)["translatedText"]
    outputs, errors, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                outputs.append(site.post())
            except OSError as error:
                errors.append(error)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        (exchange,) = re.findall(r"`(rm -rf /srv.*?)`", PAGE)
        subprocess.run(changed(exchange, {"/srv/models": str(site.folder)}), shell=True, check=True)
        assert site.post() == old
        for number in range(2):
            site.restart(number)
        new, count = site.post(), len(outputs)
        site.servers[0].wait_until(lambda: len(outputs) > count + 20)
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert errors == []
    assert old != new
    assert set(outputs) == {old, new} and set(outputs[count:]) == {new}


@pytest.mark.heavy
def test_prometheus_finds_the_metrics_of_its_alerts(site, tmp_path):
    site.post()
    port = site.servers[0].port
    metrics = site.servers[0].get("/metrics").content
    rules, settings = block("# t2t-lite.rules.yml"), block("# prometheus.yml")
    expressions = [rule["expr"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    for name in re.findall(r"t2t_lite_\w+", " ".join(expressions)):
        assert re.search(rf"^# TYPE {name.removesuffix('_bucket')} ", metrics, re.MULTILINE), name
    ports = re.findall(r":(\d+)", str(yaml.safe_load(settings)["scrape_configs"]))
    assert ports == re.findall(r"server 127.0.0.1:(\d+) ", block("upstream"))
    assert subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/metrics"], capture_output=True, check=True).stdout
    if shutil.which("promtool"):
        (tmp_path / "prometheus.yml").write_text(settings)
        (tmp_path / "t2t-lite.rules.yml").write_text(rules)
        subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], check=True)
