"""The programs of examples/pytorch: each on two ranks, resumed by two with the same bits, by three, and by one that no launcher has
started; and on two machines. Status 77: no PyTorch here."""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import served
import torch_jobs

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch"
TINY = ["--width", "4", "--images", "48", "--batch", "8"]


def content(path):
    """What a file of torch.save holds, for comparison bit by bit."""
    import torch

    def flat(value):
        if isinstance(value, torch.Tensor):
            return value.dtype, value.shape, value.contiguous().numpy().tobytes()
        if isinstance(value, dict):
            return [(key, flat(v)) for key, v in value.items() if key != "bytes_sent"]  # who resumes shakes hands once more
        return [flat(v) for v in value] if isinstance(value, (list, tuple)) else value
    return flat(torch.load(path))


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="telegrad-examples-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_example(self, name, size, *arguments, launcher="torchrun"):
        """What rank 0 has printed; the others print nothing."""
        ended = jobs.run(EXAMPLES / name, size, *map(str, arguments), launcher=launcher)
        for status, output, errors in ended:
            errors = [line for line in errors.splitlines() if not line.startswith("resumed from ")]  # with another number of ranks
            self.assertEqual((status, errors), (0, []), output)
        self.assertEqual([output for _, output, _ in ended[1:]], [""] * (size - 1))
        return ended[0][1]

    def refused(self, name, status, words, *arguments):
        [(found, output, errors)] = jobs.run(EXAMPLES / name, 1, *map(str, arguments), launcher="none")
        self.assertEqual((found, output.count("\n") < 2), (status, True), output + errors)
        self.assertRegex(errors, words)

    def day(self, name, arguments, first, second, third, of, result):
        """first, second, third: how to stop at each of three checkpoints, as `of` their folders; result: the file that all ranks' work
        is in."""
        save = [*arguments, "--save", self.folder]
        bits = lambda n: content(self.folder / f"{of}-{n}" / result)  # noqa: E731
        whole = self.run_example(name, 2, *save, *second)
        for line in whole.splitlines()[-2:]:
            self.assertRegex(line, rf"^{of} \d+: loss \d\.\d+, .*\d+ ms a step, \d+ bytes sent a step")
        self.assertTrue((self.folder / f"{of}-{first}").is_dir())
        want = bits(second[1])
        for size, launcher in ((2, "torchrun"), (3, "torchrun")):
            shutil.rmtree(self.folder / f"{of}-{second[1]}")
            again = self.run_example(name, size, *save, *second, "--resume", launcher=launcher)
            self.assertEqual(len(re.findall(rf"(?m)^{of} ", again)), 1, again)
            if size == 2:
                self.assertEqual(bits(second[1]), want)
                self.assertEqual(self.figures(again), self.figures(whole))
        alone = self.run_example(name, 1, *save, *third, "--resume", launcher="none")
        self.assertRegex(alone, rf"(?m)^{of} {third[1]}: loss \d\.\d+")
        self.refused(name, 2, "--resume: allowed: with --save FOLDER", "--resume")
        self.refused(name, 1, "nowhere has no checkpoint", *arguments, "--save", self.folder / "nowhere", "--resume")

    def figures(self, output):
        """The last loss."""
        return re.findall(r"loss (\S+),", output)[-1]

    def test_ddp_resnet(self):
        self.day("ddp_resnet.py", TINY, 1, ("--epochs", 2), ("--epochs", 3), "epoch", "model.pt")

    def test_ddp_resnet_methods_with_momentum(self):
        """They apply it in the optimizer's place."""
        for method in ("fetchsgd", "csc:momentum=0.5"):
            self.run_example("ddp_resnet.py", 1, *TINY, "--epochs", 1, "--method", method, launcher="none")

    def test_gpt_diloco(self):
        self.day("gpt_diloco.py", ["--report", "3", "--strategy", "streaming:every=2", "--method", "int8"], 3, ("--steps", 6),
                 ("--steps", 8), "step", "rank-1.pt")

    def test_lora(self):
        self.day("lora.py", ["--report", "2", "--base-steps", "2", "--method", "topk:density=0.01"], 2, ("--steps", 4), ("--steps", 6),
                 "step", "adapters.pt")

    def test_lora_trains_adapters_only(self):
        """They alone have an optimizer's memory, and a memory of what was not sent."""
        import torch
        self.run_example("lora.py", 2, "--base-steps", "2", "--steps", "2", "--method", "topk:density=0.01", "--save", self.folder)
        base = torch.load(self.folder / "base.pt")
        size = sum(v.numel() for v in base.values())
        saved = torch.load(self.folder / "step-2" / "adapters.pt")
        adapters = saved["adapters"]
        self.assertEqual(len(saved["optimizer"]["state"]), len(adapters))
        self.assertTrue(all(name.endswith((".up", ".down")) for name in adapters))
        self.assertLess(sum(v.numel() for v in adapters.values()), size / 5)
        memory = torch.load(self.folder / "step-2" / "telegrad-1.pt")["memory"]
        self.assertEqual(set(memory), set(adapters))

    def test_own_data(self):
        """Texts, and CIFAR-10 in both forms."""
        import pickle
        import torch
        text = self.folder / "text"
        text.write_text("To be, or not to be, that is the question.\n" * 200, encoding="utf-8")
        for name, more in (("gpt_diloco.py", ["--report", "9"]), ("lora.py", ["--base-steps", "1"])):
            self.assertIn("step 2: loss", self.run_example(name, 1, text, "--steps", "2", *more, launcher="none"))
            text.with_name("short").write_text("x" * 99)
            self.refused(name, 1, "short: 99 (characters|bytes): allowed: at least", text.with_name("short"))
        rows = torch.randint(256, (20, 3073), dtype=torch.uint8)
        rows[:, 0] %= 10
        found = []
        for form in ("bin", "py"):
            folder = self.folder / form
            folder.mkdir()
            for i, file in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
                part = rows.roll(i, 0)
                data = (part.numpy().tobytes() if form == "bin" else
                        pickle.dumps({b"data": part[:, 1:].numpy(), b"labels": part[:, 0].tolist()}))
                (folder / (file + (".bin" if form == "bin" else ""))).write_bytes(data)
            output = self.run_example("ddp_resnet.py", 1, folder, *TINY, "--epochs", "1", launcher="none")
            self.assertNotIn("synthetic", output)
            found.append(self.figures(output))
        self.assertEqual(*found)
        self.refused("ddp_resnet.py", 1, "allowed: a folder with data_batch_1 to 5", self.folder)

    @unittest.skipUnless(served.AVAILABLE, served.WHY)
    def test_server(self):
        """Two workers, and one that comes later and saves what they have trained."""
        import torch
        with served.Server("--workers", "2", "--mode", "async:staleness=8") as server:
            ended = jobs.run(EXAMPLES / "server.py", 2, server.address, "--steps", "150", launcher="none")
            late = jobs.run(EXAMPLES / "server.py", 1, server.address, "--steps", "1", "--save", str(self.folder / "model.pt"), launcher="none")
        for status, output, errors in [*ended, *late]:
            self.assertEqual((status, errors), (0, ""), output)
        lines = sorted(output for _, output, _ in ended)
        for seat, line in [*enumerate(lines), (0, late[0][1])]:
            found = re.fullmatch(rf"worker {seat} of at most 2: (\S+) % right, \d+ bytes sent a step, ratio \d+\.\d\n", line)
            self.assertTrue(found and float(found[1]) > 80, line)
        self.assertEqual(sum(v.numel() for v in torch.load(self.folder / "model.pt").values()), 256 * 512 + 512 + 5120 + 10)

    def test_help(self):
        for path in EXAMPLES.glob("*.py"):
            if path.name != "server.py":
                [(status, output, errors)] = jobs.run(path, 1, "--help", launcher="none")
                self.assertEqual((status, errors), (0, ""))
                self.assertIn(f"torchrun --nproc-per-node 4 {path.name}", output)


if __name__ == "__main__":
    torch_jobs.main(sys.modules[__name__])
