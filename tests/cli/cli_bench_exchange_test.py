"""bench exchange: rows as a table and as JSON, bytes as predicted, a model's tensors, under mpirun, errors."""
import json
import os
import re
import unittest
from cli_tool import CliTest, run, start
from mpi_tool import AVAILABLE, WHY, mpirun

QUICK = ["--elements", "20000", "--workers", "2", "--seconds", "0.01"]
REFUSED = [
    (["dense", "--workers", "1"], ['--workers "1"', "allowed: whole numbers from 2 to 64"]),
    (["no-such-method"], ['"no-such-method"', "allowed: dense"]),
    (["dgc:densty=0.1"], ["densty", "density"]),
    (["--workers", "65"], ['--workers "65"', "allowed: whole numbers from 2 to 64"]),
    (["--workers", "1e6"], ['--workers "1e6": allowed: whole numbers from 2 to 64, at most 16 of them']),
    (["--n", "5000"], ["unrecognized option '--n': did you mean '--elements'?"]),
    (["--workers", "2,"], ['--workers "2,"', "allowed: "]),
    (["--link", "fast"], ["fast", "allowed"]),
    (["--real-link", "1gbit"], ["--real-link 1gbit requires mpirun", "--link 1gbit"]),
    (["--elements", "0"], ['--elements "0": allowed: a whole number from 1 to 268435456, e.g. 1000000 or 1e6']),
    (["--elements", "10,20"], ['--elements "10,20"', "allowed: "]),
    (["--behind", "0"], ['--behind "0"', "allowed: "]),
    (["--model", "resnet2000"], ['"resnet2000"', "allowed: "]),
    (["--model", "lenet5", "--elements", "10"], ["--model and --elements cannot be combined"]),
    (["--seconds", "0"], ['--seconds "0"', "allowed: 0.001 to 3600"]),
]


