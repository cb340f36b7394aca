"""telegrad.torch.Local between threads. Status 77: no PyTorch here."""
import copy
import io
import os
import signal
import threading
import time
import unittest
import unittest.mock
import warnings

import ranks
from local_models import seeding, adamw, Fixed, made, plain, SPECS, train, values, weights
import torch
import telegrad
from telegrad.torch import Local


class Limits(unittest.TestCase):
    def test_every_step_is_synchronous_sgd(self):
        """local:every=1, and ssgd, with SGD: the bits of one process with the mean gradient."""
        want, steps, size = Fixed(), 6, 4
        opt = torch.optim.SGD(want.parameters(), 0.25)
        for step in range(steps):
            other = [Fixed() for _ in range(size)]
            for rank, o in enumerate(other):
                o.give(rank, step)
            for i, p in enumerate(want.parameters()):
                p.grad = sum(list(o.parameters())[i].grad for o in other) / size
            opt.step()

        for spec in ("local:every=1", "ssgd", "local:every=1,after=3", "dga:delay=0"):
            def body(net):
                model = Fixed()
                opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, spec, net)
                for step in range(steps):
                    model.give(net.rank, step)
                    opt.step()
                return values(model)
            for found in ranks.in_threads(size, body):
                self.assertTrue(torch.equal(found, values(want)), spec)

    def test_diloco_by_hand(self):
        """The outer step of DiLoCo, computed here, with AdamW inside."""
        size, every, rounds = 2, 3, 3
        models = [plain(0) for _ in range(size)]
        inner = [adamw(m) for m in models]
        start, velocity = weights(models[0]), 0
        for r in range(rounds):
            for rank in range(size):
                train(inner[rank], models[rank], rank, r * every, (r + 1) * every)
            mean = start - sum(weights(m) for m in models) / size
            grown = (r + 1) / 4
            momentum = grown * 0.9
            velocity = momentum * velocity + mean
            start = start - (grown * 0.7 + 1 - grown) * (mean + momentum * velocity)
            for m in models:
                torch.nn.utils.vector_to_parameters(start.clone(), m.parameters())

        def body(net):
            with seeding:
                model = plain(net.rank)
            opt = Local(adamw(model), model, f"diloco:every={every},warmup=4", net)
            train(opt, model, net.rank, 0, rounds * every)
            return weights(model)
        found = ranks.in_threads(size, body)
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertLess(float((found[0] - start).abs().max()), 1e-5)


