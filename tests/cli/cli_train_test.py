"""train: its result, its records, the trace, and no half-written file."""
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, last_run, over, records, run, start


def documented(title):
    """The names of docs/records.md between this heading and the next one: the first column of its tables."""
    path = os.path.join(os.path.dirname(__file__), "../../docs/records.md")
    with open(path, encoding="utf-8") as file:
        text = file.read().split(f"\n{title}\n", 1)[1]
    rows = re.match(r"(?:(?!\n#|\n\| field of).)*", text, re.S)[0]
    return {name for row in re.findall(r"^\|(.*?)\|", rows, re.M) for name in re.findall(r"`(\w+)`", row)}


START, STEP, EPOCH, END = ({"type"} | documented("## " + kind) for kind in ("start", "step", "epoch", "end"))
METHOD = documented("| field of `methods` | meaning |")

OLD = '{"type": "start"}\n'  # of an earlier run


class Train(CliTest):
    def train(self, *args):
        out = self.path("run.jsonl")
        text = self.ok("train", *over(*TINY, "--out", out, *args))
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.startswith("run")), ["run.jsonl"])
        return text, last_run(out)

    def test_what_is_sent_in_words(self):
        job = ["train", "--model", "mlp:hidden=64", *TINY, "--steps", "5", "--no-eval"]
        for more, text in (
                (["--workers", "2"], "gradients are sent as they are; traffic is that of a dense exchange"),
                (["--workers", "2", "--method", "topk:density=0.01"],
                 r"coded gradients are 1\d\dx smaller; traffic is 1\d\dx less than that of a dense exchange"),
                (["--workers", "8", "--method", "fp16:exchange=allgather"],
                 r"coded gradients are 2\.00x smaller; traffic is 2\.00x more than that of a dense exchange"),
                (["--workers", "100000", "--method", "topk:density=0.01", "--clock", "virtual", "--tau", "1ms", "--sim-only"],
                 r"coded gradients are 1\d\dx smaller; traffic is 3\d\dx more than that of a dense exchange"),
                (["--workers", "1"], "none: nothing was sent")):
            self.assertRegex(run(*job, *more).stdout, rf"(?m)^ratio          {text}$", more)

    def test_optimizers(self):
        """Rates, clipping and minibatch as asked for, in normal form in the records; resumed to the same bits."""
        job = ["--model", "mlp:hidden=32", "--workers", "2", "--accumulate", "2", "--lr-scale", "linear", "--optimizer",
               "adamw:lr=0.001,clip=0.1", "--lr-schedule", "constant:warmup=4", "--steps", "8", "--log-every", "3"]
        text, lines = self.train(*job)
        first, steps, end = lines[0], [line for line in lines if line["type"] == "step"], lines[-1]
        self.assertEqual((first["accumulate"], first["lr_scale"], first["steps_per_epoch"]), (2, "linear", 8))
        self.assertIn("weight_decay=0.01,exempt=none,clip=0.1", first["optimizer"])
        self.assertEqual([line["lr"] for line in steps], [0.0025, 0.004, 0.004])
        self.assertEqual(([line["clipped"] for line in steps], end["clipped"]), ([3, 3, 2], 8))
        self.assertGreater(steps[0]["mean_norm"], 0.1)
        self.assertIn("minibatch      2 x 2 batches of 16 samples, lr scale linear\n", text)
        self.assertIn("clipped        8 steps\n", text)
        self.train(*job[:-4], "--steps", "5", "--save", self.path("ck"))
        self.assertEqual(self.train(*job, "--resume", self.path("ck"))[1][-1]["params_hash"], end["params_hash"])
        self.refused(1, ["it was saved with --lr-scale linear, this job has --lr-scale sqrt"], "train", *over(*TINY, *job[:-2], "--lr-scale", "sqrt", "--resume", self.path("ck")))

    def test_algorithms_of_cdsgd(self):
        """S-SGD, OD-SGD, BIT-SGD and CD-SGD have the same bits over servers as without, and differ from each other."""
        coded, job = ["--method", "2bit:threshold=0.005"], ["--workers", "3", "--steps", "10", "--no-eval", "--model", "mlp:hidden=32"]
        every = (["--method", "dense"], ["--strategy", "od:warmup=2"], coded, [*coded, "--strategy", "cd:k=3,warmup=2"],
                 [*coded, "--strategy", "cd:k=0,warmup=2"])
        hashes = [[self.train(*job, *args, *more)[1][-1]["params_hash"] for more in ([], ["--servers", "2"])] for args in every]
        self.assertEqual([one for one, _ in hashes], [two for _, two in hashes])
        self.assertEqual(len({one for one, _ in hashes}), len(every))

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
                    self.assertEqual(fields, set(line), kind)
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
        for line in lines:
            if line["type"] == "step":
                (method,) = line["methods"]
                self.assertEqual(set(method), METHOD)
                self.assertEqual((method["n"], method["method"]), (first["params"], first["method"]))
                self.assertAlmostEqual(method["kept"] / method["n"], 0.01, 3)
                self.assertAlmostEqual(line["density_kept"], 0.01, 3)
                self.assertEqual(method["bytes"], line["coded_bytes"])
                self.assertTrue(method["encode_ns_element"] > 0 and method["decode_ns_element"] > 0)
                self.assertAlmostEqual(line["residual_ratio"], line["residual_norm"] / line["grad_norm"], 5)
        self.assertIn("1 % of the elements kept", text)

    def warnings(self, *args):
        done = run("train", "--data", "glyphs:train=2048,test=64", "--batch", "16", "--model", "mlp:hidden=32", "--no-eval",
                   "--steps", "400", "--optimizer", "sgd:lr=0.05,momentum=0", *args)
        self.assertEqual(done.returncode, 0)
        return [line for line in done.stderr.splitlines() if "above that of guessing" not in line and "with one worker" not in line]

    def test_warns_of_a_growing_residual(self):
        for workers in "1", "2":
            (line,) = self.warnings("--workers", workers, "--method", "2bit:threshold=0.00001")
            for word in "warning", "2bit:threshold=1e-05", "residual grows", "larger threshold":
                self.assertIn(word, line)
        for method in "topk:density=0.001", "topk:density=0.01", "dgc:density=0.001,warmup=40", "2bit", "fp16":
            self.assertEqual(self.warnings("--method", method), [], method)

    def test_warns_of_dense_frames(self):
        (line,) = self.warnings("--method", "topk:density=0.99,values=f32,index=raw")
        for word in "warning", "topk:density=0.99", "in 20 of 20 steps", "no smaller than the dense":
            self.assertIn(word, line)

    def test_last_step_is_recorded(self):
        _, lines = self.train("--steps", "7", "--no-eval", "--workers", "2", "--method", "topk")
        (step,) = [line for line in lines if line["type"] == "step"]
        self.assertEqual(step["step"], 7)
        self.assertGreater(step["residual_ratio"], 0)
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
        spans = [event for event in events if event["ph"] == "X"]
        of = {kind: {event["name"]: event for event in spans if (event["pid"], event["cat"], event["args"]["step"]) == (1, kind, 1)}
              for kind in ("compute", "layers")}
        self.assertLessEqual({"forward conv1", "forward fc2", "weights fc1", "inputs fc2"}, set(of["layers"]))
        for name, layer in of["layers"].items(): # within the pass
            whole = of["compute"]["forward" if name.startswith("forward") else "backward"]
            self.assertLessEqual(whole["ts"], layer["ts"] + 0.01, name)
            self.assertLessEqual(layer["ts"] + layer["dur"], whole["ts"] + whole["dur"] + 0.01, name)

    def test_out_that_is_no_file(self):
        self.ok("train", *TINY, "--steps", "2", "--no-eval", "--out", "/dev/null")
        self.assertTrue(os.path.exists("/dev/null"))

    def test_out_through_a_link(self):
        """The link stays; what it leads to is written."""
        os.mkdir(self.path("far"))
        for name, option in (("run.jsonl", "--out"), ("trace.json", "--trace")):
            with self.subTest(option=option):
                os.symlink("far/" + name, self.path(name))
                for _ in range(2):  # nothing there yet; then a file
                    self.ok("train", *TINY, "--steps", "2", "--no-eval", option, self.path(name))
                    self.assertTrue(os.path.islink(self.path(name)))
                    self.assertFalse(os.path.islink(self.path("far/" + name)))
                    with open(self.path("far/" + name), encoding="utf-8") as file:
                        self.assertIn("{", file.read())
        self.assertEqual(sorted(os.listdir(self.folder)), ["far", "run.jsonl", "trace.json"])
        self.assertEqual(sorted(os.listdir(self.path("far"))), ["run.jsonl", "trace.json"])

    def test_out_is_standard_output(self):
        args = ["train", *TINY, "--steps", "2", "--no-eval", "--out", "/dev/stdout"]
        before = os.readlink("/dev/stdout")
        piped = self.ok(*args).splitlines()
        with open(self.path("all"), "w+", encoding="utf-8") as file:
            subprocess.run([TELEGRAD, *args, "--trace", "/dev/stderr"], stdout=file, stderr=subprocess.PIPE,
                           check=True, env=ENVIRONMENT)
            file.seek(0)
            filed = file.read().splitlines()
        for lines in piped, filed:  # records, then the summary; neither over the other
            whole = [json.loads(line)["type"] for line in lines if line.startswith("{")]
            self.assertEqual((whole[0], whole[-1]), ("start", "end"))
            self.assertTrue(lines[len(whole)].startswith("model ") and lines[-1].startswith("params hash"))
        self.assertEqual(os.listdir(self.folder), ["all"])
        self.assertEqual(os.readlink("/dev/stdout"), before)

    def test_trace_into_a_pipe(self):
        os.mkfifo(self.path("pipe"))
        both = os.open(self.path("pipe"), os.O_RDWR)  # a reader, before the command looks for one
        process = start("train", *TINY, "--steps", "2", "--no-eval", "--trace", self.path("pipe"))
        with open(self.path("pipe"), encoding="utf-8") as file:
            process.communicate(timeout=60)
            os.close(both)
            self.assertIn("traceEvents", json.load(file))
        self.assertEqual((process.returncode, os.listdir(self.folder)), (0, ["pipe"]))

    def test_start_has_every_setting(self):
        saved, trace = self.path("saved"), self.path("trace.json")
        self.train("--steps", "2", "--no-eval", "--save", saved, "--workers", "2")
        given = {"model": "lenet5", "method": "topk:density=0.02", "strategy": "cd:k=3",
                 "optimizer": "sgd:lr=0.03", "lr-schedule": "constant:warmup=2", "link": "1gbit,1ms", "holdout": 64,
                 "steps": 4, "seed": 7, "log-every": 2, "timeout": 9.5, "driver": "inline", "overlap": "backward",
                 "save": self.path("new"), "save-every": 2, "trace": trace, "workers": 2}
        lines = self.train(*[text for key, value in given.items() for text in ("--" + key, str(value))], "--no-eval",
                           "--fault", "1=fault:delay=1ms", "--fault", "0=fault:drop=0")[1]
        first = lines[0]
        for key, value in given.items():
            got = first[key.replace("-", "_")]
            if key in ("method", "strategy", "optimizer", "lr-schedule"):  # in normal form
                self.assertTrue(set(re.split("[:,]", value)) <= set(re.split("[:,]", got)), (value, got))
            else:
                self.assertEqual(got, value, key)
        self.assertEqual((first["data_spec"], first["batch"], first["evaluate"]), (TINY[1], 16, False))
        self.assertEqual((first["out"], first["resume"]), (self.path("run.jsonl"), None))
        self.assertEqual(first["faults"], ["1=fault:delay=1ms", "0=fault:drop=0"])
        first = self.train("--steps", "3", "--no-eval", "--resume", saved, "--workers", "2")[1][0]
        self.assertEqual((first["resume"], first["save"], first["trace"], first["faults"]), (saved, None, None, []))

    def test_names_that_are_not_utf8(self):
        out = self.path("run\udcff.jsonl")
        self.ok("train", *TINY, "--steps", "2", "--no-eval", "--out", out, "--save", self.path("s\udcfe"),
                "--trace", self.path("\u00e9\udce9"))
        first = records(out)[0]
        self.assertEqual((first["out"], first["save"], first["trace"]),
                         (self.path("run\\xff.jsonl"), self.path("s\\xfe"), self.path("\u00e9\\xe9")))

    def test_older_records_survive_a_failure(self):
        out = self.path("run.jsonl")
        with open(out, "w", encoding="utf-8") as file:
            file.write(OLD)
        self.refused(2, ["--batch 5000: allowed"], "train", *TINY[:2], "--batch", "5000", "--out", out)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), OLD)
        self.assertEqual(os.listdir(self.folder), ["run.jsonl"])

    def test_a_file_that_is_no_trace_is_not_replaced(self):
        file = pathlib.Path(self.path("program.c"))
        file.write_text("int main(void) { }\n", encoding="utf-8")
        self.refused(2, [f"--trace {file}: the file holds something other than a trace", "delete it"], "train", *TINY, "--steps", "1",
                     "--no-eval", "--trace", str(file))
        self.assertEqual(file.read_text(encoding="utf-8"), "int main(void) { }\n")
        file.write_text("", encoding="utf-8")
        for _ in range(2):
            self.ok("train", *TINY, "--steps", "1", "--no-eval", "--trace", str(file))
            self.assertIn("traceEvents", file.read_text(encoding="utf-8"))

    def test_a_file_that_holds_no_records_is_not_replaced(self):
        out = self.path("program.c")
        for text in "int main(void) { }\n", "{}", "{\n", '{"type":"tune"}\n', '{"type":"server_start"}\n', '{"type":"eval"}\n':
            pathlib.Path(out).write_text(text, encoding="utf-8")
            for job in ["train"], ["compare", "--run", "name=a"], ["train", "--resume", self.path("none")]:
                self.refused(2, [f"--out {out}: the file holds something other than records of runs", "delete it"], *job, *TINY, "--steps", "1", "--out", out)
            self.assertEqual(pathlib.Path(out).read_text(encoding="utf-8"), text)
        for text in "", OLD:
            pathlib.Path(out).write_text(text, encoding="utf-8")
            self.ok("train", *TINY, "--steps", "1", "--no-eval", "--out", out)

    def test_a_reader_of_the_records_that_ends(self):
        """As where a disk is full, the run stops and saves."""
        saved = self.path("saved")
        process = start("train", *TINY, "--steps", "100000", "--log-every", "1", "--no-eval", "--out", "-", "--save", saved)
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        self.assertEqual(process.wait(60), 1, said)
        self.assertIn("Broken pipe", said)
        self.assertTrue([name for name in os.listdir(saved) if name.startswith("step-")], said)

    def test_perplexity(self):
        """Of texts, beside the loss; of images it is null."""
        with open(self.path("poem"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 40)
        _, lines = self.train("--model", "lstm:hidden=4,embed=4", "--data", "text:" + self.path("poem"), "--batch", "2",
                              "--context", "8", "--steps", "3")
        for line in lines[-2:]:
            self.assertAlmostEqual(line["perplexity"], math.exp(line["test_loss"]), places=6)
        _, lines = self.train("--model", "mlp", "--steps", "1")
        self.assertEqual([line["perplexity"] for line in lines[-2:]], [None, None])

    def test_network_larger_than_the_memory(self):
        """3 TB: refused before any of it is touched, which would end the process."""
        with open(self.path("poem"), "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 4000)
        for workers in "1", "2":
            self.refused(1, ["the network needs", "GB are available"], "train", "--model", "gpt:embed=16384,layers=32",
                         "--data", "text:" + self.path("poem"), "--batch", "32", "--context", "1024", "--workers", workers)

    def test_dead_rank_is_named(self):
        done = run("train", *TINY, "--workers", "3", "--steps", "50", "--timeout", "2", "--fault",
                   "1=fault:kill=30", "--out", self.path("run.jsonl"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^telegrad: .*rank 1.*\n$")
        self.assertEqual(os.listdir(self.folder), ["run.jsonl"])
        last = records(self.path("run.jsonl"))[-1]
        self.assertEqual(last["type"], "failed")
        self.assertIn(last["error"], done.stderr)

    def test_a_round_mends_what_is_not_finite(self):
        """A rank's own steps fail until the mean of the round, which is dropped, begins it anew."""
        done = run("train", *TINY, "--model", "mlp:hidden=32", "--workers", "3", "--steps", "120", "--no-eval", "--optimizer",
                   "sgd:lr=1e30,weight_decay=1e10", "--lr-schedule", "step:at=5,factor=1e-42", "--strategy", "local:every=30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"steps +120 of 120")
        self.assertRegex(done.stderr, r"^telegrad: warning: [23]\d of 120 steps were skipped")

    def test_strategy_and_method_with_momenta_of_their_own(self):
        for more in (["--method", "signum"], ["--method", "topk", "--rule", "*.bias=signum"]):
            self.train("--model", "mlp:hidden=32", "--workers", "2", "--steps", "6", "--no-eval", "--strategy", "dga:delay=2",
                       "--optimizer", "sgd:lr=0.01,momentum=0.9", "-q", *more)  # at such a rate signs hardly learn, which is said

    def test_streaming_with_one_bucket(self):
        self.train("--model", "mlp:hidden=32", "--workers", "2", "--steps", "6", "--no-eval", "--strategy", "streaming:every=3")

    def test_divergence_keeps_its_curve(self):
        out, trace = self.path("run.jsonl"), self.path("trace.json")
        done = run("train", *TINY, "--model", "mlp", "--workers", "2", "--steps", "400", "--optimizer", "sgd:lr=100000", "--log-every", "1",
                   "--out", out, "--trace", trace)
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = records(out)
        self.assertEqual((lines[0]["type"], lines[1]["type"], lines[-1]["type"]), ("start", "step", "failed"))
        self.assertIn(lines[-1]["error"], done.stderr)
        with open(trace, encoding="utf-8") as file:
            self.assertIn("backward", file.read())
        page = self.path("page.html")
        self.ok("report", out, "-o", page)
        with open(page, encoding="utf-8") as file:
            self.assertIn("the run failed", file.read())

    def test_a_checkpoint_is_no_folder_to_save_to(self):
        """It would be half removed when it is too old."""
        self.train("--steps", "3", "--save", self.path("ck"))
        step = self.path("ck/step-000000000003")
        before = sorted(os.listdir(step))
        for folder in step, step + "/", step + "/more/folders", self.path("ck/../ck/step-000000000003"):
            self.refused(1, [f"--save {folder}: ", "step-000000000003 is a single checkpoint: give the folder of checkpoints that contains it"],
                         "train", *TINY, "--steps", "3", "--save", folder)
            self.assertEqual(sorted(os.listdir(step)), before)
        self.ok("train", *TINY, "--steps", "3", "--save", self.path("ck/apart"))

    def test_says_where_it_saved(self):
        text, lines = self.train("--steps", "3", "--save", self.path("saved/"))
        self.assertTrue(os.path.isdir(self.path("saved/step-000000000003")))
        self.assertIn(f"saved          {self.path('saved/step-000000000003')}; to continue: --resume {self.path('saved/')}\n", text)
        self.assertEqual(lines[-1]["saved"], self.path("saved/step-000000000003"))
        text, lines = self.train("--steps", "3", "--save", self.path("it's here"))  # as a shell takes it
        quoted = self.path("it's here").replace("'", "'\\''")
        self.assertIn(f"; to continue: --resume '{quoted}'\n", text)
        text, lines = self.train("--steps", "3")
        self.assertNotIn("saved", text)
        self.assertIsNone(lines[-1]["saved"])

    def test_records_on_standard_output(self):
        """Which has nothing else then, for programs that read JSON lines; no file is made."""
        lines = [json.loads(line) for line in
                 self.ok("train", *TINY, "--steps", "3", "--no-eval", "--out", "-", cwd=self.folder).splitlines()]
        self.assertEqual([line["type"] for line in lines], ["start", "step", "epoch", "end"])
        self.assertEqual(os.listdir(self.folder), [])
        sim = ["--clock", "virtual", "--sim-only", "--tau", "1ms", "--workers", "4", "--strategy", "local:every=2"]
        lines = [json.loads(line) for line in self.ok("train", *TINY, *sim, "--steps", "3", "--out", "-", cwd=self.folder).splitlines()]
        self.assertEqual(lines[-1]["type"], "end")
        self.refused(2, ["--trace -", "must go to a file"], "train", *TINY, "--trace", "-", cwd=self.folder)
        self.refused(2, ["--save-weights -", "must go to a file"], "train", *TINY, "--save-weights", "-", cwd=self.folder)
        self.refused(2, ["--logits -", "must go to a file"], "eval", "--weights", "w", "--logits", "-", cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_weights_replace_weights_alone(self):
        weights, other = self.path("w.safetensors"), self.path("my.key")
        one = ["train", *TINY, "--steps", "1"]
        for _ in range(2):
            self.ok(*one, "--save-weights", weights)
        for text in ("-----BEGIN PRIVATE KEY-----\n", "short", '{"type":"start"}\n'):
            with open(other, "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(2, [f"--save-weights {other}: the file holds something other than weights"], *one, "--save-weights", other)
            with open(other, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
        with open(other, "w", encoding="utf-8"):
            pass
        self.ok(*one, "--save-weights", other)

    def test_two_runs_and_one_file(self):
        """The second finds out before it trains, and the first one's records stay."""
        out = self.path("run.jsonl")
        folder, trace, weights = self.path("a/ck"), self.path("t.json"), self.path("w.safetensors")
        process = start("train", *TINY, "--steps", "1000000", "--log-every", "1", "--out", out, "--save", folder, "--trace", trace,
                        "--save-weights", weights)
        self.wait_for_steps(process, out)
        one = ["train", *TINY, "--steps", "1"]
        self.refused(1, [f"--save {folder}: another run is saving to this folder: choose another"], *one, "--save", folder)
        self.refused(1, [f"--trace: cannot open {trace} for writing: another run is writing it"], *one, "--trace", trace)
        os.symlink("w.safetensors", self.path("link"))
        for name in weights, self.path("link"):
            self.refused(1, [f"--save-weights: cannot open {name} for writing: another run is writing it"], *one, "--save-weights", name)
        os.remove(self.path("link"))
        for more in [], ["--resume", self.path("none")]:
            self.refused(1, [f"--out: cannot open {out} for writing: another run is writing it"], "train", *TINY, "--steps", "1",
                         "--out", out, *more)
        self.refused(1, ["another run is writing it"], "compare", *TINY, "--steps", "1", "--run", "name=a", "--out", out)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        types = [line["type"] for line in records(out)]
        self.assertEqual((types[0], types.count("start"), types[-1]), ("start", 1, "end"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "run.jsonl", "t.json", "w.safetensors"])
        self.assertEqual(len(os.listdir(folder)), 1)
        # Once it has ended, both are free; a run that fails leaves neither folders nor files.
        self.ok(*one, "--trace", trace, "--save-weights", weights)
        self.refused(2, ["holds checkpoints of another run, the newest of step"], *one, "--save", folder, "--trace", self.path("u.json"))
        self.assertFalse(os.path.exists(self.path("u.json.tmp")))
        fails = ["--workers", "2", "--fault", "1=fault:kill=3", "--save", self.path("b/c"), "--trace", self.path("u.json")]
        self.assertEqual(run(*over(*one, *fails, "--steps", "100")).returncode, 1)
        if os.path.exists(self.path("u.json")):
            os.remove(self.path("u.json"))  # kept of a run that failed after its start, as its records are
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "run.jsonl", "t.json", "w.safetensors"])

    def test_a_file_that_changes_before_the_run_begins(self):
        """Another run may begin and end while this one still sends its parameters: what it wrote stays."""
        for before in [], ["0"]:
            out, trace = self.path("run.jsonl"), self.path("t.json")
            if before:
                self.ok("train", *TINY, "--steps", "1", "--no-eval", "--out", out)
            process = start("train", *TINY, "--steps", "1", "--workers", "2", "--link", "50ms", "--out", out, "--trace", trace)
            until = time.monotonic() + 60
            while not os.path.exists(trace + ".tmp") and time.monotonic() < until:
                time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
            self.ok("train", *TINY, "--steps", "2", "--no-eval", "--out", out)
            with open(out, encoding="utf-8") as file:
                text = file.read()
            process.send_signal(signal.SIGCONT)
            stdout, stderr = process.communicate(timeout=60)
            self.assertEqual((process.returncode, stdout), (1, ""), stderr)
            self.assertIn(f"--out {out}: another program has written this file since this run was started: choose another", stderr)
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
            self.assertEqual(os.listdir(self.folder), ["run.jsonl"])

    def limited(self, kilobytes, *args):
        """Refused under a limit of the address space; the message."""
        command = ["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash", TELEGRAD]
        if subprocess.run([*command, "--version"], capture_output=True, env=ENVIRONMENT).returncode:
            self.skipTest("built with a sanitizer, which needs more than the limit")
        p = subprocess.run([*command, "train", *args, "--steps", "1", "--no-eval"], capture_output=True, text=True,
                           timeout=60, env=ENVIRONMENT)
        self.assertEqual(p.returncode, 1, p.stderr)
        return p.stderr

    def test_refuses_a_network_whose_scratch_memory_does_not_fit(self):
        said = self.limited(2000000, "--model", "resnet18", "--data", "glyphs:train=4000", "--batch", "4000")
        self.assertRegex(said, r"the network needs [\d.]+ GB of memory, and [\d.]+ GB are available")

    def test_refuses_more_workers_than_memory(self):
        said = self.limited(3000000, "--model", "mlp:hidden=4096,hidden2=4096", "--data", "glyphs:train=512", "--batch",
                            "4", "--workers", "16")
        self.assertRegex(said, r"the network needs 0\.\d+ GB of memory on each of the 16 workers of this process, "
                               r"[\d.]+ GB in all, and [\d.]+ GB are available")

    def test_old_records_outlive_a_run_that_does_not_begin(self):
        out = self.path("run.jsonl")
        with open(out, "w", encoding="utf-8") as file:
            file.write(OLD)
        for status, args in ((2, ["--batch", "100000"]), (2, ["--method", "dcg"]), (1, ["--resume", self.path("none")]),
                             (1, ["--data", "mnist:" + self.path("none")])):
            done = run("train", *over(*TINY, "--steps", "1", "--out", out, *args))
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(pathlib.Path(out).read_text(encoding="utf-8"), OLD, args)

if __name__ == "__main__":
    unittest.main()
