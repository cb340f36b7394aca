"""telegrad.torch.server: workers of `telegrad serve`. Status 77: no PyTorch here."""
import gc
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from local_models import batch, plain, weights
import served
import torch
import telegrad
import telegrad.torch

if not served.AVAILABLE:
    print(served.WHY)
    sys.exit(77)
HERE = pathlib.Path(__file__).resolve().parent


def worker(model, address, method="dense", *, lr=0.25, timeout=20, **more):
    return telegrad.torch.server(model, address, method, lr=lr, timeout=timeout, **{"insecure": "key" not in more, **more})


def train(opt, model, begin, end, rank=0, schedule=None, dtype=torch.float32):
    losses = []
    for step in range(begin, end):
        x, y = batch(rank, step, dtype)
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        opt.step()
        if schedule is not None:
            schedule.step()
        losses.append(loss.item())
    return losses


class Alone(unittest.TestCase):
    """One worker is sequential training."""

    def beside_torch(self, optimizer, make, lr, method="dense", shards=1):
        """The parameters of a worker, and those of PyTorch's own optimizer."""
        found, want = plain(1), plain(1)
        own = make(want.parameters())
        train(own, want, 0, 12, schedule=torch.optim.lr_scheduler.StepLR(own, 4, 0.5))
        servers = [served.Server("--optimizer", optimizer, "--shard", f"{i}/{shards}") for i in range(shards)]
        try:
            addresses = [s.address for s in servers]
            with worker(found, addresses if shards > 1 else addresses[0], method, lr=lr) as opt:
                train(opt, found, 0, 12, schedule=torch.optim.lr_scheduler.StepLR(opt, 4, 0.5))
                self.assertEqual((opt.stats()["steps"], opt.optimizer), (12, optimizer))
        finally:
            for s in servers:
                s.kill()
        return weights(found), weights(want)

    def test_bits_of_sgd(self):
        """PyTorch's SGD may fuse a product and a sum, and rounds once where telegrad rounds twice. Products with powers of two are
        exact, so then the bits are the same."""
        for optimizer, settings in (("sgd:lr=1", {}), ("sgd:lr=1,momentum=0.5", {"momentum": 0.5}),
                                    ("sgd:lr=1,momentum=0.5,nesterov=yes,weight_decay=0.0625",
                                     {"momentum": 0.5, "nesterov": True, "weight_decay": 0.0625})):
            for method, shards in (("dense", 1), ("dense", 2), ("topk:density=1,values=f32", 1),
                                   ("topk:density=1,values=f32,exchange=twoway", 1)):
                found, want = self.beside_torch(optimizer, lambda p: torch.optim.SGD(p, 0.25, **settings), 0.25, method, shards)
                self.assertTrue(torch.equal(found, want), (optimizer, method, shards))

    def test_close_to_torch(self):
        for optimizer, make in (
                ("sgd:lr=1,momentum=0.9,weight_decay=0.01", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01)),
                ("adam:lr=1", lambda p: torch.optim.Adam(p, 0.1)), ("adamw:lr=1", lambda p: torch.optim.AdamW(p, 0.1))):
            found, want = self.beside_torch(optimizer, make, 0.1)
            self.assertLess(float((found - want).abs().max()), 1e-4, optimizer)
            self.assertGreater(float((found - weights(plain(1))).abs().max()), 0.05)

    def test_server_goes_on(self):
        """One that is killed, and started again with its journal, has the bits of one that never was."""
        found = []
        for killed in (False, True):
            folder = tempfile.mkdtemp(prefix="telegrad-server-")
            self.addCleanup(shutil.rmtree, folder)
            arguments = ["--journal", folder + "/journal", "--optimizer", "adam:lr=1"]
            server, model = served.Server(*arguments), plain(1)
            with worker(model, server.address, "topk:density=0.1", lr=0.01) as opt:
                train(opt, model, 0, 5)
                if killed:
                    server.kill()
                    server = served.Server(*arguments, port=server.port)
                train(opt, model, 5, 10)
            server.kill()
            found.append(weights(model))
        self.assertTrue(torch.equal(*found))


