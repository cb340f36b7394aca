"""bench codec: rows as a table and as JSON, levels, gradients from files, errors; train --dump-gradients."""
import json
import os
import signal
import stat
import struct
import time
import unittest
from cli_tool import CliTest, TINY, over, run, start

METHODS = ["dense", "fp16", "bf16", "int8", "qsgd", "terngrad", "2bit", "1bit", "signsgd", "signum", "efsign", "topk",
           "randomk", "strom", "adacomp", "dgc", "csc", "fetchsgd", "atomo", "powersgd", "blocktopk", "dct"]
QUICK = ["--elements", "2000", "--seconds", "0.001"]
FIGURES = {"ns", "ns_per_element", "per_axpy", "per_memcpy", "byte_limit", "over_limit", "gb_per_s", "bits",
           "relative_error", "target"}
REFUSED = [
    (["--elements", "12x"], ['--elements "12x"', "allowed: whole numbers from 1000"]),
    (["--elements", "1000,999"], ['--elements "1000,999"', "allowed: "]),
    (["--elements", "1000,"], ['--elements "1000,"', "allowed: "]),
    (["--level", "mmx"], ['--level "mmx"', "allowed on this CPU: ref"]),
    (["--threads", "0"], ['--threads "0"', "allowed: 1 to 256"]),
    (["--threads", "1.5"], ['--threads "1.5"', "allowed: 1 to 256"]),
    (["--seconds", "no"], ['--seconds "no"', "allowed: 0.001 to 3600"]),
    (["--compare", "horovod"], ['--compare "horovod"', "allowed: torch"]),
    (["--python", "python3"], ["--python requires --compare"]),
    ([*QUICK, "--filter", "magic"], ['--filter "magic"', "no row matches"]),
]


