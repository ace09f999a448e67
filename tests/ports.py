"""Ports for servers that a test starts, stops and starts again."""

import os
import random
import socket

FIRST, EACH, WORKERS = 20_000, 1_000, 10


def free_port() -> int:
    """A port that the system gives to no outgoing connection. Another one could be taken while the server is away:
    by any program, or by a client that tries to connect to it and is connected to itself.

    Each worker of a run has ports of its own.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    first = FIRST + EACH * (int(worker) % WORKERS if worker.isdecimal() else 0)
    while True:
        port = random.SystemRandom().randrange(first, first + EACH)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
