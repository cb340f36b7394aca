"""--precision: said in results and records, refused where the CPU has no bf16, resumed to the same bits."""
import json
import unittest
from cli_tool import CliTest, TINY, records, run

JOB = ["--model", "lenet5", "--workers", "2", "--precision", "bf16", "--method", "dgc:density=0.05,warmup=0"]


class Precision(CliTest):
    def setUp(self):
        super().setUp()
        probe = run("train", *TINY, *JOB, "--steps", "1", "--no-eval")
        if probe.returncode != 0:
            self.assertIn("neither avx512_bf16 nor AMX", probe.stderr)
            self.skipTest("this CPU has no bf16")

    def train(self, *args):
        out = self.path("run.jsonl")
        return self.ok("train", *TINY, *JOB, "--out", out, *args), records(out)

    def test_resume(self):
        text, lines = self.train("--steps", "8")
        self.assertIn("precision      bf16\n", text)
        self.assertEqual(lines[0]["precision"], "bf16")
        self.train("--steps", "5", "--save", self.path("ck"))
        resumed = self.train("--steps", "8", "--resume", self.path("ck"))[1][-1]
        self.assertEqual(resumed["params_hash"], lines[-1]["params_hash"])
        fp32 = ["fp32" if word == "bf16" else word for word in JOB]
        self.refused(1, ["precision"], "train", *TINY, *fp32, "--steps", "8", "--resume", self.path("ck"))

    def test_workers(self):
        """Two workers have the same bits, with each driver of the exchange."""
        lines = [self.train("--steps", "6", "--driver", driver)[1][-1] for driver in ("thread", "inline")]
        self.assertEqual(lines[0]["params_hash"], lines[1]["params_hash"])

    def test_eval(self):
        """In the precision of the training, unless another is asked for."""
        end = self.train("--steps", "8", "--save", self.path("ck"))[1][-1]
        mine = json.loads(self.ok("eval", "--json", "--resume", self.path("ck")))
        self.assertEqual((mine["precision"], mine["test_accuracy"]), ("bf16", end["test_accuracy"]))
        self.assertAlmostEqual(mine["test_loss"], end["test_loss"], delta=1e-6 * end["test_loss"])
        other = json.loads(self.ok("eval", "--json", "--resume", self.path("ck"), "--precision", "fp32"))
        self.assertEqual(other["precision"], "fp32")
        self.assertNotEqual(other["test_loss"], mine["test_loss"])
        self.assertAlmostEqual(other["test_loss"], mine["test_loss"], delta=0.01 * mine["test_loss"])
        for level in ("avx2", "ref"):
            done = run("eval", "--json", "--resume", self.path("ck"), TG_CPU=level)
            self.assertEqual(done.returncode, 2)
            self.assertIn("allowed: fp32", done.stderr)
            self.ok("eval", "--json", "--resume", self.path("ck"), "--precision", "fp32", TG_CPU=level)

    def test_compare(self):
        rows = self.ok("compare", *TINY, "--model", "mlp:hidden=32", "--workers", "1", "--steps", "2", "--json", "--run",
                       "name=a", "--run", "name=b;precision=bf16")
        self.assertEqual(len(rows.splitlines()), 2)

    def test_bench(self):
        line = self.ok("bench", "train", "--models", "lenet5", "--batch", "4", "--seconds", "0.01", "--precision", "bf16",
                       "--json")
        self.assertEqual(json.loads(line)["precision"], "bf16")


class Refused(CliTest):
    def test_refused(self):
        """Also where another instruction set is asked for."""
        for level in ("avx2", "ref"):
            # of bench's rows one fails, and others may follow
            for status, command in ((2, ["train", *TINY, *JOB]), (1, ["bench", "train", "--models", "mlp", "--precision", "bf16"])):
                result = run(*command, TG_CPU=level)
                self.assertEqual(result.returncode, status)
                self.assertIn("precision bf16", result.stdout + result.stderr)
                self.assertIn("allowed: fp32", result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
