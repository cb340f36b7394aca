"""What telegrad serve shows of itself: metrics, events; and how it begins beside another one, or is taken for what it is not."""
import json
import math
import os
import re
import signal
import socket
import time
import unittest
import urllib.error
import urllib.request
import net_tool
from cli_tool import run
from free_port import free_port
from serve_tool import MLP, ServeTest, documented

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{NAME}="[^"\\\n]*",?)*)\}})? (NaN|[+-]?(?:Inf|[0-9.]+(?:e[+-]?[0-9]+)?))')


def parse(text):
    """Prometheus' text format 0.0.4, strictly: {metric: (type, {(sample, labels): value})}."""
    found = {}
    name = None
    assert text.endswith("\n")
    for line in text.splitlines():
        head = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (\S.*)", line)
        if head and head.group(1) == "HELP":
            name = head.group(2)
            assert name not in found, f"HELP twice: {line}"
            found[name] = [None, {}]
        elif head:
            assert head.group(2) == name and found[name][0] is None and not found[name][1], f"TYPE out of place: {line}"
            found[name][0] = head.group(3)
        else:
            sample, labels, value = SAMPLE.fullmatch(line).groups()
            kind, samples = found[name]
            endings = {"histogram": ("_bucket", "_sum", "_count")}.get(kind, ("",))
            assert sample in [name + ending for ending in endings], f"sample of another metric: {line}"
            assert (sample, labels) not in samples, f"sample twice: {line}"
            samples[sample, labels] = float(value)
    for name, (kind, samples) in found.items():
        assert kind in ("counter", "gauge", "histogram") and samples, name
        assert name.endswith("_total") == (kind == "counter"), name
        if kind == "histogram":
            buckets = [(float(labels[4:-1].replace("+Inf", "inf")), v) for (sample, labels), v in samples.items() if sample.endswith("_bucket")]
            assert buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets), name
            assert buckets[-1] == (math.inf, samples[name + "_count", None]) and (name + "_sum", None) in samples, name
    return found


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Watch(ServeTest):
    def test_metrics(self):
        port = free_port()
        server = self.serve("--journal", self.path("journal"), "--workers", "3", "--status", f":{port}")

        def get():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
                return parse(answer.read().decode())

        def value(found, name, labels=None, ending=""):
            return found["telegrad_" + name][1][f"telegrad_{name}{ending}", labels]
        first = get()
        self.assertTrue(math.isnan(value(first, "gradient_compression_ratio")))
        self.assertEqual([value(first, name) for name in ("seats", "workers", "parameters", "last_answer_timestamp_seconds")], [3, 0, 0, 0])
        workers = [self.worker("--steps", "100000", "--no-eval") for _ in range(2)]
        self.until(lambda: value(get(), "workers") == 2 and value(get(), "staleness", None, "_sum") > 10)
        found, later = get(), get()
        for name, (kind, samples) in found.items():
            if kind != "gauge":
                for sample, old in samples.items():
                    self.assertLessEqual(first[name][1][sample], old)
                    self.assertLessEqual(old, later[name][1][sample])
        ratio = 4 * value(found, "gradient_elements_total") / value(found, "gradient_bytes_total")
        self.assertAlmostEqual(value(found, "gradient_compression_ratio"), ratio, 9)
        self.assertGreater(ratio, 10)  # topk:density=0.05
        self.assertGreater(value(found, "answer_compression_ratio"), 0.99)  # f32, with envelopes
        self.assertLess(value(found, "answer_compression_ratio"), 1)
        self.assertEqual(value(found, "parameters"), 27882)
        self.assertGreater(value(found, "gradients_total"), 10)
        self.assertLess(value(found, "gradient_bytes_total"), value(found, "received_bytes_total"))
        self.assertEqual(value(found, "worker_events_total", 'event="came"'), 2)
        self.assertEqual(value(found, "repeated_total"), 0)
        self.assertGreater(value(found, "journal_seconds_total"), 0)
        self.assertGreater(value(found, "last_answer_timestamp_seconds"), value(found, "start_time_seconds"))
        for worker in workers:
            worker.kill()
        self.until(lambda: value(get(), "worker_events_total", 'event="lost"') == 2)
        before = get()
        self.assertGreater(value(before, "journal_bytes"), 0)
        server.kill()
        net_tool.Done(server)
        server = self.serve("--journal", self.path("journal"), "--workers", "3", "--status", f":{port}")
        for name in ("step", "journal_bytes"):
            self.assertEqual(value(get(), name), value(before, name))
        self.ends(server)

    def test_events(self):
        """Who comes, leaves, is disconnected or refused is recorded when it happens; report shows it."""
        public, out = self.new_keys(3), self.path("server.jsonl")
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(f"{public[1]} anna\n")
        server = self.start("serve", "--listen", self.meeting, "--key", self.path("0.key"), "--allow", self.path("friends"), "--out", out)
        self.told(server, "listens at")

        def worker(key, *args):
            return self.start("train", "--server", self.meeting, "--server-key", public[0], "--key", self.path(f"{key}.key"), *MLP,
                              "--no-eval", *args)

        def wait_for(*kinds):
            self.until(lambda: [event["event"] for event in self.records("server.jsonl", "server_event")] == list(kinds))
        self.fine(worker(1, "--steps", "3"))
        wait_for("came", "left")
        stays = worker(1, "--steps", "1000000")
        self.until(lambda: self.records("server.jsonl", "server_event")[-1]["event"] == "came")
        self.assertEqual(net_tool.Done(worker(2, "--steps", "3", "--timeout", "1")).returncode, 1)
        wait_for("came", "left", "came", "refused")
        self.told(server, "not on the list")
        self.until(lambda: net_tool.Done(worker(1, "--steps", "3", "--seed", "7")).returncode == 1)
        self.until(lambda: self.records("server.jsonl", "server_event")[-1]["event"] == "dropped")
        stays.kill()
        self.until(lambda: self.records("server.jsonl", "server_event")[-1]["event"] == "lost")
        said = self.ends(server)
        events = self.records("server.jsonl", "server_event")
        fingerprint = self.ok("key", "fingerprint", public[2])
        for event in events:
            self.assertEqual(set(event), {"type"} | documented("server_event"))
            self.assertIn(f"telegrad: {event['text']}\n", said)  # as on the terminal
            self.assertEqual((event["host"], event["steps"]), ("127.0.0.1", None))
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertEqual((event["worker"] is None, event["name"]), (event["event"] == "refused", None if event["event"] == "refused" else "anna"))
        self.assertEqual(sorted(event["seconds"] for event in events), [event["seconds"] for event in events])
        by_kind = {event["event"]: event for event in events}
        self.assertEqual(by_kind["refused"]["reason"], "it is not on the list of allowed keys")
        self.assertEqual(len(by_kind["refused"]["key"]), 24)
        self.assertIn(by_kind["refused"]["key"], fingerprint)
        self.assertIn("they have seed=1, this one has seed=7", by_kind["dropped"]["reason"])
        self.assertEqual(by_kind["left"]["reason"], None)
        shown = self.ok("report", out)
        self.assertIn("server: events\n", shown)
        self.assertRegex(shown, r"dropped +\d +anna +\d.*this one has seed=7")
        self.ok("report", out, "-o", self.path("server.html"))
        with open(self.path("server.html"), encoding="utf-8") as file:
            page = json.loads(re.search(r'<script[^>]*id="?records"?[^>]*>(.*?)</script>', file.read(), re.S).group(1))
        self.assertEqual([event["event"] for event in page["runs"][0]["events"]], [event["event"] for event in events] + ["ended"])

    def test_replay(self):
        """A server that reads its journal says how far it is to those who ask, and is not healthy until then."""
        port = free_port()
        options = ["--listen", self.meeting, "--insecure", "--journal", self.path("journal"), "--status", f":{port}"]
        server = self.told(self.start("serve", *options), "listens at")
        self.fine(self.start("train", "--server", self.meeting, "--insecure", "--model", "mlp:hidden=512", *MLP[2:], "--batch", "4",
                             "--steps", "150", "--no-eval"))
        told = []
        for page in ("healthz", "metrics") * 5:  # the first request may come too late
            server.kill()
            net_tool.Done(server)
            server = self.start("serve", *options)
            end = time.time() + 60
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=20) as answer:
                        answer.read()
                        break
                except urllib.error.HTTPError as answer:
                    self.assertEqual(answer.code, 503)
                    told.append((page, answer.read().decode()))
                except OSError:  # not listening yet
                    self.assertLess(time.time(), end)
            self.told(server, "listens at")
            if {page for page, _ in told} == {"healthz", "metrics"}:
                break
        else:
            self.fail(told)
        for _, text in told:
            self.assertRegex(text, r"^replaying the journal: \d+ % of \d.* MB(, .* left)?\n$")
        self.assertNotIn("replaying", self.ends(server))  # it does not take long enough

    def test_silent_calls(self):
        """As many as there are places for do not hold up another one: the oldest of them is closed."""
        port = free_port()
        server = self.serve("--status", f":{port}")
        silent = []
        for _ in range(8):
            silent.append(socket.create_connection(("127.0.0.1", port)))
            self.addCleanup(silent[-1].close)
            time.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
            self.assertEqual(answer.read(), b"ok\n")
        self.assertEqual(silent[0].recv(1), b"")
        silent[-1].setblocking(False)
        with self.assertRaises(BlockingIOError):
            silent[-1].recv(1)
        self.ends(server)

    def test_waiting_for_a_seat(self):
        """A worker that waits calls less and less often, and comes once there is room."""
        port = free_port()
        server = self.serve("--workers", "1", "--status", f":{port}")
        first = self.worker("--steps", "1000000", "--no-eval")
        self.told(server, "has come")
        waits = self.worker("--steps", "3", "--anew", "--no-eval")
        self.told(waits, "the only seat for a worker is taken")
        time.sleep(4)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            calls = parse(answer.read().decode())["telegrad_worker_events_total"][1]["telegrad_worker_events_total", 'event="refused"']
        self.assertIn(calls, range(3, 20))
        first.send_signal(signal.SIGTERM)
        self.assertEqual(net_tool.Done(first).returncode, 143)
        self.fine(waits)
        self.ends(server)

    def test_taken_off_the_list(self):
        """A worker that SIGHUP disconnects has its name in the event."""
        public, out = self.new_keys(2), self.path("server.jsonl")
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(f"{public[1]} anna\n")
        server = self.start("serve", "--listen", self.meeting, "--key", self.path("0.key"), "--allow", self.path("friends"), "--out", out)
        self.told(server, "listens at")
        worker = self.start("train", "--server", self.meeting, "--server-key", public[0], "--key", self.path("1.key"), *MLP, "--no-eval",
                            "--steps", "1000000")
        self.until(lambda: self.records("server.jsonl", "server_event"))
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(f"{public[0]} bob\n")
        server.send_signal(signal.SIGHUP)
        self.assertEqual(net_tool.Done(worker).returncode, 1)
        self.until(lambda: len(self.records("server.jsonl", "server_event")) > 1)
        self.ends(server)
        self.assertEqual([(event["event"], event["name"]) for event in self.records("server.jsonl", "server_event")],
                         [("came", "anna"), ("dropped", "anna")])

    def test_rotated(self):
        """The file of the records may be copied and emptied, or renamed before SIGHUP; each new one begins as the first did."""
        out = self.path("server.jsonl")
        self.new_keys(2)
        server = self.start("serve", "--listen", self.meeting, "--key", self.path("0.key"), "--allow", self.path("friends"), "--out", out,
                            "--log-every", "0.1")
        self.told(server, "listens at")
        self.until(lambda: self.records("server.jsonl", "server"))
        os.truncate(out, 0)
        self.until(lambda: self.records("server.jsonl", "server"))
        os.rename(out, self.path("old.jsonl"))
        with open(out, "w", encoding="utf-8"):
            pass
        before = len(self.records("old.jsonl", "server"))
        self.until(lambda: len(self.records("old.jsonl", "server")) > before)
        server.send_signal(signal.SIGHUP)
        self.until(lambda: self.records("server.jsonl", "server"))
        self.ends(server)
        for name, ends in (("old.jsonl", 0), ("server.jsonl", 1)):
            start = self.records(name, "server_start")
            with open(self.path(name), encoding="utf-8") as file:
                self.assertEqual(json.loads(file.readline()), start[0])
            self.assertEqual((len(start), len(self.records(name, "server_end"))), (1, ends))
            self.ok("report", self.path(name))

    def test_unfit(self):
        server = self.serve("--out", self.path("server.jsonl"))
        worker = self.start("train", "--server", self.meeting, "--insecure", *MLP[:-2], "--lr", "1e30", "--steps", "40", "--no-eval")
        net_tool.Done(worker)
        self.ends(server)
        unfit = [event for event in self.records("server.jsonl", "server_event") if event["event"] == "unfit"]
        self.assertEqual([(event["worker"], event["steps"]) for event in unfit], [(0, 1)])  # one per --log-every
        self.assertIn("it is not applied", unfit[0]["text"])
        end = self.records("server.jsonl", "server_end")[0]  # of topk:density=0.05, also with gradients that are not finite
        self.assertLess(4 * end["gradient_elements"] / end["gradient_bytes"], 40)
        self.assertGreater(self.records("server.jsonl", "server_end")[0]["unfit"], 1)


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Ports(ServeTest):
    def test_predecessor_ends(self):
        """A server waits until the ports of the one before it are free."""
        options = ["--journal", self.path("journal"), "--status", f":{free_port()}"]
        old = self.serve(*options)
        new = self.told(self.start("serve", "--listen", self.meeting, "--insecure", *options), "Address already in use: trying again for 10 s")
        self.ends(old)
        self.told(new, "listens at")
        self.fine(self.worker("--steps", "3", "--no-eval"))
        self.assertEqual(self.ends(new).count("trying again"), 1)


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Mistaken(ServeTest):
    def test_rank_0_for_a_server(self):
        """The worker ends at once, and the job begins and ends as if it had not called."""
        job = [*MLP, "--steps", "8", "--no-eval"]
        rank0 = self.told(self.start("train", "--listen", self.meeting, "--ranks", "2", "--insecure", *job), "waiting for")
        done = net_tool.Done(self.worker("--steps", "3"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"server 0 at {self.meeting} refuses: this is rank 0 of a job with a fixed group, not a parameter server: use train --join",
                      done.stderr)
        self.assertNotIn("; before: ", done.stderr)  # it has called once
        rank1 = self.fine(self.start("train", "--join", self.meeting, "--insecure", *job))
        hashes = {re.search(r"params hash +(\w+)", text).group(1) for text in
                  (self.fine(rank0).stdout, rank1.stdout, self.ok("train", *job, "--workers", "2"))}
        self.assertEqual(len(hashes), 1)

    def test_server_for_rank_0(self):
        server = self.serve()
        works = self.worker("--steps", "100000", "--no-eval", "--log-every", "1", "--out", self.path("works.jsonl"))
        self.until(lambda: self.records("works.jsonl", "step"))
        done = run("train", "--join", self.meeting, "--insecure", *MLP, "--steps", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the meeting point at {self.meeting} refuses: this is a parameter server, not a meeting point: use train --server", done.stderr)
        before = len(self.records("works.jsonl", "step"))
        self.until(lambda: len(self.records("works.jsonl", "step")) > before + 20)
        works.send_signal(signal.SIGINT)
        self.assertEqual(net_tool.Done(works).returncode, 130)
        self.ends(server)


if __name__ == "__main__":
    unittest.main()