class Runs(unittest.TestCase):
    def test_unused_and_frozen_parameters_stay(self):
        """In steps that exchange gradients: no weight decay, no momentum for a parameter that no rank has used, or a frozen one.
        Others get the mean of all, also where this rank has not used them."""
        for spec in ("ssgd", "local:every=2,after=3", "pipe:width=2"):
            def body(net):
                model = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.ones(3)) for name in ("used", "once", "frozen", "never")})
                model.frozen.requires_grad_(False)
                opt = Local(torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.5), model, spec, net)
                for step in range(3):
                    opt.zero_grad()
                    (model.used.sum() + (model.once.sum() if net.rank == 0 else 0)).backward()
                    if step == 0:
                        model.frozen.grad = torch.ones(3)  # of before it was frozen
                    opt.step()
                opt.finish()
                return {name: p.detach().clone() for name, p in model.items()}
            for found in ranks.in_threads(2, body):
                for name, p in found.items():
                    self.assertEqual(torch.equal(p, torch.ones(3)), name in ("frozen", "never"), f"{spec}: {name}")
                self.assertTrue(torch.equal(found["used"], found["once"]) or spec != "ssgd")

    def test_without_a_rate(self):
        """An optimizer that has none, as Adafactor, which then chooses it itself: the bits of SGD with the same steps."""
        class Steps(torch.optim.Optimizer):
            def __init__(self, parameters):
                super().__init__(parameters, {"lr": None})

            @torch.no_grad()
            def step(self, closure=None):
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad, alpha=0.125)

        def run(inner):
            def body(net):
                model = made(net.rank)
                opt = Local(inner(model.parameters()), model, "diloco:every=2", net)
                train(opt, model, net.rank, 0, 5)
                return weights(model)
            return ranks.in_threads(2, body)
        for own, usual in zip(run(Steps), run(lambda parameters: torch.optim.SGD(parameters, 0.125))):
            self.assertTrue(torch.equal(own, usual))

    def test_goes_on_after_finish(self):
        """Averages of gradients that finish has dropped are not taken for those of the next step."""
        for spec in ("pipe:width=2", "cd:warmup=2,k=2,local=sgd,eta_loc=0.01", "od:warmup=2,local=sgd,eta_loc=0.01"):
            def body(net):
                model = Fixed()
                opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, spec, net)
                for step in range(9):
                    model.give(net.rank, step)
                    opt.step()
                    if step in (4, 8):
                        opt.finish()
                return weights(model)
            a, b = ranks.in_threads(2, body)
            self.assertTrue(torch.equal(a, b), spec)

    def test_resumed_with_the_same_bits(self):
        for spec in SPECS:
            def whole(net):
                model = made(net.rank)
                opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
                train(opt, model, net.rank, 0, 9)
                own = values(model)
                opt.finish()
                return own, weights(model), opt.stats()

            def first(net):
                model = made(net.rank)
                opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
                train(opt, model, net.rank, 0, 5)
                file = io.BytesIO()
                torch.save(opt.state_dict(), file)
                return file.getvalue()

            def second(net):
                model = made(7)
                opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
                train(opt, model, net.rank, 20, 22)  # something else, of which nothing must remain
                opt.load_state_dict(torch.load(io.BytesIO(saved[net.rank])))
                train(opt, model, net.rank, 5, 9)
                own = values(model)
                opt.finish()
                return own, weights(model), opt.stats()
            want = ranks.in_threads(2, whole)
            saved = ranks.in_threads(2, first)
            for (own, end, stats), (want_own, want_end, want_stats) in zip(ranks.in_threads(2, second), want):
                self.assertEqual(want_stats["steps"], 9)
                self.assertEqual({**stats, "bytes_sent": 0}, {**want_stats, "bytes_sent": 0}, spec)
                self.assertGreaterEqual(stats["bytes_sent"], want_stats["bytes_sent"], spec)  # and the parameters once more
                self.assertTrue(torch.equal(own, want_own) and torch.equal(end, want_end), spec)
                self.assertTrue(torch.isfinite(end).all())
            if not spec.startswith(("ssgd", "pipe", "cd", "od", "fedavg")):
                self.assertTrue(torch.equal(want[0][1], want[1][1]), spec)

    def test_another_number_of_ranks(self):
        """The last average stays, and training goes on alike; parameters and moments are means of the old ranks'."""
        def saved(net):
            model = made(net.rank)
            opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
            train(opt, model, net.rank, 0, 5)
            state = copy.deepcopy(opt.state_dict())
            with opt.global_weights():
                return state, weights(model)

        def loaded(net):
            model = made(7)
            opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
            opt.load_state_dict(copy.deepcopy([state for state, _ in before]))  # PyTorch goes on in the tensors that it is given
            own, moment = weights(model), opt.state[model[0].weight].get("exp_avg", torch.zeros(1)).clone()
            with opt.global_weights():
                shown = weights(model)
            train(opt, model, net.rank, 5, 9)
            self.assertEqual(opt.stats()["steps"], 9)
            opt.finish()
            self.assertTrue(torch.isfinite(weights(model)).all())
            return own, moment, shown, weights(model)
        for spec in SPECS:
            before = ranks.in_threads(2, saved)
            for size in (1, 3):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    found = ranks.in_threads(size, loaded)
                self.assertEqual([str(w.message) for w in caught if "begin anew" not in str(w.message)], [])
                for own, moment, shown, end in found:
                    if not spec.startswith("gossip"):  # its average is over the ranks that there are
                        self.assertTrue(torch.equal(shown, before[0][1]), spec)
                    if not spec.startswith(("ssgd", "pipe", "cd", "od")):
                        self.assertTrue(torch.equal(end, found[0][3]), spec)
                if "local:every=3" == spec:
                    mean = sum(state["optimizer"]["state"][0]["exp_avg"] for state, _ in before) / 2
                    self.assertTrue(torch.allclose(sum(moment for _, moment, _, _ in found) / size, mean))
                if spec == "fedavg:every=3,clients=0.5":  # of ranks that were drawn more or less often
                    self.assertTrue(any(state["optimizer"]["state"] for state, _ in before))
                    self.assertFalse(any(bool(moment.any()) for _, moment, _, _ in found))

    def test_four_ranks_agree(self):
        def body(net):
            model = made(net.rank)
            opt = Local(torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), model, "sparseloco:every=3", net,
                        rules={"*.bias": "f32"}, samples=net.rank)
            schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
            for step in range(6):
                train(opt, model, net.rank, step, step + 1)
                schedule.step()
            self.assertEqual(opt.param_groups[0]["lr"], 0.05 / 8)
            return weights(model)
        found = ranks.in_threads(4, body)
        self.assertTrue(all(torch.equal(f, found[0]) for f in found))

    def test_global_weights(self):
        """The last average and the means of buffers, and then what the rank had."""
        def body(net):
            model = made(net.rank)
            opt = Local(adamw(model), model, "local:every=4", net)
            train(opt, model, net.rank, 0, 6)
            own, statistic = values(model), model[1].running_mean.clone()
            with opt.global_weights():
                shown, mean = values(model), model[1].running_mean.clone()
            self.assertTrue(torch.equal(values(model), own))
            self.assertFalse(torch.equal(own, shown))
            return shown, statistic, mean
        a, b = ranks.in_threads(2, body)
        self.assertTrue(torch.equal(a[0], b[0]))
        self.assertTrue(torch.allclose(a[2], (a[1] + b[1]) / 2))

    def test_other_memory(self):
        """bfloat16, and a parameter that is not contiguous."""
        def body(net):
            model = made(net.rank, torch.bfloat16)
            model[0].weight = torch.nn.Parameter(model[0].weight.detach().t().contiguous().t())
            opt = Local(adamw(model), model, "diloco:every=2", net)
            train(opt, model, net.rank, 0, 4, dtype=torch.bfloat16)
            ended = weights(model)
            train(opt, model, net.rank, 4, 5, dtype=torch.bfloat16)
            with opt.global_weights():
                shown = weights(model)
            self.assertTrue(torch.equal(ended, shown))
            return ended
        a, b = ranks.in_threads(2, body)
        self.assertTrue(torch.equal(a, b))

    def test_copies(self):
        """A session that has copies of the parameters, as it has of those on a GPU: the same bits. Where rounds are long, most steps
        copy nothing."""
        def body(net):
            model = made(net.rank)
            opt = Local(adamw(model), model, spec, net, bucket_bytes=1000)
            train(opt, model, net.rank, 0, 5)
            state = copy.deepcopy(opt.state_dict())
            with opt.global_weights():
                shown = values(model)
            copies.clear()
            train(opt, model, net.rank, 5, 9)
            counted = len(copies)
            own = values(model)
            opt.load_state_dict(state)
            train(opt, model, net.rank, 5, 9)
            again = values(model)
            opt.finish()
            return torch.stack([shown, own, again, values(model)]), counted

        def counting(host, tensor):
            copies.append(1)
            fetch(host, tensor)
        fetch, copies = telegrad._tensors.fetch, []
        for spec in SPECS:
            want = ranks.in_threads(1, body) + ranks.in_threads(2, body)
            with unittest.mock.patch.object(telegrad._tensors, "lies_apart", lambda tensor: True), \
                    unittest.mock.patch.object(telegrad._tensors, "fetch", counting):
                found = ranks.in_threads(1, body) + ranks.in_threads(2, body)
            for (got, _), (bits, _) in zip(found, want):
                self.assertTrue(torch.equal(got, bits), spec)
            tensors, steps = 6, 4
            rounds = {"local:every=3": 2, "diloco:every=4": 1, "sparseloco:every=4": 1, "local:every=1": 4}
            self.assertEqual(found[0][1], tensors * rounds.get(spec, found[0][1] // tensors), spec)
            self.assertLessEqual(found[0][1], tensors * 2 * steps)

    def test_other_defaults(self):
        """PyTorch's default type and device are not those of what C works on."""
        def body(net):
            model = made(net.rank, torch.bfloat16)
            model[3].weight.requires_grad_(False)
            opt = Local(torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1), model, "local:every=1", net)
            begun = values(model)
            train(opt, model, net.rank, 0, 3, dtype=torch.bfloat16)
            state = opt.state_dict()
            opt.load_state_dict(state)
            return torch.cat([begun, weights(model)])
        for dtype in (torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            try:
                found = ranks.in_threads(2, body)
            finally:
                torch.set_default_dtype(torch.float32)
            self.assertTrue(torch.equal(*found) and bool(torch.isfinite(found[0]).all()), dtype)

    def test_tensors_outside_the_optimizer(self):
        """All get rank 0's; buffers are resumed."""
        class Model(torch.nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.a = torch.nn.Parameter(torch.ones(3))
                self.base = torch.nn.Parameter(torch.full((2, 5), 1.5 + rank, dtype=torch.float64), requires_grad=False)
                self.narrow = torch.nn.Parameter(torch.full((3,), 0.5 + rank, dtype=torch.float16))
                self.register_buffer("seen", torch.tensor(7 + rank))
                self.register_buffer("mask", torch.tensor([rank == 0, True, False]))
                self.register_buffer("angles", torch.full((3, 2), 0.1 + rank, dtype=torch.float64).t())
                self.register_buffer("nothing", torch.zeros(0, dtype=torch.int64))

        def body(net):
            model = Model(net.rank)
            opt = Local(torch.optim.SGD([model.a], 0.25), model, "local:every=2", net)
            want = Model(0)
            for name in ("base", "narrow", "seen", "mask", "angles"):
                self.assertTrue(torch.equal(getattr(model, name), getattr(want, name)), name)
            model.seen += 1 + net.rank
            state = opt.state_dict()
            model.seen += 5
            opt.load_state_dict(state)
            self.assertEqual(int(model.seen), 8 + net.rank)
            with self.assertRaisesRegex(telegrad.MismatchError, r"the state has the buffers \['x'\], but this model has"):
                opt.load_state_dict({**state, "buffers": {"x": torch.ones(1)}})
        ranks.in_threads(2, body)

    def test_rate_of_cd(self):
        """eta_loc follows the schedule from its begin, also where the warm-up of a schedule has begun before, and resumed."""
        def body(net):
            model = Fixed()
            inner = torch.optim.SGD(model.parameters(), 0.25)
            torch.optim.lr_scheduler.LambdaLR(inner, lambda step: 0.0 if step == 0 else 1.0)
            opt = Local(inner, model, "cd:warmup=1,k=2,local=sgd,eta_loc=0.125", net)
            self.assertEqual((opt.param_groups[0]["lr"], opt.state_dict()["first_rate"]), (0.0, 0.25))
            other = Fixed()
            again = Local(torch.optim.SGD(other.parameters(), 8.0), other, "cd:warmup=1,k=2,local=sgd,eta_loc=0.125", net)
            again.load_state_dict(opt.state_dict())
            self.assertEqual(again.state_dict()["first_rate"], 0.25)
        ranks.in_threads(1, body)

    @unittest.skipUnless(hasattr(torch.optim.Optimizer, "register_step_pre_hook"), "this PyTorch's optimizers have no hooks")
    def test_hooks(self):
        def body(net):
            model, calls = Fixed(), []
            opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, "local", net)
            opt.register_step_pre_hook(lambda *_: calls.append("before"))
            opt.register_step_post_hook(lambda *_: calls.append("after"))
            saves = hasattr(torch.optim.Optimizer, "register_state_dict_pre_hook")
            if saves:
                opt.register_state_dict_pre_hook(lambda *_: calls.append("saved"))
            model.give(0, 0)
            opt.step()
            opt.state_dict()
            self.assertEqual(calls, ["before", "after", "saved"][:2 + saves])
        ranks.in_threads(1, body)

    def test_stop(self):
        """It ends the wait of a step, and that of finish."""
        for last in ("step", "finish"):
            def body(net):
                model = Fixed()
                opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, "local:every=2", net, timeout=600)
                if net.rank == 1:
                    done.wait(20)
                    return
                model.give(0, 0)
                opt.step()
                threading.Timer(0.1, net.stop).start()
                with self.assertRaises(telegrad.StoppedError):
                    if last == "step":
                        opt.step()
                    opt.finish()
                done.set()
            done = threading.Event()
            ranks.in_threads(2, body)

    def test_interrupted(self):
        """Ctrl-C ends the wait of the main thread."""
        def made_on(net):
            model = Fixed()
            model.give(net.rank, 0)
            return Local(torch.optim.SGD(model.parameters(), 0.25), model, "local:every=1", net, timeout=600)
        networks, done = telegrad.Network.local(2), threading.Event()
        other = threading.Thread(target=lambda: (made_on(networks[1]), done.wait(30)))
        with networks[0], networks[1]:
            other.start()
            opt = made_on(networks[0])
            begin = time.monotonic()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                opt.step()
            self.assertLess(time.monotonic() - begin, 8)
            self.assertTrue(networks[0].closed)
            done.set()
            other.join()

    def test_closure(self):
        def body(net):
            model = Fixed()
            opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, "local", net)

            def closure():
                opt.zero_grad()
                loss = model.a.sum()
                loss.backward()
                return loss.detach()
            self.assertEqual(float(opt.step(closure)), 35)
            self.assertEqual(float(opt.step(closure)), 35 * 0.75)
        ranks.in_threads(1, body)


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    unittest.main()
