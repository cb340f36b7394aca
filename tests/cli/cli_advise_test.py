"""telegrad advise: an answer as text, JSON and picture; what it refuses."""
import json
import os
import re
import shlex
import unittest
import xml.etree.ElementTree
from cli_tool import CliTest, last_run

ADVISE = ["advise", "--model", "mlp:hidden=32", "--tau", "20ms"]


class Advise(CliTest):
    def answer(self, *args):
        return json.loads(self.ok(*ADVISE, "--json", *args))

    def test_text(self):
        svg = self.path("steps.svg")
        text = self.ok(*ADVISE, "--link", "20mbit,50ms", "--workers", "8", "--svg", svg)
        for words in ("tau      20.0 ms", "T_ssgd = tau + phi", "T_cd", "ms a step", "\nUse --strategy ", "Compression pays ",
                      "in accuracy, by the nearest runs", "\n\ntelegrad train --model mlp:hidden=32 --workers 8 ", "alpha    50.0 ms", "400 ns"):
            self.assertIn(words, text)
        warm = "(a warm-up takes the first of them)"
        self.assertEqual(warm in text, "warmup=1ep" in text)
        fast = self.ok(*ADVISE, "--link", "100gbit,1us", "--workers", "4")
        self.assertRegex(fast, r"\nTo train this way, for \d+ epochs:\n\ntelegrad train .* --link [^ ]+ --method dense ")
        root = xml.etree.ElementTree.parse(svg).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertFalse(os.path.exists(svg + ".tmp"))
        lines = [p for p in root.iter() if p.get("class") == "l"]
        self.assertEqual(len(lines) % 2, 0)
        self.assertGreaterEqual(len(lines), 8)

    def test_more_than_train_takes(self):
        """The commands to paste simulate a run, and show the times that the tables have."""
        many = ["--link", "20mbit,20ms", "--workers", "10000", "--servers", "2", "--server-link", "10gbit,20ms"]
        text = self.ok(*ADVISE, *many)
        self.assertIn("\nTraining takes up to 4096 workers. To simulate these, without training:\n\ntelegrad train ", text)
        a = self.answer(*many)
        served = a["servers"]
        for command, step_ms in ((a["command"], a["recommended"]["step_ms"]), (served["command"], served["recommended"]["step_ms"])):
            self.assertIn(" --workers 10000 ", command)
            out = self.path("run.jsonl")
            self.ok(*shlex.split(command)[1:], "--out", out)
            self.assertAlmostEqual(last_run(out)[-1]["step_ms_mean"] / step_ms, 1, delta=0.1)

    def test_absurd_links_and_narrow_terminals(self):
        """Columns stay columns: of the times on top, and of the table."""
        text = self.ok(*ADVISE, "--link", "1bit,1000s", "--workers", "8")
        for name in ("tau", "phi", "psi", "delta", "alpha", "beta"):
            self.assertRegex(text, rf"(?m)^{name:5}  (?=.{{9}}  ) *\S+( \S+)?  \S")
        self.assertRegex(text, r"(?m)^phi +[\d.]+ d  dense exchange")
        self.assertIn("pays between 1 bit/s and ", text)
        for columns in "100", "60":
            lines = self.ok(*ADVISE, "--link", "1bit,1000s", "--workers", "8", COLUMNS=columns).split("\n\n")[2].splitlines()
            self.assertLessEqual(max(len(line) for line in lines if line.startswith(("strategy", "-", "local", "ssgd"))), int(columns))

    def test_json(self):
        a = self.answer("--link", "20mbit,50ms", "--workers", "4")
        model, ways = a["time_model"], a["ways"]
        self.assertEqual(model["tau_ms"], 20)
        self.assertAlmostEqual(model["ssgd_ms"], model["tau_ms"] + model["phi_ms"], 6)
        self.assertAlmostEqual(model["od_ms"], max(model["tau_ms"], model["phi_ms"]), 6)
        self.assertAlmostEqual(model["bit_ms"], model["tau_ms"] + model["delta_ms"] + model["psi_ms"], 6)
        self.assertAlmostEqual(model["cd_ms"], ((model["k"] - 1) * max(20, model["delta_ms"] + model["psi_ms"]) +
                                                max(20, model["phi_ms"])) / model["k"], 6)
        self.assertEqual(a["recommended"], ways[0])
        steps = [w["step_ms"] for w in ways[1:]]
        self.assertEqual(steps, sorted(steps))
        self.assertLess(ways[0]["step_ms"], 1.26 * steps[0])
        plain = [w for w in ways if (w["strategy"], w["method"]) == ("ssgd", "dense")]
        self.assertEqual(len(plain), 1)
        self.assertGreater(plain[0]["bytes_per_step"], 6 * a["params"])
        many = self.ok(*ADVISE, "--link", "100mbit,20ms", "--workers", "3000")
        self.assertIn("pay between 1 us and 10 s at this rate", many)
        fast = self.answer("--link", "100gbit,1us", "--workers", "4")
        self.assertEqual(fast["recommended"]["strategy"], "ssgd")
        (below,), (above,) = a["compression"]["pays"], a["delay"]["pays"]
        self.assertIsNone(below[0])
        self.assertIsNone(above[1])
        self.assertTrue(20e6 < below[1] < a["compression"]["looked_at"][1] and 1e-6 < above[0] < 0.05)

    def test_choice_agrees_with_the_table(self):
        """The nearest to plain SGD of the ways within 25 % of the fastest, of those as near the one that sends least."""
        for workers in ("2", "8", "1000"):
            args = ["advise", "--model", "lenet5", "--tau", "20ms", "--link", "100mbit,20ms", "--workers", workers]
            a = json.loads(self.ok(*args, "--json"))
            taken, fastest = a["recommended"], min(w["step_ms"] for w in a["ways"])
            near = [w for w in a["ways"] if w["step_ms"] <= 1.25 * fastest]
            self.assertEqual(taken, min(near, key=lambda w: (round(w["distance"], 6), w["bytes_per_step"])))
            self.assertIn("within 25 % of the fastest it is the nearest to plain SGD", a["why"])

    def test_table_has_every_strategy(self):
        args = ["advise", "--model", "lenet5", "--tau", "20ms", "--link", "100mbit,20ms", "--workers", "8"]
        ways = json.loads(self.ok(*args, "--json"))["ways"]
        lines = self.ok(*args).splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("strategy"))
        last = next(i for i, line in enumerate(lines) if line.startswith("The 2 fastest of each strategy"))
        rows = [line.split()[:2] for line in lines[first + 2:last]]
        for strategy in ("ssgd", "od", "cd", "dga", "local", "streaming"):
            of_it = [row for row in rows if row[0].split(":")[0] == strategy]
            self.assertTrue(2 <= len(of_it) <= 3, (strategy, rows))
        methods = {way["method"] for way in ways if way["strategy"].startswith("streaming:every=")}
        self.assertLessEqual({"dense", "qsgd:bits=4", "topk:density=0.01"}, methods)
        self.assertIn(["ssgd", "dgc"], rows)
        self.assertIn(["ssgd", "dense"], rows)
        self.assertIn("--json lists %d others" % (len(ways) - len(rows)), lines[last])
        self.assertIn("(od, dga with delay=64) pay", "".join(lines[last:]))
        self.assertLess(len(lines), 55)

    def test_k_that_gains_nothing(self):
        self.assertIn("cd gains nothing here: it is od\n", self.ok(*ADVISE, "--link", "100gbit,1us", "--workers", "4"))
        model = self.answer("--link", "100gbit,1us", "--workers", "4")["time_model"]
        self.assertEqual((model["k"], model["cd_ms"]), (1, model["od_ms"]))

    def test_pictures_of_extreme_links(self):
        svg = self.path("steps.svg")
        for link, title in (("up=5mbit,down=50mbit,delay=10ms", "5 Mbit/s"), ("down=50mbit,delay=10ms", "50 Mbit/s"),
                            ("0.001kbit,3600s", "1e-06 Mbit/s"), ("900000000gbit", "9e+11 Mbit/s")):
            self.ok(*ADVISE, "--link", link, "--workers", "2", "--svg", svg)
            with open(svg, encoding="utf-8") as file:
                text = file.read()
            self.assertIn("against delay, " + title, text)
            self.assertNotIn("nan", text)
            self.assertNotIn("inf", text)
            x = [[float(part) for part in p.get("d")[1:].split()[::2]]
                 for p in xml.etree.ElementTree.fromstring(text).iter() if p.get("class") == "l"]
            for line in x:
                self.assertEqual(line, sorted(set(line)))
            marks = text.count('class="m"')
            self.assertEqual(marks, 1 if link.endswith("gbit") else 2, link)

    def test_names_in_the_picture_have_room(self):
        svg = self.path("steps.svg")
        self.ok(*ADVISE, "--link", "20mbit,20ms", "--workers", "4", "--svg", svg)
        root = xml.etree.ElementTree.parse(svg).getroot()
        texts = [node for node in root.iter("{http://www.w3.org/2000/svg}text") if not node.get("text-anchor")]
        lefts = sorted({float(node.get("x")) for node in texts if node.get("class") == "h"})
        self.assertEqual(len(lefts), 2)
        names = [node for node in texts if node.get("style")]
        self.assertGreaterEqual(len(names), 8)
        for node in names:  # labels of an axis begin 60 left of it
            ends = int(root.get("width")) if float(node.get("x")) > lefts[1] else lefts[1] - 60
            self.assertLessEqual(float(node.get("x")) + 7 * len(node.text), ends, node.text)

    def test_command_to_paste(self):
        commands = set()
        for link, more in (("20mbit,20ms", []), ("10gbit,0ms", ["--driver", "inline"])):
            args = [*ADVISE[1:], "--link", link, "--workers", "2", "--batch", "8", *more]
            command = json.loads(self.ok("advise", *args, "--json"))["command"]
            words = shlex.split(command)
            self.assertEqual(words[:2], ["telegrad", "train"])
            for word in more:
                self.assertIn(word, words)
            self.assertEqual(words[words.index("--link") + 1], link)
            commands.add(tuple(words[words.index("--link") + 2:]))
            self.ok(*words[1:], "--data", "glyphs:train=16,test=16", "--no-eval")
        self.assertEqual(len(commands), 2)
        text = self.ok(*ADVISE, "--link", "100gbit,0ms", "--workers", "2")
        self.assertTrue(text.splitlines()[-1].startswith("telegrad train --model mlp:hidden=32 --workers 2 "), text)

    def test_language_models_are_trained_with_adam(self):
        """So dgc, which accumulates SGD's momentum, is left out; and what is recommended has known runs."""
        for model in ("gpt:layers=1,heads=1,embed=8", "lstm:hidden=4,embed=4"):
            a = json.loads(self.ok("advise", "--json", "--model", model, "--tau", "20ms", "--link", "100kbit,50ms", "--workers", "4",
                                   "--servers", "1", "--server-link", "1gbit,1ms"))
            served = a["servers"]
            for way in (served["without"], *served["counts"], *served["modes"]):
                self.assertFalse(way["method"].startswith("dgc"), way)
            methods = {way["method"] for way in a["ways"]}
            self.assertIn("topk:density=0.01", methods)
            self.assertNotIn("dgc", methods)
            self.assertTrue(a["accuracy"], a["recommended"])

    def test_known_accuracies_are_in_their_documents(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(source, "command/advise/advise_known.c"), encoding="utf-8") as file:
            text = file.read()
        runs = {name: re.findall(r'"([^"]*)"', body) for name, body in re.findall(r"known_runs (\w+) = {(.*?)};", text, re.S)}
        rows = re.findall(r'{&(\w+), "([^"]*)", "([^"]*)", "([^"]*)"}', text)
        self.assertEqual({row[0] for row in rows}, set(runs))
        self.assertGreaterEqual(len(rows), 30)
        for name, strategy, method, result in rows:
            about, model, what, dense, document = runs[name]
            with open(os.path.join(source, document), encoding="utf-8") as file:
                lines = file.read().splitlines()
            for numbers in (re.findall(r"\d+\.\d+", result), re.findall(r"\d+\.\d+", dense)):
                self.assertTrue(any(all(n in line for n in numbers) for line in lines), (name, strategy, method, numbers))
        answer = self.answer("--link", "20mbit,20ms", "--workers", "4")
        for row in answer["accuracy"]:
            self.assertEqual((row["dense"], row["document"]), ("86.15 %", "docs/results/untuned.md"))
        self.assertTrue(answer["accuracy"])

    def test_measured(self):
        """Over an emulated link: figures of it, and how far short runs are from the equations."""
        a = json.loads(self.ok("advise", "--measure", "--json", "--model", "mlp:hidden=16", "--data", "glyphs", "--workers", "2",
                               "--link", "200mbit,15ms"))
        m, model = a["measured"], a["time_model"]
        self.assertEqual(sorted(m), sorted(["tau_ms", "phi_ms", "psi_ms", "delta_ms", "alpha_ms", "beta_ns", "ssgd_ms", "bit_ms",
                                            "phi_effective_ms", "delta_psi_effective_ms"]))
        self.assertAlmostEqual(m["phi_effective_ms"], m["ssgd_ms"] - m["tau_ms"], 6)
        self.assertAlmostEqual(m["delta_psi_effective_ms"], m["bit_ms"] - m["tau_ms"], 6)
        self.assertTrue(14 < m["alpha_ms"] < 60, m) # a delay is never shorter; threads that have to wait make it longer
        self.assertTrue(30 < m["phi_ms"] and 15 < m["psi_ms"] and 30 < m["phi_effective_ms"], m)
        for name in ("tau", "phi", "psi", "delta", "alpha"):
            self.assertAlmostEqual(model[name + "_ms"], m[name + "_ms"], 5)
        self.assertEqual((model["method"], a["params"]), ("2bit", 784 * 16 + 16 + 16 * 64 + 64 + 64 * 10 + 10))

    def test_servers(self):
        """Thin up-links, one server with a wide link: it pays, and the command trains in the time that is said."""
        net = ["--link", "up=2mbit,down=200mbit,delay=10ms", "--workers", "400"]
        wide = ["--servers", "4", "--server-link", "10gbit,10ms"]
        a = self.answer(*net, *wide)["servers"]
        taken = a["recommended"]
        self.assertTrue(a["pays"] and taken["step_ms"] < 0.9 * a["without"]["step_ms"], a)
        self.assertEqual([c["servers"] for c in a["counts"]], [1, 2, 4])
        for c in a["counts"]:  # computing, up-links, servers' links with what all workers send, and two delays
            n = 4 * (784 * 32 + 32 + 32 * 64 + 64 + 64 * 10 + 10)
            answer = 0.9 * c["bytes_per_step"] if "exchange=twoway" in c["method"] else n
            self.assertGreater(c["step_ms"], 20 + 20 + max(8e3 * c["bytes_per_step"] / 2e6, 8e3 * 400 * answer / c["servers"] / 1e10))
        text = self.ok(*ADVISE, *net, *wide)
        command = shlex.split(text.splitlines()[-1])
        self.assertEqual(" ".join(command), a["command"])
        self.assertEqual(command.count("--link-of"), taken["servers"])
        self.assertRegex(text, r"\n%d servers?, .*, with \S+ pays?: " % taken["servers"])
        at = command.index("--epochs")
        out = self.path("run.jsonl")
        job = [*command[1:at], "--steps", "48", "--sim-only", "--clock", "virtual", "--tau", "20ms", "--out", out]
        self.ok(*job)
        with open(out, encoding="utf-8") as file:
            end = json.loads(file.read().splitlines()[-1])
        self.assertAlmostEqual(1e3 * end["seconds"] / 48 / taken["step_ms"], 1, delta=0.05)

    def test_servers_that_do_not_pay(self):
        """As slow as the workers: they carry what all send, and dense means."""
        args = ["--link", "5mbit,10ms", "--workers", "4", "--servers", "1", "--server-link", "5mbit,10ms"]
        self.assertFalse(self.answer(*args)["servers"]["pays"])
        self.assertIn("\nServers do not pay: ", self.ok(*ADVISE, *args))
        self.assertIsNone(self.answer(*args[:4])["servers"])

    def test_which_staleness_pays(self):
        """Paces that change: a small bound is enough. One that is always slow: none is. All alike: keep step."""
        def mode(*stragglers):
            a = self.answer("--link", "1gbit,1ms", "--workers", "16", "--servers", "1", *stragglers)["servers"]
            steps = [m["step_ms"] for m in a["modes"]]
            self.assertTrue(all(b < 1.02 * a for a, b in zip(steps, steps[1:])), steps)
            return a["recommended"]["mode"]
        self.assertRegex(mode("--jitter", "200%"), r"^async:staleness=[1248]$")
        self.assertEqual(mode("--slow", "3:4x"), "async")
        self.assertEqual(mode(), "sum")
        self.assertIn("--strategy server --server-mode async", self.ok(*ADVISE, "--link", "up=2mbit,down=200mbit,delay=1ms", "--workers", "16",
                                                                       "--servers", "1", "--slow", "3:4x"))

    def test_async_chooses_its_own_method(self):
        """In step powersgd is chosen, which has two rounds; async takes another, and its time is that of train."""
        net = ["--link", "100mbit,10ms", "--workers", "8"]
        args = [*net, "--model", "resnet20", "--tau", "72ms", "--servers", "1", "--server-link", "1gbit,10ms", "--jitter", "300%"]
        a = json.loads(self.ok("advise", "--json", *args))["servers"]
        self.assertEqual((a["modes"][0]["mode"], a["modes"][0]["method"]), ("sum", "powersgd"))
        self.assertEqual([m["mode"] for m in a["modes"][1:]], ["async:staleness=%d" % n for n in (1, 2, 4, 8, 16)] + ["async"])
        unbounded = a["modes"][-1]
        out = self.path("run.jsonl")
        self.ok("train", *net, "--model", "resnet20", "--batch", "32", "--servers", "1", "--link-of", "8=1gbit,10ms", "--clock", "virtual",
                "--tau", "72ms", "--sim-only", "--jitter", "300%", "--steps", "200", "--strategy", "server", "--server-mode", "async",
                "--method", unbounded["method"] + ",warmup=0", "--out", out)
        self.assertAlmostEqual(last_run(out)[-1]["step_ms_mean"] / unbounded["step_ms"], 1, delta=0.05)
        self.assertTrue(a["pays"] and a["recommended"]["mode"].startswith("async"), a)
        self.assertIn(" --method %s,warmup=1ep " % a["recommended"]["method"], a["command"])
        self.assertRegex(a["accuracy"], r"cost accuracy: .* 6\.6 to 8\.5 points .* 0\.2 nats .*docs/results/async-accuracy\.md")
        self.assertIn("\n" + a["accuracy"] + "\n", self.ok("advise", *args))

    def test_no_word_about_async_where_it_is_not_what_pays(self):
        args = ["--link", "up=2mbit,down=200mbit,delay=10ms", "--workers", "400", "--servers", "1", "--server-link", "10gbit,10ms"]
        a = self.answer(*args)["servers"]
        self.assertEqual((a["pays"], a["recommended"]["mode"], a["accuracy"]), (True, "sum", None))
        self.assertNotIn("Asynchronous", self.ok(*ADVISE, *args))

    def test_refusals_of_servers(self):
        link = ["--link", "20mbit,50ms"]
        for option, value in (("--server-link", "1gbit"), ("--slow", "1:2x"), ("--jitter", "5%")):
            self.refused(2, [option + " requires --servers N"], *ADVISE, *link, option, value)
        served = [*ADVISE, *link, "--servers"]
        self.refused(2, ["--servers", "257"], *served, "257")
        self.refused(2, ["--servers 65 with --server-link: allowed: at most 64"], *served, "65", "--server-link", "1gbit")
        self.refused(2, ["--server-link: ", "fast"], *served, "1", "--server-link", "fast")
        self.refused(2, ["--slow 4", "ranks 0 to 3"], *served, "1", "--slow", "4:2x")
        self.refused(2, ["--servers and --measure"], "advise", *link, "--servers", "1", "--measure")

    def test_refusals(self):
        link = ["--link", "20mbit,50ms"]
        self.refused(2, ["nonet", "lenet5"], "advise", "--model", "nonet", *link)
        self.refused(2, ["--link", "100mbit,20ms"], *ADVISE)
        self.refused(2, ["fast"], *ADVISE, "--link", "fast")
        self.refused(2, ["--workers 1", "exchanges nothing", "2 to"], *ADVISE, *link, "--workers", "1")
        for bad in ("soon", "-5ms", "nan", "150", "3601s", ""):
            said = self.refused(2, ['--tau "%s"' % bad, "allowed: measured, or a time such as 150ms", "3600s"], "advise", *link, "--tau=" + bad)
            self.assertNotIn("FILE", said)
        for bad in ("0", "1000001", "x"):
            self.refused(2, ['--workers "%s": allowed: 2 to 1000000' % bad], *ADVISE, *link, "--workers", bad)
        self.refused(2, ["--svg has no value"], *ADVISE, *link, "--svg", "")
        self.refused(1, ["--svg"], *ADVISE, *link, "--svg", self.path("no/such/folder.svg"))

    def test_picture_takes_no_place_of_records(self):
        keep = self.path("keep.jsonl")
        with open(keep, "w", encoding="utf-8") as file:
            file.write("{}\n")
        for name in (keep, self.path("x.png"), self.path("svg"), "/dev/null"):
            self.refused(2, ['--svg "%s": allowed: a name that ends in .svg' % name[:64]], *ADVISE, "--link", "20mbit", "--svg", name)
        with open(keep, encoding="utf-8") as file:
            self.assertEqual(file.read(), "{}\n")
        self.assertEqual(os.listdir(self.folder), ["keep.jsonl"])


if __name__ == "__main__":
    unittest.main()
