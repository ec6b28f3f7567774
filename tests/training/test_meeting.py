"""Workers wait for each other before TensorFlow connects them; those that do not come are named."""

import socket
import threading

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import meet_workers


@pytest.fixture
def addresses():
    sockets = [socket.create_server(("localhost", 0)) for _ in range(3)]
    found = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def test_all_workers_return_when_the_last_one_has_come_and_their_ports_are_free(addresses):
    returned = []

    def worker(index):
        meet_workers(addresses, index, 60)
        returned.append(index)
        # As TensorFlow does, it opens its port again at once: a worker that has not seen it yet still finds it.
        servers.append(socket.create_server(("localhost", int(addresses[index].rpartition(":")[2])), backlog=8))

    servers = []
    threads = [threading.Thread(target=worker, args=(index,)) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    threads[0].join(1.0)
    assert returned == []  # the third one has not come
    threads[2].start()
    for thread in threads:
        thread.join(60)
    assert sorted(returned) == [0, 1, 2]
    for server in servers:
        server.close()


def test_errors_name_missing_workers_ports_in_use_and_addresses_without_a_port(addresses):
    with socket.create_server(("localhost", int(addresses[1].rpartition(":")[2]))):
        with pytest.raises(UserError) as error:
            meet_workers(addresses, 0, 0.1)
        assert str(error.value).startswith(f"worker 2 ({addresses[2]}) has not come within 0.1 s; ")
    with socket.create_server(("", int(addresses[0].rpartition(":")[2]))), pytest.raises(UserError) as error:
        meet_workers(addresses, 0, 0.1)
    assert str(error.value).startswith(f"this worker cannot open its port, {addresses[0]} in TF_CONFIG (Address ")
    with pytest.raises(UserError, match="the address 'host2' has no port"):
        meet_workers([addresses[0], "host2"], 0, 0.1)
    meet_workers(["host1", "host2"], 0, 0.0)
