"""telegrad serve, and workers that come to it and leave, in processes over 127.0.0.1."""
import json
import os
import pathlib
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
from serve_tool import DOCS, MLP, ServeTest, documented


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Serve(ServeTest):
    def test_workers_come_and_go(self):
        """One is killed, one comes later and goes on with what the others have trained."""
        server = self.serve("--workers", "3")
        killed, stays = self.worker("--steps", "100000", "--no-eval"), self.worker("--steps", "400", "--out", self.path("stays.jsonl"))
        self.told(server, "worker 1 (127.0.0.1) has come")
        self.fine(stays)
        killed.kill()
        self.told(server, "has left: ")
        with open(self.path("stays.jsonl"), encoding="utf-8") as file:
            losses = [record["loss"] for record in map(json.loads, file) if record.get("type") == "step"]
        late = self.fine(self.worker("--steps", "4", "--anew", "--out", self.path("late.jsonl")))
        self.assertIn("(servers)", late.stdout)
        with open(self.path("late.jsonl"), encoding="utf-8") as file:
            first = next(record["loss"] for record in map(json.loads, file) if record.get("type") == "step")
        self.assertLess(first, losses[0] / 2)
        self.ends(server)

    def test_newcomer(self):
        """A worker begins at the step of the others, with their rate, and ends where the job does."""
        journal = self.path("journal")
        server = self.serve("--journal", journal)
        options = ["--steps", "100000", "--lr-schedule", "cosine", "--no-eval", "--log-every", "1"]
        first = self.worker(*options, "--out", self.path("first.jsonl"))
        self.until(lambda: len(self.records("first.jsonl", "step")) > 50)
        second = self.worker(*options, "--out", self.path("second.jsonl"))
        self.until(lambda: self.records("second.jsonl", "step"))
        for worker in (first, second):
            worker.send_signal(signal.SIGINT)
            done = net_tool.Done(worker)
            self.assertEqual(done.returncode, 130, done.stderr)
        start, step = (self.records("second.jsonl", kind)[0] for kind in ("start", "step"))
        joined = start["joined_step"]
        self.assertGreater(joined, 50)
        self.assertIn(f"joined at step {joined:,} of 100,000", done.stderr)
        self.assertEqual((start["first_step"], start["first_epoch"], step["step"]), (joined, joined // start["steps_per_epoch"], joined + 1))
        self.assertEqual(step["lr"], next(record["lr"] for record in self.records("first.jsonl", "step") if record["step"] == joined + 1))
        self.assertEqual(self.records("first.jsonl", "start")[0]["joined_step"], 0)

        weights = [self.path("over.safetensors"), self.path("anew.safetensors")]
        over = self.fine(self.worker("--steps", "5", "--out", self.path("over.jsonl"), "--save-weights", weights[0]))
        self.assertIn("the job is over: it is at step ", over.stderr)
        self.assertIn("steps          none: the job is over, at step ", self.fine(self.worker("--steps", "5")).stdout)
        self.assertEqual(self.records("over.jsonl", "step"), [])
        self.assertIn(f"--init {weights[0]} has no effect: the servers have parameters already",
                      self.fine(self.worker("--steps", "5", "--init", weights[0])).stderr)
        anew = self.fine(self.worker("--steps", "8", "--anew", "--no-eval", "--save-weights", weights[1]))
        self.assertNotIn("joined at", anew.stderr)
        self.assertNotEqual(*(pathlib.Path(path).read_bytes() for path in weights))

        self.told(server, "has left\n")
        server.kill()
        server.communicate()
        server = self.told(self.serve("--journal", journal), "continues with 27,882 parameters, after step 8")
        more = self.fine(self.worker("--steps", "12", "--no-eval", "--out", self.path("more.jsonl"), "--log-every", "1"))
        self.assertIn("joined at step 8 of 12", more.stderr)
        self.assertIn("12 of 12; this run began at step 8, in epoch 9", more.stdout)
        self.assertEqual([record["step"] for record in self.records("more.jsonl", "step")], [9, 10, 11, 12])
        self.ends(server)

    def test_server_records(self):
        """--out: as documented; a server that is started again with its journal appends; report draws them."""
        journal, out = self.path("journal"), self.path("server.jsonl")
        options = ["--journal", journal, "--out", out, "--log-every", "0.1"]
        server = self.serve(*options)
        self.fine(self.worker("--steps", "40", "--no-eval"))
        self.until(lambda: any(record["step"] for record in self.records("server.jsonl", "server")))
        server.kill()
        server.communicate()
        server = self.serve(*options)
        self.fine(self.worker("--steps", "80", "--no-eval"))
        self.ends(server)
        starts, ends = self.records("server.jsonl", "server_start"), self.records("server.jsonl", "server_end")
        self.assertEqual([set(record) for record in starts], [{"type"} | documented("server_start")] * 2)
        for record in self.records("server.jsonl", "server"):
            self.assertEqual(set(record), {"type"} | documented("server"))
        self.assertEqual([set(record) for record in ends], [{"type", "error"} | documented("server")])
        self.assertEqual([record["recovered_step"] for record in starts], [0, 40])
        self.assertEqual((sum(ends[0]["staleness"]), ends[0]["step"], ends[0]["error"]), (40, 79, None))
        self.assertGreater(ends[0]["bytes_in"], 40 * 1000)
        self.assertIn("server.html", run("report", out, "-o", self.path("server.html")).stdout)

    def test_records_on_standard_output(self):
        server = self.serve("--out", "-")
        server.send_signal(signal.SIGTERM)
        done = net_tool.Done(server)
        self.assertEqual([json.loads(line)["type"] for line in done.stdout.splitlines()], ["server_start", "server_end"])

    def test_nobody_reads_the_log(self):
        """The server and its worker go on without readers of stderr, and end as asked."""
        server = self.serve("--out", self.path("server.jsonl"))
        first = self.told(self.worker("--steps", "1000000", "--no-eval", "--out", self.path("first.jsonl")), "worker 0 of at most")
        for process in (server, first):
            process.stderr.close()
        self.fine(self.worker("--steps", "5", "--anew", "--no-eval"))
        self.until(lambda: "left" in [event["event"] for event in self.records("server.jsonl", "server_event")])
        for process, status in ((first, 143), (server, 0)):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), status)
        self.assertEqual(len(self.records("first.jsonl", "end")), 1)
        self.assertEqual(len(self.records("server.jsonl", "server_end")), 1)

    def test_records_that_cannot_be_written(self):
        done = run("serve", "--listen", self.meeting, "--insecure", "--out", self.path("none/server.jsonl"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--out: cannot open {self.path('none/server.jsonl')} for writing", done.stderr)

    def test_alone_is_sequential(self):
        """One worker of two shards has the bits of training without servers, also with a rule."""
        rule = ["--rule", "*.bias=f32", "--steps", "12"]
        other = f"tcp://127.0.0.1:{free_port()}"
        servers = [self.serve("--shard", "0/2", "--workers", "1"), self.serve("--shard", "1/2", "--workers", "1", listen=other)]
        done = self.fine(self.start("train", "--server", f"{self.meeting},{other}", "--insecure", *MLP, *rule))
        alone = run("train", *MLP, *rule, "--strategy", "ssgd")
        hashes = [re.search(r"params hash +(\w+)", text).group(1) for text in (done.stdout, alone.stdout)]
        self.assertEqual(*hashes)
        for server in servers:
            self.ends(server)

    def test_shards_that_differ(self):
        """One job must not be trained by two rules."""
        other = f"tcp://127.0.0.1:{free_port()}"
        for one, two, words in ((["--mode", "async:staleness=2"], ["--mode", "sync"], ["--mode sync", "--mode async:staleness=2"]),
                                (["--mode", "sync"], ["--mode", "sync", "--deadline", "1s"], ["--mode sync --deadline 1s"]),
                                ([], ["--optimizer", "sgd:lr=0.1,momentum=0"], ["momentum=0 --mode async"])):
            servers = [self.serve("--shard", "0/2", *one), self.serve("--shard", "1/2", *two, listen=other)]
            done = net_tool.Done(self.start("train", "--server", f"{self.meeting},{other}", "--insecure", *MLP, "--steps", "2"))
            self.assertEqual(done.returncode, 1)
            for text in ["server 1 has --optimizer ", "and server 0 --optimizer ", *words]:
                self.assertIn(text, done.stderr)
            for server in servers:
                server.kill()
                net_tool.Done(server)

    def test_mode_expected(self):
        """A worker may say which mode its servers must have; MXNet's names are ours."""
        server = self.serve("--workers", "1", "--mode", "dist_async:staleness=4,compensate=0.04", "--out", self.path("server.jsonl"))
        for mode in ("async:staleness=4,compensate=0.04", "dist_async:compensate=0.04,staleness=4",
                     "async:staleness=4,compensate=4e-2,combine=mean"):
            self.fine(self.worker("--steps", "2", "--no-eval", "--server-mode", mode, "--anew"))
        for mode in ("sync", "async", "async:staleness=4", "async:staleness=4,compensate=0.041", "async:staleness=40,compensate=0.04"):
            done = net_tool.Done(self.worker("--steps", "2", "--no-eval", "--server-mode", mode))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"server 0 has --mode async:staleness=4,compensate=0.04, expected {mode}: give --server-mode as the server's --mode",
                          done.stderr)
        self.ends(server)
        self.assertEqual(self.records("server.jsonl", "server_start")[0]["mode"], "async:staleness=4,compensate=0.04")
        server = self.serve("--workers", "1", "--mode", "dist_sync", "--deadline", "1s")
        self.fine(self.worker("--steps", "2", "--no-eval", "--server-mode", "sync"))
        self.ends(server)

    def test_differences(self):
        """Workers that differ from the server or from each other are told so."""
        server = self.serve("--workers", "2", "--optimizer", "adam:lr=0.001")
        done = net_tool.Done(self.worker("--steps", "4"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("server 0 makes the steps, with adam:lr=0.001: give the same here", done.stderr)
        server.kill()
        net_tool.Done(server)
        server = self.serve("--workers", "2")
        out = pathlib.Path(self.path("first.jsonl"))
        first = self.worker("--steps", "100000", "--no-eval", "--out", out, "--log-every", "1")
        self.until(lambda: out.exists() and '"type":"step"' in out.read_text(encoding="utf-8").replace(" ", ""))
        other = net_tool.Done(self.worker("--steps", "100000", "--no-eval", "--batch", "8"))
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("server 0 has disconnected this worker: the workers that are there have other settings: they have batch=32, this one has "
                      "batch=8; all must be started alike", other.stderr)
        first.send_signal(signal.SIGINT)
        self.assertEqual(net_tool.Done(first).returncode, 130)
        self.assertIn("the workers that are there have other settings", self.ends(server))

    def test_status(self):
        port = free_port()
        server = self.serve("--workers", "2", "--status", f":{port}")
        workers = [self.worker("--steps", "100000", "--no-eval") for _ in range(2)]
        self.told(server, "worker 1 (127.0.0.1) has come")

        def get(path):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20).read().decode()

        def metrics():
            return dict(line.rsplit(" ", 1) for line in get("/metrics").splitlines() if not line.startswith("#"))
        self.assertEqual(get("/healthz"), "ok\n")
        self.until(lambda: metrics()["telegrad_workers"] == "2" and int(metrics()["telegrad_staleness_count"]) > 10)
        lines = metrics()
        pushes = int(lines["telegrad_staleness_count"])
        self.assertGreater(pushes, 10)
        self.assertGreaterEqual(int(lines["telegrad_answers_total"]), pushes)
        self.assertEqual(int(lines['telegrad_staleness_bucket{le="+Inf"}']), pushes)
        self.assertGreater(float(lines["telegrad_received_bytes_total"]), 1000 * pushes)
        self.assertEqual(lines["telegrad_unfit_total"], "0")
        with self.assertRaisesRegex(urllib.error.HTTPError, "404"):
            get("/")
        with socket.create_connection(("127.0.0.1", port)) as idle:  # who says nothing is put out
            idle.settimeout(20)
            self.assertEqual(idle.recv(1), b"")
        for worker in workers:
            worker.kill()
        self.told(server, "has left")
        self.told(server, "has left")
        self.ends(server)

    def test_descriptors(self):
        """A server takes as many file descriptors as it needs, and says if it may not have them."""
        def begin(limit):
            return self.start("serve", "--listen", self.meeting, "--insecure", "--workers", "100", prefix=["prlimit", f"--nofile=64:{limit}"])
        done = net_tool.Done(begin(128))
        self.assertEqual(done.returncode, 1)
        self.assertIn("workers=100: each needs a file descriptor, and this process may open only 128 files, of which it needs 48 itself", done.stderr)
        self.ends(self.told(begin(1024), "listens at"))

    def test_sync(self):
        """Workers that are there from the start have the bits of ranks that never change, also if the server is killed on the way."""
        def hash_of(text):
            return re.search(r"params hash +(\w+)", text).group(1)
        job = ["--steps", "300", "--no-eval"]
        expected = hash_of(self.ok("train", *MLP, *job, "--workers", "2", "--servers", "1", "--strategy", "server", "--server-mode", "sync"))
        for kills in (0, 2):
            journal = self.path(f"journal {kills}")
            command = ["--workers", "2", "--mode", "sync", "--min", "2", "--journal", journal]
            server = self.serve(*command)
            workers = []
            for i in range(2):  # seats are given in the order of coming
                workers.append(self.worker(*job))
                self.told(server, f"worker {i} (127.0.0.1) has come")
            for _ in range(kills):
                time.sleep(0.2)
                server.kill()
                server.communicate()
                server = self.serve(*command)
            self.assertEqual([hash_of(self.fine(worker).stdout) for worker in workers], [expected] * 2)
            self.ends(server)

    def test_late(self):
        """One that is stopped for a while is late, and goes on where the others are."""
        port, options = free_port(), ["--steps", "100000", "--no-eval", "--log-every", "1"]
        server = self.serve("--workers", "2", "--mode", "sync", "--deadline", "400 ms", "--status", f":{port}", "--out", self.path("server.jsonl"))
        workers = [self.worker(*options, "--out", self.path(f"{name}.jsonl")) for name in ("sleeps", "stays")]

        def steps(name):
            return self.records(f"{name}.jsonl", "step")
        self.until(lambda: len(steps("sleeps")) > 5 and len(steps("stays")) > 5)
        workers[0].send_signal(signal.SIGSTOP)
        before = len(steps("stays"))
        self.until(lambda: len(steps("stays")) > before + 100)
        workers[0].send_signal(signal.SIGCONT)
        self.until(lambda: steps("sleeps")[-1]["step"] > before + 100)
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
        self.assertGreater(int(re.search(r"^telegrad_late_total (\d+)$", text, re.M).group(1)), 0)
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        done = [net_tool.Done(worker) for worker in workers]
        self.assertEqual([one.returncode for one in done], [130, 130], done[0].stderr)
        self.assertIn("came after the server's deadline: it is sent with the next one, and this worker goes on at step ", done[0].stderr)
        late, all_steps, end = sum(record["late"] for record in steps("sleeps")), steps("sleeps"), self.records("sleeps.jsonl", "end")[0]
        self.assertIn(f"\nlate           {late} step{'s'[late == 1:]}, whose gradients came after a server's deadline\n", done[0].stdout)
        self.assertEqual((late > 0, end["late"]), (True, late))
        for one, following in zip(all_steps, all_steps[1:]):  # only after a late one it is not the next
            self.assertTrue(following["step"] == one["step"] + 1 or one["late"], (one, following))
        self.assertLess(len(all_steps), end["steps"])
        self.assertIn("came after the deadline: it goes on at step ", self.ends(server))
        self.assertEqual(self.records("server.jsonl", "server_start")[0]["deadline"], 0.4)
        self.assertGreater(self.records("server.jsonl", "server_end")[0]["late"], 0)
        told = [record for record in self.records("server.jsonl", "server_event") if record["event"] == "late"]
        self.assertEqual((told[0]["steps"], told[0]["worker"] in (0, 1)), (1, True))

    def test_port_taken(self):
        server = self.serve()
        done = run("serve", "--listen", self.meeting, "--insecure")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("in use", done.stderr)
        self.ends(server)

    def test_key_removed(self):
        """SIGHUP: the list is read again, and a worker whose key is not on it any more has to go."""
        public = self.new_keys(2)
        server = self.start("serve", "--listen", self.meeting, "--key", self.path("0.key"), "--allow", self.path("friends"))
        self.told(server, "listens at")
        worker = self.start("train", "--server", self.meeting, "--server-key", public[0], "--key", self.path("1.key"), *MLP,
                            "--steps", "1000000", "--no-eval")
        self.told(server, "worker 0 (rank 1, 127.0.0.1) has come")
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(f"{public[0]} somebody else\n")
        server.send_signal(signal.SIGHUP)
        self.told(server, "has left: its key was removed from the list of allowed keys")
        done = net_tool.Done(worker)
        self.assertEqual(done.returncode, 1)
        self.assertIn("server 0 has disconnected this worker: its key was removed", done.stderr)
        self.ends(server)

    def test_pages(self):
        for name in ("servers", "mxnet"):
            with self.subTest(name):
                self.page((DOCS / f"{name}.md").read_text(encoding="utf-8").replace("\\\n", ""))
                os.remove(self.path("model.safetensors"))

    def page(self, text):
        """The commands of a page with a server and a worker, each with a key."""
        blocks = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M) if "key new" in block]
        self.assertEqual([len(block) for block in blocks], [2, 2])
        here = [[*map(str.strip, line.split()[1:])] for block in blocks for line in block]
        for words in here:
            words[:] = [self.meeting if word.startswith("tcp://") else self.path(word)
                        if word.endswith(".key") or word in ("workers", "model.safetensors") else word for word in words]
        new_server, serve, new_worker, train = here
        server_key, worker_key = self.ok(*new_server).strip(), self.ok(*new_worker).strip()
        with open(self.path("workers"), "w", encoding="utf-8") as file:
            file.write(f"{worker_key} anna\n")
        server = self.told(self.start(*serve), "listens at")
        done = self.fine(self.start(*[server_key if word == "tgk1:..." else word for word in train]))
        self.assertIn("8 of 8", done.stdout)
        weights = self.path("model.safetensors")
        self.assertIn(f"weights        {weights}", done.stdout)
        tested = json.loads(self.ok("eval", "--weights", weights, "--json"))
        self.assertIn(f"accuracy {100 * tested['test_accuracy']:.2f} %", done.stdout)
        self.assertIn("worker 0 (anna, 127.0.0.1) has come", self.ends(server))


