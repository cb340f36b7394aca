"""Completion for bash and zsh, and the manual page: what the command prints of its own options."""
import re
import shutil
import subprocess
import unittest
from cli_tool import TELEGRAD, CliTest, run

COMMANDS = ("train", "compare", "tune", "eval", "methods", "strategies", "exchanges", "codecs", "feedbacks", "optimizers", "lr-schedules",
            "models", "data", "advise", "report", "bench codec", "bench train", "bench exchange", "bench server", "bench strategy",
            "key new", "key show", "key fingerprint")
KINDS = ("methods", "strategies", "exchanges", "codecs", "feedbacks", "optimizers", "lr-schedules", "models", "data")


class Printed(CliTest):
    def test_usage(self):
        self.refused(2, ["help --completion: allowed: bash, zsh"], "help", "--completion")
        self.refused(2, ["help --completion fish: allowed: bash, zsh"], "help", "--completion", "fish")
        self.refused(2, ["allowed: methods, strategies"], "help", "--names", "method")
        self.refused(2, ['did you mean "--completion"?'], "help", "--completoin")
        self.refused(2, ['takes nothing after it: "bash"'], "help", "--man", "bash")
        self.refused(2, ['takes nothing after it: "zsh"'], "help", "--completion", "bash", "zsh")

    def test_names(self):
        for kind in KINDS:
            names = self.ok("help", "--names", kind).split()
            self.assertEqual(len(names), len(set(names)))
            listed = self.ok(kind)
            for name in names:
                self.assertRegex(listed, rf"(?m)^ *{re.escape(name)} ")

    def named(self, command):
        """Options of a command by its help, by the completions and by the manual page."""
        text = self.ok(*command.split(), "--help")
        bash = self.ok("help", "--completion", "bash").split(f"    '{command}')\n")[1].split("\n        ;;")[0]
        zsh = self.ok("help", "--completion", "zsh").split(f"    '{command}')\n")[1].split("\n        ;;")[0]
        man = self.ok("help", "--man").replace("\\-", "-").split(f".SH TELEGRAD {command.upper()}\n")[1].split("\n.SH ")[0]
        return {
            "help": re.findall(r"^  (?:-[a-z], )?--([a-z-]+)", text, re.M),
            "bash": re.findall(r"--([a-z-]+)", re.search(r"options='(.*)'", bash)[1]),
            "zsh": re.findall(r"^ +'\*--([a-z-]+)[=\[]", zsh, re.M),
            "man": re.findall(r"^(?:\\fB-[a-z]\\fR, )?\\fB--([a-z-]+)\\fR", man, re.M),
        }

    def test_every_option_everywhere(self):
        """What a command accepts is in its help, in both completions and in the manual page, and nothing else is."""
        named = {command: self.named(command) for command in COMMANDS}
        every = {name for lists in named.values() for name in lists["help"]}
        self.assertGreater(len(every), 60)
        for command, lists in named.items():
            for place, names in lists.items():
                self.assertEqual(len(names), len(set(names)), (command, place))
                self.assertEqual(set(names), set(lists["help"]), (command, place))
            for name in every - {"help", "usage"}:
                if name not in lists["help"] and any(other.startswith(name) for other in lists["help"]):
                    continue  # short for that one
                # One that exists has an empty value or none here; then what follows is the first that does not exist.
                done = run(*command.split(), f"--{name}=", "--no-such-option")
                self.assertEqual(done.returncode, 2)
                self.assertEqual(f"unrecognized option '--{name}=" not in done.stderr, name in lists["help"], (command, name))

    def test_options_of_the_table_of_runs(self):
        """Those that an error of a spec file lists are options of compare."""
        with open(self.path("runs"), "w", encoding="utf-8") as file:
            file.write("--no-such-option 3\n")
        listed = self.refused(2, ["allowed: "], "compare", "--spec", self.path("runs")).split("allowed: ")[1].strip().split(", ")
        self.assertGreater(len(listed), 30)
        self.assertLess(set(listed), set(self.named("compare")["help"]))

    @unittest.skipUnless(shutil.which("groff"), "SKIP manual page: no groff")
    def test_manual_page(self):
        page = self.ok("help", "--man")
        for ask in (["-ww", "-z"], ["-Tascii"]):
            done = subprocess.run(["groff", "-man", *ask], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = re.sub(r"\x1b\[[0-9]*m|.\x08", "", done.stdout)
        self.assertRegex(text, r"--batch N\n +samples per worker in each batch \(default: 32\)")
        self.assertIn("-o, --out FILE", text)


@unittest.skipUnless(shutil.which("bash"), "SKIP completion: no bash")
class Bash(CliTest):
    def setUp(self):
        super().setUp()
        self.script = self.path("telegrad.bash")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(self.ok("help", "--completion", "bash"))

    def complete(self, *words):
        """What bash would offer for the last word."""
        ask = ("source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _telegrad; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", ask, "bash", self.script, TELEGRAD, *words], capture_output=True, text=True, timeout=60,
                              cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_syntax(self):
        self.assertEqual(subprocess.run(["bash", "-n", self.script], timeout=60).returncode, 0)

    def test_commands(self):
        self.assertEqual(self.complete("tr"), ["train"])
        offered = self.complete("")
        for name in re.findall(r"^  ([a-z-]+)  ", self.ok("--help"), re.M):
            self.assertIn(name, offered)
        self.assertEqual(self.complete("help", "com"), ["compare"])
        self.assertEqual(self.complete("help", "bench", "ex"), ["exchange"])
        self.assertEqual(self.complete("help", "--completion", "z"), ["zsh"])
        self.assertEqual(self.complete("help", "--names", "meth"), ["methods"])
        self.assertEqual(self.complete("bench", "ex"), ["exchange"])

    def test_options(self):
        self.assertEqual(sorted(self.complete("train", "--lr")), ["--lr", "--lr-scale", "--lr-schedule"])
        self.assertIn("--timeline", self.complete("report", "--"))
        self.assertIn("-o", self.complete("report", "-"))
        self.assertIn("--real-link", self.complete("bench", "exchange", "--"))
        self.assertNotIn("--real-link", self.complete("bench", "train", "--"))
        self.assertEqual(self.complete("train", "--no-such"), [])

    def test_values(self):
        self.assertEqual(self.complete("train", "--precision", ""), ["fp32", "bf16"])
        self.assertEqual(self.complete("train", "--precision", "=", "b"), ["bf16"])
        self.assertEqual(self.complete("train", "--precision", "="), ["fp32", "bf16"])
        self.assertEqual(self.complete("train", "--shard", "di"), ["dirichlet"])
        self.assertEqual(self.complete("train", "--nodes", ""), ["auto"])
        self.assertEqual(self.complete("train", "--batch", ""), [])

    def test_names(self):
        self.assertEqual(self.complete("train", "--method", "dg"), ["dgc"])
        self.assertIn("diloco", self.complete("compare", "--strategy", ""))
        self.assertIn("adamw", self.complete("train", "--optimizer", "ad"))
        self.assertIn("cifar10", self.complete("train", "--data", "ci"))
        self.assertIn("resnet18", self.complete("advise", "--model", "res"))
        self.assertEqual(self.complete("methods", "powers"), ["powersgd"])
        self.assertNotIn("quantisation", self.complete("methods", ""))  # the heading of a family
        self.assertEqual(self.complete("bench", "exchange", "--json", "powers"), ["powersgd"])

    def test_files(self):
        subprocess.run(["mkdir", "runs"], cwd=self.folder, check=True)
        for name in ("run.jsonl", "run two"):
            open(self.path(name), "w", encoding="utf-8").close()
        self.assertEqual(self.complete("report", "run."), ["run.jsonl"])
        self.assertEqual(sorted(self.complete("report", "-o", "run")), ["run", "run.jsonl", "runs", "two"])
        self.assertEqual(self.complete("train", "--save", "r"), ["runs"])
        self.assertEqual(sorted(self.complete("train", "--tau", "")), sorted(["measured", "run.jsonl", "run", "two", "runs", "telegrad.bash"]))


@unittest.skipUnless(shutil.which("zsh"), "SKIP completion: no zsh")
class Zsh(CliTest):
    """Completes in a zsh of its own, on a terminal of its own, and reads what it lists."""

    ASK = """
        zmodload zsh/zpty
        zpty ask zsh -f -i
        send() { zpty -w ask "$1" }
        send 'PS1=; stty columns 200 rows 50; fpath=($PWD $fpath); autoload -Uz compinit; compinit -D -u'
        send 'zstyle ":completion:*" list-grouped false; zstyle ":completion:*" insert-tab false; LISTMAX=10000'
        send 'null-line() { zle kill-whole-line }; list-all() { compstate[insert]=; compstate[list]="list force" }'
        send 'unsetopt list_ambiguous; comppostfuncs=(list-all); zle -N null-line'
        send 'done-line() { print -r -- "<E""ND>"; zle kill-whole-line }; zle -N done-line; bindkey "^I" complete-word; bindkey "^X" done-line'
        send 'print READ''Y'
        zpty -r -m ask text '*READY*' || exit 1
        zpty -w -n ask "$1"$'\\t'
        zpty -w -n ask $'\\x18'
        zpty -r -m ask text '*<END>*' || exit 1
        print -r -- "$text"
        zpty -d ask
    """

    def setUp(self):
        super().setUp()
        with open(self.path("_telegrad"), "w", encoding="utf-8") as file:
            file.write(self.ok("help", "--completion", "zsh"))

    def complete(self, line):
        done = subprocess.run(["zsh", "-f", "-c", self.ASK, "zsh", line.replace("telegrad", TELEGRAD, 1)], capture_output=True, text=True,
                              timeout=60, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", done.stdout)

    def test_syntax(self):
        self.assertEqual(subprocess.run(["zsh", "-n", self.path("_telegrad")], timeout=60).returncode, 0)

    def test_completes(self):
        for line, offered in (("telegrad ", "compare"), ("telegrad train --lr-", "--lr-schedule"),
                              ("telegrad train --precision ", "bf16"), ("telegrad compare --strategy ", "diloco"),
                              ("telegrad bench ", "exchange"), ("telegrad bench exchange --", "--real-link"),
                              ("telegrad methods ", "powersgd"), ("telegrad train --tau ", "measured"),
                              ("telegrad help ", "compare"), ("telegrad help bench ", "exchange")):
            with self.subTest(line=line):
                self.assertIn(offered, self.complete(line))


if __name__ == "__main__":
    unittest.main()
