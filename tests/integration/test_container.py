"""The steps of the Containerfile in a bare Debian root, and the three main commands in it. Takes minutes and 4 GB.

It needs root and debootstrap: `apt install debootstrap`, then `bin/test --heavy tests/integration/test_container.py`.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The host's settings for pip and names of hosts, where it has any.
OF_HOST = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
SERVE = """
t2t-lite-serve --output_dir=run --port=8765 > log 2>&1 &
for second in $(seq 240); do grep --quiet "ready after" log && break; sleep 1; done
python - <<'END'
import json, urllib.request
request = urllib.request.Request(
    "http://127.0.0.1:8765/translate",
    json.dumps({"q": "The old man sees a dog.", "source": "en", "target": "de"}).encode(),
    {"Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request)))
END
kill $!
"""


def container(root):
    """Carries out the Containerfile in a folder; returns a function that runs a shell command in the container."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    folder = "/"

    def run(command):
        for path in filter(os.path.exists, OF_HOST):  # again each time, because packages replace some of them
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, root / path[1:])
        # Names of processes and mounts are the container's own, and end with it.
        inside = shlex.quote(f"cd {folder} && {command}")
        script = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && "
        script += f"exec {shutil.which('chroot')} {root} sh -c {inside}"
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        done = subprocess.run(own, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    for line in (ROOT / "Containerfile").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            release = rest.removeprefix("debian:").removesuffix("-slim")
            bare = ["debootstrap", "--variant=minbase", release, root, "http://deb.debian.org/debian"]
            subprocess.run(bare, check=True, stdout=subprocess.DEVNULL)
        elif kind in ("ARG", "ENV"):
            environment |= dict(part.split("=", 1) for part in shlex.split(rest))
        elif kind == "WORKDIR":
            folder = rest
            (root / folder[1:]).mkdir(parents=True, exist_ok=True)
        elif kind == "COPY":
            *sources, target = rest.split()
            (root / target[1:]).mkdir(parents=True, exist_ok=True)
            contents = [f"{ROOT / source}/." if (ROOT / source).is_dir() else ROOT / source for source in sources]
            subprocess.run(["cp", "--recursive", *contents, root / target[1:]], check=True)
        elif kind == "RUN":
            run(rest)
        else:
            assert kind in ("", "#"), f"unknown step {kind}"
    return run


@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_the_container_trains_decodes_and_serves(tmp_path):
    run = container(tmp_path / "root")
    flags = "--problem=grammar_ende --hparams_set=transformer_tiny --train_steps=20 --generate_data"
    assert "step 20: saved run/ckpt-20" in run(f"t2t-lite-trainer {flags} --data_dir=data --output_dir=run")
    assert run("echo 'The old man sees a dog.' | t2t-lite-decoder --output_dir=run").count("\n") == 1
    assert "translatedText" in run(SERVE)
    shutil.rmtree(tmp_path / "root")
