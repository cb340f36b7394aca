"""Ranks for tests: threads of this process over a local network, and processes over 127.0.0.1."""
import contextlib
import os
import subprocess
import sys
import threading
import unittest.mock

import telegrad

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from free_port import free_port


def in_threads(size, body):
    """Call body(network) for each rank in a thread of its own; the results in order of ranks. The first exception is
    raised."""
    results, errors = [None] * size, []
    networks = telegrad.Network.local(size)

    def run(net):
        try:
            with net:
                results[net.rank] = body(net)
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=(net,)) for net in networks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@contextlib.contextmanager
def ends_of(name):
    """Inside of `with`, the calls of this function and of tg_transport_destroy, in order."""
    calls = []
    with contextlib.ExitStack() as patches:
        for each in (name, "tg_transport_destroy"):
            def call(handle, each=each, real=getattr(telegrad._c, each)):
                calls.append(each)
                real(handle)
            patches.enter_context(unittest.mock.patch.object(telegrad._c, each, call))
        yield calls


def start(script, size, *arguments, environment=None):
    """Start `python script RANK SIZE PORT arguments...` for each rank."""
    port = str(free_port())
    return [subprocess.Popen([sys.executable, script, str(rank), str(size), port, *arguments], text=True, env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(size)]


def finish(processes, timeout=60):
    """(status, output, errors) of each. Those that do not end in time are killed."""
    try:
        ended = []
        for p in processes:
            try:
                ended.append(p.communicate(timeout=timeout))
            except subprocess.TimeoutExpired:
                p.kill()
                output, errors = p.communicate()
                ended.append((output, errors + f"killed after {timeout} s"))
    finally:
        for p in processes:
            p.kill()
    return [(p.returncode, *texts) for p, texts in zip(processes, ended)]
