"""data: the list of sets and what is in them; train on shards, on packed files, on damaged ones."""
import gzip
import json
import os
import struct
import unittest
from cli_tool import CliTest, TINY, records, run

GLYPHS = "glyphs:train=1000,test=100"


def idx(kind, values):
    dims = (len(values), 28, 28) if kind == 3 else (len(values),)
    head = struct.pack(">I" + "I" * len(dims), 0x800 + kind, *dims)
    return head + (b"".join(values) if kind == 3 else bytes(values))


class Data(CliTest):
    def show(self, *args):
        return json.loads(self.ok("data", "--json", *args))

    def write_mnist(self, pack=lambda b: b, end=""):
        for stem, count in (("train", 40), ("t10k", 20)):
            for kind, name, values in ((3, "images-idx3", [bytes([i]) * 784 for i in range(count)]),
                                       (1, "labels-idx1", [i % 10 for i in range(count)])):
                with open(self.path(f"{stem}-{name}-ubyte{end}"), "wb") as file:
                    file.write(pack(idx(kind, values)))

    def test_list(self):
        rows = {line.split()[0]: line for line in self.ok("data").splitlines()[2:]}
        self.assertEqual({row["name"] for row in self.show()}, set(rows))
        self.assertIn("generated", rows["glyphs"])
        self.assertIn("not found", rows["mnist"])
        self.assertIn("words:dir=PATH", rows["words"])
        self.write_mnist()
        os.mkdir(self.path("mnist"))
        for name in os.listdir(self.folder):
            if name.endswith("ubyte"):
                os.rename(self.path(name), self.path("mnist/" + name))
        found = {row["name"]: row["found"] for row in json.loads(self.ok("data", "--json", TELEGRAD_DATA=self.folder))}
        self.assertEqual(found["mnist"], self.path("mnist"))
        self.assertIsNone(found["fashion-mnist"])

    def test_show(self):
        glyphs = self.show(GLYPHS)
        self.assertEqual((glyphs["train"], glyphs["test"], glyphs["classes"]), (1000, 100, 10))
        self.assertEqual(glyphs["shards"], [[100] * 10])
        self.assertIn(glyphs["hash"], self.ok("data", GLYPHS))
        self.assertEqual(self.show(GLYPHS, "--holdout", "300")["train"], 700)
        with open(self.path("t"), "w", encoding="utf-8") as file:
            file.write("to be or not to be: " * 20)
        text = self.show("text:" + self.path("t"))
        self.assertEqual((text["unit"], text["train"], text["test"], text["classes"]), ("characters", 360, 40, 8))
        self.assertIn("8 different characters", self.ok("data", "text:" + self.path("t")))

    def test_shards(self):
        for shard in ("dirichlet:alpha=0.2", "label:classes=2"):
            shown = self.show(GLYPHS, "--shard", shard, "--workers", "3", "--seed", "7")["shards"]
            self.assertEqual([sum(row[c] for row in shown) for c in range(10)], [100] * 10)
            out = self.path("run.jsonl")
            text = self.ok("train", "--data", GLYPHS, "--model", "mlp", "--workers", "3", "--seed", "7", "--steps", "2",
                           "--shard", shard, "--out", out)
            self.assertIn("shard          " + shard, text)
            start = records(out)[0]
            self.assertEqual((start["shards"], start["shard"]), (shown, shard))
        self.assertIsNone(self.start_of("--steps", "1")["shards"])

    def start_of(self, *args):
        out = self.path("start.jsonl")
        self.ok("train", *TINY, *args, "--out", out)
        return records(out)[0]

    def test_packed(self):
        self.write_mnist()
        plain = self.show("mnist:" + self.folder)
        for name in os.listdir(self.folder):
            os.remove(self.path(name))
        self.write_mnist(gzip.compress, ".gz")
        self.assertEqual(self.show("mnist:" + self.folder), plain)
        path = self.path("train-images-idx3-ubyte.gz")
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 9)
        self.refused(1, [path, "truncated"], "data", "mnist:" + self.folder)
        self.refused(1, [path, "truncated"], "train", "--data", "mnist:" + self.folder, "--steps", "1")

    def test_plan_without_images(self):
        plan = json.loads(self.ok("train", "--data", "cifar10:/nowhere", "--model", "mlp", "--dry-run", "--json"))
        self.assertEqual(plan["tensors"][0]["shape"], [128, 32 * 32 * 3])

    def test_sharded_texts(self):
        """What train accepts is shown."""
        with open(self.path("t"), "w", encoding="utf-8") as file:
            file.write("to be or not to be: " * 20)
        spec = "text:" + self.path("t")
        for shard in "iid", "contiguous":
            self.assertEqual(self.show(spec, "--shard", shard), self.show(spec))
            for model in "lstm:hidden=4,embed=4", "gpt:layers=1,heads=1,embed=4":
                out = self.path("out")
                self.ok("train", "--data", spec, "--model", model, "--batch", "2", "--context", "5", "--steps", "1", "--workers", "2",
                        "--shard", shard, "--out", out)
                start = records(out)[0]
                self.assertEqual((start["shard"], start["shards"]), (shard, None))

    def test_warning(self):
        """Batches cut between two images are named, by a path that does not command the terminal."""
        folder = self.path("\x1b[31m")
        os.mkdir(folder)
        for name in ("data_batch_1.bin", "test_batch.bin"):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(bytes(2 * 3073))
        done = run("data", f"cifar10:{folder},train=1")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 2), done.stderr)
        self.assertIn("telegrad: warning: " + folder.replace("\x1b", "?") + "/data_batch_1.bin: 2 records", done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_refused(self):
        self.refused(2, ['unknown data set "pets"', "allowed: mnist"], "data", "pets")
        self.refused(2, ['unknown shard "zipf"', "allowed: iid, dirichlet, label, contiguous"], "data", GLYPHS, "--shard", "zipf")
        self.refused(2, ["--workers \"0\": allowed: 1 to 4096"], "data", GLYPHS, "--workers", "0")
        self.refused(2, ["1000 samples", "at least one"], "data", GLYPHS, "--shard", "label:classes=10", "--workers", "101")
        for model in "gpt", "lstm:hidden=4":
            self.refused(2, [f"model {model} reads texts, the data are images", "allowed: --data text, shakespeare, words, "
                             "wikitext-2"], "train", *TINY, "--model", model)
        self.refused(2, ["--context 5: allowed with texts only"], "train", *TINY, "--context", "5")
        with open(self.path("t"), "w", encoding="utf-8") as file:
            file.write("to be or not to be: " * 20)
        self.refused(2, ["model lenet5 reads images, the data are a text", "allowed: --data mnist, fashion-mnist, glyphs, cifar10"],
                     "train", "--data", "text:" + self.path("t"))
        self.refused(2, ["--shard label", "which has no classes: allowed: iid, contiguous"], "data", "text:" + self.path("t"), "--shard", "label")


if __name__ == "__main__":
    unittest.main()
