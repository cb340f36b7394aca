"""bench strategy: rows as a table and as JSON, every strategy with every optimizer, errors."""
import json
import unittest
from cli_tool import CliTest, run

QUICK = ["--elements", "4000", "--seconds", "0.001"]
REFUSED = [
    (["--elements", "12x"], ['--elements "12x"', "allowed: "]),
    (["--elements", "999"], ['--elements "999"', "allowed: "]),
    (["--elements", "1000,2000"], ['--elements "1000,2000"', "allowed: "]),
    (["--seconds", "0"], ['--seconds "0"', "allowed: 0.001 to 3600"]),
    ([*QUICK, "--filter", "magic"], ['--filter "magic"', "no row matches"]),
]


class BenchStrategy(CliTest):
    def rows(self, *args):
        done = run("bench", "strategy", "--json", *QUICK, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_usage(self):
        self.refused(2, ["bench strat", "bench strategy"], "bench", "strat")
        for args, words in REFUSED:
            with self.subTest(args=args):
                self.refused(2, words, "bench", "strategy", *args)

    def test_table(self):
        lines = self.ok("bench", "strategy", *QUICK, "--filter", "dga:delay=4").splitlines()
        self.assertTrue(lines[0].startswith("n = 4,000, "), lines[0])
        self.assertEqual(lines[1].split(), ["strategy", "optimizer", "passes", "ms", "a", "step", "ratio", "min", "max"])
        self.assertEqual(lines[3].split()[:3], ["dga:delay=4", "sgd", "9.00"])
        self.assertEqual(len({len(line) for line in lines[1:]}), 1)
        narrow = self.ok("bench", "strategy", *QUICK, "--filter", "dga:delay=4", COLUMNS="50").splitlines()
        self.assertTrue(all(len(line) <= 50 for line in narrow), narrow)
        self.assertIn("  ms a step", "\n".join(narrow))

    def test_every_strategy_with_every_optimizer(self):
        lists = json.loads(self.ok("strategies", "--json")) | json.loads(self.ok("optimizers", "--json"))
        rows = self.rows()
        pairs = {(r["strategy"].split(":")[0], r["optimizer"].split(":")[0]) for r in rows}
        for strategy in (s["name"] for s in lists["strategy"] if s["name"] not in ("demo", "server")):  # server: its work is the servers'
            for optimizer in (o["name"] for o in lists["optimizer"]):
                self.assertEqual((strategy, optimizer) in pairs, (strategy, optimizer) != ("updates", "lars"))
        self.assertEqual([p for p in pairs if p[0] == "demo"], [("demo", "sgd")])
        for row in rows:
            self.assertEqual(row["type"], "bench_strategy")
            self.assertIsNone(row["error"], row)
            self.assertEqual(row["n"], 4000)
            self.assertGreaterEqual(row["passes"], 3)
            self.assertGreater(row["ms"], 0)
            self.assertGreater(row["samples"], 0)
            self.assertLessEqual(row["ratio"]["min"], row["ratio"]["median"])
            self.assertLessEqual(row["ratio"]["median"], row["ratio"]["max"])

    def test_filter(self):
        self.assertEqual({r["strategy"] for r in self.rows("--filter", "gossip")}, {"gossip:mean=8"})
        self.assertEqual({r["optimizer"] for r in self.rows("--filter", "adamw")}, {"adamw"})


if __name__ == "__main__":
    unittest.main()
