"""telegrad.Reducer and telegrad.Network: arrays of all kinds, memory, errors, processes that end."""
import array
import gc
import os
import signal
import sys
import threading
import time
import unittest
import unittest.mock

import telegrad
import ranks

IS_RANK = len(sys.argv) == 5 and sys.argv[1].isdigit()
numpy = torch = None
if not IS_RANK:
    try:
        import numpy
        import torch
    except ImportError:
        pass


def numbers(rank, step, n=1000):
    return [((i * 7919 + rank * 104729 + step * 1299709) % 2003 - 1001) / 16 for i in range(n)]


class Arrays(unittest.TestCase):
    def mean_of(self, make, size=2):
        def body(net):
            reducer = telegrad.Reducer("dense", 1000, net)
            x = make(numbers(net.rank, 0))
            self.assertIs(reducer.mean_(x), x)
            return list(memoryview(x) if isinstance(x, array.array) else (float(v) for v in x.reshape(-1)))
        want = [sum(v) / size for v in zip(*(numbers(r, 0) for r in range(size)))]
        for found in ranks.in_threads(size, body):
            self.assertEqual(found, want)

    def test_buffer(self):
        self.mean_of(lambda x: array.array("f", x))

    @unittest.skipUnless(numpy, "no NumPy")
    def test_numpy(self):
        self.mean_of(lambda x: numpy.array(x, dtype=numpy.float32))
        self.mean_of(lambda x: numpy.array(x, dtype=numpy.float32).reshape(10, 100), size=4)

    @unittest.skipUnless(torch, "no PyTorch")
    def test_torch(self):
        self.mean_of(lambda x: torch.tensor(x))
        self.mean_of(lambda x: torch.tensor(x).reshape(20, 50))
        self.mean_of(lambda x: torch.tensor([0.0] + x)[1:])  # an offset within its storage

    def test_memory_of_a_device(self):
        class OnGpu:
            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self):
                raise AssertionError("its memory was asked for")
        with telegrad.Network.local(1)[0] as net:
            with self.assertRaisesRegex(telegrad.UnsupportedError, r"array: it is in the memory of a device \(CUDA\): allowed: host memory"):
                telegrad.Reducer("dense", 4, net).mean_(OnGpu())

    @unittest.skipUnless(torch, "no PyTorch")
    def test_without_plain_memory(self):
        with telegrad.Network.local(1)[0] as net:
            reducer = telegrad.Reducer("dense", 4, net)
            for tensor in (torch.eye(2).to_sparse(), torch.ones(4, device="meta")):
                with self.assertRaisesRegex(telegrad.UnsupportedError, "array: it cannot be used by DLPack: "):
                    reducer.mean_(tensor)

    def test_16_bits(self):
        """The means of these numbers are exact in float16; a mean in bfloat16 is rounded to nearest even."""
        if numpy:
            self.mean_of(lambda x: numpy.array(x, dtype=numpy.float16))
        if torch:
            self.mean_of(lambda x: torch.tensor(x, dtype=torch.float16))

            def body(net):
                x = torch.tensor(numbers(net.rank, 0)).bfloat16()
                operation = telegrad.Reducer("dense", 1000, net).start_(x)
                self.assertIs(operation.wait(), x)
                return x
            want = sum(torch.tensor(numbers(r, 0)).bfloat16().float() for r in range(2)) / 2
            for found in ranks.in_threads(2, body):
                self.assertTrue(torch.equal(found, want.bfloat16()))

    def refused(self, kind, words, x, n=4):
        with telegrad.Network.local(1)[0] as net:
            reducer = telegrad.Reducer("dense", n, net)
            with self.assertRaises(kind) as caught:
                reducer.mean_(x)
            for word in words:
                self.assertIn(word, str(caught.exception))
            self.assertEqual(reducer.step, 0)

    def test_refused(self):
        self.refused(telegrad.UnsupportedError, ("float64", "float32"), array.array("d", [0] * 4))
        self.refused(telegrad.UnsupportedError, ("int32",), array.array("i", [0] * 4))
        self.refused(telegrad.ArgumentError, ("list", "NumPy"), [0.0] * 4)
        self.refused(telegrad.ArgumentError, ("3 elements", "4"), array.array("f", [0] * 3))
        self.refused(telegrad.ArgumentError, ("read-only",), memoryview(bytes(16)).cast("f"))
        self.refused(telegrad.ArgumentError, ("side by side",), memoryview(array.array("f", [0] * 8))[::2])

    @unittest.skipUnless(torch, "no PyTorch")
    def test_refused_tensors(self):
        self.refused(telegrad.UnsupportedError, ("int16", "bfloat16"), torch.zeros(4, dtype=torch.int16))
        self.refused(telegrad.UnsupportedError, ("complex64",), torch.zeros(4, dtype=torch.complex64))
        self.refused(telegrad.ArgumentError, ("side by side",), torch.zeros(2, 4)[:, :2])
        self.refused(telegrad.ArgumentError, ("detach",), torch.zeros(4, requires_grad=True))

    def test_start_and_wait(self):
        def body(net):
            first, second = (telegrad.Reducer("dense", 1000, net) for _ in range(2))
            x, y = (array.array("f", numbers(net.rank, step)) for step in range(2))
            one, two = first.start_(x), second.start_(y)
            with self.assertRaises(telegrad.StateError):
                first.start_(x)
            self.assertIs(two.wait(), y)
            while not one.done():
                time.sleep(0.001)
            self.assertIs(one.wait(), x)
            return x, y
        for x, y in ranks.in_threads(2, body):
            for step, found in enumerate((x, y)):
                self.assertEqual(list(found), [(a + b) / 2 for a, b in zip(numbers(0, step), numbers(1, step))])

    def test_other_threads_run_meanwhile(self):
        """While a rank waits in C for another one, Python goes on."""
        def body(net):
            reducer = telegrad.Reducer("dense", 1000, net)
            if net.rank == 1:
                late.wait(20)
            reducer.mean_(array.array("f", numbers(net.rank, 0)))
        late = threading.Event()
        runner = threading.Thread(target=ranks.in_threads, args=(2, body))
        runner.start()
        time.sleep(0.2)
        self.assertTrue(runner.is_alive())
        late.set()
        runner.join(20)
        self.assertFalse(runner.is_alive())


