"""A server in a process of its own, and requests to it as any client sends them."""

import contextlib
import json
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import NamedTuple

from support.commands import start_process

# What the served model was trained on, more or less; its translations differ.
SENTENCES = ["The garden hears the baker.", "The tree sees the dog.", "The dog knows the man."]


class Answer(NamedTuple):
    """An answer; JSON is parsed."""

    status: int
    content: object
    headers: dict[str, str]


class Server:
    """t2t-lite-serve (or a program of another environment) at a port of this machine, ready to answer."""

    def __init__(self, *flags, program="serve", environment=None, port=0):
        self.process = start_process(program, *flags, f"--port={port}", environment=environment)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("listening at http")
        self.port = int(re.search(r":(\d+), loading", self.lines[0])[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        try:
            self.wait_for("ready after")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error):
        self.stop()

    @property
    def access_log(self):
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def wait_for(self, text, count=1):
        """Waits until lines with a text were printed, and returns the last of them."""
        while len(found := [line for line in self.lines if text in line]) < count:
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)
        return found[-1]

    def wait_until(self, condition):
        while not condition():
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)

    def stop(self, number=signal.SIGTERM):
        """Ends the process and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=120)
        self._reader.join()
        return status

    def get(self, path, **headers):
        return self._answer(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path, content=None, form=None, query="", **headers):
        """Sends a POST request with JSON, or a form."""
        if form is not None:
            data = urllib.parse.urlencode(form, doseq=True).encode()
        else:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            headers = {"Content-Type": "application/json"} | headers
        return self._answer(urllib.request.Request(f"{self.url}{path}{query}", data=data, headers=headers))

    def translate(self, q, **more):
        """Returns the translation of a text or texts by LibreTranslate's API."""
        answer = self.post("/translate", {"q": q, "source": "en", "target": "de", **more})
        assert answer.status == 200, answer
        return answer.content["translatedText"]

    def raw(self, data, wait=30):
        """Sends bytes and returns all that comes back until the server closes the connection, or has answered."""
        found = b""
        address, suppressed = ("127.0.0.1", self.port), contextlib.suppress(ConnectionError)
        with socket.create_connection(address, timeout=wait) as connection, suppressed:
            with suppressed:
                connection.sendall(data)
            while part := connection.recv(65536):
                found += part
                head, _, body = found.partition(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                if length and len(body) >= int(length[1]):
                    break
        return found

    def _answer(self, request):
        try:
            response = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            body = response.read().decode(errors="replace")
            headers = {name.lower(): value for name, value in response.headers.items()}
            is_json = headers.get("content-type", "").startswith("application/json")
            return Answer(response.status, json.loads(body) if is_json else body, headers)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
