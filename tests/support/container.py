"""Carries out a Containerfile without a container runtime: in a Debian root that debootstrap makes."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
# The host's settings for pip and names of hosts, where it has any.
OF_HOST = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")


class Container:
    """A root folder in which the steps of a Containerfile were carried out.

    Args:
      file: the Containerfile, in the root of a checkout.
      root: the folder to make; an existing one is used as it is.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self.root, self._context = root, file.parent
        self._arguments: dict[str, str] = {}
        self._environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        self._folder = "/"
        is_new = not root.exists()
        for line in file.read_text().splitlines():
            if line and not line.startswith("#"):
                self._step(*line.split(maxsplit=1), is_new)

    def run(self, command: str, **more: str) -> str:
        """Runs a shell command in the container, and returns what it prints."""
        for path in filter(os.path.exists, OF_HOST):  # again each time, because packages replace some of them
            (self.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.root / path.lstrip("/"))
        environment = self._environment | self._arguments | more
        settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        inside = f"cd {self._folder} && {command}"
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        # Names of processes and mounts are the container's own, and end with it.
        script = f"{mounts} && exec {shutil.which('chroot')} {self.root} sh -c {shlex.quote(inside)}"
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            env=settings | environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def _step(self, kind: str, rest: str, is_new: bool) -> None:
        if kind == "ARG":
            name, _, value = rest.partition("=")
            self._arguments[name] = value
        elif kind == "ENV":
            self._environment |= dict(part.split("=", 1) for part in shlex.split(rest))
        elif kind == "WORKDIR":
            self._folder = rest
            (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif kind == "FROM" and is_new:
            release = re.fullmatch(r"debian:(\w+)-slim", rest)[1]
            subprocess.run(
                ["debootstrap", "--variant=minbase", release, self.root, MIRROR], check=True, stdout=subprocess.DEVNULL
            )
        elif kind == "COPY" and is_new:
            *sources, target = rest.split()
            for source in sources:
                place = self.root / target.lstrip("/")
                if (self._context / source).is_dir():
                    shutil.copytree(self._context / source, place)
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(self._context / source, place)
        elif kind == "RUN" and is_new:
            self.run(rest)
        elif kind not in ("FROM", "COPY", "RUN"):
            raise ValueError(f"unknown step {kind}")
