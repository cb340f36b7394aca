"""Help: for every command, readable in 80 columns, with an example."""
import os
import pty
import unittest
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, run

COMMANDS = ("train", "compare", "tune", "eval", "methods", "strategies", "exchanges", "codecs", "feedbacks", "optimizers",
            "lr-schedules", "models", "data", "bench", "advise", "report", "doctor", "key")
PARTS = ("codec", "train", "exchange", "strategy")


class Help(CliTest):
    def check_text(self, text, width=80):
        lines = text.splitlines()
        for line in lines[:text[:text.index("Example")].count("\n")]:
            self.assertLessEqual(len(line), width)
            self.assertEqual(line, line.rstrip())
        self.assertLessEqual(max(map(len, lines)), 80)  # examples stand as they are
        self.assertNotIn("\n\n\n", text)
        self.assertTrue(text.startswith("Usage: telegrad"))
        example = text[text.index("Example"):]
        self.assertIn("\n  telegrad ", example)

    def test_every_command(self):
        self.check_text(self.ok("--help"))
        for command in [[name] for name in COMMANDS] + [["bench", part] for part in PARTS]:
            with self.subTest(command=command):
                text = self.ok(*command, "--help")
                self.check_text(text)
                self.assertIn("telegrad " + " ".join(command), text.splitlines()[0])
                self.assertIn(f"\n  {command[0]} ", self.ok("--help"))
        for part in PARTS:
            self.assertIn(f"\n  {part} ", self.ok("bench", "--help"))

    def test_width(self):
        """As COLUMNS says, from 60 to 100 or as much less as names of options and usage lines leave."""
        for columns in (60, 72, 90, 100):
            text = self.ok("report", "--help", COLUMNS=str(columns))
            longest = max(map(len, text[text.index("\n\n"):text.index("Examples")].splitlines()))
            self.assertTrue(columns - 12 <= longest <= columns, (columns, longest))
        self.assertEqual(self.ok("train", "--help", COLUMNS="100"), self.ok("train", "--help", COLUMNS="300"))
        self.assertEqual(self.ok("train", "--help", COLUMNS="40"), self.ok("train", "--help", COLUMNS="20"))
        for columns in "1", "10", "19":
            self.assertEqual(self.ok("methods", COLUMNS=columns), self.ok("methods", COLUMNS="20"))
        narrow = self.ok("train", "--help", COLUMNS="40")
        self.assertIn("\n  --batch N\n      samples per worker in each batch\n      (default: 32)\n", narrow)

    def on_terminal(self, pager, **more):
        """What `train --help` leaves on a terminal."""
        environment = {**ENVIRONMENT, "TERM": "xterm", "PAGER": pager, **more}
        process, terminal = pty.fork()
        if process == 0:
            os.execve(TELEGRAD, ["telegrad", "train", "--help"], environment)
        text = b""
        try:
            while piece := os.read(terminal, 65536):
                text += piece
        except OSError:  # the terminal's other end is closed
            pass
        os.close(terminal)
        self.assertEqual(os.waitpid(process, 0)[1], 0)
        return text.decode().splitlines()

    def test_pager(self):
        """On a terminal, help goes through $PAGER, which may end before it has read everything."""
        whole = self.on_terminal("")
        self.assertGreater(len(whole), 100)
        self.assertEqual(self.on_terminal("cat"), whole)
        self.assertEqual(self.on_terminal("sed 's/^/> /'"), ["> " + line for line in whole])
        self.assertEqual(self.on_terminal("head -n 1"), whole[:1])
        self.assertEqual(self.on_terminal("true"), [])
        for launcher in "OMPI_COMM_WORLD", "PMI":  # mpirun gives rank 0 a terminal that nobody watches
            self.assertEqual(self.on_terminal("true", **{launcher + "_SIZE": "2", launcher + "_RANK": "0"}), whole)
        for bad in "/nonexistent", "/":  # the shell says why, and the text follows
            self.assertEqual(self.on_terminal(bad)[1:], whole, bad)

    def test_groups_and_defaults(self):
        train = self.ok("train", "--help")
        for heading in ("Model and data", "Compression and strategy", "Optimizer and precision", "Workers and network", "Every command"):
            self.assertIn(f"\n\n{heading}:\n  --" if heading != "Every command" else f"\n\n{heading}:\n  -h, --help", train)
        self.assertIn("\n  --batch N               samples per worker in each batch (default: 32)\n", train)
        for command, workers in (("train", 1), ("compare", 4), ("tune", 1), ("advise", 4), ("data", 4)):
            self.assertRegex(self.ok(command, "--help"), rf"--workers N [^(]*\(default: {workers}\)")

    def test_defaults_are_true(self):
        """What --help calls a default changes nothing when it is given."""
        plan = self.ok("train", "--model", "mlp:hidden=8", *TINY[:2], "--dry-run", "--json")
        for option, value in (("batch", "32"), ("accumulate", "1"), ("precision", "fp32"), ("strategy", "ssgd"), ("shard", "iid"),
                              ("optimizer", "sgd:lr=0.05,momentum=0.9"), ("lr-schedule", "constant"), ("lr-scale", "none"),
                              ("epochs", "1"), ("seed", "1"), ("workers", "1"), ("overlap", "full"), ("fusion", "25M"),
                              ("driver", "auto"), ("codec-threads", "1"), ("timeout", "60"), ("clock", "real"), ("log-every", "50")):
            with self.subTest(option=option):
                text = " ".join(self.ok("train", "--help").split(f"  --{option} ")[1].split("\n  --")[0].split())
                self.assertIn(f"(default: {value})", text)
                self.assertEqual(plan, self.ok("train", "--model", "mlp:hidden=8", *TINY[:2], "--dry-run", "--json",
                                               f"--{option}={value}"))

    def test_tune_has_threads_only(self):
        text = self.ok("tune", "--help")
        for word in "mpirun", "--listen", "--join", "network,":
            self.assertNotIn(word, text)
        self.assertIn("mpirun", self.ok("train", "--help"))

    def test_keys_of_a_run(self):
        """compare --help names the keys that --run takes."""
        message = self.refused(2, ["allowed: name, "], "compare", "--run", "no-such-key=1")
        keys = message.split("allowed: ")[1].strip().split(", ")
        text = " ".join(self.ok("compare", "--help").split())
        named = text.split("Each key is optional: ")[1].split(". They")[0].split(", ")
        self.assertEqual(sorted(keys), sorted(named))

    def test_help_wins_over_what_follows(self):
        self.assertEqual(self.ok("train", "--help", "--no-such-option"), self.ok("train", "--help"))

    def test_every_way_to_ask(self):
        for command in ("train", "compare", "tune", "eval", "methods", "models", "data", "advise", "report", "bench", "bench codec",
                        "bench train", "bench exchange", "bench server", "bench strategy"):
            words = command.split()
            text = self.ok(*words, "--help")
            for asked in ([*words, "-h"], [*words, "--usage"], ["help", *words], [*words, "-qh"]):
                if command == "bench" and asked[-1] == "-qh":
                    continue
                with self.subTest(asked=asked):
                    self.assertEqual(self.ok(*asked), text)
        for asked in (["-h"], ["--usage"], ["help"], ["help", "help"], ["help", "-h"], ["help", "--help"]):
            self.assertEqual(self.ok(*asked), self.ok("--help"))

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
        self.assertEqual(list(rest), ["oneDNN", "zlib", "liblzma", "jansson", "MPI", "OpenSSL"])
        self.assertEqual(rest["OpenSSL"] != "none", run("key", "--help").returncode == 0)
        for name, version in rest.items():
            self.assertRegex(version, r"\d+\.\d+|^none$", name)
        self.assertEqual(self.ok("-V").splitlines()[0], lines[0])

    def test_quiet_and_verbose(self):
        """Remarks are for terminals, or for who asks; quiet silences warnings as well."""
        base = ("train", *TINY, "--model", "mlp:hidden=8", "--epochs", "1")
        self.assertEqual(run(*base).stderr, "")
        self.assertIn("epoch 1: train loss", run(*base, "-v").stderr)
        self.refused(2, ["--quiet and --verbose cannot be combined"], *base, "-q", "-v")
        self.assertRegex(run(*base[:1], "--data", "mnits", "-q").stderr, "unknown data set")


if __name__ == "__main__":
    unittest.main()
