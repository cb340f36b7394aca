"""The list of methods: complete, well-formed, and every default may be written as it is listed."""
import json
import pathlib
import re
import unittest
from cli_tool import TINY, CliTest, refuse_constant, run

DOCS = pathlib.Path(__file__).parents[2] / "docs"
KINDS = {"method", "codec", "feedback", "exchange", "strategy", "optimizer", "lr-schedule", "model"}

COMMANDS = {kind: {"strategy": "strategies"}.get(kind, kind + "s") for kind in KINDS}


class Methods(CliTest):
    def all(self):
        return json.loads(self.ok("methods", "--json"), parse_constant=refuse_constant)

    def entries(self):
        return [(kind, entry) for kind in KINDS for entry in self.all()[kind]]

    def test_kinds(self):
        self.assertEqual(set(self.all()), KINDS | {"version"})
        names = {kind: [entry["name"] for entry in self.all()[kind]] for kind in KINDS}
        self.assertLessEqual({"dense", "2bit", "topk", "dgc"}, set(names["method"]))
        self.assertLessEqual({"ssgd", "cd"}, set(names["strategy"]))
        for kind in KINDS:
            self.assertEqual(len(names[kind]), len(set(names[kind])), kind)

    def test_keys(self):
        for kind, entry in self.entries():
            for key in entry["keys"]:
                with self.subTest(kind=kind, entry=entry["name"], key=key["name"]):
                    self.assertTrue(key["help"])
                    if key["type"] in ("choice", "flag"):
                        self.assertIn(key["default"], key["choices"])
                    if key["type"] in ("integer", "real") and key["default"] not in (None, *key.get("choices", ())):
                        value = float(key["default"])
                        low, high = key["min"], key["max"]
                        self.assertTrue(low is None or (value > low if key["min_open"] else value >= low))
                        self.assertTrue(high is None or value <= high)

    def test_normal_form_has_every_default(self):
        for kind, entry in self.entries():
            with self.subTest(kind=kind, entry=entry["name"]):
                name, _, keys = entry["spec"].partition(":")
                self.assertEqual(name, entry["name"])
                given = dict(pair.split("=", 1) for pair in keys.split(",")) if keys else {}
                self.assertEqual(set(given), {k["name"] for k in entry["keys"] if k["default"] is not None})

    def test_default_of_every_key_is_accepted(self):
        options = {"method": "--method", "optimizer": "--optimizer", "lr-schedule": "--lr-schedule",
                   "model": "--model"}
        for kind, entry in self.entries():
            if kind in options:
                with self.subTest(kind=kind, entry=entry["name"]):
                    # Accepted: what it complains about is the file that comes after.
                    optimizer = [] if kind == "optimizer" else ["--optimizer", "sgd:lr=0.1"]
                    done = run("train", *optimizer, options[kind], entry["name"], "--out", self.path("none/x"))
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    self.assertIn("--out", done.stderr.splitlines()[-1])

    def test_methods_of_strategies(self):
        """Three published pairs need no --method; it is the same run as with it, and another may be named."""
        own = {entry["name"]: entry["method"] for entry in self.all()["strategy"]}
        self.assertEqual({name: method for name, method in own.items() if method != "dense"},
                         {"cd": "2bit", "demo": "dct", "sparseloco": "blocktopk"})
        self.assertIn("default method: dct", self.ok("strategies", "demo"))
        base = [*TINY, "--model", "mlp:hidden=8", "--workers", "2", "--steps", "4", "--no-eval", "--optimizer",
                "sgd:lr=0.001", "--json"]
        for strategy in ("demo", "sparseloco:every=2", "cd:k=3,warmup=1"):
            sim = ["--clock", "virtual", "--sim-only", "--tau", "1ms", "--link", "1gbit,1ms"]
            for more in ([], sim):
                method = own[strategy.split(":")[0]]
                rows = [json.loads(line) for line in self.ok(
                    "compare", "-q", *base, *more, "--strategy", strategy, "--run", "name=none", "--run",
                    f"name=same;method={method}", "--run", "name=other;method=dense").splitlines()]
                self.assertTrue(rows[0]["method"].startswith(method + ":"), rows[0])
                self.assertEqual(rows[0]["method"], rows[1]["method"])
                self.assertEqual(rows[0]["bytes_per_step"], rows[1]["bytes_per_step"])
                self.assertNotEqual(rows[0]["bytes_per_step"], rows[2]["bytes_per_step"])

    def test_rates(self):
        """What a method or strategy learns with stands in its card and its object."""
        rate = {(kind, e["name"]): e["rate"] for kind in ("method", "strategy") for e in self.all()[kind]}
        self.assertEqual((rate["method", "signum"]["factor"], rate["method", "signum"]["plain"]), (0.02, True))
        self.assertIsNone(rate["method", "dense"])
        self.assertTrue(rate["strategy", "eager"]["expect"])
        for (kind, name), hint in rate.items():
            card = self.ok(COMMANDS[kind], name)
            self.assertEqual("\n      rate   " in card, hint is not None and hint["factor"] > 0, name)
            self.assertEqual("\n      expect " in card, hint is not None and hint["expect"] is not None, name)
        self.assertIn("rate   0.02 times that of dense SGD", self.ok("methods", "signsgd"))
        self.assertIn("default optimizer: sgd:lr=0.001\n", self.ok("strategies", "demo"))

    def test_losses_are_those_of_the_results(self):
        """What defaults lose, in cards and objects, is the table in docs/results/defaults.md."""
        lines = (DOCS / "results" / "defaults.md").read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("| | GPT, 4 epochs"))
        jobs = [re.sub(r" \(dense: .*", "", cell.strip()) for cell in lines[at].split("|")[2:-1]]
        measured = {}
        for line in lines[at + 2:]:
            spec = re.match(r"\| `([^`]+)`", line)
            for job, cell in zip(jobs, line.split("|")[2:-1]):
                loss = re.match(r" \**(-?[0-9.]+[0-9])", cell)
                if spec and loss:
                    measured[spec[1], job] = float(loss[1])
            if not line.startswith("|"):
                break
        shown = {(loss["spec"], loss["job"]): loss["loss"] for kind in ("method", "strategy") for entry in self.all()[kind]
                 for loss in entry["losses"]}
        self.assertEqual(shown, measured)
        self.assertGreater(len(shown), 20)
        card = " ".join(self.ok("strategies", "diloco").split())
        self.assertIn("loses diloco:every=20, compared with dense training: 0.09 nats (GPT, 4 epochs)", card)
        self.assertNotIn("loses ", self.ok("methods", "dense"))

    def test_normal_forms_of_strategies_are_accepted(self):
        for entry in self.all()["strategy"]:
            optimizer = "sgd:lr=0.1" if entry["name"] == "demo" else "sgd:lr=0.1,momentum=0.9"
            with self.subTest(strategy=entry["spec"]):
                done = run("train", *TINY, "--model", "mlp:hidden=8", "--workers", "2", "--steps", "1", "--fusion", "20K",
                           "--no-eval", "--optimizer", optimizer, "--strategy", entry["spec"],
                           *(["--servers", "1"] if entry["name"] == "server" else []))
                self.assertEqual(done.returncode, 0, done.stderr)  # that a warm-up did not end is said

    def test_all_of_a_kind(self):
        listed = json.loads(self.ok("methods", "--json", "optimizer", "cosine"))
        self.assertEqual([e["name"] for e in listed["optimizer"]], ["sgd", "adam", "adamw", "lars"])
        self.assertEqual([e["name"] for e in listed["lr-schedule"]], ["cosine"])
        self.assertEqual(listed["method"], [])

    def test_json_of_one_kind(self):
        for kind, command in COMMANDS.items():
            listed = json.loads(self.ok(command, "--json"))
            if kind not in ("method", "model"):
                self.assertEqual(set(listed), {"version", kind})
                self.assertEqual(listed[kind], self.all()[kind])
        self.assertEqual([e["name"] for e in json.loads(self.ok("strategies", "cd", "--json"))["strategy"]], ["cd"])

    def test_table_has_a_line_each(self):
        for kind, command in COMMANDS.items():
            lines = self.ok(command).splitlines()
            entries = self.all()[kind]
            named = [line.split()[0] for line in lines if "  " in line.strip()]
            self.assertEqual(sorted(named), sorted(e["name"] for e in entries), command)
            for entry in entries:
                self.assertEqual(1, sum(line.split("  ")[-1].strip() == entry["summary"] for line in lines), entry["name"])

    def test_methods_stand_in_families(self):
        family, found = None, {}
        for line in self.ok("methods").split("\n\n")[0].splitlines():
            if line.startswith("  "):
                found[line.split()[0]] = family
            else:
                self.assertNotIn(line, found.values(), "a family in two pieces")
                family = line
        self.assertEqual(found, {e["name"]: e["card"]["family"] for e in self.all()["method"]})
        self.assertEqual(list(dict.fromkeys(found.values())), ["dense", "quantisation", "signs", "sparsification", "low rank"])

    def test_columns(self):
        """Tables are cut, cards broken, to what COLUMNS says; nothing is lost of a card."""
        for columns, args in ((c, a) for c in (40, 72, 100) for a in (["methods"], ["exchanges"], ["models"], ["methods", "dgc"],
                                                                      ["strategies", "cd"])):
            if columns > 40 or len(args) == 1:
                text = self.ok(*args, COLUMNS=str(columns))
                cut = [line for line in text.splitlines() if len(line) > columns and not line.startswith("telegrad ")]
                self.assertEqual(cut, [], (args, columns))
                if len(args) > 1:
                    self.assertEqual(text.split(), self.ok(*args).split())
        self.assertIn("...\n", self.ok("methods", COLUMNS="40"))
        self.assertEqual(self.ok("methods", COLUMNS="junk"), self.ok("methods"))

    def test_card_of_every_name(self):
        for kind, entry in self.entries():
            text = self.ok(COMMANDS[kind], entry["name"])
            self.assertIn("  " + entry["name"] + ": ", text)
            for key in entry["keys"]:
                self.assertIn("      " + key["name"], text)

    def test_names_of_another_kind(self):
        for args, words in ((["methods", "cd"], '"cd" is a strategy, not a method: see telegrad strategies cd'),
                            (["strategies", "sgd"], '"sgd" is an optimizer, not a strategy: see telegrad optimizers sgd'),
                            (["models", "dgc"], '"dgc" is a method, not a model: see telegrad methods dgc'),
                            (["codecs", "fp61"], 'unknown codec "fp61": did you mean "fp16"? allowed: f32, fp16, '),
                            (["strategies", "dcg"], 'did you mean "dgc", a method (telegrad methods dgc)? allowed: ssgd, '),
                            (["models", "resnet"], 'unknown model "resnet": did you mean "resnet20"?'),
                            (["methods", "strategy"], "telegrad strategies lists all strategies"),
                            (["exchanges", "dgc", "--json"], '"dgc" is a method, not an exchange')):
            with self.subTest(args=args):
                self.refused(2, [words], *args)

    def test_one_name(self):
        text = self.ok("methods", "dgc")
        self.assertIn("density=0.001", text)
        self.assertIn("0 < " if "0 < " in text else "> 0", text)
        self.assertNotIn("ssgd", text)

    def test_cards(self):
        for entry in self.all()["method"]:
            card = entry["card"]
            self.assertEqual(set(card), {"family", "sends", "bits", "keeps", "cost", "use", "limit"})
            text = self.ok("methods", entry["name"])
            for name, value in card.items():
                self.assertTrue(value, (entry["name"], name))
                if name != "family":
                    self.assertRegex(text, r"\n      %s +%s\n" % (name, re.escape(value)))

    def test_document_has_the_table(self):
        document = pathlib.Path(__file__).resolve().parents[2] / "docs" / "methods.md"
        table = re.search(r"^<!-- methods -->\n(.*?)^<!-- end -->$", document.read_text(encoding="utf-8"), re.S | re.M)
        self.assertEqual(table[1], self.ok("methods", "--markdown"), "run scripts/methods-table")
        self.assertEqual(table[1].count("\n"), 2 + len(self.all()["method"]))

    def test_markdown_of_one(self):
        lines = self.ok("methods", "--markdown", "dense").splitlines()
        self.assertEqual((len(lines), lines[2].startswith("| `dense` |")), (3, True))


if __name__ == "__main__":
    unittest.main()