class Several(unittest.TestCase):
    def setUp(self):
        self.server = served.Server("--workers", "2", "--optimizer", "sgd:lr=1,momentum=0.5")
        self.addCleanup(self.server.kill)

    def test_two_train(self):
        """Each on batches of its own; the loss of a batch that neither has seen falls."""
        models = [plain(1), plain(2)]
        x, y = (torch.cat(part) for part in zip(*(batch(9, step) for step in range(8))))
        teacher = plain(7)
        y = teacher(x).argmax(1)
        begun, seats = threading.Barrier(2), set()

        def run(rank):
            with worker(models[rank], self.server.address, "topk:density=0.2", lr=0.05) as opt:
                seats.add((opt.seat, opt.seats))
                begun.wait(20)
                for step in range(150):
                    own = batch(opt.seat, step)[0]
                    opt.zero_grad()
                    torch.nn.functional.cross_entropy(models[rank](own), teacher(own).argmax(1)).backward()
                    opt.step()
        loss = lambda model: torch.nn.functional.cross_entropy(model(x), y).item()  # noqa: E731
        before = loss(models[0])
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(seats, {(0, 2), (1, 2)})
        late = plain(3)
        worker(late, self.server.address, "topk:density=0.2").close()  # has the parameters of now
        self.assertLess(loss(late), before / 2)
        self.server.told("worker 0 (127.0.0.1) has left\n")  # without a reason: as planned

    def test_parameters_of_now(self):
        first, second = plain(1), plain(2)
        with worker(first, self.server.address) as opt:
            train(opt, first, 0, 3)
            with worker(second, self.server.address) as other:
                self.assertTrue(torch.equal(weights(first), weights(second)))
                train(other, second, 0, 2, rank=1)
                train(opt, first, 3, 4)
            train(opt, first, 4, 5)  # the other has left
            self.assertEqual(opt.stats()["steps"], 5)

    def test_steps_of_the_others(self):
        model, other_model = plain(1), plain(2)
        with worker(model, self.server.address, anew=True) as opt:
            self.assertEqual(opt.first_step, 0)
            train(opt, model, 0, 3)
            with worker(other_model, self.server.address, anew=True) as other:  # somebody is there
                self.assertEqual(other.first_step, 3)
                train(other, other_model, 3, 5)
                self.assertEqual(other.stats()["steps"], 2)
        left = "worker 0 (127.0.0.1) has left\n"
        self.server.told(left)
        self.server.told("worker 1 (127.0.0.1) has left\n")
        with worker(plain(1), self.server.address) as opt:
            self.assertEqual(opt.first_step, 5)
        self.server.told(left, times=2)
        with worker(plain(1), self.server.address, anew=True) as opt:
            self.assertEqual(opt.first_step, 0)

    def test_others_are_refused(self):
        """Another model or method, while a worker is there and later."""
        model, other = plain(1), torch.nn.Linear(12, 3)
        with worker(model, self.server.address) as opt:
            train(opt, model, 0, 1)
            for wrong, method in ((other, "dense"), (plain(1), "fp16")):
                with self.assertRaisesRegex(telegrad.PeerError, "the workers that are there have other settings: .*; this worker has "
                                            rf"\d+ parameters in {2 if wrong is other else 4} tensors, method {method}"):
                    worker(wrong, self.server.address, method)
            train(opt, model, 1, 2)
        with self.assertRaisesRegex(telegrad.PeerError, "it trains another model: its tensor 1 is weight 3x12, the server has 0.weight 24x12: .*; this worker has 39 parameters in 2 tensors"):
            worker(other, self.server.address)

    def test_no_seat(self):
        with worker(plain(1), self.server.address), worker(plain(1), self.server.address):
            with self.assertRaisesRegex(telegrad.PeerError, "all 2 seats for workers are taken"):
                worker(plain(1), self.server.address, timeout=0.3)

    def test_kinds_of_parameters(self):
        """16 bits, frozen, unused, with sparse gradients."""
        torch.manual_seed(1)
        model = torch.nn.ModuleDict({"sparse": torch.nn.Embedding(6, 4, sparse=True), "low": torch.nn.Linear(4, 2).to(torch.bfloat16),
                                     "frozen": torch.nn.Linear(2, 2), "unused": torch.nn.Linear(2, 2), "norm": torch.nn.BatchNorm1d(4)})
        model["frozen"].requires_grad_(False)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        with worker(model, self.server.address) as opt:
            for _ in range(2):
                opt.zero_grad()
                model["low"](model["norm"](model["sparse"](torch.tensor([1, 2, 2]))).to(torch.bfloat16)).float().sum().backward()
                opt.step()
        changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
        self.assertEqual(changed, {"sparse.weight", "low.weight", "low.bias", "norm.bias"})
        self.assertTrue(torch.equal(model["sparse"].weight[0], before["sparse.weight"][0]))
        self.assertEqual(model["low"].bias.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(model["low"].bias, (before["low.bias"].float() - 0.25 * 3 - 0.25 * 4.5).to(torch.bfloat16)))

    def test_gradient_that_is_not_finite(self):
        model = plain(1)
        with worker(model, self.server.address) as opt:
            train(opt, model, 0, 2)
            before = weights(model)
            for p in model.parameters():
                p.grad = torch.full_like(p, float("nan"))
            opt.step()
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            opt.grad_scale, opt.found_inf = torch.tensor(64.0), torch.tensor(1.0)  # as GradScaler.step does
            opt.step()
            self.assertTrue(torch.equal(weights(model), before))
            opt.found_inf = torch.tensor(0.0)
            opt.step()
            self.assertTrue(torch.equal(next(model.parameters()).grad, torch.full_like(next(model.parameters()), 1 / 64)))
            self.assertEqual([opt.stats()[name] for name in ("steps", "skipped_steps")], [3, 2])

    def test_state(self):
        """The learning rate, as of every optimizer; the parameters are the model's."""
        model = plain(1)
        with worker(model, self.server.address) as opt:
            opt.param_groups[0]["lr"] = 0.125
            state = opt.state_dict()
            opt.param_groups[0]["lr"] = 0.5
            opt.load_state_dict(state)
            self.assertEqual(opt.param_groups[0]["lr"], 0.125)


