"""docs/deploy.md: its nginx file, Prometheus files and updates, with two servers on this machine; and Ray Serve."""

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
from support.server import SENTENCES, Server

from t2t_lite.bin.serve import make_parser
from t2t_lite.errors import UserError

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
    """nginx with the page's file in front of two servers, at `port`; the folder has the folder `ende`, an export."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.port = folder, stack, free_port()
        (folder / "keys").write_text("KEY\n")
        self.flags = (f"--export_dir={folder}/ende", "--languages=en-de", f"--allowed_hosts={HOST}")
        self.flags += (f"--api_keys={folder}/keys",)
        self.servers = [stack.enter_context(Server(*self.flags)) for _ in range(2)]
        first, second = (f":{server.port}" for server in self.servers)
        changes = {":8000": first, ":8001": second, "listen 443 ": f"listen {self.port} "}
        changes |= {"listen 80;": f"listen {free_port()};", "/etc/nginx": str(folder)}
        settings = changed(block("upstream"), changes)
        paths = "".join(f"{kind}_temp_path t_{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        file = folder / "nginx.conf"
        file.write_text(f"daemon off; pid pid; events {{}} http {{ access_log off; {paths} {settings} }}")
        nginx = ["nginx", "-p", str(folder), "-e", "errors", "-c", str(file)]
        certificate, check = block("openssl").split("nginx -t", 1)
        subprocess.run(changed(certificate, {"/etc/nginx": str(folder)}), shell=True, check=True)
        subprocess.run([*nginx, "-t"], check=True)
        process = subprocess.Popen(nginx)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        while subprocess.run(["curl", "-ks", f"https://127.0.0.1:{self.port}/health"], capture_output=True).returncode:
            assert process.poll() is None
            time.sleep(0.02)
        changes = {"/etc/nginx": str(folder), ":443:": f":{self.port}:", f"{HOST}/": f"{HOST}:{self.port}/"}
        self.curl = changed(check.partition("\n")[2], changes)

    def restart(self, number):
        """Ends a server and starts another at its port."""
        server = self.servers[number]
        assert server.stop() == 0
        self.servers[number] = self.stack.enter_context(Server(*self.flags, port=server.port))

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
    with ExitStack() as stack:
        yield Site(folder, stack)


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


@pytest.mark.heavy
def test_replicas_of_ray_answer_as_the_server_does(served_exports, expected, tmp_path):
    ray = pytest.importorskip("ray", reason="needs Ray (pip install -e '.[ray]')")
    from ray import serve

    from t2t_lite.serving.ray_app import app

    for arguments, message in (
        ({}, "export_dir is missing"),
        ({"export": "a"}, "unknown argument export; valid arguments are export_dir"),
        ({"export_dir": str(tmp_path)}, "is not an export directory"),
        ({"export_dir": f"{served_exports / 'new'}", "languages": "en-de,de-en"}, "has 2 pairs for 1 models"),
        ({"export_dir": f"{served_exports / 'new'}", "translate_letterless": "old"}, "the models are new"),
    ):
        with pytest.raises(UserError, match=message):
            app(arguments)
    keys = tmp_path / "keys"
    keys.write_text("KEY\n")
    port = free_port()
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        serve.start(http_options={"port": port})
        arguments = {"export_dir": str(served_exports / "new"), "languages": "en-de", "num_replicas": "2"}
        serve.run(app(arguments | {"api_keys": str(keys)}), name="t2t-lite")
        answers = []
        address, headers = f"http://127.0.0.1:{port}/translate", {"Content-Type": "application/json"}
        for sentence in SENTENCES * 4:
            content = {"q": sentence, "source": "en", "target": "de", "api_key": "KEY"}
            request = urllib.request.Request(address, json.dumps(content).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as response:
                answers.append(json.load(response)["translatedText"])
        assert answers == expected(SENTENCES) * 4
        replicas = serve.status().applications["t2t-lite"].deployments["t2t-lite"].replica_states
        assert {str(getattr(state, "value", state)): number for state, number in replicas.items()} == {"RUNNING": 2}
    finally:
        serve.shutdown()
        ray.shutdown()
