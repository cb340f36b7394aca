"""telegrad doctor between processes.   doctor_test.py PATH-OF-TELEGRAD"""
import json
import signal
import time
import unittest
from net_tool import AVAILABLE, WHY, Done, NetTest


@unittest.skipUnless(AVAILABLE, WHY)
class Doctor(NetTest):
    def test_all_print_the_same(self):
        done = self.job(3, "doctor", "--seconds", "0.1")
        for rank, each in enumerate(done):
            self.assertEqual(each.returncode, 0, each.stderr)
            self.assertIn(f"joined as rank {rank} of 3", each.stderr)
            self.assertEqual(each.stdout, done[0].stdout)
        machines, pairs, advice = done[0].stdout.split("\n\n")
        head, rule, *ranks = machines.splitlines()
        self.assertEqual((len(rule), len(ranks)), (len(head), 3))
        self.assertNotRegex(done[0].stdout, r"\de-\d|-0\.0 ms")
        self.assertEqual([line.split()[:3] for line in pairs.splitlines()[2:]],
                         [["0,", "1", "memory"], ["0,", "2", "memory"], ["1,", "2", "memory"]])
        self.assertIn("telegrad advise --model NAME --workers 3 --link ", advice)

    def test_json(self):
        for seconds in ("0.1", "1", "5"):  # on a busy machine nothing may have arrived in a short time: 0
            done = self.job(2, "doctor", "--seconds", seconds, "--json")
            found = json.loads(done[0].stdout)
            if all(link["rate_bps"] > 0 for rank in found["ranks"] for link in rank["links"]):
                break
        self.assertEqual(found, json.loads(done[1].stdout))
        self.assertEqual([rank["rank"] for rank in found["ranks"]], [0, 1])
        for rank in found["ranks"]:
            link, = rank["links"]
            self.assertEqual(link["to"], 1 - rank["rank"])
            self.assertGreater(link["rate_bps"], 0)
            self.assertTrue(0 < link["delay_ms"] < 1000, link)
            self.assertLess(abs(link["clock_ahead_ms"]), 1000)
        self.assertIsInstance(found["advice"], list)

    def test_usage(self):
        self.refused(2, ["doctor requires --listen"], "doctor")
        self.refused(2, ["--ranks"], "doctor", "--listen", self.meeting)
        self.refused(2, ["--ranks 1: one rank has no link to measure: allowed: 2 and more"], "doctor", "--listen", self.meeting,
                     "--ranks", "1", "--insecure")
        for option, value in (("--seconds", "0"), ("--seconds", "1h"), ("--timeout", "-1")):
            self.refused(2, [option, value, "allowed"], "doctor", "--listen", self.meeting, option, value)

    def test_nobody_comes(self):
        self.new_keys(2)
        done = Done(self.start("doctor", *self.options(1, 2), "--timeout", "1"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the meeting point", done.stderr)

    def test_interrupted(self):
        """One that is interrupted while it measures ends as by that signal, and the others name it."""
        self.new_keys(2)
        first, second = (self.start("doctor", *self.options(rank, 2), "--seconds", "60") for rank in range(2))
        while "joined" not in second.stderr.readline():
            pass
        time.sleep(0.3)
        second.send_signal(signal.SIGINT)
        self.assertEqual(Done(second, 10).returncode, 130)
        done = Done(first, 10)
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1 has left", done.stderr)


if __name__ == "__main__":
    unittest.main()