class Mode(unittest.TestCase):
    def test_expected(self):
        """A worker may say which mode it expects."""
        bounded, other = {"mode": "async", "staleness": 4}, "async:compensate=0.5,staleness=2"
        for mode, right, wrong in (
                ("async:staleness=4", [bounded, {"mode": "async:staleness=4"}, {"staleness": 4}, {"mode": "dist_async", "staleness": 4}],
                 [({"mode": "sync"}, "sync"), ({"mode": "async"}, "async"), ({**bounded, "staleness": 8}, "async:staleness=8")]),
                ("dist_sync", [{"mode": "sync"}, {"mode": "dist_sync"}, {"mode": "sync:combine=mean"}, {}], [(bounded, "async:staleness=4")]),
                ("async:staleness=2,compensate=0.5", [{"mode": "async:compensate=0.5", "staleness": 2}], [({"staleness": 2}, "async:staleness=2")])):
            with served.Server("--mode", mode) as server:
                for settings in right:
                    with self.subTest(mode, **settings), worker(plain(1), server.address, **settings) as opt:
                        self.assertEqual(opt.mode, {"dist_sync": "sync"}.get(mode, mode))
                for settings, expected in wrong:
                    with self.subTest(mode, **settings), self.assertRaisesRegex(
                            telegrad.MismatchError, f"server 0 at tcp://.* has --mode {mode.replace('dist_', '')}, expected {expected}: "):
                        worker(plain(1), server.address, **settings)
        with served.Server("--mode", "sync", "--deadline", "1s") as server, worker(plain(1), server.address, mode="sync") as opt:
            self.assertEqual(opt.mode, "sync")
        with served.Server("--mode", other) as server, worker(plain(1), server.address, mode="async:staleness=2,compensate=0.5") as opt:
            self.assertEqual(opt.mode, other)

    def test_refused(self):
        for settings, text in (({"mode": "sum"}, "mode='sum': allowed: async, sync"), ({"mode": 3}, "mode"),
                               ({"staleness": -1}, "staleness=-1: allowed: a whole number, 0 or more"),
                               ({"staleness": 2.5}, "staleness=2.5"), ({"staleness": True}, "staleness=True"),
                               ({"mode": "sync", "staleness": 4}, "staleness=4 and mode='sync': allowed: staleness with mode='async'"),
                               ({"mode": "async:stale=4"}, "stale"),
                               ({"mode": "async:staleness=4", "staleness": 4}, "and once")):
            with self.subTest(**settings), self.assertRaisesRegex(telegrad.ArgumentError, text):
                worker(plain(1), "tcp://127.0.0.1:1", **settings)


class Keys(unittest.TestCase):
    def test_keys(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="telegrad-server-"))
        self.addCleanup(shutil.rmtree, folder)
        own, server_key, other = telegrad.Key(), telegrad.Key(), telegrad.Key()
        server_key.save(folder / "server.key")
        (folder / "workers").write_text(f"{own.public} anna\n")
        os.chmod(folder / "workers", 0o600)
        with served.Server("--key", folder / "server.key", "--allow", folder / "workers") as server:
            model = plain(1)
            with worker(model, server.address, key=own, server_key=server_key.public) as opt:
                train(opt, model, 0, 2)
            server.told("worker 0 (anna, 127.0.0.1) has come")
            for error, text, settings in (
                    (telegrad.PeerError, "does not accept this rank's key", {"key": other, "server_key": server_key.public}),
                    (telegrad.PeerError, "its key is .*, but the expected one is", {"key": own, "server_key": other.public}),
                    (telegrad.PeerError, r"server 0 at tcp://.* \(was it started with keys, and this worker without\?\)", {"timeout": 0.3})):
                with self.subTest(text), self.assertRaisesRegex(error, text):
                    worker(plain(1), server.address, **settings)


