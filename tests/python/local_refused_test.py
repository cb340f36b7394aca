"""telegrad.torch.Local: gradients that are not finite, and what is refused. Status 77: no PyTorch here."""
import copy
import gc
import pickle
import unittest

import ranks
from local_models import adamw, batch, Fixed, made, train, values, weights
import torch
import telegrad
from telegrad.torch import Local


class NotFinite(unittest.TestCase):
    def scaled(self, opt, model, scale):
        """What GradScaler.step does with an optimizer that has _step_supports_amp_scaling."""
        found = sum(float(not torch.isfinite(p.grad).all()) for p in model.parameters())
        opt.grad_scale, opt.found_inf = torch.tensor(scale), torch.tensor(found)
        opt.step()
        del opt.grad_scale, opt.found_inf

    def test_scaler_skips_on_one_rank(self):
        """Rounds are counted by calls, so a step that one scaler leaves out does not part the ranks."""
        def run(scale, bad):
            def body(net):
                model = Fixed()
                opt = Local(torch.optim.SGD(model.parameters(), 0.25), model, "local:every=3", net)
                for step in range(7):
                    model.give(net.rank, step)
                    for p in model.parameters():
                        p.grad *= scale
                    if bad and net.rank == 1 and step == 2:
                        model.a.grad[1, 2] = float("inf")
                    self.scaled(opt, model, scale)
                stats = opt.stats()
                opt.finish()
                return values(model), stats
            return ranks.in_threads(2, body)
        plain, bad, scaled = run(1.0, False), run(1.0, True), run(64.0, False)
        self.assertTrue(torch.equal(plain[0][0], scaled[0][0]))
        self.assertTrue(torch.equal(bad[0][0], bad[1][0]))
        self.assertFalse(torch.equal(bad[0][0], plain[0][0]))
        self.assertEqual([s["skipped_steps"] for _, s in bad], [0, 1])
        self.assertEqual([s["steps"] for _, s in bad], [7, 7])

    @unittest.skipUnless(hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"), "this PyTorch has no GradScaler for CPUs")
    def test_grad_scaler(self):
        def body(net):
            model = made(net.rank)
            opt = Local(adamw(model), model, "local:every=2,after=2", net)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for step in range(8):
                opt.zero_grad()
                x, y = batch(net.rank, step)
                scaler.scale(torch.nn.functional.cross_entropy(model(x), y)).backward()
                if net.rank == 1 and step in (1, 5):
                    model[0].weight.grad[0, 0] = float("nan")
                scaler.step(opt)
                scaler.update()
            self.assertEqual(scaler.get_scale(), 1024.0 if net.rank == 0 else 256.0)
            return weights(model), opt.stats()["skipped_steps"]
        (a, left), (b, other) = ranks.in_threads(2, body)
        self.assertTrue(torch.equal(a, b) and torch.isfinite(a).all())
        self.assertEqual((left, other), (0, 1))  # in step 1 gradients are averaged: no rank takes it

    def test_gradient_without_a_scaler(self):
        for spec, left in (("local:every=3", 1), ("local:every=3,after=4", 0), ("dga:delay=2", 1)):
            def body(net):
                model = made(net.rank)

                def spoil(step):
                    if net.rank == 0 and step == 2:
                        model[3].bias.grad[1] = float("nan")
                opt = Local(adamw(model), model, spec, net)
                train(opt, model, net.rank, 0, 9, spoil)
                opt.finish()
                return weights(model), opt.stats()["skipped_steps"]
            (a, first), (b, second) = ranks.in_threads(2, body)
            self.assertTrue(torch.equal(a, b) and torch.isfinite(a).all(), spec)
            self.assertEqual((first, second), (left, 0), spec)

    def test_spoiled_parameters(self):
        """The round is lost, also for the optimizer's memory."""
        def body(net):
            model = made(net.rank)
            opt = Local(adamw(model), model, "diloco:every=3", net)
            train(opt, model, net.rank, 0, 4)
            if net.rank == 1:
                with torch.no_grad():
                    model[0].weight[0, 0] = float("nan")
                opt.state[model[0].weight]["exp_avg"][0, 0] = float("nan")
            train(opt, model, net.rank, 6, 12, lambda step: None if net.rank == 0 else [p.grad.nan_to_num_(0) for p in model.parameters()])
            opt.finish()
            return weights(model), opt.stats()["lost_rounds"]
        (a, lost), (b, other) = ranks.in_threads(2, body)
        self.assertTrue(torch.equal(a, b) and torch.isfinite(a).all())
        self.assertEqual((lost, other), (1, 1))


class Refused(unittest.TestCase):
    def refuses(self, error, text, make, size=1):
        def body(net):
            with self.assertRaisesRegex(error, text):
                make(net)
        ranks.in_threads(size, body)

    def test_arguments(self):
        model, double = Fixed(), torch.nn.Linear(2, 2).double()
        elsewhere = torch.nn.Linear(2, 2).to("meta")  # like a GPU's, it is not in host memory
        counts = torch.nn.BatchNorm1d(2)
        counts.running_var = counts.running_var.to("meta")
        sgd = torch.optim.SGD(model.parameters(), 0.1)
        for error, text, make in (
                (telegrad.ArgumentError, "optimizer: a Fixed: allowed: a torch.optim.Optimizer", lambda net: Local(model, model, "local", net)),
                (telegrad.ArgumentError, r"optimizer: a LBFGS, whose step\(\) needs a closure",
                 lambda net: Local(torch.optim.LBFGS(model.parameters()), model, "local", net)),
                (telegrad.ArgumentError, "parameter 0 of its group 0 is not one of the model's",
                 lambda net: Local(sgd, torch.nn.Linear(2, 2), "local", net)),
                (telegrad.UnsupportedError, "parameter weight: it is float64",
                 lambda net: Local(torch.optim.SGD(double.parameters(), 0.1), double, "local", net)),
                (telegrad.UnsupportedError, r"parameter weight: it is on meta: allowed so far: tensors on CUDA devices and in host memory \(cpu\)",
                 lambda net: Local(torch.optim.SGD(elsewhere.parameters(), 0.1), elsewhere, "local", net)),
                (telegrad.UnsupportedError, "buffer running_var: it is on meta",
                 lambda net: Local(torch.optim.SGD(counts.parameters(), 0.1), counts, "local", net)),
                (telegrad.SpecError, "has no step that an external optimizer could", lambda net: Local(sgd, model, "demo", net)),
                (telegrad.SpecError, "allowed: local=sgd with eta_loc=RATE", lambda net: Local(sgd, model, "cd", net)),
                (telegrad.SpecError, "unknown strategy", lambda net: Local(sgd, model, "lokal", net)),
                (telegrad.SpecError, "velocities", lambda net: Local(sgd, model, "local", net, method="dgc")),
                (telegrad.ArgumentError, "rules: a list: allowed: a dict", lambda net: Local(sgd, model, "local", net, rules=["*"])),
                (telegrad.ArgumentError, "samples=-1: allowed: 0 or more", lambda net: Local(sgd, model, "local", net, samples=-1)),
                (telegrad.ArgumentError, "load_state_dict: a NoneType: allowed: what state_dict has returned",
                 lambda net: Local(sgd, model, "local", net).load_state_dict(None)),
                (telegrad.ArgumentError, "timeout=0", lambda net: Local(sgd, model, "local", net, timeout=0)),
                (telegrad.StateError, "add_param_group: the ranks have agreed on the parameters: allowed: to add them to the optimizer before", lambda net: Local(sgd, model, "local", net).add_param_group({}))):
            with self.subTest(text):
                self.refuses(error, text, make)

    def test_different_strategies(self):
        def make(net):
            model = Fixed()
            Local(torch.optim.SGD(model.parameters(), 0.1), model, f"local:every={net.rank + 1}", net)
        self.refuses(telegrad.MismatchError, "strategy", make, 2)

        def other_models(net):
            model = torch.nn.Linear(4, 4 + net.rank)
            Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
        self.refuses(telegrad.MismatchError, "tensor", other_models, 2)

        def other_buffers(net):
            model = Fixed()
            model.register_buffer("count", torch.zeros(2 + net.rank, dtype=torch.int64))
            Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
        self.refuses(telegrad.MismatchError, "1 tensors that are not exchanged, (16|24) bytes", other_buffers, 2)

    def test_moved_parameters(self):
        def make(net):
            model = Fixed()
            opt = Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
            model.a.data = torch.ones(5, 7)
            model.give(0, 0)
            opt.step()
        self.refuses(telegrad.StateError, "a was moved or replaced", make)

    def test_replaced_tensors(self):
        def made_net(net):
            model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
            return model, Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)

        def parameter(net):
            model, opt = made_net(net)
            model[0].weight = torch.nn.Parameter(model[0].weight.detach().clone())
            opt.step()

        def buffer(net):
            model, opt = made_net(net)
            model[1].running_mean = model[1].running_mean + 1
            opt.state_dict()
        self.refuses(telegrad.StateError, r"0\.weight was moved or replaced.*load_state_dict without assign=True", parameter)
        self.refuses(telegrad.StateError, r"1\.running_mean was moved or replaced", buffer)

    def test_optimizer_that_fails(self):
        """The other rank learns it at once, also between exchanges."""
        class Fails(torch.optim.SGD):
            def step(self, closure=None):
                raise ValueError("no such step")

        def body(net):
            model = Fixed()
            kind = Fails if net.rank == 1 else torch.optim.SGD
            opt = Local(kind(model.parameters(), lr=0.1), model, "local:every=2", net, timeout=600)
            error, text = (ValueError, "no such step") if net.rank == 1 else (telegrad.PeerError, "rank 1")
            with self.assertRaisesRegex(error, text):
                for step in range(4):
                    model.give(net.rank, step)
                    opt.step()
            if net.rank == 1:
                with self.assertRaisesRegex(telegrad.StateError, "its step or its load_state_dict has failed"):
                    opt.step()
        ranks.in_threads(2, body)

    def test_garbage(self):
        """An optimizer and its network that hold each other: the session ends first, whichever Python finalizes first."""
        with ranks.ends_of("tg_session_destroy") as calls:
            net, model = telegrad.Network.local(1)[0], Fixed()
            net.itself = opt = Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
            opt.itself = net
            calls.clear()
            del net, opt
            gc.collect()
        self.assertEqual(calls, ["tg_session_destroy", "tg_transport_destroy"])

    def test_copies(self):
        def body(net):
            model = Fixed()
            opt = Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
            for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(telegrad.StateError, "neither copied nor pickled: allowed: state_dict"):
                    copy_of(opt)
        ranks.in_threads(1, body)

    def test_state_of_another(self):
        def body(net):
            model = Fixed()
            opt = Local(torch.optim.SGD(model.parameters(), 0.1), model, "local", net)
            state = opt.state_dict()
            for key, value, text in (("rank", 1, "rank=1"), ("size", 2, "size=2, but this rank has size=1: allowed: .* or a list"), ("spec", "diloco", "spec='diloco'")):
                with self.assertRaisesRegex(telegrad.MismatchError, text):
                    opt.load_state_dict({**state, key: value})
            with self.assertRaisesRegex(telegrad.ArgumentError, "the state has no 'session'"):
                opt.load_state_dict({key: value for key, value in state.items() if key != "session"})
            model.give(0, 0)
            opt.step()  # nothing has changed
            state["session"][100] ^= 1
            with self.assertRaises(telegrad.CorruptError):
                opt.load_state_dict(state)
            with self.assertRaisesRegex(telegrad.StateError, "its load_state_dict has failed"):
                opt.step()
        ranks.in_threads(1, body)

    def test_rank_that_leaves(self):
        def body(net):
            model = Fixed()
            opt = Local(torch.optim.SGD(model.parameters(), 0.1), model, "local:every=2", net, timeout=20)
            for step in range(4):
                model.give(net.rank, step)
                if net.rank == 1 and step == 1:
                    net.close()
                    with self.assertRaises(telegrad.StateError):
                        opt.step()
                    return
                try:
                    opt.step()
                except telegrad.PeerError as error:
                    self.assertIn("rank 1", str(error))
                    return
            self.fail("rank 0 has not noticed")
        ranks.in_threads(2, body)


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    unittest.main()
