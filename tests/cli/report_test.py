"""telegrad report: the page in headless Chromium (skipped where there is none) and as text, the timeline, what is refused."""
import gzip
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import unittest
import xml.dom.minidom
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, TINY, run, start

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))), None)
STRANGE = "</script><img src=x onerror=alert(1)> & \"quotes\" <!-- \u2028 \u00e9"

# Runs first and keeps what goes wrong; then, when the page stands, looks at it and uses it, and leaves what it saw in the page.
WATCH = """<script>window.wrong = [];
addEventListener("error", e => wrong.push(String(e.message)));
addEventListener("securitypolicyviolation", e => wrong.push("policy: " + e.violatedDirective));
for (const name of ["error", "warn"]) console[name] = (...words) => wrong.push(name + ": " + words.join(" "));
</script>"""
CHECK = """<script>{
const ink = canvas => {
    const p = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]);
    return seen.size;
};
const look = () => [...document.querySelectorAll("figure")].map(f => ({title: f.querySelector("figcaption").firstChild.textContent,
    points: +f.dataset.points, ink: f.querySelector("canvas") ? ink(f.querySelector("canvas")) : 0, label: f.querySelector(".plot").ariaLabel}));
const table = document.querySelector("table"), column = n => [...table.tBodies[0].rows].map(row => row.cells[n].textContent.trim());
const sorts = [...table.tHead.rows[0].cells].map((head, n) => {
    const once = [];
    for (let i = 0; i < 2; i++) { head.querySelector("button").click(); once.push([head.getAttribute("aria-sort"), column(n)]); }
    return [head.querySelector("button").textContent, once];
});
const best = [...table.querySelectorAll(".best")].map(cell => [table.tHead.rows[0].cells[cell.cellIndex].querySelector("button").textContent, cell.textContent]);
const over = {};
setTimeout(() => {
    for (const input of document.querySelectorAll("input[name=x]")) { input.click(); over[input.value] = []; }
    const kinds = Object.keys(over);
    if (!kinds.length) over.only = look();
    const next = () => {
        if (!kinds.length) return finish();
        document.querySelector(`input[value=${kinds[0]}]`).click();
        setTimeout(() => { over[kinds.shift()] = look(); next(); }, 20);
    };
    const finish = () => {
        const chip = document.querySelector(".chip"), before = +document.querySelector("figure").dataset.points;
        let after = null, tip = null;
        if (chip) { chip.click(); after = +document.querySelector("figure").dataset.points; chip.click(); }
        const end = () => document.querySelector(".plot").dispatchEvent(new KeyboardEvent("keydown", {key: "End"}));
        setTimeout(end, 20); // when what was shown again is drawn
        setTimeout(() => {
            tip = (document.querySelector(".tip") || {}).textContent;
            const times = document.querySelector(".times table"), texts = row => [...row.cells].slice(2).map(cell => (cell.querySelector("button") || cell).textContent);
            const saw = {wrong, sorts, best, times: times && [times.tHead.rows[0], ...times.tBodies[0].rows].map(texts),
                bars: Object.fromEntries([...document.querySelectorAll("figure")].filter(f => f.querySelector(".bars")).map(f => [f.querySelector("figcaption").firstChild.textContent,
                    [...f.querySelectorAll(".lone")].map(lone => [...[...lone.children].slice(0, 2).map(part => part.textContent), lone.querySelector("i").style.width])])),
                cropped: [...document.querySelectorAll(".scroll")].filter(part => part.scrollWidth > part.clientWidth).map(part => part.firstChild.getAttribute("aria-label")),
                timesAbout: times && document.querySelector(".times + p").textContent,
                ticks: Object.fromEntries(drawn.filter(c => c.plot).map(c => [c.spec.title, c.plot.axes[1]._values])), about: document.querySelector(".about").textContent, samples: X.samples && runs.map(run => X.samples.of(run, 60)), over,
                chip: chip && [before, after], tip, title: document.title, wide: document.documentElement.scrollWidth,
                images: document.images.length, notes: [...document.querySelectorAll(".notes li")].map(li => li.textContent)};
            const pre = document.createElement("pre");
            pre.id = "saw";
            pre.textContent = JSON.stringify(saw);
            document.body.append(pre);
        }, 50);
    };
    next();
}, 100);
}</script>"""


