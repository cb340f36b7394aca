"""Finds a port that nobody listens at."""
import random
import socket


def free_port():
    """A port below those that the system gives to outgoing connections, so that none of them takes it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
