"""The steps of the Containerfile in a bare Debian root, and the three main commands in it. Takes minutes and 4 GB.

It needs root and debootstrap: `apt install debootstrap`, then `bin/test --heavy tests/integration/test_container.py`.
"""

import os
import shutil
from pathlib import Path

import pytest
from support.container import Container

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
t2t-lite-serve --output_dir=run --port=8765 > log 2>&1 &
python - <<'END'
import json, time, urllib.request
for _ in range(240):
    try:
        urllib.request.urlopen("http://127.0.0.1:8765/ready")
        break
    except OSError:
        time.sleep(0.5)
request = urllib.request.Request(
    "http://127.0.0.1:8765/translate",
    json.dumps({"q": "The old man sees a dog.", "source": "en", "target": "de"}).encode(),
    {"Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request)))
END
kill $!
"""


@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_the_container_trains_decodes_and_serves(tmp_path):
    container = Container(ROOT / "Containerfile", tmp_path / "root")
    flags = "--problem=grammar_ende --hparams_set=transformer_tiny --train_steps=20 --generate_data"
    said = container.run(f"t2t-lite-trainer {flags} --data_dir=data --output_dir=run")
    assert "step 20: saved run/ckpt-20" in said
    assert container.run("echo 'The old man sees a dog.' | t2t-lite-decoder --output_dir=run").count("\n") == 1
    assert "translatedText" in container.run(SERVE)
    shutil.rmtree(tmp_path / "root")