class Memory(unittest.TestCase):
    METHODS = ("dense", "topk:density=0.01", "dgc:density=0.01,warmup=4", "powersgd:rank=2", "qsgd:bits=4", "1bit:twoway=yes")

    def test_resumed_by_bits(self):
        def body(net):
            def steps(reducer, begin, end):
                for step in range(begin, end):
                    x = reducer.mean_(array.array("f", numbers(net.rank, step)))
                return bytes(x)
            make = lambda: telegrad.Reducer(spec, 1000, net, segments=[(20, 30), (400,)], seed=3)  # noqa: E731
            whole = steps(make(), 0, 8)
            first = make()
            steps(first, 0, 4)
            state = first.state_dict()
            second = make()
            second.load_state_dict(state)
            self.assertEqual(second.step, 4)
            resumed = steps(second, 4, 8)
            third = make()
            self.assertNotEqual(steps(third, 4, 8) if "dense" not in spec else b"", whole)  # it is the memory that counts
            for name, value in (("spec", "fp16"), ("rank", 7), ("size", 3), ("n", 2)):
                with self.assertRaisesRegex(telegrad.MismatchError, name):
                    second.load_state_dict({**state, name: value})
            return whole, resumed
        for spec in self.METHODS:
            found = ranks.in_threads(2, body)
            self.assertEqual(found[0], found[1], spec)  # all ranks alike
            self.assertEqual(found[0][0], found[0][1], spec)

    def saved_by(self, size, spec):
        def body(net):
            reducer = telegrad.Reducer(spec, 1000, net, segments=[(20, 30), (400,)], seed=3)
            for step in range(4):
                reducer.mean_(array.array("f", numbers(net.rank, step)))
            return reducer.state_dict()
        return ranks.in_threads(size, body)

    def loaded_by(self, size, spec, states):
        """Their states after loading, and one mean more, which is the same everywhere."""
        def body(net):
            reducer = telegrad.Reducer(spec, 1000, net, segments=[(20, 30), (400,)], seed=3)
            reducer.load_state_dict(iter(states))
            self.assertEqual(reducer.step, 4)
            return reducer.state_dict(), bytes(reducer.mean_(array.array("f", numbers(net.rank, 4))))
        found = ranks.in_threads(size, body)
        self.assertTrue(all(mean == found[0][1] for _, mean in found))
        return [state for state, _ in found]

    def mean_memory(self, states):
        """Means over ranks of the vectors, and the pieces that owners have, as a whole."""
        means, whole = {}, {}
        for state in states:
            for segment, slots in state["memory"].items():
                for key, data in slots.items():
                    if key.startswith("owner/"):
                        whole[segment] = whole.get(segment, b"") + data
                    elif key.startswith("rank/"):
                        values = memoryview(data).cast("f")
                        means[segment, key] = [m + v / len(states) for m, v in zip(means.get((segment, key), [0] * len(values)), values)]
        return means, whole

    def test_another_number_of_ranks(self):
        """Means of what waits stay, to the bit where they need no rounding (docs/checkpoints.md)."""
        for spec in ("topk:density=0.01,values=f32", "dgc:density=0.01,warmup=0,values=f32,momentum=0.5", "1bit:twoway=yes", "powersgd:rank=2"):
            states = self.saved_by(4, spec)
            before, whole = self.mean_memory(states)
            self.assertTrue(any(v != 0 for m in before.values() for v in m), spec)
            self.assertEqual(bool(whole), "twoway" in spec)
            for size in (1, 3, 8):
                after, pieces = self.mean_memory(self.loaded_by(size, spec, states))
                self.assertEqual((sorted(before), whole), (sorted(after), pieces), spec)
                for key, mean in after.items():
                    if "values=f32" in spec and size != 3:
                        self.assertEqual(mean, before[key], (spec, size, key))
                    for a, b in zip(mean, before[key]):
                        self.assertAlmostEqual(a, b, delta=1e-5 * max(map(abs, mean)))
            self.assertEqual(self.loaded_by(4, spec, states), states)  # as many ranks: the same bits

    def test_without_numpy(self):
        states = self.saved_by(4, "topk:density=0.01")
        want = self.loaded_by(3, "topk:density=0.01", states)
        with unittest.mock.patch.dict(sys.modules, numpy=None):
            self.assertEqual(self.loaded_by(3, "topk:density=0.01", states), want)

    def test_some_ranks_are_missing(self):
        states = self.saved_by(2, "topk:density=0.01")
        for wrong, words in ((states[:1], "the list has 1 state, but 2 ranks have saved: allowed: the states of all"), ([], "the list is empty"),
                             (states[::-1], "state 0 of the list has rank=1, but it needs rank=0"), (states + states[:1], "state 2 of the list has rank=0"),
                             ([states[0], {**states[1], "step": 5}], "state 1 of the list has step=5, but it needs step=4"),
                             (dict(states[0], n=5), "the state has n=5, but this rank has n=1000: allowed: a state that was saved with n=1000"),
                             (states[0], "size=2, but this rank has size=3: allowed: .* or a list of the states of all old ranks")):
            def body(net):
                reducer = telegrad.Reducer("topk:density=0.01", 1000, net)
                with self.assertRaisesRegex(telegrad.MismatchError, words):
                    reducer.load_state_dict(wrong)
            with self.subTest(words):
                ranks.in_threads(3, body)
        with telegrad.Network.local(1)[0] as net:
            reducer = telegrad.Reducer("topk:density=0.01", 1000, net)
            torn = reducer.state_dict()
            del torn["memory"]
            for wrong, words in ((None, "a NoneType: allowed: what state_dict has returned"), ("x", "a str: allowed"),
                                 ([5], "a int in the list: allowed"), (torn, "the state has no 'memory'"),
                                 ([torn], "state 0 of the list has no 'memory'")):
                with self.assertRaisesRegex(telegrad.ArgumentError, f"load_state_dict: {words}"):
                    reducer.load_state_dict(wrong)

    def test_undo(self):
        def body(net):
            reducer = telegrad.Reducer("topk:density=0.01", 1000, net)
            reducer.mean_(array.array("f", numbers(net.rank, 0)))
            reducer.undo()
            with self.assertRaises(telegrad.StateError):
                reducer.undo()
            slot, data = next(reducer.slots())
            self.assertEqual(slot.name, b"residual")
            self.assertEqual(list(data.cast("f")), numbers(net.rank, 0))
        ranks.in_threads(2, body)

    def test_not_finite(self):
        def body(net):
            reducer = telegrad.Reducer("topk:density=0.01", 1000, net)
            x = array.array("f", numbers(net.rank, 0))
            if net.rank == 1:
                x[17] = float("nan")
            with self.assertRaises(telegrad.NonFiniteError) as caught:
                reducer.mean_(x)
            self.assertIn("element 17" if net.rank == 1 else "another rank", str(caught.exception))
            return bytes(reducer.mean_(array.array("f", numbers(net.rank, 1))))
        self.assertEqual(*ranks.in_threads(2, body))