class BenchExchange(CliTest):
    def rows(self, *args, status=0):
        done = run("bench", "exchange", "--json", *args)
        self.assertEqual((done.returncode, bool(done.stderr)), (status, status != 0), done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_figures(self, row):
        for times in (row["ms"], row["codec_ms"]):
            self.assertTrue(0 < times["min"] <= times["median"] <= times["max"], row)
        if row["wire_ms"] is None:
            self.assertEqual((row["ratio"], row["bound_ms"], row["bound_ratio"]), (None, None, None))
        else:
            self.assertAlmostEqual(row["ratio"] * (row["wire_ms"] + row["codec_ms"]["median"]), row["ms"]["median"])
            self.assertAlmostEqual(row["bound_ratio"] * row["bound_ms"], row["ms"]["median"])

    def test_usage(self):
        for args, words in REFUSED:
            with self.subTest(args=args):
                self.refused(2, words, "bench", "exchange", *args)

    def test_rows(self):
        """Bytes are those predicted, to 5 %; over a link a step takes no less than its delays and bytes."""
        rows = self.rows(*QUICK, "--link", "none", "--link", "20mbit,2ms", "dense", "dgc:density=0.01",
                         "dense:exchange=allgather")
        self.assertEqual([(r["method"], r["exchange"], r["link"], r["delays"]) for r in rows],
                         [(m, x, link, d) for m, x, d in (("dense", "direct", 2), ("dgc:density=0.01", "allgather", 1),
                                                          ("dense:exchange=allgather", "allgather", 1))
                          for link in (None, "20mbit,2ms")])
        for row in rows:
            self.assertEqual((row["type"], row["error"], row["workers"], row["elements"], row["transport"]),
                             ("bench_exchange", None, 2, 20000, "inproc"))
            self.check_figures(row)
            self.assertLess(abs(row["bytes_sent"] / row["bytes_predicted"] - 1), 0.05)
        dense = rows[1]
        self.assertLess(abs(dense["bytes_sent"] / (4 * 20000) - 1), 0.05)  # 8 n (P-1)/P
        self.assertAlmostEqual(dense["wire_ms"], 2 * 2 + dense["bytes_predicted"] * 8 / 20e6 * 1e3)
        self.assertGreater(dense["ms"]["min"], 0.99 * dense["wire_ms"])
        self.assertEqual([r["target"] for r in rows], [None, None, None, 1.3, None, None])
        path = os.path.join(os.path.dirname(__file__), "../../docs/records.md")
        with open(path, encoding="utf-8") as file:
            named = file.read().split("\n## bench exchange\n", 1)[1].split("\n## ")[0]
        self.assertEqual(set(rows[0]) - set(re.findall(r"`(\w+)`", named)) - {"type"}, set())

    def test_table(self):
        lines = self.ok("bench", "exchange", *QUICK, "dense", "randomk").splitlines()
        head = [i for i, line in enumerate(lines) if line.startswith("method")][0]
        self.assertEqual([line.split()[:4] for line in lines[head + 2:]],
                         [["dense", "direct", "none", "2"], ["randomk", "direct", "none", "2"]])
        self.assertNotIn("behind", lines[head])

    def test_a_row_that_takes_long_is_announced(self):
        """The heading stands at once, and how long the first row will take: 80 kB at 100 kbit/s, thrice."""
        process = start("bench", "exchange", *QUICK, "--link", "100kbit", "dense")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertRegex(process.stderr.readline(), r"^telegrad: dense, 2 workers, 100kbit: about \d+\.\d s\n$")
        lines = [process.stdout.readline() for _ in range(4)]
        self.assertIn(" elements in ", lines[0])
        self.assertTrue(lines[3].startswith("method"), lines)
        self.assertIsNone(process.poll())

    def test_behind(self):
        """What an urgent exchange takes behind the step's own: a column, a field."""
        lines = self.ok("bench", "exchange", *QUICK, "--behind", "10", "dense").splitlines()
        head = [i for i, line in enumerate(lines) if line.startswith("method")][0]
        self.assertTrue(lines[head].endswith("behind ms"))
        self.assertGreater(float(lines[head + 2].split()[-1]), 0)
        row = self.rows(*QUICK, "--behind", "10", "--link", "20mbit,2ms", "dgc")[0]
        self.assertEqual(row["behind"], 10)
        self.assertTrue(4 < row["behind_ms"]["min"] <= row["behind_ms"]["median"], row["behind_ms"])  # two delays

    def test_defaults(self):
        """Every exchange that carries dense vectors, sparse ones both ways, PowerSGD; several numbers of workers."""
        rows = self.rows("--workers", "2,3", "--model", "lenet5", "--seconds", "0.001")
        self.assertEqual([r["error"] for r in rows], [None] * len(rows))
        self.assertEqual({(r["elements"], r["tensors"]) for r in rows}, {(431080, 8)})
        self.assertEqual([r["workers"] for r in rows], [2, 3] * (len(rows) // 2))
        self.assertEqual({r["exchange"] for r in rows if r["method"].startswith("dense")},
                         {"direct", "ring", "halving", "allgather"})
        self.assertEqual({r["method"].split(":")[0] for r in rows}, {"dense", "topk", "dgc", "powersgd"})

    def test_a_row_that_fails(self):
        rows = self.rows(*QUICK, "topk:feedback=none,exchange=reducescatter", "dense", "topk:exchange=auto", status=1)
        self.assertIn("feedback=none", rows[0]["error"])
        self.assertNotIn("ms", rows[0])
        self.assertIsNone(rows[1]["error"])
        self.assertIn("exchange=auto", rows[2]["error"])

    @unittest.skipUnless(AVAILABLE, WHY)
    def test_mpi(self):
        job = ["bench", "exchange", "--json", "--elements", "20000", "--seconds", "0.01", "dense"]
        for link, predicted in (([], False), (["--real-link", "10gbit,1us"], True)):
            done = mpirun((2, job + link))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = [json.loads(line) for line in done.stdout.splitlines()]  # of rank 0 only
            self.assertEqual([(r["workers"], r["transport"], r["real_link"], r["error"]) for r in rows],
                             [(2, "mpi", predicted, None)])
            self.assertEqual(rows[0]["wire_ms"] is not None, predicted)
            self.check_figures(rows[0])
            self.assertLess(abs(rows[0]["bytes_sent"] / rows[0]["bytes_predicted"] - 1), 0.05)
        done = mpirun((2, job + ["--workers", "2"]))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--workers under mpirun", done.stderr)


if __name__ == "__main__":
    unittest.main()
