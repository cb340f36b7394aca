"""Help screens fit a terminal of 24 rows and 80 columns and show an example."""
import re
import unittest
from cli_tool import CliTest, TINY, run

COMMANDS = ("train", "compare", "eval", "methods", "strategies", "exchanges", "codecs", "feedbacks", "optimizers", "lr-schedules",
            "models", "data", "bench", "advise", "report")


class Help(CliTest):
    def check_screen(self, text):
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(text.startswith("Usage: telegrad"))
        example = text[text.index("Example"):]
        self.assertIn("\n  telegrad ", example)

    def test_screens(self):
        self.check_screen(self.ok("--help"))
        for command in COMMANDS:
            self.check_screen(self.ok(command, "--help"))
            self.assertIn(command, self.ok("--help"))

    def test_help_wins_over_what_follows(self):
        self.assertEqual(self.ok("train", "--help", "--no-such-option"), self.ok("train", "--help"))

    def test_every_option_that_is_named_exists(self):
        for command in ("train", "compare"):
            names = set(re.findall(r"--([a-z][a-z-]+)", self.ok(command, "--help").split("Example")[0]))
            self.assertGreater(len(names), 15)
            for name in names - {"help", "no-eval", "json"}:
                # An option that exists complains about its empty value or takes it as a (bad) one.
                done = self.refused(2, [], command, "--" + name + "=", "--workers", "0")
                self.assertNotIn("unrecognized", done, name)

    def test_every_option_is_named(self):
        for command, options in (("eval", ("resume", "weights", "model", "data", "holdout", "context", "batch", "precision", "samples",
                                           "logits", "json")),
                                 ("data", ("shard", "workers", "seed", "holdout", "json"))):
            text = self.ok(command, "--help")
            for name in options:
                self.assertIn("  --" + name, text)

    def test_every_way_to_ask(self):
        for command in ("train", "compare", "eval", "methods", "models", "data", "advise", "report", "bench", "bench codec",
                        "bench train", "bench exchange", "bench strategy"):
            words = command.split()
            text = self.ok(*words, "--help")
            for asked in ([*words, "-h"], [*words, "--usage"], ["help", *words], [*words, "-qh"]):
                if command == "bench" and asked[-1] == "-qh":
                    continue
                with self.subTest(asked=asked):
                    self.assertEqual(self.ok(*asked), text)
        for asked in ("-h", "--help", "help"):
            self.assertEqual(self.ok(asked), self.ok("--help"))

    def test_version_at_a_level_that_is_not_there(self):
        done = run("--version", TG_CPU="avx9")
        self.assertEqual((done.returncode, done.stderr), (0, "telegrad: warning: TG_CPU=avx9: this CPU and build do not have that level\n"))
        self.assertIn("CPU level ref\n", self.ok("--version", TG_CPU="ref"))

    def test_version(self):
        """The first line is the program's, for scripts; then what it was built with."""
        lines = self.ok("--version").splitlines()
        self.assertRegex(lines[0], r"^telegrad \d+\.\d+\.\d+$")
        self.assertRegex(lines[1], r"^CPU level (ref|avx2|avx512)$")
        rest = dict(line.split(" ", 1) for line in lines[2:])
        self.assertEqual(list(rest), ["oneDNN", "zlib", "liblzma", "jansson", "MPI"])
        for name, version in rest.items():
            self.assertRegex(version, r"\d+\.\d+|^none$", name)
        self.assertEqual(self.ok("-V").splitlines()[0], lines[0])

    def test_quiet_and_verbose(self):
        """Remarks are for terminals, or for who asks; quiet silences warnings as well."""
        base = ("train", *TINY, "--model", "mlp:hidden=8", "--epochs", "1")
        self.assertEqual(run(*base).stderr, "")
        self.assertIn("epoch 1: train loss", run(*base, "-v").stderr)
        self.assertEqual(run(*base, "-q", "-v").stderr, "")
        self.assertRegex(run(*base[:1], "--data", "mnits", "-q").stderr, "unknown data set")


if __name__ == "__main__":
    unittest.main()