class Networks(unittest.TestCase):
    def test_bad_arguments(self):
        def reducer(**settings):
            return lambda: telegrad.Reducer("dense", 4, telegrad.Network.local(1)[0], **settings)
        for call, words in ((lambda: telegrad.Network.local(0), "size=0"),
                            (lambda: telegrad.Network.join("tcp://127.0.0.1:1"), "key"),
                            (lambda: telegrad.Network.join("udp://x", insecure=True), "udp"),
                            (lambda: telegrad.Reducer("topk:densty=1", 4, telegrad.Network.local(1)[0]), "densty"),
                            (lambda: telegrad.Reducer("dense", 0, telegrad.Network.local(1)[0]), "n=0"),
                            (lambda: telegrad.Reducer("dense", "5", telegrad.Network.local(1)[0]), "n: a str: allowed: an int"),
                            (lambda: telegrad.Reducer(None, 4, telegrad.Network.local(1)[0]), "spec: None: allowed: a str"),
                            (lambda: telegrad.Reducer(5, 4, telegrad.Network.local(1)[0]), "spec: a int: allowed: a str"),
                            (lambda: telegrad.Reducer("dense", 4, None), "net: a NoneType: allowed: a telegrad.Network"),
                            (lambda: telegrad.Network.local("2"), "size: a str: allowed: an int"),
                            (reducer(timeout=0), "timeout=0"),
                            (reducer(timeout="1"), "timeout: a str: allowed: a number of seconds"),
                            (reducer(seed=-1), "seed=-1: allowed: 0 to 18446744073709551615"),
                            (reducer(total_steps=1.5), "total_steps: a float: allowed: an int"),
                            (reducer(threads=1000), "threads=1000: allowed: 0 to 256"),
                            (reducer(segments=4), "segments: a int: allowed: a list of shapes"),
                            (reducer(segments=[4]), "segments[0]: a int: allowed: a shape"),
                            (reducer(segments=[(2,), (1, "2")]), "segments[1]: a side: a str: allowed: an int"),
                            (reducer(segments=[(3,)]), "segments")):
            with self.assertRaises(telegrad.ArgumentError) as caught:
                call()
            self.assertIn(words, str(caught.exception))

    def test_different_ranks(self):
        def body(net):
            with self.assertRaisesRegex(telegrad.MismatchError, "rank 1 has reducer=fp16"):
                telegrad.Reducer("fp16" if net.rank == 1 else "dense", 10, net)
        ranks.in_threads(2, body)

    def test_stop(self):
        def body(net):
            reducer = telegrad.Reducer("dense", 4, net)
            if net.rank == 1:
                done.wait(20)
                return
            threading.Timer(0.1, net.stop).start()
            with self.assertRaises(telegrad.StoppedError):
                reducer.mean_(array.array("f", [1] * 4))
            done.set()
        done = threading.Event()
        ranks.in_threads(2, body)

    def test_epochs_of_unknown_length(self):
        net = telegrad.Network.local(1)[0]
        with self.assertRaisesRegex(telegrad.SpecError, "not known here: allowed: warmup in steps, or the argument steps_per_epoch="):
            telegrad.Reducer("dgc:warmup=4ep", 4, net)
        telegrad.Reducer("dgc:warmup=4ep", 4, net, steps_per_epoch=10)

    def test_garbage(self):
        """A reducer and its network that hold each other: the reducer ends first, whichever Python finalizes first."""
        with ranks.ends_of("tg_reducer_destroy") as calls:
            net = telegrad.Network.local(1)[0]
            net.itself = reducer = telegrad.Reducer("dense", 4, net)
            reducer.itself = net
            del net, reducer
            gc.collect()
        self.assertEqual(calls, ["tg_reducer_destroy", "tg_transport_destroy"])

    def test_closed(self):
        net = telegrad.Network.local(1)[0]
        reducer = telegrad.Reducer("fp16", 4, net)
        reducer.mean_(array.array("f", [1] * 4))
        figures = reducer.bytes_sent, reducer.ratio
        net.close()
        net.close()
        self.assertEqual((reducer.bytes_sent, reducer.ratio), figures)
        self.assertGreater(reducer.ratio, 0)
        with self.assertRaisesRegex(telegrad.StateError, "closed"):
            reducer.mean_(array.array("f", [1] * 4))
        with self.assertRaisesRegex(telegrad.StateError, "closed"):
            telegrad.Reducer("dense", 4, net)
        del reducer, net
        gc.collect()

    def processes(self, what, size=2):
        return ranks.start(os.path.abspath(__file__), size, what)

    def test_processes(self):
        ended = ranks.finish(self.processes("mean", 3))
        for status, output, errors in ended:
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(output, ended[0][1])
        self.assertIn("mean", ended[0][1])

    def test_killed_rank_is_named(self):
        processes = self.processes("killed", 3)
        self.assertEqual(processes[2].wait(60), -signal.SIGKILL)
        for status, output, errors in ranks.finish(processes)[:2]:
            self.assertEqual((status, errors), (0, ""))
            # a rank that hears of it from the other one first names both
            self.assertRegex(output, "PeerError: (rank 2|rank [01] has left .* because of rank 2)")

    def test_exit_with_an_operation_in_flight(self):
        began = time.monotonic()
        (status, _, errors), (other, text, more) = ranks.finish(self.processes("exit"))
        self.assertEqual((status, errors, other, more), (0, "", 0, ""))
        self.assertIn("PeerError: rank 0", text)
        self.assertLess(time.monotonic() - began, 20)