class Page(html.parser.HTMLParser):
    """What a browser takes for elements."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open == "script":
            self.scripts[-1] += data


def write_run(path, name="run", seed=1, method="dense", quality=0.5, tokens=0, steps=60, end=True, **settings):
    """Records as train --out writes them, of curves that are known."""
    start = {"type": "start", "model": "lenet5", "method": method, "strategy": "ssgd", "link": None, "world": 4, "workers": 4, "batch": 8,
             "seed": seed, "params": 1000, "data": "mnist", "train_samples": 60000, "test_samples": 10000, "context": tokens,
             "clock": "real", "transport": "inproc", "times": {"forward_ns": [1] * 1000}, **settings}
    lines = [start]
    for step in range(1, steps + 1):
        lines.append({"type": "step", "step": step, "loss": 3 / step, "lr": 0.1 / step, "seconds": step * 0.1, "bytes_sent": 4000, "coded": True,
                      "coded_bytes": 400 - step % 3, "density_kept": 0.1 + 0.001 * (step % 5), "residual_norm": step ** 0.5, "residual_ratio": 0.5 / step,
                      "grad_norm": 1 / step, "compute_ms": 60, "wait_ms": 20, "apply_ms": 5, "encode_ms": 3, "exchange_ms": 40, "decode_ms": 2,
                      "step_ms": 90 + step % 2})
        if step % 20 == 0:
            lines.append({"type": "epoch", "epoch": step // 20 - 1, "step": step, "seconds": step * 0.1, "bytes_sent": step * 4000,
                          "train_loss": 2 / step, "test_accuracy": quality - 1 / step, "test_loss": 1 / step,
                          "perplexity": 5 / step if tokens else None})
    if end:
        lines.append({"type": "end", "steps": steps, "seconds": steps * 0.1, "test_accuracy": quality, "test_loss": 0.1, "step_ms_median": 90,
                      "bytes_per_step": 4000, "ratio": 10, "ratio_wire": 1, "bytes_sent": steps * 4000, "interrupted": False})
    for line in lines:
        line["run"] = name
    with (gzip.open if path.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def write_server(path, starts=(0,), end=True):
    """Records as serve --out writes them: a server that is started at these seconds, for 20 s each."""
    lines = []
    for begin in starts:
        lines.append({"type": "server_start", "listen": "tcp://0.0.0.0:4242", "mode": "async:staleness=4", "optimizer": "adam:lr=0.001", "shard": 0,
                      "shards": 1, "workers_most": 8, "time": f"2026-11-26T16:{begin // 60:02}:{begin % 60:02}Z"})
        for second in range(1, 21):
            lines.append({"type": "server", "seconds": second, "workers": min(second, 8), "step": 10 * second, "answers": 40 * second,
                          "elements": 1000 * second, "bytes_in": 10 ** 6 * second ** 2, "bytes_out": 10 ** 8 * second, "repeated": 0, "unfit": second, "idle_s": 0,
                          "combine_s": 0.01 * second ** 2 / 20, "journal_bytes": 10 ** 7 * second, "journal_syncs": 20 * second,
                          "journal_s": 0.02 * second ** 1.5, "staleness": [20 * second, 10 * second, 5 * second, second ** 2, *[0] * 12],
                          "gradient_elements": 400 * second, "gradient_bytes": 100 * second, "answer_elements": 0, "answer_bytes": 0})
        lines.insert(-1, {"type": "server_event", "seconds": 19.5, "event": "refused", "worker": None, "name": STRANGE, "reason": STRANGE, "step": 7})
    if end:
        lines[-1]["type"] = "server_end"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


class Report(CliTest):
    def page(self, *args):
        out = self.path("report.html")
        self.assertRegex(self.ok("report", *args, "-o", out), r"^\S+report.html: [\d.]+ [kM]B\n$")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])
        with open(out, encoding="utf-8") as file:
            return file.read()

    def look(self, text, width=1200):
        """What the page in a browser is like."""
        if not CHROMIUM:
            self.skipTest("SKIP: no chromium")
        path = self.path("checked.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("<head>", "<head>" + WATCH, 1).replace("</body>", CHECK + "</body>", 1))
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--virtual-time-budget=8000",
                               f"--user-data-dir={self.path('profile')}", "--dump-dom", "file://" + path],
                              capture_output=True, text=True, timeout=120)
        saw = re.search(r'<pre id="saw">(.*?)</pre>', done.stdout, re.S)
        self.assertTrue(saw, done.stderr[-2000:] + done.stdout[-500:])
        saw = json.loads(html.unescape(saw[1]))
        self.assertEqual(saw["wrong"], [])
        self.assertLessEqual(saw["wide"], width)
        return saw

    def test_page_in_a_browser(self):
        one = write_run(self.path("one.jsonl"), name=STRANGE, quality=0.75)
        two = write_run(self.path("two.jsonl.gz"), name="two", method="topk:density=0.01", quality=0.9)
        three = write_run(self.path("three.jsonl"), name="three", method="qsgd:bits=4", quality=0.25, steps=4000, end=False)
        with open(three, "a", encoding="utf-8") as file:
            file.write('{"type":"st')
        done = run("report", one, two, three, "--title", STRANGE, "-o", self.path("cut.html"))
        self.assertEqual((done.returncode, done.stderr.split(": ", 2)[1]), (0, "warning"))
        self.assertIn("three.jsonl: the last line (", done.stderr)
        with open(self.path("cut.html"), encoding="utf-8") as file:
            text = file.read()
        self.assertLess(len(text), 2_000_000)
        saw = self.look(text)
        self.assertEqual((saw["title"], saw["images"]), (STRANGE, 0))
        self.assertEqual(len(saw["notes"]), 1)
        self.assertIn("is cut", saw["notes"][0])
        self.assertEqual(list(saw["over"]), ["steps", "samples", "seconds", "bytes"])
        for kind, charts in saw["over"].items():
            titles = [chart["title"] for chart in charts]
            for title in ("Test accuracy", "Test loss", "Training loss", "Compression", "Density", "Residual", "Time of a step"):
                self.assertIn(title, titles)
            for chart in charts:
                self.assertGreaterEqual(chart["points"], 3, (kind, chart))
                self.assertGreater(chart["ink"], 4, (kind, chart)) # axes, and the runs' colours
        accuracy = next(chart for chart in saw["over"]["steps"] if chart["title"] == "Test accuracy")
        self.assertIn("two ends at 88.33", accuracy["label"])
        self.assertLess(saw["chip"][1], saw["chip"][0]) # a run that is hidden is not drawn
        self.assertRegex(saw["tip"], r"^16 MBthree24\.98$") # the longest run's last value
        sorts = dict((head, both) for head, both in saw["sorts"])
        self.assertEqual(sorts["test acc."], [["descending", ["90.00", "75.00", "24.98"]], ["ascending", ["24.98", "75.00", "90.00"]]])
        self.assertEqual([order for order, _ in sorts["method"]], ["ascending", "descending"])
        self.assertEqual(sorts["method"][0][1], ["dense", "qsgd", "topk"])

    def test_diverged_run(self):
        good, bad, cut = (write_run(self.path(name + ".jsonl"), method=name) for name in ("good", "bad", "cut"))
        for path, kept in ((bad, None), (cut, 43)): # up to the second epoch: it has taken the least time
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file][:kept]
            for line in lines[-1:] if kept else lines[-2:]:
                line.update(test_loss=None, test_accuracy=0.1)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        text = self.page(good, bad, cut)
        self.assertEqual([run["last"]["test_loss"] for run in json.loads(Page(text).scripts[0])["runs"]], [0.01666667, None, None])
        saw = self.look(text)
        sorts = dict((head, both) for head, both in saw["sorts"])
        self.assertEqual(sorts["test loss"][0][1], ["0.1000", "\u2013", "\u2013"])
        self.assertEqual([cell.count("not finite") for cell in sorts["Run"][0][1]], [1, 1, 0])
        self.assertEqual({head for head, _ in saw["best"]}, {"test acc.", "best", "train loss (epoch)", "step"}) # no test loss, no time

    def test_time_of_a_step(self):
        """The parts add up to seconds / steps, whichever steps were logged; the floating-point rest of them is none."""
        new, old = write_run(self.path("new.jsonl")), write_run(self.path("old.jsonl"))
        with open(new, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        lines[-1].update(step_ms_mean=0.6, compute_ms_mean=0.1, wait_ms_mean=0.2, apply_ms_mean=0.3 - 1e-12, encode_ms_mean=1,
                         exchange_ms_mean=8, decode_ms_mean=0)
        with open(new, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        saw = self.look(self.page(new, old))
        head, *rows = saw["times"]
        self.assertEqual(head, ["compute", "wait", "apply", "rest", "step", "encode", "exchange", "of it: decode"])
        self.assertEqual(rows, [["0.1", "0.2", "0.3", "0", "0.6", "1", "8", "0"], ["60", "20", "5", "5.5", "90.5", "3", "40", "2"]])
        self.assertEqual(dict((head, both) for head, both in saw["sorts"])["step"][0][1], ["0.6", "90"])
        self.assertIn("Means over all steps; of run (" + old, saw["timesAbout"])

    def test_time_of_a_step_whose_steps_differ(self):
        run = self.path("run.jsonl")
        data = "--data", "glyphs:train=2560,test=128", "--batch", "16"  # one epoch: ranks come together at the end of each
        self.ok("train", "--workers", "2", *data, "--model", "mlp", "--steps", "80", "--log-every", "5", "--no-eval", "--clock", "virtual",
                "--tau", "5ms", "--link", "100mbit,5ms", "--strategy", "local:every=8", "--out", run)
        with open(run, encoding="utf-8") as file:
            end = [json.loads(line) for line in file][-1]
        step = 1000 * end["seconds"] / end["steps"]
        self.assertAlmostEqual(end["step_ms_mean"], step)
        self.assertEqual((end["step_ms_median"], end["compute_ms_mean"]), (5, 5))
        self.assertAlmostEqual(end["compute_ms_mean"] + end["wait_ms_mean"] + end["apply_ms_mean"], step, 6)
        self.assertAlmostEqual(end["exchange_ms_mean"], step - 5, 6)
        row = [float(cell) for cell in self.look(self.page(run))["times"][1]]
        self.assertAlmostEqual(row[4], step, 1)
        self.assertAlmostEqual(sum(row[:4]), row[4], 1)

    def test_ticks_of_a_run_that_diverges(self):
        path = write_run(self.path("run.jsonl"))
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            if line["type"] == "step":
                line.update(loss=0.1 * 10 ** (line["step"] / 1.9), grad_norm=10 ** (line["step"] / 3), lr=1e-3 * 2 ** (line["step"] / 60),
                            residual_norm=max(0, 10.0 ** line["step"] / 1e20 - 1))
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        ticks = self.look(self.page(path))["ticks"]
        self.assertEqual(ticks["Training loss"], ["1", "10,000", "1e8", "1e12", "1e16", "1e20", "1e24", "1e28"])
        self.assertEqual(ticks["Gradient"][-2:], ["1e15", "1e18"])
        self.assertEqual(ticks["Residual"][:3], ["100,000", "1e10", "1e15"]) # its zeros are left out
        for title, texts in ticks.items():
            self.assertTrue(3 <= len(texts) <= 9 and max(map(len, texts)) < 10, (title, texts))

    def test_runs_of_one_epoch_are_bars(self):
        saw = self.look(self.page(*(write_run(self.path(name + ".jsonl"), name=name, steps=20, method=name, quality=quality)
                                    for name, quality in (("one", 0.9), ("other", 0.8)))))
        self.assertEqual(saw["bars"]["Test accuracy"], [["one", "85.00", "85%"], ["other", "75.00", "75%"]])
        self.assertNotIn("Training loss", saw["bars"])
        self.assertIn("Training loss", saw["ticks"])
        self.assertEqual(saw["cropped"], [])

    def test_real_and_simulated_time(self):
        paths = [write_run(self.path(clock + ".jsonl"), clock=clock, train_samples=n) for clock, n in (("real", 60000), ("virtual", 512))]
        saw = self.look(self.page(*paths))
        self.assertEqual([row.endswith("simulated") for row in dict(saw["sorts"])["Run"][0][1]], [False, True])
        self.assertIn("over time (real and simulated)", saw["over"]["seconds"][0]["label"])
        self.assertIn("60,000, 512 to train, 10,000 to test", saw["about"])

    def test_drawn_clients_equal_and_resumed_runs(self):
        half, late = (write_run(self.path(f"{n}.jsonl"), first_step=20 * n, strategy="fedavg:every=5," + rest)
                      for n, rest in enumerate(("clients=0.6,weighted=yes,deadline=0", "clients=1,weighted=yes,deadline=2")))
        saw = self.look(self.page(half, shutil.copy(half, self.path("0-again.jsonl")), late))
        self.assertEqual(saw["samples"], [60 * 2 * 8] * 2 + [None]) # 2 of 4 ranks, with 8 each; nobody knows
        self.assertIn("run (2 runs) ends at", saw["over"]["steps"][0]["label"]) # not: seeds
        self.assertEqual([row.endswith("resumed at 20") for row in dict(saw["sorts"])["Run"][0][1]], [False, False, True])

    def test_texts_on_a_narrow_screen(self):
        saw = self.look(self.page(write_run(self.path("lstm.jsonl"), tokens=35, method="topk:density=0.01,warmup=0,scope=bucket,values=fp16,index=auto,feedback=residual")), width=420)
        titles = [chart["title"] for chart in saw["over"]["steps"]]
        self.assertIn("Test perplexity", titles)
        self.assertNotIn("Test accuracy", titles)
        self.assertIsNone(saw["chip"])

    def test_servers(self):
        """The page of one server, started twice, and of one that still runs; wide and narrow."""
        one, two = write_server(self.path("s0.jsonl"), starts=(0, 60)), write_server(self.path("s1.jsonl"), end=False)
        saw = self.look(self.page(one, two))
        self.assertEqual(list(saw["over"]), ["only"])
        charts = {chart["title"]: chart for chart in saw["over"]["only"]}
        self.assertEqual(list(charts), ["Steps a second", "Gradients a second", "Workers", "Mean staleness", "Received", "Sent",
                                        "Decoding and updating", "Syncing the journal", "Log of the journal"])
        for chart in charts.values():
            self.assertGreater(chart["points"], 40)
            self.assertGreater(chart["ink"], 4, chart)
        self.assertIn("Workers over time: s0 ends at 8, s1 ends at 8", charts["Workers"]["label"])
        sorts = dict((head, both) for head, both in saw["sorts"])
        self.assertEqual(sorts["starts"][0][1][0], "2")
        self.assertEqual(sorts["answers"][0][1], ["800", "1,600"])
        self.assertEqual(sorts["received"][0][1], ["400 MB", "800 MB"])
        self.assertTrue(any(name.endswith("cut") for name in sorts["Server"][0][1]))
        self.assertIsNone(re.search(r"NaN|undefined", saw["about"]))
        self.assertEqual(saw["title"], "2 parameter servers")
        saw = self.look(self.page(one), width=500)
        self.assertEqual(saw["title"], "Parameter server s0")
        totals, *events = self.ok("report", one, two).split("\n\n")
        table = [line.split() for line in totals.splitlines()]
        self.assertEqual(([part.count("\n") for part in events], [part[:11] for part in events]), ([6, 4], ["s0: events\n", "s1: events\n"]))
        self.assertEqual(table[0], ["server", "time", "workers", "step", "answers", "gradients/s", "staleness", "late", "unfit", "received", "sent", "ratio", "syncs"])
        self.assertEqual(table[2], ["s0", "40.0", "s", "8", "200", "1,600", "55", "2.41", "0", "40", "800", "MB", "4.00", "GB", "16", "800"])
        self.assertEqual([row[0] for row in table[3:]], ["s1"])
        run_file = write_run(self.path("run.jsonl"))
        self.refused(2, ["run.jsonl: records of servers and of runs"], "report", one, run_file, "-o", self.path("mixed.html"))
        self.refused(2, ["s0.jsonl is of a server", "allowed: -o PAGE.html"], "report", one, "-o", self.path("mixed.svg"))

    def test_page_holds_what_it_needs(self):
        text = self.page(write_run(self.path("run.jsonl"), name=STRANGE, link=STRANGE))
        page = Page(text)
        self.assertEqual(page.tags.count("script"), 3)
        self.assertEqual(page.tags.count("img"), 0)
        for away in ("src=", "@import", "url("):
            self.assertNotIn(away, re.sub(r"<script.*?</script>", "", text, flags=re.S))
        data = json.loads(page.scripts[0])
        self.assertEqual(data["runs"][0]["name"], STRANGE)
        self.assertEqual(data["runs"][0]["settings"]["link"], STRANGE)
        self.assertNotIn("times", data["runs"][0]["settings"])
        self.assertIn("Leon Sorokin", text)

    def test_long_runs_stay_small(self):
        path = write_run(self.path("long.jsonl"), steps=30000)
        text = self.page(path, *(shutil.copy(path, self.path(f"{n}.jsonl")) for n in range(3)))
        self.assertLess(len(text), 2_000_000)
        loss = json.loads(Page(text).scripts[0])["runs"][0]["steps"]["loss"]
        self.assertEqual((loss[0][0], loss[1][0], loss[0][-1]), (1, 3, 30000))

    def test_real_run(self):
        run, trace, picture = self.path("run.jsonl"), self.path("trace.json"), self.path("picture.svg")
        self.ok("train", "--workers", "2", *TINY, "--steps", "8", "--log-every", "1", "--no-eval", "--clock", "virtual", "--tau", "20ms",
                "--link", "100mbit,5ms", "--out", run, "--trace", trace)
        data = json.loads(Page(self.page(run)).scripts[0])["runs"][0]
        self.assertEqual((data["name"], data["end"]["steps"], data["marks"][0]), ("run", 8, list(range(9))))
        self.assertEqual(len(data["steps"]["loss"][0]), 8)
        self.ok("report", "--timeline", f"{trace},{trace}", "--title", STRANGE, "--steps", "2-4", "-o", picture)
        svg = xml.dom.minidom.parse(picture)
        titles = [node.firstChild.data for node in svg.getElementsByTagName("title")]
        self.assertEqual(titles[0], f"{STRANGE}; {trace}")
        for words in ("forward, step 2", "backward, step 4", "wait, step 3", "bucket 0"):
            self.assertTrue(any(words in title for title in titles), words)
        self.assertEqual(sum(title.startswith("forward, step 2:") for title in titles), 4)
        self.ok("report", "--timeline", trace, "-o", self.path("timeline.html"))
        self.refused(2, ["has steps 0 to 7"], "report", "--timeline", trace, "--steps", "7-8", "-o", picture)

    def test_standard_input(self):
        page, run = self.path("page.html"), write_run(self.path("run.jsonl"), name=None)
        with open(run, "rb") as file:
            done = subprocess.run([TELEGRAD, "report", "-", "-o", page], stdin=file, capture_output=True, env=ENVIRONMENT, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        with open(page, encoding="utf-8") as file:
            self.assertIn('"name":"standard input"', file.read())
        self.refused(2, ["is given twice"], "report", "-", "-", "-o", page)

    def test_picture(self):
        out = self.path("accuracy.svg")
        runs = [write_run(self.path(f"{name}.jsonl"), name=name, quality=quality, steps=steps)
                for name, quality, steps in (("slow & \u00e9", 0.9, 60), ("fast", 0.8, 40), ("once", 0.7, 20))]
        self.ok("report", *runs, "--title", "<Time>", "-o", out)
        svg = xml.dom.minidom.parse(out).documentElement
        texts = [text.firstChild.data for text in svg.getElementsByTagName("text")]
        for text in "<Time>", "test accuracy, %", "seconds of training", "slow & \u00e9", "fast", "once", "0", "2":
            self.assertEqual(texts.count(text), 1, text)
        # accuracies 85, 87.5, 88.33 % after 2, 4, 6 s; then those of the run of two epochs
        curves = [path.getAttribute("d") for path in svg.getElementsByTagName("path") if path.getAttribute("class") == "l"]
        points = [[float(v) for v in curve[1:].split()] for curve in curves]
        self.assertEqual([len(curve) // 2 for curve in points], [3, 2, 1])
        self.assertEqual(len(svg.getElementsByTagName("circle")), 1)
        x, y = points[0][::2], points[0][1::2]
        self.assertAlmostEqual(x[1] - x[0], x[2] - x[1], delta=0.2)
        self.assertAlmostEqual((y[0] - y[1]) / (y[1] - y[2]), 3, delta=0.1)
        self.assertAlmostEqual((y[0] - points[1][1]) / (y[0] - y[1]), -4, delta=0.1)
        self.refused(2, ["9 runs", "at most 8"], "report", *(write_run(self.path(f"{i}.jsonl")) for i in range(9)), "-o", out)
        self.refused(1, ["complete epoch"], "report", write_run(self.path("short.jsonl"), steps=10), "-o", out)

    def test_picture_of_a_run_that_diverged(self):
        """What is not finite is not drawn: not the accuracy of outputs that are not, and not the run that has nothing else."""
        def diverged(name, **end):
            path = write_run(self.path(name + ".jsonl"), name=name)
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            for line in lines:
                line.update({"test_accuracy": end.get("accuracy"), "test_loss": None, "train_loss": None} if line["type"] == "epoch" else {})
            lines[-1].update(test_accuracy=None, test_loss=None, diverged=True)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            return path
        out, good = self.path("x.svg"), write_run(self.path("good.jsonl"), name="good")
        for accuracy in None, 0.0:
            bad = diverged("bad", accuracy=accuracy)
            self.refused(1, ['run "bad" failed: it has no accuracy or loss that is finite'], "report", bad, "-o", out)
            self.assertFalse(os.path.exists(out))
            done = run("report", good, bad, "-o", out)
            self.assertEqual((done.returncode, done.stderr),
                             (0, 'telegrad: warning: run "bad" failed, and has no test accuracy: it is not drawn\n'))
            with open(out, encoding="utf-8") as file:
                text = file.read()
            self.assertNotIn(">bad<", text)
            self.assertEqual(text.count('class="l"'), 1)
            os.remove(out)
        self.refused(1, ['run "short" has no complete epoch yet'], "report", write_run(self.path("short.jsonl"), name="short", steps=10), "-o", out)

    def test_picture_of_one_value(self):
        """The axis has a range in which a difference could be seen."""
        for quality, ticks in ((0.55, {"46", "50", "54"}), (0.05, {"-1", "0", "1"})):
            out = self.path("x.svg")
            self.ok("report", write_run(self.path("once.jsonl"), quality=quality, steps=20), "-o", out)
            texts = {text.firstChild.data for text in xml.dom.minidom.parse(out).documentElement.getElementsByTagName("text")}
            self.assertLessEqual(ticks, texts)
            self.assertFalse({text for text in texts if "e-" in text}, texts)

    def test_interrupt(self):
        """Ends it at once, and nothing is left."""
        records = self.path("pipe")
        os.mkfifo(records)
        for number in signal.SIGINT, signal.SIGTERM:
            process = start("report", records, "-o", self.path("page.html"))
            writer = os.open(records, os.O_WRONLY)  # it has begun to read
            process.send_signal(number)
            process.communicate(timeout=60)
            os.close(writer)
            self.assertEqual((process.returncode, os.listdir(self.folder)), (128 + number, ["pipe"]))

    def test_refused(self):
        run, out, other = write_run(self.path("run.jsonl")), self.path("out.html"), self.path("other")
        with open(other, "w", encoding="utf-8") as file:
            file.write("one\ntwo\n")
        self.refused(2, ["no -o"], "report", run)
        for name in (run, other, "/dev/null"):
            self.refused(2, ["-o", ".html or .svg"], "report", run, "-o", name)
        self.refused(2, ["-o", ".html or .svg"], "report", "--timeline", other, "-o", other)
        os.link(run, self.path("linked.html"))
        self.refused(2, ["linked.html", "which is read"], "report", run, "-o", self.path("linked.html"))
        self.refused(2, ["linked.html", "which is read"], "report", "--timeline", run, "-o", self.path("linked.html"))
        os.unlink(self.path("linked.html"))
        self.refused(2, ["no records"], "report", "-o", out)
        self.refused(2, ["--title"], "report", run, "--title", "a", "--title", "b", "-o", out)
        self.refused(2, ["--steps"], "report", run, "--steps", "1-2", "-o", out)
        self.refused(2, ["run.jsonl"], "report", run, "--timeline", other, "-o", out)
        for steps in ("3-2", "x", "1-", "-1", "1-2000", "1-2-3"):
            self.refused(2, ["--steps"], "report", "--timeline", other, "--steps=" + steps, "-o", out)
        self.refused(2, ["--timeline"], "report", "--timeline", "a,,b", "-o", out)
        self.refused(1, [other + ":1:"], "report", run, other, "-o", out)
        self.refused(1, [other + ":1:"], "report", "--timeline", other, "-o", out)
        trace = self.path("trace.json")
        with open(trace, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ms",\n"traceEvents":[\n]}\n')
        self.refused(1, [f"telegrad report --timeline {trace} -o timeline.svg"], "report", trace, "-o", out)
        os.unlink(trace)
        records = self.refused(1, ["holds records", "train --trace", f"telegrad report {run} -o report.html"], "report", "--timeline", run, "-o", out)
        self.assertEqual(len(records.splitlines()), 1)
        for text, words in ("", "it has no records"), ('{"type":"sta', "its only line is cut"):
            with open(other, "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(1, [other + " holds no run: " + words], "report", other, "-o", out)
        os.symlink(run, self.path("link"))
        for twice in run, self.path("./run.jsonl"), self.path("link"):
            self.refused(2, ["is given twice"], "report", run, twice, "-o", out)
        os.unlink(self.path("link"))
        real = self.path("real.jsonl")
        self.ok("train", *TINY, "--steps", "2", "--no-eval", "--out", real)
        with open(real, "rb") as file, gzip.open(real + ".gz", "wb") as packed:
            packed.write(file.read())
        self.refused(2, [f"{real}.gz holds a run that {real} holds, too: give one of them"], "report", run, real, real + ".gz", "-o", out)
        os.unlink(real)
        os.unlink(real + ".gz")
        for mine in "mine.html", "mine.svg":
            with open(self.path(mine), "w", encoding="utf-8") as file:
                file.write("<html>mine</html>")
            self.refused(2, [f"-o {self.path(mine)}: the file holds something other than what telegrad report drew"], "report", run, "-o", self.path(mine))
            os.unlink(self.path(mine))
        self.refused(1, ["-o: cannot write in", "none"], "report", run, "-o", self.path("none/x.html"))
        self.refused(1, ["nowhere", "No such file"], "report", self.path("nowhere"), "-o", out)
        self.refused(1, ["-o"], "report", run, "-o", self.path("no/such/folder.html"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["other", "run.jsonl"])


if __name__ == "__main__":
    unittest.main()
