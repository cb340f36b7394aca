"""Help screens fit a terminal of 24 rows and 80 columns and show an example."""
import re
import unittest
from cli_tool import CliTest

COMMANDS = ("train", "compare", "eval", "methods", "models", "data", "bench", "report")


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

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^telegrad \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
