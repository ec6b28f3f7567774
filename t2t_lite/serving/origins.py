"""Checks requests from browsers: they must use a name of this server, and come from its own or from allowed pages.

A page of any origin can make a browser send requests to a server that only the browser's machine can reach. A form or a
fetch of plain text needs no permission, so the header Origin is checked. With DNS rebinding, the page's own host name
later points to this machine, so page and server have the same origin; then the header Host contains that name, so it is
checked, too.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]*)(?::(?P<port>[0-9]*))?", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*\Z")
_USUAL_PORTS = {"http": "80", "https": "443"}
ALL = "*"
# Monitors and load balancers request these under any name, and the responses contain only metrics.
_OPEN_PATHS = ("/health", "/ready", "/metrics")


class Origins:
    """The names of a server and the origins of pages that may use it.

    Names that no public name server can assign to another machine are always allowed: IP addresses, names without a dot
    such as localhost or the name of a container, names below localhost, and the name of this machine.

    `hosts` are further names, or "*" for all. `origins` are the origins of other pages that may use the server, such as
    https://example.org, or "*" for all.
    """

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        own = socket.gethostname()
        names = (*hosts, own, f"{own.partition('.')[0]}.local")
        self._hosts = frozenset(name.lower().rstrip(".") for name in names)
        self._origins = frozenset(origin.lower() for origin in origins)

    def refusal(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Returns why a request is refused; "" if it is accepted. Header names must be in lower case."""
        texts = [(name, value.decode("latin-1").strip().lower()) for name, value in headers]
        hosts = [value for name, value in texts if name == b"host"]
        if path not in _OPEN_PATHS:
            for host in hosts:
                if not self._has_name(host):
                    return f"{_PORT.sub('', host)[:100]} is not a name of this server; add it to allowed_hosts"
        if method in ("GET", "HEAD", "OPTIONS"):  # they cost little, and other pages cannot read the response
            return ""
        values = dict(texts)
        origin = values.get(b"origin")
        if origin is None or self._may_use(origin, hosts, values):
            return ""
        return f"pages of {origin[:100]} may not use this server; add the origin to cors_origins"

    def _has_name(self, host: str) -> bool:
        parsed = _HOST.fullmatch(host)
        if parsed is None:
            return ALL in self._hosts
        name = parsed["name"].removesuffix(".")
        is_local = "." not in name or name.endswith(".localhost")
        if is_local or ALL in self._hosts or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _may_use(self, origin: str, hosts: Sequence[str], values: Mapping[bytes, str]) -> bool:
        if ALL in self._origins or origin in self._origins:
            return True
        # Browsers set this header themselves. It also works behind a proxy that does not forward the header Host.
        if values.get(b"sec-fetch-site") == "same-origin":
            return True
        scheme, _, place = origin.partition("://")
        if scheme not in _USUAL_PORTS:
            return False
        usual = f":{_USUAL_PORTS[scheme]}"
        return bool(place) and place.removesuffix(usual) in [host.removesuffix(usual) for host in hosts]
