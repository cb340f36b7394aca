"""Weights in checkpoints: an independent reader finds them, `eval` tests them as training did, `--init` starts from them."""
import json
import math
import os
import shutil
import struct
import unittest
import safetensors_reader
from cli_tool import CliTest, TINY, records, run
from same_hash_test import params_hash

JOB = ["--model", "mlp:hidden=24", *TINY]
OPTIMIZER = {}
SHAPES = {"fc1.weight": [24, 784], "fc1.bias": [24], "fc2.weight": [64, 24], "fc2.bias": [64], "fc3.weight": [10, 64],
          "fc3.bias": [10]}


def newest(folder):
    return os.path.join(folder, max(name for name in os.listdir(folder) if name[-1].isdigit()))


def model_of(folder):
    return os.path.join(newest(folder), "model.safetensors")


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Eval(CliTest):
    def saved(self, *more):
        """A folder with a checkpoint, and the last record of the run that saved it."""
        folder, out = self.path("ck"), self.path("run.jsonl")
        self.ok("train", *JOB, "--steps", "40", "--save", folder, "--out", out, *more)
        return folder, records(out)[-1]

    def ran(self, *args):
        """Its standard output; it may have something to say of its settings."""
        done = run(*args)
        self.assertEqual(done.returncode, 0, (args, done.stderr))
        return done.stdout

    def evaluate(self, *args):
        return json.loads(self.ok("eval", "--json", *args))

    def test_as_in_training(self):
        """The same figures, whatever the number of workers, for a strategy that sends at once."""
        for workers, method in ((1, "dense"), (2, "dgc:density=0.01"), (3, "2bit:threshold=0.01")):
            with self.subTest(workers=workers):
                folder, end = self.saved("--workers", str(workers), "--method", method)
                mine = self.evaluate("--resume", folder)
                self.assertEqual((mine["step"], mine["samples"], mine["batch"], mine["model"]),
                                 (40, 128, 16, "mlp:hidden=24,hidden2=64"))
                self.assertEqual(mine["test_accuracy"], end["test_accuracy"])
                self.assertIsNone(mine["perplexity"])
                self.assertTrue(math.isclose(mine["test_loss"], end["test_loss"], rel_tol=1e-6), (mine, end))
                table = self.ok("eval", "--resume", folder)
                self.assertIn(f"accuracy {100 * mine['test_accuracy']:.2f} %, loss {mine['test_loss']:.4f}", table)
                shutil.rmtree(folder)

    def test_strategies_that_delay(self):
        """At the end of an epoch, before what is in flight arrives, the figures of that epoch."""
        folder, out = self.path("ck"), self.path("run.jsonl")
        self.ok("train", *JOB, "--workers", "2", "--strategy", "cd:k=3,warmup=4", "--method", "2bit:threshold=0.01", "--steps",
                "20", "--save", folder, "--save-every", "16", "--out", out)
        epoch = [r for r in records(out) if r["type"] == "epoch"][0]
        shutil.rmtree(newest(folder))
        self.assertEqual(epoch["step"], 16)
        mine = self.evaluate("--resume", folder)
        self.assertEqual((mine["step"], mine["test_accuracy"]), (16, epoch["test_accuracy"]))
        self.assertTrue(math.isclose(mine["test_loss"], epoch["test_loss"], rel_tol=1e-6))

    def test_every_strategy(self):
        """A checkpoint of a finished run gives the figures of the run's last test, and its parameters, whatever the
        strategy still had in flight or in an unfinished round; a longer run continues from before that."""
        all_of_them = [entry["name"] for entry in json.loads(self.ok("strategies", "--json"))["strategy"]
                       if entry["name"] != "server"]  # it has no checkpoints
        specs = {"od": "od:warmup=4", "cd": "cd:k=3,warmup=4", "dga": "dga:delay=4", "pipe": "pipe:width=3",
                 "gossip": "gossip:mean=6"}
        differed = set()
        for name in all_of_them:
            with self.subTest(strategy=name):
                folder, out = self.path("ck-" + name), self.path(name + ".jsonl")
                job = ["train", *JOB, "--workers", "2", "--strategy", specs.get(name, name), *OPTIMIZER.get(name, [])]
                done = self.ran(*job, "--steps", "21", "--save", folder, "--out", out,
                                "--save-weights", self.path("weights"))
                mine, end = self.evaluate("--resume", folder), records(out)[-1]
                self.assertEqual((mine["step"], mine["test_accuracy"]), (21, end["test_accuracy"]))
                self.assertTrue(math.isclose(mine["test_loss"], end["test_loss"], rel_tol=1e-6), (mine, end))
                self.assertEqual(*(safetensors_reader.read(path)[1] for path in (self.path("weights"), mine["weights"])))
                # The weights that eval takes are those that the run's hash is of.
                still = self.ran("train", *JOB, "--init", mine["weights"], "--optimizer", "sgd:lr=0", "--steps", "1")
                self.assertEqual(params_hash(still), params_hash(done))
                # The run goes on from before: as one that was never stopped.
                longer = self.ran(*job, "--steps", "27", "--resume", folder)
                if name in ("dga", "gossip", "pipe", "ssgd"):
                    self.assertEqual(params_hash(longer), params_hash(self.ran(*job, "--steps", "27")))
                if mine["weights"].endswith("final.safetensors"):
                    differed.add(name)
                    self.assertNotEqual(self.evaluate("--weights", model_of(folder))["test_loss"], mine["test_loss"])
        self.assertTrue({"cd", "od", "dga", "pipe", "local", "gossip"} <= differed, differed)
        self.assertNotIn("ssgd", differed)
        # A damaged file is refused by name; without its mark it does not count.
        step = newest(self.path("ck-dga"))
        path = os.path.join(step, "final.safetensors")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(b"\x55\xaa")
        self.refused(1, ["final.safetensors", "CRC-32C", "FINAL"], "eval", "--resume", self.path("ck-dga"))
        # A resumed run does not need it.
        self.ran("train", *JOB, "--workers", "2", "--strategy", specs["dga"], "--steps", "27", "--resume",
                 self.path("ck-dga"))
        os.remove(path)
        self.refused(1, ["final.safetensors", "No such file"], "eval", "--resume", self.path("ck-dga"))
        os.remove(os.path.join(step, "FINAL"))
        self.assertTrue(self.evaluate("--resume", self.path("ck-dga"))["weights"].endswith("model.safetensors"))
        os.rename(step, step[:-1] + "9")
        self.refused(1, ["/COMMIT is damaged, or was saved under the name of another step than "], "eval", "--resume", self.path("ck-dga"))

    def test_an_independent_reader(self):
        folder, _ = self.saved("--workers", "2", "--seed", "7")
        metadata, tensors = safetensors_reader.read(model_of(folder))
        self.assertEqual({name: shape for name, (shape, _) in tensors.items()}, SHAPES)
        self.assertEqual({k: metadata[k] for k in ("format", "step", "model", "data", "holdout", "batch", "strategy")},
                         {"format": "pt", "step": "40", "model": "mlp:hidden=24,hidden2=64", "data": TINY[1],
                          "holdout": "0", "batch": "16", "strategy": "ssgd"})
        for name, (_, values) in tensors.items():
            self.assertTrue(all(map(math.isfinite, values)), name)
            self.assertGreater(len(set(values)), len(values) // 2, name)

    def test_logits(self):
        folder, _ = self.saved()
        path = self.path("logits.npy")
        mine = self.evaluate("--resume", folder, "--samples", "50", "--logits", path)
        with open(path, "rb") as file:
            data = file.read()
        length = struct.unpack_from("<H", data, 8)[0]
        self.assertIn(b"'descr': '<f4', 'fortran_order': False, 'shape': (50, 10)", data[:10 + length])
        self.assertEqual(len(data), 10 + length + 4 * 50 * 10)
        logits = struct.unpack_from("<500f", data, 10 + length)
        rows = [logits[10 * i:10 * i + 10] for i in range(50)]
        right = sum(max(range(10), key=row.__getitem__) == i % 10 for i, row in enumerate(rows))  # glyph i shows i mod 10
        loss = sum(math.log(sum(math.exp(z - row[i % 10]) for z in row)) for i, row in enumerate(rows)) / 50
        self.assertEqual(mine["test_accuracy"], right / 50)
        self.assertTrue(math.isclose(mine["test_loss"], loss, rel_tol=1e-5))

    def test_other_data(self):
        folder, _ = self.saved("--holdout", "100")
        held = self.evaluate("--resume", folder)
        self.assertEqual((held["split"], held["samples"]), ("holdout", 100))
        self.assertIsNone(held["trained_on"])
        self.assertNotIn("trained on", self.ok("eval", "--resume", folder))
        # Another holdout is one of the same data, though not what they were trained on.
        fewer = self.evaluate("--resume", folder, "--holdout", "50")
        self.assertIsNone(fewer["trained_on"])
        more = self.ok("eval", "--resume", folder, "--holdout", "150")
        self.assertIn(f"\ntrained on     {TINY[1]}, which held out fewer images: some that are tested were trained on\n", more)
        foreign = self.ok("eval", "--resume", folder, "--data", "glyphs:train=500,test=99")
        self.assertIn(f"\ntrained on     {TINY[1]}, which is other data\n", foreign)
        self.assertEqual(self.evaluate("--resume", folder, "--data", "glyphs:train=500,test=99")["trained_on"], TINY[1])
        self.assertEqual((fewer["split"], fewer["samples"], fewer["data"]), ("holdout", 50, "glyphs"))
        self.assertEqual(fewer["data_hash"], json.loads(self.ok("data", "--json", TINY[1], "--holdout", "50"))["hash"])
        other = self.evaluate("--resume", folder, "--data", TINY[1])
        self.assertEqual((other["split"], other["samples"]), ("test", 128))
        # Data that are said to be the same but are not: an error, unless they are asked for.
        path = self.path("m.safetensors")
        metadata, tensors = safetensors_reader.read(model_of(folder))
        plain = {name: ("F32", shape, values.tobytes()) for name, (shape, values) in tensors.items()}
        write(path, plain, {**metadata, "data_hash": "0123456789abcdef"})
        self.refused(1, ["trained on data with hash 0123456789abcdef", "give --data"], "eval", "--weights", path)
        self.evaluate("--weights", path, "--data", TINY[1])
        write(path, plain, {**metadata, "model": "vgg99"})
        self.refused(2, [path, 'unknown model "vgg99"'], "eval", "--weights", path)
        write(path, plain, {**metadata, "data_hash": "\x1b[31mred", "step": "\x1b[31m40"})
        self.refused(1, ["data with hash ?[31mred"], "eval", "--weights", path)
        self.assertNotIn("\x1b", self.ok("eval", "--weights", path, "--data", TINY[1]))
        self.assertIsNone(self.evaluate("--weights", path, "--data", TINY[1])["step"])
        write(path, plain)
        self.refused(2, [path, "give --model SPEC"], "eval", "--weights", path)
        mine = self.evaluate("--weights", path, "--model", "mlp:hidden=24", "--data", TINY[1], "--batch", "16")
        self.assertEqual((mine["step"], mine["test_accuracy"]), (None, other["test_accuracy"]))

    def test_foreign_metadata(self):
        """What weights say of their data may be anything: nothing without an end is read."""
        folder, _ = self.saved()
        metadata, tensors = safetensors_reader.read(model_of(folder))
        path = self.path("m.safetensors")
        write(path, {name: ("F32", shape, values.tobytes()) for name, (shape, values) in tensors.items()},
              {**metadata, "data": "text:/dev/zero", "holdout": "0"})
        self.refused(1, ["/dev/zero is a device", "allowed: regular files"], "eval", "--weights", path)

    def test_long_spec(self):
        """A path that is longer than most, trained on, saved, said and read again."""
        path = self.path("./" * 900 + "poem")
        with open(path, "w", encoding="utf-8") as file:
            file.write("to be or not to be\n" * 40)
        folder = self.path("ck")
        self.ok("train", "--data", "text:" + path, "--model", "lstm:hidden=4,embed=4", "--batch", "2", "--context", "8",
                "--steps", "2", "--save", folder)
        self.assertEqual(safetensors_reader.read(model_of(folder))[0]["data"], "text:" + path)
        mine = self.evaluate("--resume", folder)
        self.assertTrue(math.isclose(mine["perplexity"], math.exp(mine["test_loss"]), rel_tol=1e-9))
        self.refused(2, ["logits with data set text", "use it with images"], "eval", "--resume", folder, "--logits",
                     self.path("l.npy"))
        self.refused(1, ["a path of", "allowed: 4095"], "train", "--data", "text:" + "/." * 2048, "--steps", "1")

    def test_init(self):
        folder, end = self.saved()
        path = model_of(folder)
        start = ["train", *JOB, "--init", path]
        # Without a step to speak of nothing changes: what comes out is what went in.
        out = self.path("init.jsonl")
        still = ["-q", "--steps", "1", "--optimizer", "sgd:lr=0", "--out", out]
        for workers in ("1", "3"):
            self.assertEqual(params_hash(self.ok(*start, *still, "--workers", workers, "--seed", workers)), end["params_hash"])
        self.assertEqual(records(out)[0]["init"], path)
        metadata, tensors = safetensors_reader.read(path)
        raw = {name: ("F32", shape, values.tobytes()) for name, (shape, values) in tensors.items()}
        other = self.path("other.safetensors")

        def refused(words, tensors, *more):
            write(other, tensors)
            for workers in ("1", "2"):
                self.refused(1, [other, *words], "train", *JOB, "--init", other, "--steps", "1", "--workers", workers, *more)
        refused(['no tensor "fc3.bias"'], {k: v for k, v in raw.items() if k != "fc3.bias"})
        refused(['unexpected tensor "more"'], {**raw, "more": ("F32", [1], b"1234")})
        refused(["fc3.bias", "has shape (5, 2), and (10,) in this model"], {**raw, "fc3.bias": ("F32", [5, 2], raw["fc3.bias"][2])})
        refused(["fc3.bias", "dtype F64: allowed: F32, F16, BF16"], {**raw, "fc3.bias": ("F64", [10], bytes(80))})
        # PyTorch's counters of batches are no weights; bf16 is widened.
        halves = b"".join(raw["fc1.weight"][2][i + 2:i + 4] for i in range(0, len(raw["fc1.weight"][2]), 4))
        write(other, {**raw, "bn.num_batches_tracked": ("I64", [], bytes(8)), "fc1.weight": ("BF16", [24, 784], halves)})
        self.ok("train", *JOB, "--init", other, "--steps", "1")

    def test_refused(self):
        folder, _ = self.saved()
        path = model_of(folder)
        for words, args in (
                (["no weights", "allowed: --resume DIR or --weights FILE"], []),
                (["--weights with --resume"], ["--weights", path, "--resume", folder]),
                (["--samples", "allowed: 1 to"], ["--weights", path, "--samples", "0"]),
                (["--samples", "allowed: 1 to"], ["--weights", path, "--samples", "-1"]),
                (["--samples 129: allowed: 1 to 128"], ["--weights", path, "--samples", "129"]),
                (["--samples 51: allowed: 1 to 50, all that there are to test"], ["--weights", path, "--holdout", "50", "--samples", "51"]),
                (["--batch 0: allowed: whole numbers from 1"], ["--weights", path, "--batch", "0"]),
                (["unrecognized option '--steps'"], ["--weights", path, "--steps", "1"]),
                (["no value"], ["--weights", ""])):
            with self.subTest(args=args):
                self.refused(2, words, "eval", *args)
        none = self.path("none")
        for text in "", "short", "PK\3\4 is an archive", "torch" * 9000:
            other = self.path("other")
            with open(other, "w", encoding="ascii") as file:
                file.write(text)
            self.refused(1, [f"{other} is not a safetensors file: "], "eval", "--weights", other, "--model", "lenet5")
            self.refused(1, [f"{other} is not a safetensors file: "], "train", *JOB, "--init", other)
        os.remove(self.path("other"))
        self.refused(1, [none], "eval", "--resume", none)
        self.refused(1, [none], "eval", "--weights", none)
        self.refused(1, ["is a directory, not a file"], "eval", "--weights", folder)
        self.refused(1, ['--model mlp:hidden=9: ', '"fc1.weight" has shape (24, 784), and (9, 784) in this model', "the weights say that they are of mlp:hidden=24"], "eval", "--weights", path, "--model", "mlp:hidden=9")
        self.refused(1, ["--logits", none], "eval", "--weights", path, "--logits", none + "/x")
        self.refused(2, ["mpirun"], "eval", "--weights", path, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
        before = sorted(os.listdir(self.folder))
        self.refused(2, ["--samples 129"], "eval", "--weights", path, "--samples", "129", "--logits", self.path("l.npy"))
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(b"\x55\xaa")
        self.refused(1, ["model.safetensors", "CRC-32C", "COMMIT"], "eval", "--resume", folder)
        self.refused(1, ["model.safetensors", "CRC-32C", "COMMIT"], "train", *JOB, "--steps", "50", "--resume", folder)
        # A file that is given by its name is compared, too.
        self.refused(1, ["model.safetensors", "CRC-32C", "COMMIT beside it says"], "eval", "--weights", path)
        self.refused(1, ["model.safetensors", "CRC-32C", "COMMIT beside it says"], "train", *JOB, "--steps", "50", "--init", path)

    def test_weights_that_are_not_finite(self):
        """A ReLU hides NaN, so it is refused by name before anything is tested."""
        folder, _ = self.saved()
        metadata, tensors = safetensors_reader.read(model_of(folder))
        path = self.path("m.safetensors")
        for name, at, value, shown in (("fc1.weight", 30, math.nan, "nan"), ("fc3.bias", 2, -math.inf, "-inf")):
            raw = {key: ("F32", shape, values.tobytes()) for key, (shape, values) in tensors.items()}
            data = bytearray(raw[name][2])
            struct.pack_into("<f", data, 4 * at, value)
            write(path, {**raw, name: (*raw[name][:2], bytes(data))}, metadata)
            words = [f'tensor "{name}": element {at} ', f" is {shown}: allowed: finite numbers"]
            self.refused(1, [f"weights {path}: ", *words], "eval", "--weights", path)
            self.refused(1, words, "train", *JOB, "--steps", "1", "--init", path)

    def test_diverged(self):
        """Weights that are finite, with outputs that are not: no accuracy, and a failure, as in training."""
        folder, out = self.path("ck"), self.path("run.jsonl")
        done = run("train", *JOB, "--lr", "1e9", "--steps", "20", "--save", folder, "--out", out)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\ntest           accuracy -, loss not finite\n", done.stdout)
        end = records(out)[-1]
        self.assertEqual((end["test_accuracy"], end["test_loss"]), (None, None))
        done = run("eval", "--resume", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("\ntest           accuracy -, loss not finite\n", done.stdout)
        self.assertIn("the test loss is not finite", done.stderr)
        done = run("eval", "--resume", folder, "--json")
        self.assertEqual(done.returncode, 1)
        mine = json.loads(done.stdout)
        self.assertEqual((mine["test_accuracy"], mine["test_loss"]), (None, None))

    def test_older_format(self):
        folder, _ = self.saved()
        commit = os.path.join(newest(folder), "COMMIT")
        with open(commit, "w", encoding="ascii") as file:
            file.write("step 40\n")
        for command in (["eval"], ["train", *JOB, "--steps", "50"]):
            self.refused(1, ["format 1", "allowed: format 2"], *command, "--resume", folder)


if __name__ == "__main__":
    unittest.main()
