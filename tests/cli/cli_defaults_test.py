"""What the command settles where the command line leaves it open, and says so."""
import json
import os
import unittest

import mpi_tool
import net_tool
from cli_tool import CliTest, TINY, over, records, run

ALONE = ["train", *TINY, "--model", "mlp:hidden=16", "--steps", "2", "--no-eval"]


class Defaults(CliTest):
    def started(self, *args, said=()):
        """The start record; what was said on stderr has all the words, and without words nothing was."""
        out = self.path("run.jsonl")
        done = run("train", *over(*TINY, "--model", "mlp:hidden=16", "--workers", "2", "--steps", "3", "--no-eval", "--out", out, *args))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr != "", bool(said), done.stderr)
        for word in said:
            self.assertIn(word, done.stderr)
        return records(out)[0]

    def optimizer(self, *args, said=()):
        return self.started(*args, said=said)["optimizer"]

    def test_keys_that_are_not_given_are_those_of_the_default(self):
        usual = "sgd:lr=0.05,momentum=0.9,weight_decay=0,nesterov=no,decoupled=no,exempt=none"
        self.assertEqual(self.optimizer(), usual)
        self.assertEqual(self.optimizer("--optimizer", "sgd"), usual)
        self.assertEqual(self.optimizer("--optimizer", "sgd:lr=0.02"), usual.replace("0.05", "0.02"))
        self.assertEqual(self.optimizer("--optimizer", "sgd:momentum=0"), usual.replace("momentum=0.9", "momentum=0"))
        self.assertIn("momentum=0.9,weight_decay=0.001,nesterov=yes",
                      self.optimizer("--optimizer", "sgd:weight_decay=0.001,nesterov=yes"))
        self.assertIn("adam:lr=0.001,", self.optimizer("--optimizer", "adam"))

    def test_adam_and_methods_that_send_parts(self):
        """Steps of Adam are averaged in place of gradients, unless a strategy is chosen: then it warns of one that suffers."""
        adam = ["--optimizer", "adamw"]
        told = ["the default strategy is updates, in which each worker's optimizer acts before the exchange: adamw learns badly"]
        for args in (["--method", "topk:density=0.1"], ["--method", "2bit"], ["--rule", "*.weight=topk"]):
            self.assertEqual(self.started(*adam, *args, said=told)["strategy"], "updates")
        for args in ([], ["--method", "qsgd"], ["--method", "2bit:threshold=0.5"], ["--method", "topk:density=1"],
                     ["--method", "topk", "--rule", "*.bias=signsgd"]):
            self.assertEqual(self.started(*adam, *args)["strategy"], "ssgd")
        for strategy in ("ssgd", "pipe", "cd:warmup=1,average=gradients", "cd:warmup=1,eta_loc=0.001"):
            warned = ["warning: strategy " + strategy.split(":")[0] + ": adamw learns badly", "instead: --strategy updates"]
            self.started(*adam, "--method", "topk", "--strategy", strategy, said=warned)
        for strategy in ("updates", "dga", "local:every=2", "cd:warmup=1"):
            self.assertIn(strategy.split(":")[0], self.started(*adam, "--method", "topk", "--strategy", strategy)["strategy"])

    def test_momentum_and_methods_that_send_parts(self):
        """The same with SGD's momentum, but only a remark, and another strategy is not warned of."""
        remark = "the default strategy is updates, in which momentum acts before the exchange (--strategy ssgd: after it)"
        self.assertEqual(self.started("--method", "topk")["strategy"], "updates")
        self.assertEqual(self.started("--method", "topk", "--verbose", said=[remark])["note"], remark)
        for strategy in ("ssgd", "cd:warmup=1"):
            self.started("--method", "topk", "--strategy", strategy)
        for args in (["--optimizer", "sgd:lr=0.05,momentum=0"], ["--optimizer", "lars"], ["--rule", "*.bias=fetchsgd"]):
            self.assertEqual(self.started("--method", "topk", *args)["strategy"], "ssgd")

    def test_a_checkpoint_of_gradients_goes_on_so(self):
        for optimizer in ("adamw", "sgd:momentum=0.9"):
            folder = self.path("saved-" + optimizer[:4])
            job = ["train", *over(*TINY, "--model", "mlp:hidden=16", "--workers", "2", "--no-eval", "--optimizer", optimizer, "--method", "topk")]
            self.assertEqual(run(*job, "--steps", "3", "--strategy", "ssgd", "--save", folder).returncode, 0)
            self.assertIn("strategy       ssgd", run(*job, "--steps", "5", "--resume", folder).stdout)

    def test_a_method_that_sends_more_than_dense(self):
        """Told before the run, with the exchange of the method that sends less."""
        better = "instead: exchange=reducescatter, which sends 0.5 times as many as dense"
        said = ["warning: method fp16: among 6 workers, exchange=allgather sends 1.51 times as many bytes as dense exchanges", better]
        notes = self.started("--workers", "6", "--method", "fp16", said=said)["note"]
        self.assertIn(better, notes)
        for quiet in (["--workers", "4", "--method", "fp16"], ["--workers", "6", "--method", "fp16:exchange=reducescatter"],
                      ["--workers", "6", "--nodes", "2", "--method", "fp16"], ["--workers", "6", "--method", "topk"]):
            self.started(*quiet)
        many = ["--workers", "200", "--dry-run", "--model", "mlp:hidden=16"]
        self.assertIn("instead: exchange=direct", run("train", *TINY, *many, "--method", "signsgd").stderr)
        self.assertIn("instead: exchange=reducescatter", run("train", *TINY, *many, "--method", "topk:density=0.5").stderr)
        covered = run("train", *TINY, *many, "--method", "signsgd", "--rule", "*=dense").stderr
        self.assertNotIn("as many bytes as dense", covered)

    def test_a_methods_own_momentum_is_not_contradicted(self):
        dgc = ["--method", "dgc:warmup=1,momentum=0.5"]
        for args in ([], ["--optimizer", "sgd:lr=0.05"]):
            self.assertIn("sgd:lr=0.05,momentum=0.5,", self.optimizer(*dgc, *args))
        self.refused(2, ["dgc:momentum=0.5", "optimizer's momentum=0.9"], "train", *TINY, *dgc, "--optimizer", "sgd:momentum=0.9")

    def test_a_method_says_whose_momentum_it_has(self):
        """Where only the optimizer names one, the method has taken it over, and its normal form says so."""
        for args, words in ((["dgc:warmup=1"], "momentum=0.9,nesterov=no"),
                            (["dgc:warmup=1", "--optimizer", "sgd:momentum=0.5"], "momentum=0.5,nesterov=no"),
                            (["csc:warmup=1", "--optimizer", "sgd:momentum=0.25,nesterov=yes"], "momentum=0.25,nesterov=yes")):
            self.assertIn(words, self.started("--method", *args)["method"])

    def test_a_strategy_that_needs_another_optimizer_has_it(self):
        self.assertIn("sgd:lr=0.001,momentum=0,", self.optimizer("--strategy", "demo", said=["demo", "sgd:lr=0.001"]))
        self.assertIn("sgd:lr=0.001,momentum=0,weight_decay=0.1,",
                      self.optimizer("--strategy", "demo", "--optimizer", "sgd:weight_decay=0.1"))
        done = run("compare", *TINY, "--model", "mlp:hidden=16", "--workers", "2", "--steps", "3", "--no-eval", "--run", "strategy=demo",
                   "--out", self.path("c.jsonl"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sgd:lr=0.001", done.stderr)
        self.assertIn("sgd:lr=0.001,momentum=0,", records(self.path("c.jsonl"))[0]["optimizer"])

    def test_methods_that_want_another_rate(self):
        for method, lr in ("signsgd", "0.001"), ("signum", "0.001"), ("randomk:density=0.05", "0.05"):
            name = method.split(":")[0]
            said = [f"telegrad: method {name}: the default optimizer is sgd:lr={lr},momentum=0, with which it learns, not sgd:lr=0.05,momentum=0.9\n"]
            start = self.started("--method", method, said=said)
            self.assertIn(f"sgd:lr={lr},momentum=0,", start["optimizer"])
            self.assertIn(said[0][10:-1], start["note"])
        fine = ["--optimizer", "sgd:lr=0.0005,momentum=0"]
        self.assertIsNone(self.started("--method", "signum", *fine)["note"])
        for wrong in "sgd:lr=0.05,momentum=0", "sgd:lr=0.0001,momentum=0.9", "sgd:lr=1e-7,momentum=0":
            self.started("--method", "signum", "--optimizer", wrong, said=["telegrad: warning: method signum with lr=", "from 0.00025 to 0.005"])
        self.assertIn("momentum=0,", self.optimizer("--method", "randomk", "--optimizer", "sgd:lr=0.05", said=["momentum=0"]))
        self.assertIn("adam:", self.optimizer("--method", "signsgd", "--optimizer", "adam"))
        self.assertIn("sgd:lr=0.05,momentum=0.9,", self.optimizer("--method", "randomk", "--strategy", "local:every=2"))

    def test_a_rate_that_is_given_is_taken(self):
        """And what is left open besides is the method's."""
        for args in ["--lr", "0.003"], ["--optimizer", "sgd:lr=0.003"], ["--lr", "0.003", "--optimizer", "sgd"]:
            start = self.started("--method", "signum", *args, said=[
                "telegrad: method signum: momentum=0, which you did not set, is that of the method; the usual default is 0.9\n"])
            self.assertIn("sgd:lr=0.003,momentum=0,", start["optimizer"])
        self.started("--method", "signum", "--optimizer", "sgd:weight_decay=0.001", said=[
            "signum: lr=0.001 and momentum=0, which you did not set, are those of the method; the usual defaults are 0.05 and 0.9\n"])
        wrong = self.started("--method", "signum", "--lr", "0.05", said=["warning: method signum with lr=0.05, momentum=0: "])
        self.assertIn("sgd:lr=0.05,momentum=0,", wrong["optimizer"])
        self.assertIn("try --optimizer sgd:lr=0.001,momentum=0", wrong["note"])

    def test_strategies_that_apply_what_a_method_makes_of_gradients(self):
        for strategy in "cd:k=2,warmup=1", "dga:delay=1", "pipe:width=2":
            start = self.started("--method", "signsgd", "--strategy", strategy, said=[
                f"warning: method signsgd with strategy {strategy.split(':')[0]}, lr=0.05, momentum=0.9: it is known to learn, with ssgd, with lr",
                "try --optimizer sgd:lr=0.001,momentum=0"])
            self.assertIn("sgd:lr=0.05,momentum=0.9,", start["optimizer"])

    def test_a_method_that_the_strategy_never_uses_is_warned_of(self):
        for args, what in (["--method", "2bit"], "method 2bit"), (["--rule", "*.bias=topk"], "rule *.bias=topk"):
            start = self.started("--strategy", "od:warmup=1", *args, said=[f"warning: strategy od: all that it exchanges is dense: {what} is not used"])
            self.assertIn("instead: cd", start["note"])
        for args in [], ["--method", "dense:exchange=allgather"], ["--rule", "*.bias=f32"]:
            self.started("--strategy", "od:warmup=1", *args)

    def test_a_key_that_makes_a_strategy_another_one(self):
        """cd:k=1 exchanges only dense gradients; pipe:width=1 is ssgd, which is not late."""
        words = "warning: strategy cd: all that it exchanges is dense: method 2bit is not used; instead: k=2 or more"
        self.assertIn(words[9:], self.started("--strategy", "cd:k=1,warmup=1", "--method", "2bit", said=[words])["note"])
        for strategy, method in ("cd:k=0,warmup=1", "2bit"), ("cd:k=1,warmup=1", "dense"), ("pipe:width=1", "dense"):
            self.assertNotIn("not used", self.started("--strategy", strategy, "--method", method)["note"] or "")

    def test_a_link_that_one_worker_does_not_use_is_warned_of(self):
        for link in ["--link", "100mbit,1ms"], ["--link-of", "0=100mbit"]:
            done = run(*ALONE, *link)
            self.assertEqual((done.returncode, done.stderr), (0, f"telegrad: warning: {link[0]} with one worker, which sends nothing: it has no "
                                                              "effect; allowed: --workers N with N >= 2\n"))
            self.started(*link)
        self.assertEqual(run(*ALONE, "--link", "none").stderr, "")

    def test_shards_of_one_worker_are_warned_of(self):
        done = run(*ALONE, "--shard", "contiguous")
        self.assertEqual((done.returncode, done.stderr), (0, "telegrad: warning: --shard contiguous with one worker, which has all data: it has no "
                                                             "effect; allowed: --workers N with N >= 2\n"))
        self.assertEqual(run(*ALONE, "--shard", "iid").stderr, "")
        self.started("--shard", "contiguous")

    def test_a_shard_without_its_key(self):
        """What is taken then, and what is meant by a number alone."""
        self.started("--shard", "dirichlet", said=["telegrad: --shard dirichlet: alpha=0.5, since none is given (concentration: if small,"])
        self.started("--shard", "label", said=["telegrad: --shard label: classes=2, since none is given"])
        self.started("--shard", "label:classes=2")
        self.refused(2, ['--shard dirichlet:0.3: a value without its key: did you mean "dirichlet:alpha=0.3"?'], "train", *TINY, "--shard", "dirichlet:0.3")
        self.refused(2, ['--model mlp=64: a value without its key: did you mean "mlp:hidden=64"?'], "train", *TINY, "--model", "mlp=64")

    def test_more_threads_than_cores(self):
        words = ["warning: --codec-threads 256, but this machine has ", "compression gets slower, not faster"]
        if os.cpu_count() < 256:
            self.started("--codec-threads", "256", said=words)
        self.started("--codec-threads", "1")

    def test_reductions_after_the_end_are_warned_of(self):
        """The run has 3 steps; an epoch would have 16."""
        end = "after the end of this run, which has 3 steps: use "
        for spec, words in (("step", ["lr-schedule step:factor=0.1,warmup=0,every=30ep: the first reduction comes " + end + "a smaller every="]),
                            ("step:every=3", ["the first reduction comes " + end]),
                            ("step:at=3+9", ["the first reduction comes " + end + "earlier steps in at="]),
                            ("step:at=1+2+1ep+2ep", ["the last 2 of its 4 reductions come " + end])):
            self.started("--lr-schedule", spec, said=["warning: ", *words])
        for spec in "step:every=2", "step:at=1+2", "step:every=2,factor=1", "cosine":
            self.started("--lr-schedule", spec)

    CODED_IN_VAIN = " with one worker, which sends nothing: gradients are coded and decoded again, and no bytes are saved; allowed: "

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_a_single_rank_of_mpirun(self):
        def said(ranks, *args):
            done = mpi_tool.mpirun((ranks, [*ALONE, *args]))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr
        self.assertIn(f"warning: method topk{self.CODED_IN_VAIN}mpirun -n N or srun -n N with N >= 2\n", said(1, "--method", "topk", "--link", "100mbit"))
        self.assertNotIn("warning", said(2, "--method", "topk:density=0.1"))
        self.assertIn("--nodes 2 with 2 workers: all workers are in one node", said(2, "--method", "topk:density=0.1", "--nodes", "2"))

    @unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
    def test_a_single_rank_of_a_network(self):
        done = run(*ALONE, "--method", "topk", "--insecure", "--ranks", "1", "--listen", f"tcp://127.0.0.1:{net_tool.free_port()}")
        self.assertIn(f"warning: method topk{self.CODED_IN_VAIN}--ranks N with N >= 2\n", done.stderr)

    def test_a_method_whose_bytes_are_never_sent_is_warned_of(self):
        """One worker, or exchange=none; nor is there a ratio of what was not sent."""
        job, end = ALONE, self.CODED_IN_VAIN + "--workers N with N >= 2\n"
        for args, what in (["--method", "topk:density=0.1"], "method topk:density=0.1"), (["--rule", "*.bias=fp16"], "rule *.bias=fp16"):
            done = run(*job, *args, "--out", self.path("alone.jsonl"))
            self.assertEqual((done.returncode, done.stderr), (0, f"telegrad: warning: {what}{end}"))
            self.assertIn("\nratio          none: nothing was sent\n", done.stdout)
            last = records(self.path("alone.jsonl"))[-1]
            self.assertEqual((last["ratio"], last["ratio_wire"], last["bytes_per_step"]), (None, None, 0))
            self.assertEqual(run(*job, *args, "--dry-run").stderr, "")  # what it would send is what is asked for
        self.assertIn("\nratio          none: nothing was sent\n", self.ok(*job))
        apart = run(*job, "--workers", "2", "--method", "topk:exchange=none")
        self.assertEqual((apart.returncode, apart.stderr), (0, "telegrad: warning: method topk:exchange=none: nothing is exchanged: each worker trains "
                                                               "weights of its own, and tests its part of the test set with them\n"))
        self.assertIn("\nratio          none: nothing was sent\n", apart.stdout)

    def test_a_strategy_of_one_worker_is_warned_of(self):
        done = run(*ALONE, "--strategy", "dga:delay=1")
        self.assertEqual((done.returncode, done.stderr), (0, "telegrad: warning: strategy dga:delay=1 with one worker, which exchanges nothing; "
                                                             "allowed: --workers N with N >= 2\n"))

    def test_one_worker_sends_to_servers(self):
        for args in ["--method", "topk:density=0.1"], ["--link", "100mbit,1ms"], ["--strategy", "dga:delay=1"]:
            done = run(*ALONE, "--servers", "1", *args)
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            self.assertNotIn("nothing was sent", done.stdout)

    def test_a_size_that_may_mean_megabytes_is_warned_of(self):
        note = self.started("--fusion", "25", said=["warning: --fusion 25 means 25 bytes: ", "in megabytes: --fusion 25MB"])["note"]
        self.assertIn("25 bytes", note)
        for size in "1", "1000", "25M":
            self.started("--fusion", size)

    def test_a_rate_of_zero_is_warned_of(self):
        for args in ["--lr", "0"], ["--optimizer", "adam:lr=0"]:
            self.started(*args, said=["telegrad: warning: optimizer ", " with lr=0: nothing is learned\n"])

    def test_a_momentum_of_one_is_warned_of(self):
        words = "telegrad: warning: optimizer sgd with momentum=1: the velocity never decays, so steps grow without bound; usual: 0.9\n"
        self.started("--optimizer", "sgd:momentum=1", said=[words])
        self.started("--optimizer", "sgd:momentum=0.999")

    def test_nodes_that_hold_all_workers_are_warned_of(self):
        alone = "telegrad: warning: --nodes 5 with 3 workers: all workers are in one node, so there is nothing to exchange between nodes\n"
        self.started("--workers", "3", "--nodes", "5", said=[alone])
        self.started("--workers", "3", "--nodes", "3")
        for link in ["--link", "1gbit"], ["--link-of", "1=1gbit"]:
            self.started("--workers", "3", "--nodes", "3", *link, said=[f"nothing to exchange between nodes: {link[0]} has no effect\n"])
        self.started("--workers", "3", "--nodes", "3", "--method", "topk", said=[
            "--nodes 3 with 3 workers: all workers are in one node, within which gradients are exchanged uncompressed: method topk saves no bytes"])

    def test_data_is_named(self):
        done = run("train", "-v", "--model", "mlp:hidden=16", "--batch", "16", "--steps", "1", "--no-eval", TELEGRAD_DATA=self.folder)
        self.assertRegex(done.stderr, r"(?m)^telegrad: data: mnist")

    def test_a_star_needs_servers(self):
        words = ["this job has no server for exchange=star: use --servers N"]
        job = ["train", *TINY, "--workers", "2", "--steps", "1"]
        self.refused(2, ["--method topk:exchange=star: ", *words], *job, "--method", "topk:exchange=star")
        self.refused(2, ["this job has no server for exchange=twoway: use --servers N"], *job, "--method", "topk:exchange=twoway")
        self.refused(2, ["--rule *.bias=fp16:exchange=star: ", *words], *job, "--rule", "*.bias=fp16:exchange=star")

    def test_buckets_are_chosen_with_servers(self):
        for strategy in "ssgd", "server":
            self.ok("train", *TINY, "--workers", "2", "--servers", "1", "--steps", "2", "--strategy", strategy, "--fusion", "auto")

    def test_a_plan_with_servers(self):
        """In a plan one server stands for all."""
        job = ["train", *TINY, "--workers", "2", "--servers", "256", "--steps", "1", "--dry-run", "--json"]
        for mode, *args in ["sum", "--method", "topk"], ["async:staleness=4", "--strategy", "server", "--method", "topk:exchange=twoway"]:
            plan = json.loads(self.ok(*job, "--server-mode", mode, *args))
            self.assertIn("exchange=" + ("star" if mode == "sum" else "twoway"), plan["method"])
            self.assertEqual(plan["strategy"], "updates" if mode == "sum" else "server")
        self.refused(2, ["powersgd", "exchange=star or twoway"], *job, "--strategy", "server", "--method", "powersgd")

    def test_a_model_of_texts_takes_its_usual_text(self):
        job = ["train", "--model", "gpt:layers=1,heads=1,embed=8,context=16", "--batch", "2", "--steps", "2", "--no-eval"]
        self.refused(1, ["tiny-shakespeare", "model gpt:", "reads text: use --data text:FILE"], *job, TELEGRAD_DATA=self.folder)
        os.mkdir(self.path("tiny-shakespeare"))
        with open(self.path("tiny-shakespeare/input.txt"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 200)
        done = run(*job, TELEGRAD_DATA=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("data           shakespeare (", done.stdout)
        self.assertEqual(run(*job[:-3], "--dry-run", TELEGRAD_DATA=self.folder).returncode, 0)

    def test_a_model_of_texts_has_its_usual_optimizer(self):
        """Unless the method or the strategy needs another one; keys that are not given are those of the default."""
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 200)
        job = ["train", "--model", "gpt:layers=1,heads=1,embed=8", "--data", "text:" + self.path("text"), "--context", "16", "--batch", "2",
               "--workers", "2", "--steps", "2", "--dry-run", "--json"]

        def optimizer(*args):
            done = run(*over(*job, *args))
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["optimizer"], done.stderr

        usual = "adamw:lr=0.001,weight_decay=0.1"
        self.assertEqual(optimizer(), (usual, ""))
        self.assertEqual(optimizer("--lr", "0.004")[0], "adamw:lr=0.004,weight_decay=0.1")
        self.assertEqual(optimizer("--optimizer", "adamw:weight_decay=0")[0], "adamw:weight_decay=0,lr=0.001")
        self.assertEqual(optimizer("--optimizer", "adam")[0], "adam")
        self.assertEqual(optimizer("--optimizer", "sgd:lr=1")[0], "sgd:lr=1,momentum=0.9")
        self.assertEqual(optimizer("--model", "lstm:hidden=4,embed=4")[0], "adam:lr=0.002")
        for args, other in ((["--method", "dgc"], "sgd:lr=0.05,momentum=0.9"), (["--method", "csc:momentum=0.5"], "sgd:lr=0.05,momentum=0.5"),
                            (["--method", "dgc", "--lr", "0.1"], "sgd:lr=0.1,momentum=0.9"), (["--rule", "*.bias=dgc"], "sgd:lr=0.05,momentum=0.9"),
                            (["--strategy", "od:local=sgd"], "sgd:lr=0.05,momentum=0.9"), (["--method", "signum"], "sgd:lr=0.001,momentum=0"),
                            (["--method", "signum", "--lr", "0.003"], "sgd:lr=0.003,momentum=0"), (["--strategy", "demo"], "sgd:lr=0.001")):
            now, said = optimizer(*args)
            self.assertEqual(now, other)
            self.assertIn(usual, said)
        self.assertEqual(optimizer("--strategy", "od:local=sgd,eta_loc=0.01")[0], usual)
        self.assertEqual(optimizer("--method", "dgc", "--optimizer", "sgd:lr=1"), ("sgd:lr=1,momentum=0.9", ""))
        self.assertIn("updates", run(*job, "--method", "topk").stderr)
        tuned = run("tune", *over(*job[1:-2], "--steps", "9"), "--vary", "optimizer.lr=0.001,0.002", "--out", self.path("tuned"))
        self.assertEqual(tuned.returncode, 0, tuned.stderr)
        self.assertRegex(tuned.stdout, r"--optimizer adamw:lr=0\.00[12] ")  # completed as below
        self.assertEqual(optimizer("--optimizer", "adamw:lr=0.002")[0], "adamw:lr=0.002,weight_decay=0.1")

    def test_known_losses_are_warned_of(self):
        """With a model of the kind that was trained, more than one worker, and the same values of keys, or one that is harder."""
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 200)
        job = ["train", "--model", "gpt:layers=1,heads=1,embed=8", "--data", "text:" + self.path("text"), "--context", "16", "--batch", "2",
               "--workers", "2", "--steps", "2", "--dry-run"]

        def said(*args):
            done = run(*over(*job, *args))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        lost = "warning: method powersgd lost 0.10 nats compared with dense training (GPT, 12 epochs): see telegrad methods powersgd\n"
        self.assertIn(lost, said("--method", "powersgd"))
        self.assertIn(lost, said("--method", "powersgd:rank=4,exchange=ring"))
        self.assertIn("strategy diloco lost 0.06 nats compared with dense training (character LSTM, 3 epochs): see telegrad strategies diloco",
                      said("--model", "lstm:hidden=4,embed=4", "--strategy", "diloco"))
        for args, warning in (
                (["--method", "cltk"], "cltk lost 0.61 nats compared with dense training (GPT, 4 epochs): see"),
                (["--method", "cltk:density=0.005"],
                 "cltk lost 0.61 nats compared with dense training (GPT, 4 epochs), and a lower density than 0.01 may lose more: see"),
                (["--method", "cltk:density=0.02"],
                 "cltk:density=0.04 lost 0.44 nats compared with dense training (GPT, 4 epochs), and a lower density than 0.04 may lose more: see"),
                (["--strategy", "sparseloco"], "sparseloco lost 0.54 nats compared with dense training (GPT, 4 epochs): see"),
                (["--strategy", "dga:delay=20"],
                 "dga:delay=4 lost 0.17 nats compared with dense training (GPT, 4 epochs), and a longer delay than 4 may lose more: see"),
                (["--method", "powersgd:rank=2"],
                 "powersgd lost 0.10 nats compared with dense training (GPT, 12 epochs), and a lower rank than 4 may lose more: see")):
            self.assertIn(f"warning: {args[0][2:]} {warning} telegrad ", said(*args))
        for args in (["--method", "powersgd:rank=8"], ["--method", "powersgd:rank=2,warm=no"], ["--method", "powersgd:exchange=none"],
                     ["--strategy", "dga:delay=2"], ["--strategy", "od", "--method", "powersgd"], ["--strategy", "cd:k=1", "--method", "cltk"],
                     ["--strategy", "sparseloco", "--method", "dense"],
                     ["--method", "powersgd", "--workers", "1"],
                     ["--method", "qsgd"], ["--method", "2bit"], ["--strategy", "od"],
                     ["--model", "lstm:hidden=4,embed=4", "--method", "cltk:density=0.02"]):
            self.assertNotIn(" lost ", said(*args))
        self.assertNotIn(" lost ", run("train", *TINY, "--model", "mlp", "--workers", "2", "--method", "powersgd", "--dry-run").stderr)

    def test_a_single_node_is_warned_of(self):
        self.started("--nodes", "2", "--method", "topk", said=["warning: --nodes 2 with 2 workers: all workers are in one node", "method topk saves no bytes"])
        self.started("--nodes", "1", "--method", "topk")

    def test_methods_of_rules_are_warned_of(self):
        start = self.started("--rule", "*.bias=signsgd", "--rule", "fc1*=signsgd",
                             said=["telegrad: warning: rule *.bias=signsgd: method signsgd with lr=0.05, momentum=0.9"])
        self.assertIn("sgd:lr=0.05,momentum=0.9,", start["optimizer"])
        self.assertEqual(start["note"].count("method signsgd"), 1)
        self.started("--rule", "*.bias=topk")

    def test_a_strategy_whose_defaults_learn_worse_is_warned_of(self):
        """Before the run, with a rate or without, unless what helps is given."""
        out = self.path("run.jsonl")
        for args in [], ["--lr", "0.01"]:
            done = run("train", *TINY, "--model", "mlp:hidden=16", "--workers", "2", "--steps", "3", "--no-eval", "--strategy",
                       "eager:every=2", "--out", out, *args)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stderr.startswith("telegrad: warning: strategy eager: "), done.stderr)
            self.assertIn("; instead: ", done.stderr)
            self.assertIn("strategy eager: ", records(out)[0]["note"])
        self.started("--strategy", "eager:every=2,momentum=0")  # on which it hangs
        done = run("train", *TINY, "--strategy", "eager:every=2", "--dry-run")
        self.assertIn("warning: strategy eager: ", done.stderr)

    def test_a_strategy_that_learns_worse_at_the_usual_rate_is_warned_of(self):
        """Unless the rate is lower, or not comparable."""
        words = ["warning: strategy pipe: its gradients are late", "96 % where ssgd has 98 %", "; instead: 0.4 times the rate"]
        self.assertIn("strategy pipe: ", self.started("--strategy", "pipe", said=words)["note"])
        self.started("--strategy", "pipe:width=3", "--lr", "0.03", said=words)
        for args in ["--lr", "0.02"], ["--optimizer", "sgd:lr=0.1,momentum=0"], ["--optimizer", "adam"]:
            self.started("--strategy", "pipe", *args)

    def test_warm_ups_are_no_more_than_a_share_of_the_run(self):
        def both(steps, *args, said=()):
            start = self.started("--steps", str(steps), *args, said=said)
            return start["method"], start["strategy"]

        self.assertIn("warmup=4,", both(20, "--method", "dgc")[0])
        self.assertIn("warmup=6,", both(30, "--method", "csc")[0])
        self.assertIn("warmup=1ep,", both(20, "--method", "dgc:warmup=1ep", said=["takes 16 of 20 steps"])[0])
        self.assertIn("threshold=auto", both(20, "--method", "2bit")[0])
        for clock in [], ["--clock", "virtual", "--tau", "1ms", "--sim-only"]:
            method, strategy = both(20, "--strategy", "cd", "--method", "2bit", *clock)
            self.assertIn("k=5,warmup=4,local=auto", strategy)
        self.assertIn("warmup=0,", both(20, "--strategy", "od:warmup=0")[1])

    def test_cd_is_with_2_bits_as_published(self):
        for args, method in ([], "2bit"), (["--method", "dense"], "dense"):
            self.assertEqual(self.started("--strategy", "cd", *args)["method"].split(":")[0], method)
        self.started("--strategy", "cd:k=1")
        for args, average in ([], "updates"), (["--method", "2bit:threshold=0.01"], "gradients"), (["--method", "dense"], "gradients"):
            self.assertIn("average=" + average, self.started("--strategy", "cd", *args)["strategy"])

    def test_an_extended_run_keeps_its_warm_ups(self):
        job = [*TINY, "--model", "mlp:hidden=16", "--workers", "2", "--no-eval", "--rule", "*.bias=csc:chunk=1"]
        for way in (["--method", "dgc"], ["--method", "2bit", "--strategy", "cd:k=2"]):
            rest = [*job, *way]
            folder, out = self.path("-".join(way)), self.path("run.jsonl")
            if "cd:k=2" in way:
                rest = [word for word in rest if word not in ("--rule", "*.bias=csc:chunk=1")]
            self.ok("train", *rest, "--steps", "20", "--save", folder)
            self.ok("train", *rest, "--steps", "50", "--resume", folder, "--out", out)
            resumed = records(out)
            self.assertIn("warmup=4,", resumed[0]["method"] + resumed[0]["strategy"])
            given = [word + {"dgc": ":warmup=4", "cd:k=2": ",warmup=4", "*.bias=csc:chunk=1": ",warmup=4"}.get(word, "") for word in rest]
            self.ok("train", *given, "--steps", "50", "--out", out)
            self.assertEqual(resumed[-1]["params_hash"], records(out)[-1]["params_hash"])
            self.ok("train", *given, "--steps", "50", "--resume", folder)  # in so many words it is the same

    def test_the_plan_of_a_resumed_run_has_the_checkpoints_warm_ups(self):
        job = ["train", *TINY, "--model", "mlp:hidden=16", "--workers", "2", "--no-eval"]
        for way, line in ((["--method", "dgc"], "dgc            warmup=4: the checkpoint's\n"),
                          (["--method", "2bit", "--strategy", "cd:k=2"], "cd             warmup=4: the checkpoint's\n")):
            folder = self.path(way[1])
            self.ok(*job, *way, "--steps", "20", "--save", folder)
            plan = self.ok(*job, *way, "--steps", "50", "--resume", folder, "--dry-run")
            self.assertIn(line, plan)
            self.assertIn("goes on        from step 20\n", plan)
            self.assertNotIn("warmup=10", plan)
            self.assertIn("warmup=10", self.ok(*job, *way, "--steps", "50", "--dry-run"))
            given = [word + {"dgc": ":warmup=4", "cd:k=2": ",warmup=4"}.get(word, "") for word in way]
            self.assertNotIn("checkpoint's", self.ok(*job, *given, "--steps", "50", "--resume", folder, "--dry-run"))
            self.refused(1, [folder, "the checkpoint was saved with", "this run"], *job, "--method", "topk", "--steps", "50", "--resume", folder, "--dry-run")
        self.refused(1, [self.path("none")], *job, "--resume", self.path("none"), "--dry-run")

    def test_local_steps_follow_the_momentum(self):
        def hash_of(strategy, *optimizer):
            out = self.path("run.jsonl")
            self.ok("train", *TINY, "--model", "mlp:hidden=16", "--workers", "2", "--steps", "12", "--no-eval", "--out", out, "--strategy",
                    strategy, *optimizer)
            return records(out)[-1]["params_hash"]

        momentum, none = [], ["--optimizer", "sgd:momentum=0"]
        self.assertEqual(hash_of("od:warmup=2", *momentum), hash_of("od:warmup=2,local=preview", *momentum))
        self.assertNotEqual(hash_of("od:warmup=2", *momentum), hash_of("od:warmup=2,local=sgd", *momentum))
        self.assertEqual(hash_of("od:warmup=2", *none), hash_of("od:warmup=2,local=sgd", *none))
        for more in "scaled=yes", "eta_loc=0.01":  # of plain steps
            self.assertEqual(hash_of("od:warmup=2," + more, *momentum), hash_of("od:warmup=2,local=sgd," + more, *momentum))

    def test_a_runs_own_steps_take_the_place_of_common_epochs(self):
        self.ok("compare", *TINY, "--model", "mlp:hidden=16", "--workers", "2", "--epochs", "3", "--no-eval", "--run", "name=a;steps=2",
                "--out", self.path("c.jsonl"))
        self.assertEqual(records(self.path("c.jsonl"))[0]["steps"], 2)


if __name__ == "__main__":
    unittest.main()
