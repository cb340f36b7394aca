"""Calls of C that wait, in the main thread: signals end them, and nothing of them stays."""
import array
import contextlib
import gc
import os
import signal
import threading
import time
import unittest
import unittest.mock
import weakref

import telegrad


class Waits(unittest.TestCase):
    def test_interrupted(self):
        """Ctrl-C ends a wait: of the main thread, in which C alone would take no signal."""
        for what in ("create", "mean_", "wait"):
            networks = telegrad.Network.local(2)
            with networks[0], networks[1]:
                other = threading.Thread(target=lambda: telegrad.Reducer("dense", 4, networks[1]))
                if what != "create":
                    other.start()
                    reducer = telegrad.Reducer("dense", 4, networks[0])
                    other.join()
                array_, timer = array.array("f", [1, 2, 3, 4]), threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT))
                begin = time.monotonic()
                timer.start()
                with self.assertLogs("telegrad", "WARNING") as logged, self.assertRaises(KeyboardInterrupt), \
                        unittest.mock.patch.object(telegrad._waits, "_SAY_S", 0.1):
                    if what == "create":
                        telegrad.Reducer("dense", 4, networks[0])
                    elif what == "mean_":
                        reducer.mean_(array_)
                    else:
                        operation = reducer.start_(array_)
                        time.sleep(0)
                        operation.wait()
                self.assertLess(time.monotonic() - begin, 6, what)
                self.assertIn("waiting for other ranks for", logged.output[0])

    def test_closed_by_a_signal(self):
        """A handler closes the network while C waits on it, and a second signal comes: the wait ends first."""
        networks = telegrad.Network.local(2)
        other = threading.Thread(target=lambda: telegrad.Reducer("dense", 4, networks[1]))
        other.start()
        reducer = telegrad.Reducer("dense", 4, networks[0])
        other.join()

        def leave(*_):
            networks[0].close()
            raise SystemExit(3)
        before = signal.signal(signal.SIGTERM, leave)
        try:
            for seconds in (0.3, 0.6):
                threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM)).start()
            with self.assertRaises(SystemExit):
                reducer.mean_(array.array("f", [1] * 4))
            with contextlib.suppress(SystemExit):
                time.sleep(1)
        finally:
            signal.signal(signal.SIGTERM, before)
        self.assertTrue(networks[0].closed)
        with self.assertRaises(telegrad.StateError):
            reducer.mean_(array.array("f", [1] * 4))
        networks[1].close()

    def test_nothing_is_kept(self):
        """Neither an error nor a vector keeps its network, whose end the other ranks wait for."""
        def failed():
            net = telegrad.Network.local(1)[0]
            with self.assertRaises(telegrad.SpecError):
                telegrad.Reducer("topk:densty=1", 10, net)
            with self.assertRaises(telegrad.NonFiniteError):
                telegrad.Reducer("dense", 2, net).mean_(array.array("f", [1, float("nan")]))
            return weakref.ref(net)
        found = failed()
        gc.collect()
        self.assertIsNone(found())

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked(self):
        """A child of the process has no thread for calls."""
        net = telegrad.Network.local(1)[0]
        telegrad.Reducer("dense", 4, net).mean_(array.array("f", [1] * 4))
        child = os.fork()
        if child == 0:
            telegrad.Reducer("dense", 4, net).mean_(array.array("f", [1] * 4))
            os._exit(0)
        until = time.monotonic() + 20
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                self.fail("the child hangs")
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
