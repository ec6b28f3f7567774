"""Waits until all workers of a training run have started, because TensorFlow would wait for an hour, silently."""

import contextlib
import socket
import time
from collections.abc import Sequence

from t2t_lite.errors import UserError

_POLL_SECONDS = 0.2


def meet_workers(workers: Sequence[str], index: int, seconds: float) -> None:
    """Returns when the ports of all workers ("host:port") are open; at once if `seconds` is 0. This worker has `index`.

    This worker's own port is open meanwhile, and free afterwards: TensorFlow, which comes next, opens it again.
    """
    if not seconds:
        return
    for address in workers:
        if not address.rpartition(":")[2].isdecimal():
            raise UserError(f"TF_CONFIG: the address '{address}' has no port; write host:port")
    missing = {number: address for number, address in enumerate(workers) if number != index}
    deadline = time.monotonic() + seconds
    with _opened(workers[index]) as own:
        while missing:
            for number in [number for number, address in missing.items() if _is_open(address)]:
                del missing[number]
            while missing and _accepts(own):
                pass
            if missing and time.monotonic() > deadline:
                raise UserError(_what_is_missing(missing, seconds))
            time.sleep(_POLL_SECONDS if missing else 0.0)


def _opened(address: str) -> socket.socket:
    port = int(address.rpartition(":")[2])
    both = socket.has_dualstack_ipv6()
    try:
        own = socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as error:
        raise UserError(
            f"this worker cannot open its port, {address} in TF_CONFIG ({error.strerror}); end what uses it, or pass "
            f"another port"
        ) from error
    own.setblocking(False)
    return own


def _accepts(own: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        own.accept()[0].close()
        return True
    return False


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _what_is_missing(missing: dict[int, str], seconds: float) -> str:
    listed = ", ".join(f"{number} ({address})" for number, address in missing.items())
    which = f"worker {listed} has" if len(missing) == 1 else f"workers {listed} have"
    return (
        f"{which} not come within {seconds:g} s; check that the same command runs there, and that the port can be "
        f"reached from this machine"
    )