def read_npy(path):
    """Without NumPy: the floats of a file of version 1.0."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    end = 10 + struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:end].decode())  # pylint: disable=eval-used
    assert head["descr"] == "<f4" and not head["fortran_order"] and end % 64 == 0
    values = struct.unpack(f"<{head['shape'][0]}f", data[end:])
    return values


class Bench(CliTest):
    def json_rows(self, *args, status=0):
        done = run("bench", "codec", "--json", *over(*args))
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_usage(self):
        self.refused(2, ["bench: no subcommand: ", "allowed: telegrad bench codec"], "bench")
        self.refused(2, ["bench network", "allowed: telegrad bench codec"], "bench", "network")
        for args, words in REFUSED:
            with self.subTest(args=args):
                self.refused(2, words, "bench", "codec", *args)

    def test_table(self):
        text = self.ok("bench", "codec", *QUICK, "--filter", "fp16 encode")
        lines = text.splitlines()
        self.assertIn("n = 2,000", lines[0])
        self.assertIn("/axpy", lines[1])
        self.assertTrue(lines[3].startswith("fp16 encode"))

    def test_every_method_has_its_rows(self):
        methods = [m["name"] for m in json.loads(self.ok("methods", "--json"))["method"]]
        rows = {r["name"]: r for r in self.json_rows(*QUICK, "--filter", "method")}
        self.assertEqual(sorted(rows), sorted([f"{m} {what}" for m in methods for what in ("encode", "decode + add")]))
        for row in rows.values():
            self.assertIsNone(row["error"], row)
            self.assertLessEqual(FIGURES, set(row))
            self.assertGreater(row["per_axpy"]["median"], 0)

    def test_nothing_is_missing(self):
        """The methods that the table of targets speaks of, and all others that the library is to have."""
        methods = [m["name"] for m in json.loads(self.ok("methods", "--json"))["method"]]
        self.assertEqual([m for m in METHODS if m not in methods], [])
        rows = self.json_rows(*QUICK, "--filter", "target")
        self.assertEqual([r["name"] for r in rows if r["missing"] or r["error"]], [])

    def test_levels(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            levels = ["ref"] + (["avx2"] if " avx2 " in file.read() else [])
        rows = self.json_rows(*QUICK, "--filter", "fp16 encode", "--level", ",".join(levels))
        self.assertEqual([r["level"] for r in rows], levels)

    def test_threads_and_sizes(self):
        rows = self.json_rows("--elements", "1000,200000", "--seconds", "0.001", "--threads", "2", "--filter", "2bit encode")
        self.assertEqual([(r["n"], r["threads"]) for r in rows], [(1000, 2), (200000, 2)])

    def test_gradients(self):
        self.ok("train", *TINY, "--model", "mlp:hidden=16", "--steps", "5", "--no-eval", "--workers", "2",
                "--dump-gradients", self.path("g"), "--dump-every", "2")
        names = sorted(os.listdir(self.path("g")))
        self.assertEqual(names, [f"gradient-0000000{i}.npy" for i in (1, 3, 5)] + ["tensors.json"])
        with open(self.path("g/tensors.json"), encoding="utf-8") as file:
            about = json.load(file)
        values = read_npy(self.path("g/" + names[0]))
        self.assertEqual(len(values), about["n"])
        self.assertGreater(sum(v != 0 for v in values), 1000)
        at = 0
        for tensor in about["tensors"]:
            size = 1
            for length in tensor["shape"]:
                size *= length
            self.assertEqual((tensor["offset"], tensor["n"]), (at, size))
            at += size
        self.assertEqual(at, about["n"])
        for n in ("1000", "40000"):  # shorter and longer than the file
            rows = self.json_rows("--elements", n, "--seconds", "0.001", "--filter", "topk encode", "--gradients",
                                  self.path("g/" + names[0]))
            self.assertIsNone(rows[0]["error"])

    def test_each_epoch_is_dumped(self):
        self.ok("train", *TINY, "--model", "mlp:hidden=16", "--epochs", "2", "--no-eval", "--dump-gradients",
                self.path("g"))
        self.assertEqual(sorted(os.listdir(self.path("g"))),
                         ["gradient-00000001.npy", "gradient-00000033.npy", "tensors.json"])

    def test_two_models_in_one_folder(self):
        job = ["train", *TINY, "--steps", "1", "--no-eval", "--dump-gradients", self.path("g"), "--model"]
        self.ok(*job, "mlp:hidden=16")
        with open(self.path("g/gradient-00000001.npy"), "rb") as file:
            before = file.read()
        names = sorted(os.listdir(self.path("g")))
        self.refused(1, ["--dump-gradients", "it holds gradients of an earlier run: choose another folder, or delete them"],
                     *job, "mlp:hidden=16", "--seed", "2")
        save = ["train", *TINY, "--no-eval", "--model", "mlp:hidden=24", "--save", self.path("ck"), "--steps"]
        self.ok(*save, "1")
        other = run(*save, "2", "--resume", self.path("ck"), "--dump-gradients", self.path("g"), "--dump-every", "1")
        self.assertEqual(other.returncode, 1)
        self.assertIn("it holds the gradients of another model: choose another folder", other.stderr)
        with open(self.path("g/gradient-00000001.npy"), "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(sorted(os.listdir(self.path("g"))), names)
        os.remove(self.path("g/gradient-00000001.npy"))  # as the error advises
        self.assertNotIn("earlier run", run(*job, "mlp:hidden=24").stderr)
        self.assertEqual(sorted(os.listdir(self.path("g"))), names)

    def test_dumps_of_a_resumed_run(self):
        """It continues in the same folder."""
        job = ["train", *TINY, "--no-eval", "--model", "mlp:hidden=16", "--dump-gradients", self.path("g"), "--dump-every", "1", "--save",
               self.path("ck")]
        self.ok(*job, "--steps", "2")
        done = run(*job, "--steps", "3", "--resume", self.path("ck"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(os.listdir(self.path("g"))), 4)

    def test_two_runs_dump_at_once(self):
        job = ["train", *TINY, "--no-eval", "--model", "mlp:hidden=16", "--dump-gradients", self.path("g"), "--steps"]
        first = start(*job, "10000000")
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        end = time.monotonic() + 60
        while not os.path.exists(self.path("g/tensors.json.telegrad-lock")) and time.monotonic() < end:
            time.sleep(0.05)
        self.refused(1, ["--dump-gradients", "another run is writing it"], *job, "1")
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(30), 130)
        self.assertFalse(os.path.exists(self.path("g/tensors.json.telegrad-lock")))

    def test_dumping_changes_nothing(self):
        job = ["train", *TINY, "--model", "mlp:hidden=16", "--steps", "4", "--no-eval", "--workers", "2", "--method",
               "topk:density=0.01"]
        hashes = {self.ok(*job, *more).split("params hash")[1]
                  for more in ([], ["--dump-gradients", self.path("g"), "--dump-every", "1"], ["--codec-threads", "2"])}
        self.assertEqual(len(hashes), 1)

    def test_dump_errors(self):
        job = ["train", *TINY, "--steps", "1", "--no-eval"]
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.refused(1, ["--dump-gradients", "is not a directory"], *job, "--dump-gradients", self.path("file"))
        self.refused(1, ["--dump-gradients", "cannot make it"], *job, "--dump-gradients", self.path("no/where"))
        self.refused(2, ["--dump-every 5 requires --dump-gradients"], *job, "--dump-every", "5")
        self.refused(2, ["--codec-threads 0: allowed: whole numbers from 1 to 256"], *job, "--codec-threads", "0")

    def test_gradient_errors(self):
        with open(self.path("g.npy"), "wb") as file:
            file.write(b"no such thing")
        self.refused(1, ["g.npy is no .npy file"], "bench", "codec", *QUICK, "--gradients", self.path("g.npy"))
        self.refused(1, ["cannot open", "none.npy"], "bench", "codec", *QUICK, "--gradients", self.path("none.npy"))

    def test_torch_errors(self):
        job = ["bench", "codec", *QUICK, "--compare", "torch", "--python"]
        self.refused(1, ["cannot run", "none/python", "python3-torch", "--python"], *job, self.path("none/python"))
        for said in ("", "echo missing No module", "echo No interpreter"):
            with open(self.path("python"), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{said}\n")
            os.chmod(self.path("python"), stat.S_IRWXU)
            self.refused(1, ["has no PyTorch", said.split("No")[-1], "python3-torch"], *job, self.path("python"))

    def test_torch_dialogue(self):
        """The other side played by a script: what it says is what is printed."""
        with open(self.path("python"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n[ -s "$3" ] || exit 1\necho ready 1\nwhile read -r line; do echo 7.5 0.5; done\n')
        os.chmod(self.path("python"), stat.S_IRWXU)
        rows = self.json_rows(*QUICK, "--compare", "torch", "--python", self.path("python"), "--filter", "fp16")
        self.assertEqual([(r["name"], r["torch_ms"], r["torch_copy_ms"]) for r in rows], [("fp16", 7.5, 0.5)])
        self.assertAlmostEqual(rows[0]["factor"], 7.5 / rows[0]["ms"], places=3)


if __name__ == "__main__":
    unittest.main()
