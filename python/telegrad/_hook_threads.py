"""The threads in which a network's DDP hooks exchange."""
import queue
import threading
from typing import Any, List

import telegrad
from telegrad import _network


class HookThreads:
    """One thread starts the exchanges of all hooks of a network, another waits for them. Both take them in the order in which DDP called
    the hooks. For models on one device that order is the same on all ranks, so all of them create their reducers in the same order, also
    if several models have a part in one backward pass. The threads block in C, and hold no interpreter lock there."""

    def __init__(self, net: telegrad.Network) -> None:
        self._net = net
        self._hooks: List[Any] = []
        self._to_start: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._to_wait: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._threads = [threading.Thread(target=run, name=f"telegrad {run.__name__.strip('_')}", daemon=True)
                         for run in (self._start_jobs, self._wait_for_jobs)]
        for thread in self._threads:
            thread.start()
        net._before_close.append(self._end)

    @staticmethod
    def of(net: telegrad.Network) -> Any:
        if net._hook_threads is None:
            net._hook_threads = HookThreads(net)
        return net._hook_threads

    def add(self, hook: Any) -> None:
        self._hooks.append(hook)

    def put(self, job: Any) -> None:
        self._to_start.put(job)

    def _start_jobs(self) -> None:
        for job in iter(self._to_start.get, None):
            job.hook.start_job(job)
            self._to_wait.put(job)
        self._to_wait.put(None)

    def _wait_for_jobs(self) -> None:
        for job in iter(self._to_wait.get, None):
            job.hook.wait_for_job(job)

    def _end(self) -> None:
        """The network is closed, or the interpreter exits (then net.stop() has ended what waits)."""
        hooks, self._hooks = self._hooks, []
        if any([hook.end() for hook in hooks]):
            self._net.stop()
        self._to_start.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)
        if _network.exiting:
            return
        for hook in hooks:
            hook.ended()
