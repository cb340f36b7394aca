"""train --rule and --dry-run: methods by tensor name, what is refused, the plan as table and JSON."""
import json
import re
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, over, records, run

MLP = ["--model", "mlp:hidden=32"]
JOB = [*MLP, *TINY, "--steps", "6", "--no-eval", "--workers", "2"]
DGC = ["--method", "dgc:density=0.01,warmup=1"]


def params_hash(text):
    return re.search(r"params hash +([0-9a-f]{16})", text).group(1)


class Rules(CliTest):
    def train(self, *args):
        return self.ok("train", *over(*JOB, *args))

    def plan(self, *args):
        return json.loads(self.ok("train", *args, "--dry-run", "--json"))

    def test_a_mixture_trains(self):
        job = [*DGC, "--rule", "*.bias=f32", "--out", self.path("out")]
        first, second = self.train(*job), self.train(*job)
        self.assertEqual(params_hash(first), params_hash(second))
        self.assertNotEqual(params_hash(first), params_hash(self.train(*DGC)))
        self.assertIn("rule           *.bias=f32", first)
        start = records(self.path("out"))[0]
        self.assertEqual(start["rules"], ["*.bias=f32"])
        self.assertTrue(start["method"].startswith("dgc:"))

    def test_the_same_method_is_no_rule(self):
        for method in ("dense", "fp16", "2bit:threshold=0.01"):
            plain = params_hash(self.train("--method", method))
            for rule in ("*=" + method, "*.bias=" + method):
                self.assertEqual(params_hash(self.train("--method", method, "--rule", rule)), plain, rule)
            covered = run("train", *JOB, "--method", "bf16", "--rule", "*=" + method)
            self.assertEqual(covered.stderr, "telegrad: warning: rules cover all tensors: method bf16 is not used\n")
            self.assertEqual(params_hash(covered.stdout), plain)

    def test_momentum_is_the_optimizers_where_the_method_has_none(self):
        job = ["--workers", "1", *MLP, *TINY, "--steps", "6", "--no-eval"]
        dgc = "dgc:density=1,warmup=0,values=f32,masking=no"
        dense = params_hash(self.ok("train", *job))
        self.assertEqual(params_hash(run("train", *job, "--method", dgc, "--rule", "*.bias=f32").stdout), dense)

    def test_resume(self):
        job = [*DGC, "--rule", "*.bias=f32"]
        whole = params_hash(self.train(*job))
        self.ok("train", *MLP, *TINY, "--steps", "3", "--no-eval", "--workers", "2", *job, "--save", self.path("save"))
        self.assertEqual(params_hash(self.train(*job, "--resume", self.path("save"))), whole)
        self.refused(1, ["rule"], "train", *JOB, *DGC, "--rule", "*.bias=fp16", "--resume", self.path("save"))

    def test_refusals(self):
        for words, rules in (
                (["x", "PATTERN=METHOD"], ["x"]),
                (["PATTERN=METHOD"], ["=f32"]),
                (["*.bias=zip", "topk"], ["*.bias=zip"]),
                (["density=7"], ["*=topk:density=7"]),
                (["*.scale", "no tensor", "fc1.weight, fc1.bias"], ["*.scale=f32"]),
                (["fc1.bias", "before it"], ["*.bias=f32", "fc1.bias=fp16"]),
                (["exchange=none"], ["*.bias=fp16:exchange=none"]),
                (["momentum=0.5"], ["*.bias=dgc:momentum=0.5"])):
            args = [word for rule in rules for word in ("--rule", rule)]
            self.refused(2, words, "train", *JOB, *args)
            self.refused(2, words, "train", *JOB, *args, "--dry-run")
        self.refused(2, ["--rule has no value"], "train", *JOB, "--rule", "")
        self.refused(2, ["--json", "--dry-run"], "train", *JOB, "--json")

    def test_compare(self):
        text = self.ok("compare", *MLP, *TINY, "--steps", "3", "--no-eval", "--workers", "2", "--rule", "*.bias=f32",
                       "--run", "name=a", "--run", "name=b;method=fp16")
        self.assertIn("b", text)
        done = self.ok("compare", *MLP, *TINY, "--steps", "3", "--no-eval", "--workers", "2", "--rule", "*.bias=f32", "--json",
                       "--run", "method=fp16", "--run", "method=int8;rule=fc1*=bf16;rule=fc2*=f32", "--out", self.path("out"))
        rows = [json.loads(line) for line in done.splitlines()]
        self.assertEqual([row["rules"] for row in rows], [["*.bias=f32"], ["fc1*=bf16", "fc2*=f32"]])
        self.assertEqual([row["run"] for row in rows], ["fp16 *.bias=f32", "int8 fc1*=bf16 fc2*=f32"])
        starts = [line for line in records(self.path("out")) if line["type"] == "start"]
        self.assertEqual([start["rules"] for start in starts], [row["rules"] for row in rows])
        self.refused(2, ["--run 1", "PATTERN=METHOD"], "compare", *MLP, *TINY, "--run", "rule=x")

    def test_plan(self):
        plan = self.plan("--model", "lenet5", *DGC, "--rule", "*.bias=f32", "--rule", "fc1*=atomo:rank=2")
        names = [t["name"] for t in plan["tensors"]]
        self.assertEqual(names[:3], ["conv1.weight", "conv1.bias", "conv2.weight"])
        fc1 = plan["tensors"][names.index("fc1.weight")]
        self.assertEqual((fc1["shape"], fc1["elements"], fc1["rule"]), ([500, 800], 400000, "fc1*"))
        self.assertEqual(fc1["method"], "atomo:rank=2,exchange=allgather")
        self.assertAlmostEqual(fc1["bytes"], 2 * 4 * 1300, delta=4000)
        biases = [t for t in plan["tensors"] if t["rule"] == "*.bias"]
        self.assertEqual(len({t["bucket"] for t in biases}), 1)
        self.assertAlmostEqual(sum(t["bytes"] for t in biases), 4 * 580 + 60)
        self.assertEqual(plan["elements"], sum(t["elements"] for t in plan["tensors"]))
        self.assertEqual(plan["bytes_dense"], 4 * plan["elements"])
        self.assertAlmostEqual(plan["bytes"], sum(t["bytes"] for t in plan["tensors"]), places=3)
        self.assertEqual(plan["buckets"], 3)
        for tensor in plan["tensors"]:
            if tensor["rule"] is None:
                self.assertTrue(tensor["method"].startswith("dgc:density=0.01"))

    def test_plan_as_a_run_counts(self):
        """The plan's bytes are those of a run alone (more ranks cut frames), where sizes do not depend on gradients."""
        for rules in ([], ["--rule", "*.bias=f32"]):
            plan = self.plan(*MLP, "--method", "fp16", *rules)
            done = run("train", *MLP, *TINY, "--steps", "6", "--no-eval", "--method", "fp16", *rules, "--out", self.path("out"))
            self.assertEqual(done.returncode, 0, done.stderr)
            steps = [r for r in records(self.path("out")) if r["type"] == "step"]
            self.assertAlmostEqual(plan["bytes"], steps[-1]["coded_bytes"], places=3)

    def test_plan_counts_the_steps_between_exchanges(self):
        for strategy, share in (("ssgd", 1), ("local:every=8", 1 / 8), ("dga:delay=4,every=4", 1 / 4), ("fedavg:every=5,clients=0.5", 1 / 10)):
            plan = self.plan(*MLP, *TINY, "--method", "fp16", "--workers", "2", "--strategy", strategy)
            self.assertAlmostEqual(plan["coded_per_step"], plan["bytes"] * share, places=3)
            self.assertIn("per step on average; ", self.ok("train", *MLP, *TINY, "--workers", "2", "--strategy", strategy, "--dry-run"))
        plan = self.plan(*MLP, *TINY, "--method", "fp16", "--workers", "2", "--strategy", "cd:k=4")
        self.assertAlmostEqual(plan["coded_per_step"], (3 * plan["bytes"] + plan["bytes_dense"]) / 4, places=3)

    def test_settled_as_a_run_settles(self):
        """Warm-ups that follow from the run's length are those of the run, and the plan says why."""
        out, poem = self.path("run.jsonl"), self.path("poem.txt")
        with open(poem, "w", encoding="utf-8") as f:
            f.write("the quick brown fox jumps over the lazy dog\n" * 40)
        text = ["--data", f"text:{poem}", "--model", "lstm:embed=8,hidden=8", "--batch", "2", "--context", "8", "--workers", "3"]
        cases = (([*TINY, *MLP, "--method", "dgc", "--workers", "2"], [("dgc", "warmup")]),
                 ([*TINY, *MLP, "--method", "2bit", "--strategy", "cd", "--steps", "30", "--workers", "2"],
                  [("cd", "warmup"), ("cd", "local"), ("2bit", "threshold")]),
                 ([*TINY, *MLP, "--method", "csc:warmup=3,chunk=4", "--workers", "2", "--accumulate", "2"], []),
                 ([*TINY, *MLP, "--rule", "*.bias=dgc", "--workers", "2", "--epochs", "25"], [("dgc", "warmup")]),
                 ([*text, "--method", "dgc", "--optimizer", "sgd"], [("dgc", "warmup")]))
        for args, settled in cases:
            plan = self.plan(*args)
            run("train", *args, "--no-eval", "--out", out)  # that a warm-up did not end is said
            start = records(out)[0]
            for field in ("method", "strategy", "steps", "steps_per_epoch", "workers"):
                self.assertEqual(plan[field], start[field], (field, args))
            self.assertEqual([(key["name"], key["key"]) for key in plan["settled"] if key["key"] != "index"], settled)
        short = self.plan(*TINY, *MLP, "--method", "dgc", "--workers", "2", "--steps", "20")
        self.assertEqual([(key["value"], key["why"]) for key in short["settled"] if key["key"] == "warmup"],
                         [("4", "20 % of the run's 20 steps, which are too few for the default, 4ep")])
        lines = self.ok("train", *TINY, *MLP, "--method", "dgc", "--workers", "2", "--steps", "20", "--dry-run").splitlines()
        self.assertIn("steps          20, 16 an epoch, with 2 workers", lines)
        self.assertIn("dgc            warmup=4: 20 % of the run's 20 steps, which are too few for the default, 4ep", lines)

    def test_table(self):
        lines = self.ok("train", "--model", "lenet5", *DGC, "--dry-run").splitlines()
        self.assertEqual(lines[0].split(), ["tensor", "shape", "elements", "bucket", "bytes", "ratio", "method"])
        self.assertIn("20 x 1 x 5 x 5", lines[2])
        self.assertTrue(any(line.startswith("431,080 elements in 1 bucket") for line in lines), lines)

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_plan_under_mpi(self):
        done = mpi_tool.mpirun((3, ["train", *MLP, "--dry-run", "--json"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), self.plan(*MLP, "--workers", "3"))


if __name__ == "__main__":
    unittest.main()
