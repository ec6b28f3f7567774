"""Checks within seconds whether a server can be reached; download libraries would retry for minutes."""

import socket
import threading
import urllib.parse
import urllib.request

SECONDS = 3.0  # for name lookup and connection together


def why_unreachable(url: str, seconds: float = SECONDS) -> str:
    """Returns "" if the server of a URL, or the proxy configured for it, accepts a connection; else the reason."""
    asked = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(asked.scheme) or proxies.get("all")
    via = ""
    if proxy and not urllib.request.proxy_bypass(asked.netloc):
        asked = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        via = f"the proxy {asked.netloc}: "
    try:
        address = asked.hostname, asked.port or {"https": 443}.get(asked.scheme, 80)
    except ValueError as error:
        return f"{via}{error}"
    found: list[str] = [f"no answer within {seconds:g} s"]

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=seconds).close()
            found[0] = ""
        except (OSError, UnicodeError) as error:
            found[0] = getattr(error, "strerror", None) or str(error)

    # In a separate thread, because name lookup has no timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] and via + found[0]
