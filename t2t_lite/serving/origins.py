"""Which requests of browsers are answered: those to a name of this server, and from its own pages or allowed ones.

A page of any origin can make a browser send requests to a server that only the browser's machine reaches. A form or a
fetch of plain text needs no permission, so the header Origin is checked. With DNS rebinding, the page's own name points
to this machine after a while: then the page is of the same origin as this server, and the header Host has that name.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@\s]*)(?::(?P<port>[0-9]*))?", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*\Z")
_USUAL_PORTS = {"http": "80", "https": "443"}
ALL = "*"
# Monitors and balancers ask these by any name, and the answers are figures only.
_OPEN_PATHS = ("/health", "/ready", "/metrics")


class Origins:
    """The names of a server, and the origins whose pages may use it.

    Names that no public name server can give to another's machine are always allowed: IP addresses, names without a dot
    such as localhost or that of a container, names below localhost, and the name of this machine.

    `hosts` are further names, `origins` are those of other pages, such as https://example.org; "*": all.
    """

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        own = socket.gethostname()
        names = (*hosts, own, f"{own.partition('.')[0]}.local")
        self._hosts = frozenset(name.lower().rstrip(".") for name in names)
        self._origins = frozenset(origin.lower() for origin in origins)

    def refusal(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Returns why a request is not answered; "" if it is. The headers have names in small letters."""
        texts = [(name, value.decode("latin-1").strip().lower()) for name, value in headers]
        hosts = [value for name, value in texts if name == b"host"]
        if path not in _OPEN_PATHS:
            for host in hosts:
                if not self._has_name(host):
                    return f"{_PORT.sub('', host)[:100]} is no name of this server; its allowed_hosts can have it"
        if method in ("GET", "HEAD", "OPTIONS"):  # they cost little, and the page that asks cannot read the answer
            return ""
        values = dict(texts)
        origin = values.get(b"origin")
        if origin is None or self._may_use(origin, hosts, values):
            return ""
        return f"pages of {origin[:100]} may not use this server; its cors_origins can have them"

    def _has_name(self, host: str) -> bool:
        """Whether a header Host has a name of this server."""
        parsed = _HOST.fullmatch(host)
        if parsed is None:
            return ALL in self._hosts
        name = parsed["name"].removesuffix(".")
        is_local = "." not in name or name.endswith(".localhost")
        return is_local or ALL in self._hosts or name in self._hosts or _is_address(name)

    def _may_use(self, origin: str, hosts: Sequence[str], values: Mapping[bytes, str]) -> bool:
        """Whether a page may send requests that cost something."""
        if ALL in self._origins or origin in self._origins:
            return True
        # Browsers set this themselves. It also tells behind a proxy that does not pass the header Host on.
        if values.get(b"sec-fetch-site") == "same-origin":
            return True
        scheme, _, place = origin.partition("://")
        if scheme not in _USUAL_PORTS:
            return False
        usual = f":{_USUAL_PORTS[scheme]}"
        return bool(place) and place.removesuffix(usual) in [host.removesuffix(usual) for host in hosts]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
