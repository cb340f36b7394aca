"""train: its result, its records, the trace, interrupts, and no half-written file."""
import json
import os
import re
import signal
import time
import unittest
from cli_tool import CliTest, TINY, records, run, start

START = {"type", "version", "cpu", "time", "host_threads", "model", "data", "data_origin", "data_hash",
         "train_samples", "test_samples", "holdout", "link", "transport", "world", "workers", "method", "strategy",
         "optimizer", "lr_schedule", "batch", "epochs", "steps", "steps_per_epoch", "first_step", "params",
         "seed", "driver", "timeout", "log_every"}
STEP = {"type", "step", "epoch", "loss", "lr", "density", "bytes_sent", "bytes_dense", "residual_norm",
        "grad_norm", "compute_ms", "encode_ms", "exchange_ms", "apply_ms", "wait_ms"}
EPOCH = {"type", "train_loss", "test_accuracy", "test_loss", "seconds", "bytes_sent"}
END = {"type", "method", "strategy", "world", "steps", "epochs", "test_accuracy", "test_loss", "seconds",
       "step_ms_median", "compute_ms_median", "bytes_sent", "ratio", "ratio_wire", "skipped_nonfinite",
       "params_hash", "interrupted"}


class Train(CliTest):
    def train(self, *args):
        out = self.path("run.jsonl")
        text = self.ok("train", *TINY, "--out", out, *args)
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.startswith("run")), ["run.jsonl"])
        return text, records(out)

    def test_records(self):
        text, lines = self.train("--workers", "2", "--epochs", "2", "--log-every", "4", "--method",
                                 "dgc:density=0.01,warmup=0", "--link", "1gbit,1ms")
        kinds = [line["type"] for line in lines]
        steps = 512 // (2 * 16) * 2
        self.assertEqual((kinds[0], kinds[-1]), ("start", "end"))
        self.assertEqual((kinds.count("step"), kinds.count("epoch")), (steps // 4, 2))
        for kind, fields in (("start", START), ("step", STEP), ("epoch", EPOCH), ("end", END)):
            for line in lines:
                if line["type"] == kind:
                    self.assertLessEqual(fields, set(line), kind)
        first, end = lines[0], lines[-1]
        self.assertEqual((first["data"], first["data_origin"], first["world"]), ("glyphs", "generated", 2))
        self.assertEqual((first["link"], first["transport"], first["seed"]), ("1gbit,1ms", "inproc", 1))
        self.assertIn("density=0.01", first["method"])
        self.assertIn("masking=yes", first["method"])  # normal form: defaults, too
        self.assertEqual((end["steps"], end["epochs"], end["interrupted"]), (steps, 2, False))
        self.assertRegex(end["params_hash"], r"^[0-9a-f]{16}$")
        self.assertRegex(first["data_hash"], r"^[0-9a-f]{16}$")
        self.assertGreater(end["ratio"], 50)
        self.assertTrue(0 <= end["test_accuracy"] <= 1)
        self.assertEqual([line["step"] for line in lines if line["type"] == "step"],
                         list(range(4, steps + 1, 4)))
        self.assertIn(end["params_hash"], text)
        self.assertIn("glyphs (generated)", text)

    def test_last_step_is_recorded(self):
        _, lines = self.train("--steps", "7", "--no-eval")
        self.assertEqual([line["step"] for line in lines if line["type"] == "step"], [7])
        self.assertIsNone(lines[-1]["test_accuracy"])

    def test_same_seed_same_parameters(self):
        args = ["--steps", "4", "--no-eval", "--workers", "2", "--method", "2bit:threshold=0.01"]
        hashes = [self.train(*args, *more)[1][-1]["params_hash"]
                  for more in ([], ["--driver", "inline"], ["--link", "1gbit,1ms"], ["--seed", "2"])]
        self.assertEqual(len(set(hashes[:3])), 1)
        self.assertNotEqual(hashes[0], hashes[3])

    def test_trace(self):
        self.train("--steps", "3", "--workers", "2", "--trace", self.path("trace.json"))
        with open(self.path("trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        self.assertLessEqual({0, 1}, {event.get("pid") for event in events})

    def test_out_that_is_no_file(self):
        self.ok("train", *TINY, "--steps", "2", "--no-eval", "--out", "/dev/null")
        self.assertTrue(os.path.exists("/dev/null"))

    def test_older_records_survive_a_failure(self):
        out = self.path("run.jsonl")
        with open(out, "w", encoding="utf-8") as file:
            file.write("old\n")
        self.refused(2, ["batch="], "train", *TINY[:2], "--batch", "5000", "--out", out)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old\n")
        self.assertEqual(os.listdir(self.folder), ["run.jsonl"])

    def test_dead_rank_is_named(self):
        done = run("train", *TINY, "--workers", "3", "--steps", "50", "--timeout", "2", "--fault",
                   "1=fault:kill=30", "--out", self.path("run.jsonl"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^telegrad: .*rank 1.*\n$")
        self.assertEqual(os.listdir(self.folder), [])

    def wait_for_steps(self, process, path):
        """Until the first step record stands in the file that grows."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.assertIsNone(process.poll(), "ended too early")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if '"type":"step"' in file.read():
                        return
            time.sleep(0.02)
        self.fail("no step within a minute")

    def interrupted(self, *signals, extra=()):
        out = self.path("run.jsonl")
        process = start("train", *TINY, "--steps", "1000000", "--log-every", "1", "--workers", "2", "--out", out,
                        *extra)
        self.wait_for_steps(process, out + ".tmp")
        self.assertFalse(os.path.exists(out), "records under their name before the end")
        for number in signals:
            process.send_signal(number)
            time.sleep(0.2)
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr, out

    def test_interrupt(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            code, stdout, stderr, out = self.interrupted(number)
            self.assertEqual((code, stderr), (status, ""))
            end = records(out)[-1]
            self.assertEqual((end["type"], end["interrupted"]), ("end", True))
            self.assertTrue(0 < end["steps"] < 1000000)
            self.assertTrue(re.search(r"steps +%d of 1000000, interrupted" % end["steps"], stdout))
            self.assertEqual(os.listdir(self.folder), ["run.jsonl"])
            os.remove(out)

    def test_interrupt_saves(self):
        code, _, _, out = self.interrupted(signal.SIGINT, extra=("--save", self.path("saved")))
        self.assertEqual(code, 130)
        steps = records(out)[-1]["steps"]
        text, lines = self.train("--steps", str(steps + 2), "--workers", "2", "--resume", self.path("saved"))
        self.assertEqual((lines[0]["first_step"], lines[-1]["steps"]), (steps, steps + 2))

    def test_second_interrupt_ends_at_once(self):
        # Over this link a step takes more than 2 s, so the first signal cannot have ended the run.
        out = self.path("run.jsonl")
        process = start("train", *TINY, "--steps", "1000000", "--workers", "2", "--link", "1600kbit", "--model", "mlp",
                        "--out", out)
        end = time.monotonic() + 60
        while not (os.path.exists(out + ".tmp") and os.path.getsize(out + ".tmp")):
            self.assertTrue(process.poll() is None and time.monotonic() < end)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
