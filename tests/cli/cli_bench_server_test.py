"""bench server: rows as a table and as JSON, for each mode and method, and errors."""
import json
import unittest
from cli_tool import CliTest, run

QUICK = ["--elements", "4000", "--seconds", "0.01", "--workers", "3"]
REFUSED = [
    (["--elements", "999"], ['--elements "999"', "allowed: "]),
    (["--workers", "0"], ['--workers "0"', "allowed: "]),
    (["--workers", "2,3"], ['--workers "2,3"', "allowed: "]),
    (["--seconds", "-1"], ['--seconds "-1"', "allowed: 0.001 to 3600"]),
    (["dcg"], ['unknown method "dcg"', "dgc"]),
    (["dense:exchange=ring"], ["dense:exchange=ring", "exchange=star and twoway alone"]),
]


class BenchServer(CliTest):
    def test_usage(self):
        for args, words in REFUSED:
            with self.subTest(args=args):
                self.refused(2, words, "bench", "server", *args)

    def test_rows(self):
        rows = [json.loads(line) for line in self.ok("bench", "server", *QUICK, "--json", "--mode", "sum", "--mode", "sync", "--mode",
                                                     "async:staleness=2", "fp16", "dgc:density=0.01,warmup=0").splitlines()]
        self.assertEqual([(r["mode"], r["method"].split(":")[0]) for r in rows],
                         [(mode, method) for mode in ("sum", "sync", "async:staleness=2") for method in ("fp16", "dgc")])
        for row in rows:
            self.assertEqual((row["type"], row["error"], row["n"], row["workers"]), ("bench_server", None, 4000, 3))
            # Parameters that training begins with do not count.
            self.assertEqual(row["elements"], 3 * 4000 * row["steps"] + (0 if row["mode"] == "sum" else 3 * 4000))
            self.assertGreater(row["cpu_seconds"], 0)
            self.assertLessEqual(row["cpu_seconds"], row["seconds"])
            self.assertGreater(row["gradient_bits_s"], 0)
            self.assertGreaterEqual(row["bytes_out"], 4 * 3 * 4000 * row["steps"])
        self.assertGreater(rows[0]["bytes_in"] / rows[0]["steps"], 3 * 2 * 4000)
        self.assertLess(rows[1]["bytes_in"] / rows[1]["steps"], 3 * 4000)

    def test_table(self):
        lines = self.ok("bench", "server", *QUICK).splitlines()
        self.assertTrue(lines[0].startswith("n = 4,000, 3 workers, "), lines[0])
        self.assertEqual(len(lines), 3 + 10)
        self.assertTrue(lines[-1].startswith("async  dgc:"), lines[-1])

    def test_a_row_that_fails(self):
        done = run("bench", "server", *QUICK, "--mode", "sum:combine=median", "topk:density=0.1")
        self.assertEqual((done.returncode, done.stderr), (1, "telegrad: 1 of 1 rows could not be measured\n"))
        self.assertIn("in which most elements are 0", done.stdout)


if __name__ == "__main__":
    unittest.main()