BAD = [
    ([], "serve requires --listen tcp://HOST:PORT"),
    (["--listen", "tcp://127.0.0.1:4242"], "--listen requires --key FILE"),
    (["--listen", "127.0.0.1:4242", "--insecure"], "did you mean tcp://127.0.0.1:4242?"),
    (["--listen", "tcp://127.0.0.1:4242", "--key", "k"], "requires --allow FILE"),
    (["--listen", "tcp://127.0.0.1:4242", "--key", "k", "--insecure"], "--insecure and --key cannot be combined"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "sum"], "--mode sum: workers that come and go need a server that keeps"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--min", "2"], "--min 2 requires --mode sync; this one is async"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "sync", "--min", "17"], "--min 17: allowed: a whole number, at most --workers, 16"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--deadline", "2s"], "--deadline 2s requires --mode sync; this one is async"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "sync", "--deadline", "2"], "--deadline \"2\": allowed: 1ms or more, in times such as"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "sync", "--deadline", "50s"], "--deadline 50s: allowed: less than --timeout, 50s"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "sync:combine=krum,f=1", "--workers", "4"], "f=0..0"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "asink"], '--mode "asink": did you mean "async"? allowed: async, sync'),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "dist_sync_device"], '--mode "dist_sync_device": allowed: async, sync'),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--mode", "dist_async", "--min", "2"], "--min 2 requires --mode sync; this one is async"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--optimizer", "lars:lr=1"], "allowed: sgd, adam, adamw"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--workers", "2.5"], "--workers 2.5: allowed: a whole number"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--shard", "2/2"], "--shard \"2/2\": allowed: I/N"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--shard", "1"], "--shard \"1\": allowed: I/N"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--shard", "/2"], "--shard \"/2\": allowed: I/N"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--shard", " +0/2"], "allowed: I/N"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--status", "9100"], "--status \"9100\": allowed: :PORT"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--status", ":0"], "PORT 1 to 65535"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--log-every", "1"], "--log-every 1 requires --out FILE"),
    (["--listen", "tcp://127.0.0.1:4242", "--insecure", "--journal", ""], "--journal \"\": allowed: a folder"),
]
BAD_WORKERS = [
    (["--server", "tcp://h:1"], "--server requires --key FILE"),
    (["--server", "h:1", "--insecure"], "did you mean tcp://h:1?"),
    (["--server", "tcp://h:1", "--key", "k"], "requires --server-key tgk1:..."),
    (["--server", "tcp://h:1", "--insecure", "--join", "tcp://h:1"], "--server and --join cannot be combined"),
    (["--server", "tcp://h:1", "--insecure", "--servers", "2"], "--server and --servers N cannot be combined"),
    (["--server", "tcp://h:1", "--insecure", "--strategy", "ssgd"], "allowed: --strategy server"),
    (["--server", "tcp://h:1", "--insecure", "--strategy", "cd:k=4"],
     "--server with --strategy cd:k=4: telegrad serve keeps the parameters: allowed: --strategy server; train --servers N has the others"),
    (["--server", "tcp://h:1", "--insecure", "--server-mode", "sum"], '--server-mode "sum": allowed: async, sync'),
    (["--server", "tcp://h:1", "--insecure", "--server-mode", "dist_asink"], '--server-mode "dist_asink": allowed: async, sync'),
    (["--server", "tcp://h:1", "--insecure", "--save", "x"], "--server and --save DIR cannot be combined"),
    (["--save-weights", "x", "--out", "x"], "this is the path of --save-weights"),
    (["--save-weights", "x", "--dry-run"], "--dry-run cannot be combined with --out, --save, --save-weights"),
    (["--server", "tcp://h:1", "--insecure", "--dry-run"], "--server and --dry-run cannot be combined"),
    (["--server", "tcp://h:1", "--insecure", "--method", "dct"], "this method does not have exchange=star"),
    (["--server", "tcp://h:1", "--insecure", "--link", "1gbit"], "--server and --link cannot be combined"),
    (["--server-key", "tgk1:x"], "--server-key requires --server"),
    (["--server", ",".join(["tcp://h:1"] * 257), "--insecure"], "--server with 257 addresses: allowed: at most 256"),
    (["--anew"], "--anew requires --server"),
]


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Refused(net_tool.NetTest):
    def test_usage(self):
        for command, cases in (("serve", BAD), ("train", BAD_WORKERS)):
            for args, part in cases:
                with self.subTest(command=command, args=args):
                    done = run(command, *args)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(part, done.stderr)

    def test_nobody_listens(self):
        done = run("train", "--server", self.meeting, "--insecure", *MLP, "--timeout", "0.5")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"server 0 at {self.meeting}", done.stderr)


if __name__ == "__main__":
    unittest.main()