class Ends(unittest.TestCase):
    def test_server_dies(self):
        """For good, and started again without a journal."""
        server, model = served.Server(), plain(1)
        with worker(model, server.address, timeout=0.5) as opt:
            train(opt, model, 0, 2)
            server.kill()
            with self.assertLogs("telegrad", "WARNING") as logged, \
                    self.assertRaisesRegex(telegrad.PeerError, "server 0 has left: .* it was called for 0.5 s: server 0 at .* refused"):
                train(opt, model, 2, 4)
            self.assertIn("calling it again, for up to 0.5 s", logged.output[0])
            with self.assertRaises(telegrad.PeerError):
                opt.step()
        with served.Server(port=server.port) as server, worker(model, server.address) as opt:
            train(opt, model, 0, 2)
            server.kill()
            with served.Server(port=server.port):
                with self.assertRaisesRegex(telegrad.PeerError, "this worker has been here, but the server does not"):
                    train(opt, model, 2, 4)
        with self.assertRaisesRegex(telegrad.StateError, "the worker is closed"):
            opt.step()

    def waits(self, after, server_waits, what):
        """A worker that waits: for a server that is gone, or for another worker. after: seconds until `what` is done to it."""
        server = served.Server("--mode", "async:staleness=1")
        self.addCleanup(server.kill)
        model, other = plain(1), plain(1)
        opt = worker(model, server.address, timeout=600)
        self.addCleanup(opt.close)
        if server_waits:
            self.addCleanup(worker(other, server.address, timeout=600).close)
        else:
            server.kill()
        timer = threading.Timer(after, what, [opt])
        timer.start()
        try:
            train(opt, model, 0, 10)
        finally:
            timer.join()

    def test_stop(self):
        for server_waits in (False, True):
            with self.assertRaises(telegrad.StoppedError):
                self.waits(0.5, server_waits, lambda opt: opt.net.stop())

    def test_interrupted(self):
        for server_waits in (False, True):
            with self.assertRaises(KeyboardInterrupt):
                self.waits(0.5, server_waits, lambda opt: os.kill(os.getpid(), signal.SIGINT))

    def test_program_ends(self):
        """Without close, also while it waits in another thread."""
        for last in ("", "threading.Thread(target=step, daemon=True).start(); time.sleep(1)"):
            with served.Server("--mode", "async:staleness=1") as server:
                program = ("import sys, threading, time, torch, telegrad.torch\n"
                           "def one():\n"
                           "    model = torch.nn.Linear(3, 2)\n"
                           "    opt = telegrad.torch.server(model, sys.argv[1], lr=0.1, insecure=True)\n"
                           "    model.bias.grad = torch.ones(2)\n"
                           "    return opt\n"
                           "opt, other = one(), one()\n"
                           "def step():\n"
                           "    try:\n"
                           "        while True: opt.step()\n"
                           "    except telegrad.Error:\n"  # Python ends badly while another thread runs
                           "        threading.Event().wait()\n"
                           f"opt.step()\n{last}\n")
                done = subprocess.run([sys.executable, "-c", program, server.address], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                server.told("worker 0 (127.0.0.1) has left")

    def test_forgotten(self):
        """Without close: schedules hold their optimizer in a circle."""
        with served.Server() as server:
            model = plain(1)
            opt = worker(model, server.address)
            train(opt, model, 0, 2, schedule=torch.optim.lr_scheduler.StepLR(opt, 1))
            opt.itself = opt
            del opt
            gc.collect()
            server.told("worker 0 (127.0.0.1) has left\n")

    def test_closed_by_its_network(self):
        with served.Server() as server:
            opt = worker(plain(1), server.address)
            opt.net.close()
            self.assertIn(", closed>", repr(opt))
            with self.assertRaisesRegex(telegrad.StateError, "the worker is closed"):
                opt.step()
            opt.close()

    def test_wait_is_told(self):
        with self.assertLogs("telegrad", logging.WARNING) as told, self.assertRaises(telegrad.PeerError):
            worker(plain(1), f"tcp://127.0.0.1:{served.free_port()}", timeout=1.5)
        self.assertRegex(told.output[0], "waiting for server 0 at tcp://.*: Connection refused")


class Refused(unittest.TestCase):
    def test_arguments(self):
        key = telegrad.Key()
        frozen = torch.nn.Linear(2, 2).requires_grad_(False)
        nobody = "tcp://127.0.0.1:1"
        make = lambda model=None, address=nobody, method="dense", **more: worker(model or plain(1), address, method, **more)  # noqa: E731
        for error, text, call in (
                (telegrad.ArgumentError, "model: a str: allowed: a torch.nn.Module", lambda: make("model")),
                (telegrad.ArgumentError, "model: no parameter of it requires a gradient", lambda: make(frozen)),
                (telegrad.UnsupportedError, "parameter weight: it is float64", lambda: make(torch.nn.Linear(2, 2).double())),
                (telegrad.UnsupportedError, "parameter weight: it is on meta", lambda: make(torch.nn.Linear(2, 2).to("meta"))),
                (telegrad.ArgumentError, "lr=-1: allowed: 0 or more", lambda: make(lr=-1)),
                (telegrad.ArgumentError, "lr: a NoneType: allowed: a number", lambda: make(lr=None)),
                (telegrad.ArgumentError, "timeout=0: allowed: above 0", lambda: make(timeout=0)),
                (telegrad.SpecError, 'server "host": allowed: tcp://HOST:PORT', lambda: make(address="host")),
                (telegrad.ArgumentError, "address: a int: allowed: a str, or a list", lambda: make(address=4242)),
                (telegrad.ArgumentError, "address: a list without an entry", lambda: make(address=[])),
                (telegrad.ArgumentError, r"address\[1\]: a int: allowed: a str", lambda: make(address=[nobody, 1])),
                (telegrad.ArgumentError, "method: None: allowed: a str", lambda: make(method=None)),
                (telegrad.ArgumentError, "rules: a list: allowed: a dict", lambda: make(rules=["*"])),
                (telegrad.ArgumentError, "key: None: allowed: a telegrad.Key; or insecure=True", lambda: make(insecure=False)),
                (telegrad.ArgumentError, "server_key: None: allowed: the servers' public keys", lambda: make(key=key)),
                (telegrad.ArgumentError, "key: a str: allowed: a telegrad.Key", lambda: make(key="w1.key", server_key=key.public)),
                (telegrad.ArgumentError, "server_key: '.*' is not a public key", lambda: make(key=key, server_key="w1.key")),
                (telegrad.ArgumentError, "server_key: 2 keys for 1 addresses", lambda: make(key=key, server_key=[key.public] * 2)),
                (telegrad.ArgumentError, "insecure=True: allowed: without key", lambda: make(key=key, insecure=True))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_by_the_server(self):
        with served.Server("--optimizer", "adam:lr=1") as server, served.Server("--shard", "1/2", "--optimizer", "sgd:lr=1") as shard:
            for error, text, address, method, more in (
                    (telegrad.UnsupportedError, "allowed: methods of one round", server.address, "powersgd", {}),
                    (telegrad.UnsupportedError, "allowed: methods of one round", server.address, "dense:exchange=ring", {}),
                    (telegrad.SpecError, 'unknown method "topq": did you mean "topk"', server.address, "topq", {}),
                    (telegrad.SpecError, "accumulates SGD's momentum itself", server.address, "dgc", {}),
                    (telegrad.SpecError, 'the rule for "nix" matches no tensor', server.address, "dense", {"rules": {"nix": "f32"}}),
                    (telegrad.MismatchError, "this is shard 0 of 1", [server.address] * 2, "dense", {})):
                with self.subTest(text), self.assertRaisesRegex(error, text):
                    worker(plain(1), address, method, **more)
            with served.Server("--shard", "0/2", "--optimizer", "adam:lr=1") as first:
                with self.assertRaisesRegex(telegrad.MismatchError, "server 1 at .* has --optimizer sgd:lr=1 --mode async, and "
                                                                       "server 0 --optimizer adam:lr=1 --mode async: allowed"):
                    worker(plain(1), [first.address, shard.address])

    def test_changes(self):
        import copy
        import pickle
        with served.Server() as server, worker(plain(1), server.address) as opt:
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(telegrad.StateError, "neither copied nor pickled"):
                    copied(opt)
            with self.assertRaisesRegex(telegrad.StateError, "add_param_group: the servers know the model's parameters"):
                opt.add_param_group({"params": []})
            opt.param_groups[0]["params"][0].data = torch.ones(24, 12)
            with self.assertRaisesRegex(telegrad.StateError, "0.weight was moved or replaced after the worker was created"):
                opt.step()


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    unittest.main()
