"""System calls that fail while files are written: an error that names the file and the reason, status 1, nothing half
written under a name, and what was there before is as it was. The calls are failed by tests/failing_io.c, preloaded."""
import errno
import os
import subprocess
import unittest
import net_tool
from cli_tool import CliTest, TELEGRAD, TINY, records, run
from same_hash_test import params_hash

SHIM = os.environ["FAILING_IO_SHIM"]
JOB = ["train", "--model", "mlp:hidden=16", *TINY, "--workers", "2", "--no-eval", "--method", "topk:density=0.1"]
REASONS = {errno.EIO: "Input/output error", errno.ENOSPC: "No space left on device", errno.EDQUOT: "Disk quota exceeded"}
FOLDER = "step-000000000004"


class FailingIo(CliTest):
    def fails(self, call, error, part, *args, words=()):
        done = run(*args, LD_PRELOAD=SHIM, FAILING_IO=f"{call}:{error}:{part}")
        self.assertEqual(done.returncode, 1, (call, part, done.stderr))
        for word in (REASONS[error], *words):
            self.assertIn(word, done.stderr, (call, part))
        return done.stderr

    def checkpoint_survives(self, call, error, part, whole):
        folder = self.path(f"{call}-{part.replace('/', '-')}")
        self.ok(*JOB, "--steps", "2", "--save", folder)
        self.fails(call, error, part, *JOB, "--steps", "6", "--save-every", "2", "--save", folder, "--resume", folder)
        self.assertFalse([n for n in os.listdir(folder) if n.endswith(".tmp") and not os.listdir(os.path.join(folder, n))])
        newest = max(n for n in os.listdir(folder) if not n.endswith((".tmp", ".old")))
        self.assertIn(newest, ("step-000000000002", FOLDER))
        self.assertTrue(os.path.exists(os.path.join(folder, newest, "COMMIT")))
        self.assertIn("accuracy", self.ok("eval", "--resume", folder))
        self.assertEqual(params_hash(self.ok(*JOB, "--steps", "6", "--resume", folder)), whole, (call, part))

    def test_files_that_may_not_grow(self):
        """A limit on the size of files (ulimit -f) is an error like any other."""
        limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", TELEGRAD, *JOB[:1], "--model", "mlp:hidden=64", *JOB[3:], "--steps", "3"]
        for option in ("--save", "--save-weights"):
            done = subprocess.run([*limited, option, self.path("out")], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 1, (option, done.stderr))
            self.assertIn("File too large", done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))

    def test_checkpoints(self):
        whole = params_hash(self.ok(*JOB, "--steps", "6"))
        for name in ("rank-0000.tg", "rank-0001.tg", "model.safetensors", "COMMIT"):
            for call, error in (("write", errno.ENOSPC), ("fsync", errno.EIO), ("close", errno.EDQUOT), ("rename", errno.EIO)):
                with self.subTest(call=call, name=name):
                    self.checkpoint_survives(call, error, f"{FOLDER}.tmp/{name}", whole)
        with self.subTest(call="rename", name="folder"):
            self.checkpoint_survives("rename", errno.EIO, f"/{FOLDER}", whole)
        with self.subTest(call="mkdir", name="folder"):
            self.checkpoint_survives("mkdir", errno.ENOSPC, f"/{FOLDER}.tmp", whole)

    def test_results_of_a_run_that_cannot_be_saved(self):
        """A disk that is full at the end takes the checkpoint, not the result: it is printed and recorded, with status 1."""
        out, weights, folder = self.path("run.jsonl"), self.path("w.safetensors"), self.path("ck")
        whole = params_hash(self.ok(*JOB, "--steps", "4"))
        for part, option in (("rank-0000.tg", ["--save", folder]), ("w.safetensors", ["--save-weights", weights])):
            with self.subTest(part=part):
                done = run(*JOB, "--steps", "4", "--out", out, *option, LD_PRELOAD=SHIM, FAILING_IO=f"write:{errno.ENOSPC}:{part}")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, f"warning: not saved: .*{part}.*No space left on device")
                self.assertEqual(params_hash(done.stdout), whole)
                self.assertNotRegex(done.stdout, "(?m)^(saved|weights) ")
                end = records(out)[-1]
                self.assertEqual((end["type"], end["saved"], end["diverged"]), ("end", None, False))
                self.assertEqual([r["what"] for r in end["remarks"]], ["not_saved"])
                os.remove(out)

    def test_records_that_cannot_be_written_stop_the_run(self):
        """After the step, as an interrupt does: it saves, prints the result, and says why, with status 1."""
        out, folder = self.path("run.jsonl"), self.path("ck")
        whole = params_hash(self.ok(*JOB, "--steps", "40"))
        done = run(*JOB, "--steps", "40", "--log-every", "1", "--save", folder, "--out", out, LD_PRELOAD=SHIM,
                   FAILING_IO=f"write:{errno.ENOSPC}:run.jsonl", FAILING_IO_AFTER="5")
        stopped, why = done.stderr.splitlines()
        self.assertEqual((done.returncode, why), (1, f"telegrad: {out}: cannot be written: No space left on device"))
        self.assertRegex(stopped, "stopped because a file could not be written, after step 6 of 40; saved: .*; to continue: --resume ")
        self.assertRegex(done.stdout, "(?m)^steps +6 of 40, interrupted$")
        self.assertEqual(params_hash(self.ok(*JOB, "--steps", "40", "--resume", folder)), whole)
        self.assertEqual([r["type"] for r in records(out)], ["start"] + 4 * ["step"])

    def test_the_last_record(self):
        out = self.path("run.jsonl")
        done = run(*JOB, "--steps", "4", "--log-every", "100", "--out", out, LD_PRELOAD=SHIM,
                   FAILING_IO=f"write:{errno.ENOSPC}:run.jsonl", FAILING_IO_AFTER="3")
        self.assertEqual((done.returncode, done.stderr), (1, f"telegrad: {out}: cannot be written: No space left on device\n"))
        self.assertEqual(params_hash(done.stdout), params_hash(self.ok(*JOB, "--steps", "4")))

    def test_files_that_are_replaced(self):
        """Traces and gradients: the old one stays, or none is there."""
        path = self.path("trace.json")
        whole = params_hash(self.ok(*JOB, "--steps", "2"))
        old = '{"displayTimeUnit": "ms", "traceEvents": []}\n'  # --trace replaces no other files
        for call, error in (("write", errno.ENOSPC), ("fsync", errno.EIO), ("close", errno.EDQUOT), ("rename", errno.EIO)):
            with self.subTest(call=call):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(old)
                done = run(*JOB, "--steps", "2", "--trace", path, LD_PRELOAD=SHIM, FAILING_IO=f"{call}:{error}:trace.json")
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertRegex(done.stderr, f"^telegrad: --trace: .*trace.json.*{REASONS[error]}")
                self.assertEqual(params_hash(done.stdout), whole)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), old)
                self.assertEqual(os.listdir(self.folder), ["trace.json"])

    def test_gradients(self):
        for call, error in (("write", errno.ENOSPC), ("fsync", errno.EIO), ("close", errno.EDQUOT), ("rename", errno.EIO)):
            with self.subTest(call=call):
                folder = self.path(call)
                self.fails(call, error, "gradient-0", *JOB, "--steps", "2", "--dump-gradients", folder, words=["gradient-0"])
                self.assertEqual(os.listdir(folder), ["tensors.json"])

    def test_folders_that_cannot_be_listed(self):
        """A part of a list is not taken for all of it: an older checkpoint would be resumed, a journal begun anew."""
        folder, journal = self.path("saved"), self.path("journal")
        self.ok(*JOB, "--steps", "2", "--save", folder)
        self.fails("readdir", errno.EIO, "/saved", *JOB, "--steps", "4", "--resume", folder, words=[folder])
        self.fails("readdir", errno.EIO, "/journal", "serve", "--listen", f"tcp://127.0.0.1:{net_tool.free_port()}", "--insecure",
                   "--journal", journal, words=[journal])
        self.fails("readdir", errno.EIO, "/gradients", *JOB, "--steps", "2", "--dump-gradients", self.path("gradients"))

    def test_records(self):
        path = self.path("runs.jsonl")
        for call, error in (("write", errno.ENOSPC), ("close", errno.EDQUOT)):
            with self.subTest(call=call):
                self.fails(call, error, "runs.jsonl", *JOB, "--steps", "2", "--out", path, words=["runs.jsonl"])


if __name__ == "__main__":
    unittest.main()
