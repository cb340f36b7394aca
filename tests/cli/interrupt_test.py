"""Commands that are interrupted or killed: what they say, save and leave behind."""
import os
import pathlib
import re
import signal
import time
import unittest
from cli_tool import CliTest, TINY, last_run, records, start


class Interrupt(CliTest):
    def interrupted(self, *signals, extra=()):
        out = self.path("run.jsonl")
        process = start("train", *TINY, "--steps", "1000000", "--log-every", "1", "--workers", "2", "--out", out,
                        *extra)
        self.wait_for_steps(process, out)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.2)
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr, out

    def test_interrupt(self):
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            code, stdout, stderr, out = self.interrupted(number)
            end = records(out)[-1]
            self.assertEqual((code, stderr), (status, f"telegrad: interrupted by {number.name} after step {end['steps']} of 1000000; "
                                                      "not saved: no --save\n"))
            self.assertEqual((end["type"], end["interrupted"]), ("end", True))
            self.assertTrue(0 < end["steps"] < 1000000)
            self.assertTrue(re.search(r"steps +%d of 1000000, interrupted" % end["steps"], stdout))
            self.assertEqual(os.listdir(self.folder), ["run.jsonl"])
            os.remove(out)

    def test_hangup(self):
        """That of a closed terminal is one interrupt, however often it is sent; under nohup it is none."""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        code, stdout, stderr, out = self.interrupted(signal.SIGHUP, signal.SIGTERM)
        self.assertEqual(code, 143)
        self.assertIn("interrupted by SIGTERM after step", stderr)
        os.remove(out)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        process = start("train", *TINY, "--steps", "1000000", "--workers", "2", "--link", "1600kbit", "--model", "mlp", "--out", out,
                        "--save", self.path("saved"))
        end = time.monotonic() + 60
        while not (os.path.exists(out) and os.path.getsize(out)):
            self.assertTrue(process.poll() is None and time.monotonic() < end)
            time.sleep(0.02)
        for _ in range(3):  # a step takes more than 2 s
            process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
        self.assertIn("interrupted by SIGHUP", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 129)

    def test_late_rank(self):
        """A rank that leaves out steps because it is late ends its last epoch when the others do: after the weights are saved."""
        out, weights = self.path("run.jsonl"), self.path("weights.safetensors")
        for i in range(6):
            process = start("train", "--model", "mlp:hidden=32", "--data", "glyphs:train=512,test=128", "--no-eval", "--workers", "4",
                            "--servers", "1", "--strategy", "server", "--server-deadline", "9ms", "--method", "topk:density=0.1", "--steps",
                            "1000000", "--link-of", "2=100mbit,20ms", "--log-every", "1", "--out", out, "--save-weights", weights)
            self.wait_for_steps(process, out)
            time.sleep(0.1 * i)
            process.send_signal(signal.SIGINT)
            stderr = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 130, stderr)
            for path in (out, weights):
                os.remove(path)

    def test_long_way_to_the_end(self):
        """What is averaged later carries the wish to stop later, too: the run says that it has heard it."""
        out = self.path("run.jsonl")
        process = start("train", *TINY, "--model", "mlp:hidden=32", "--steps", "100000", "--workers", "2", "--link", "2mbit,100ms", "--strategy",
                        "dga:delay=20", "--method", "dgc:density=0.5,warmup=1000", "--lr", "0.001", "--log-every", "1", "--out", out)
        self.wait_for_steps(process, out)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(100), 130)
        said = process.communicate()[1]
        self.assertIn("telegrad: interrupted by SIGINT: stopping once all ranks know of it", said)
        self.assertEqual(said.count("interrupted by SIGINT: stopping"), 1, said)
        self.assertEqual(records(out)[-1]["remarks"], [])  # nor is the warm-up too long for the run

    def test_interrupt_saves(self):
        code, stdout, stderr, out = self.interrupted(signal.SIGINT, extra=("--save", self.path("saved")))
        self.assertEqual(code, 130)
        steps = records(out)[-1]["steps"]
        where = self.path("saved") + f"/step-{steps:012}"
        self.assertTrue(os.path.isdir(where))
        self.assertEqual(records(out)[-1]["saved"], where)
        self.assertIn(f"saved          {where}; to continue: --resume {self.path('saved')}\n", stdout)
        self.assertIn(f"; saved: {where}; to continue: --resume {self.path('saved')}\n", stderr)
        self.ok("train", *TINY, "--steps", str(steps + 2), "--workers", "2", "--resume", self.path("saved"), "--out", out)
        lines = last_run(out)
        self.assertEqual((lines[0]["first_step"], lines[-1]["steps"]), (steps, steps + 2))

    def test_second_interrupt_ends_at_once(self):
        # Over this link a step takes more than 2 s, so the first signal cannot have ended the run.
        out = self.path("run.jsonl")
        process = start("train", *TINY, "--steps", "1000000", "--workers", "2", "--link", "1600kbit", "--model", "mlp",
                        "--out", out)
        end = time.monotonic() + 60
        while not (os.path.exists(out) and os.path.getsize(out)):
            self.assertTrue(process.poll() is None and time.monotonic() < end)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)  # as timeout(1) does: to the process, and to its group; both count as one
        time.sleep(0.8)  # a busy machine may deliver them late
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=10)[1]
        self.assertEqual((process.returncode, said), (143, "telegrad: interrupted again by SIGTERM: ended at once, without saving\n"))
        self.assertEqual(os.listdir(self.folder), ["run.jsonl"])  # what was written stays
        self.assertEqual(records(out)[0]["type"], "start")

    def test_commands_without_steps_end_at_once(self):
        for command in (["advise", "--link", "20mbit,5ms", "--workers", "8", "--model", "resnet20"], ["bench", "codec", "--seconds", "100"],
                        ["bench", "strategy", "--seconds", "100"], ["bench", "train", "--seconds", "100"],
                        ["bench", "exchange", "--elements", "1000000", "--seconds", "100"]):
            process = start(*command)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.communicate(timeout=20)[1], process.returncode), ("telegrad: interrupted by SIGINT\n", 130), command)

    def test_records_of_a_killed_run(self):
        """Whole lines under the file's own name, which report draws; a run that resumes goes on behind them."""
        out, saved = self.path("run.jsonl"), self.path("saved")
        process = start("train", *TINY, "--steps", "1000000", "--log-every", "1", "--out", out)
        self.wait_for_steps(process, out)
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(records(out)[0]["type"], "start")
        self.ok("report", out, "-o", self.path("page.html"))
        self.ok("train", *TINY, "--steps", "3", "--no-eval", "--save", saved, "--out", out)
        self.assertEqual([r["type"] for r in records(out)][::3], ["start", "end"])  # a new run begins anew
        before = pathlib.Path(out).read_text(encoding="utf-8")
        with open(out, "a", encoding="utf-8") as file:
            file.write('{"type":"st')
        self.ok("train", *TINY, "--steps", "5", "--no-eval", "--resume", saved, "--out", out)
        self.assertTrue(pathlib.Path(out).read_text(encoding="utf-8").startswith(before))
        self.assertEqual([r["type"] for r in records(out)][4::3], ["start", "end"])

if __name__ == "__main__":
    unittest.main()