def rank_of_test(rank, size, port, what):
    address = f"tcp://127.0.0.1:{port}"
    net = telegrad.Network.join(address, rank=rank, insecure=True) if rank else telegrad.Network.meet(address, size, insecure=True)
    assert (net.rank, net.size) == (rank, size)
    reducer = telegrad.Reducer("topk:density=0.05", 1000, net)
    x = array.array("f", numbers(rank, 0))
    reducer.mean_(x)
    if what == "mean":
        print("mean", sum(x), reducer.ratio > 5, reducer.bytes_sent > 0)
        net.close()
    elif what == "exit":
        if rank == 0:
            def wait():
                try:
                    other.start_(y).wait()
                except telegrad.StoppedError:
                    pass
            other, y = telegrad.Reducer("dense", 1000, net), array.array("f", numbers(rank, 1))
            threading.Thread(target=wait, daemon=True).start()
            time.sleep(0.3)
            sys.exit(0)  # the thread is in C
        last = telegrad.Reducer("dense", 1000, net)
        time.sleep(1)
        try:
            for _ in range(3):
                last.mean_(x)
        except telegrad.PeerError as error:
            print("PeerError:", error)
    else:
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                reducer.mean_(x)
        except telegrad.PeerError as error:
            print("PeerError:", error)


if __name__ == "__main__":
    if IS_RANK:
        rank_of_test(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        print("PyTorch", torch.__version__ if torch else "-", "NumPy", numpy.__version__ if numpy else "-")
        unittest.main()
