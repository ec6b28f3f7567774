"""The application for Ray Serve, with two replicas on this machine. It runs where Ray is installed."""

import json
import socket
import urllib.request

import pytest
from support.server import SENTENCES

from t2t_lite.errors import UserError

ray = pytest.importorskip("ray", reason="needs Ray (pip install -e '.[ray]')")


@pytest.mark.heavy
def test_replicas_answer_as_the_server_does(served_exports, expected, tmp_path):
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
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        serve.start(http_options={"port": port})
        export = str(served_exports / "new")
        serve.run(
            app({"export_dir": export, "languages": "en-de", "num_replicas": "2", "api_keys": str(keys)}),
            name="t2t-lite",
        )
        answers = []
        for sentence in SENTENCES * 4:
            content = {"q": sentence, "source": "en", "target": "de", "api_key": "KEY"}
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/translate", json.dumps(content).encode(), headers
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                answers.append(json.load(response)["translatedText"])
        assert answers == expected(SENTENCES) * 4
        replicas = serve.status().applications["t2t-lite"].deployments["t2t-lite"].replica_states
        assert {str(getattr(state, "value", state)): number for state, number in replicas.items()} == {"RUNNING": 2}
    finally:
        serve.shutdown()
        ray.shutdown()
