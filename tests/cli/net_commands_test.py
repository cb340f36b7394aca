"""compare, bench exchange and advise --measure between processes that meet over a network."""
import json
import os
import shutil
import signal
import socket
import socketserver
import threading
import unittest
import net_tool
from cli_tool import TINY, records
from net_train_test import MLP


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Commands(net_tool.NetTest):
    def both(self, *args, says=""):
        done = self.job(2, *args)
        self.assertEqual([p.returncode for p in done], [0, 0], done[0].stderr + done[1].stderr)
        self.assertEqual(done[1].stdout, says)
        self.assertEqual("--out" in done[1].stderr, "--out" in args, done[1].stderr)
        self.assertNotIn("--out", done[0].stderr)
        return done[0].stdout

    def test_compare(self):
        """Each run is a job of its own, with the same ranks, and has the bits of threads."""
        args = ["compare", *TINY, *MLP, "--steps", "4", "--run", "name=a;method=dense", "--run", "name=b;method=dgc",
                "--run", "name=c;strategy=diloco:every=2"]
        out = self.path("threads.jsonl")
        self.ok(*args, "--workers", "2", "--out", out)
        self.both(*args, "--out", self.path("net.jsonl"),
                  says="rank           1 of 2 (tcp); rank 0 has the records and the table; finished: 3 of 3 runs\n")
        threads, net = ([r["params_hash"] for r in records(path) if r["type"] == "end"] for path in (out, self.path("net.jsonl")))
        self.assertEqual(len(net), 3)
        self.assertEqual(net, threads)

    def refuse(self, mine, theirs, *words):
        """Rank 0 runs `mine`. Rank 1 with `theirs` is turned away at once."""
        if not hasattr(self, "public"):
            self.new_keys(2)
        host = self.start(*mine, *self.options(0, 2))
        done = net_tool.Done(self.start(*theirs, *self.options(1, 2)), 30)
        host.kill()
        self.assertEqual(done.returncode, 1)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_other_runs(self):
        """What ranks could not find out by messages: one would wait, or take those of the other for damaged."""
        base, runs = ["compare", *TINY, *MLP, "--steps", "4"], [f"--run=method={m}" for m in ("dense", "dgc", "topk")]
        self.refuse([*base, *runs], [*base, *runs[:2]], 'job "compare of 2 runs": this meeting point is for job "compare of 3 runs"')
        self.refuse([*base, *runs], [*base, runs[0], runs[1] + ";link=1gbit", runs[2] + ";link=1gbit"],
                    'job "compare of 3 runs, run 2 over --link 1gbit, run 3 over --link 1gbit": this meeting point is for job "compare of 3 runs"')
        self.refuse([*base, *runs], [*base, *runs[:2], runs[2] + ":density=0.5"], "ranks were started differently: run 3, ",
                    "does not have the same settings on all ranks")
        bench = ["bench", "exchange", "dense", "--elements", "2000", "--seconds", "0.01"]
        self.refuse([*bench, "--link", "none"], [*bench, "topk"], 'job "bench exchange of 2000 elements by dense, topk": ', ' by dense"')
        self.refuse([*bench, "--link", "none"], [*bench, "--link", "1gbit"], ' by dense over --link 1gbit": ')
        many = [*bench, *(f"topk:density=0.0{n}" for n in range(1, 8))]  # what is cut counts, too
        self.refuse(many, [*many, "topk"], 'by dense, topk:density=0.01, ')
        done = self.job(2, *bench, own=lambda rank: ["--link", "none"] if rank else [])
        self.assertEqual([p.returncode for p in done], [0, 0], done[1].stderr)

    def test_options_that_differ(self):
        """They are called as on the command line."""
        base = ["train", *TINY, *MLP, "--steps", "4"]
        for option, words in ((["--fusion", "auto"], "rank 1 has --fusion auto, rank 0 does not have it"),
                              (["--nodes", "2"], "rank 1 has --nodes, rank 0 does not have it"),
                              (["--fusion", "4K"], "rank 1 has --fusion 4096, rank 0 has --fusion 26214400"),
                              (["--holdout", "64"], "rank 1 has data=glyphs:train=448, rank 0 has data=glyphs:train=512; allowed: the same --data and "
                                                    "--holdout, and the same files"),
                              (["--rule", "*.bias=f32"], "rank 1 has --rule *.bias=dense:exchange=direct, rank 0 has no such --rule")):
            done = self.job(2, *base, own=lambda rank, option=option: option if rank else [])
            self.assertEqual([p.returncode for p in done], [1, 1])
            self.assertIn("ranks were started differently: " + words, done[1].stderr)

    def test_bench_exchange(self):
        rows = [json.loads(line) for line in
                self.both("bench", "exchange", "dense", "topk", "--elements", "20000", "--seconds", "0.05", "--json").splitlines()]
        self.assertEqual({row["transport"] for row in rows}, {"tcp"})
        self.assertEqual(len(rows), 2)
        table = self.both("bench", "exchange", "dense", "--elements", "20000", "--seconds", "0.05", "--link", "1gbit")
        self.assertIn("workers are processes that met over a network; bytes are those handed to TCP", table)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "SKIP: another host name needs root and unshare")
    def test_links_between_machines(self):
        """An emulated link needs one clock, so it is refused where a rank is on another machine, here one of another name."""
        self.new_keys(2)
        for args in (["bench", "exchange", "dense", "--elements", "2000"], ["train", *TINY, *MLP, "--steps", "2"]):
            away = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
            both = [self.start(*args, "--link", "1gbit", *self.options(rank, 2), prefix=away if rank else []) for rank in range(2)]
            for done in map(net_tool.Done, both):
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn("one machine, but rank 1 is on another than rank 0", done.stderr)

    def test_interrupted(self):
        """Commands without steps do not speak of them."""
        self.new_keys(2)
        for command in (["bench", "exchange"], ["advise", "--measure"], ["doctor"]):
            process = self.start(*command, *self.options(0, 2))
            while "waiting for" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            done = net_tool.Done(process, 10)
            self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (130, "telegrad: interrupted by SIGINT"))

    def test_bench_interrupted(self):
        """The first signal ends it while it measures."""
        self.new_keys(2)
        both = [self.start("bench", "exchange", "dense", "--seconds", "60", *self.options(rank, 2)) for rank in range(2)]
        while "joined as rank 0" not in both[0].stderr.readline():
            pass
        both[0].send_signal(signal.SIGINT)
        done = net_tool.Done(both[0], 10)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (130, "telegrad: interrupted by SIGINT"))
        self.assertEqual(net_tool.Done(both[1], 10).returncode, 1)

    def test_insecure_is_said_once(self):
        """Though each of their runs joins anew."""
        size = ["--data", "glyphs:train=512,test=128", "--model", "mlp:hidden=16"]
        for args in (["compare", *size, "--batch", "16", "--steps", "1", "--run", "method=dense", "--run", "method=dgc"],
                     ["bench", "exchange", "dense", "topk", "--elements", "2000", "--seconds", "0.01"],
                     ["advise", "--measure", *size]):
            both = [self.start(*args, "--listen", self.meeting, "--ranks", "2", "--insecure"),
                    self.start(*args, "--join", self.meeting, "--insecure")]
            for done in map(net_tool.Done, both):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count("no keys and no encryption"), 1, done.stderr)

    def test_advertised(self):
        """Rank 1 is called where it says that the others reach it, here a router that forwards to where it listens."""
        port, calls = net_tool.free_port(), []

        class Router(socketserver.BaseRequestHandler):
            def handle(self):
                calls.append(self.client_address)
                with socket.create_connection(("127.0.0.1", port)) as inside:
                    threading.Thread(target=pass_on, args=(inside, self.request)).start()
                    pass_on(self.request, inside)

        def pass_on(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Router) as router:
            threading.Thread(target=router.serve_forever).start()
            outside = f"tcp://127.0.0.1:{router.server_address[1]}"
            own = {1: ["--listen", f"tcp://127.0.0.1:{port}", "--advertise", outside]}
            done = self.job(3, "doctor", "--seconds", "0.1", "--json", own=lambda rank: own.get(rank, []))
            router.shutdown()
        self.assertEqual([p.returncode for p in done], [0, 0, 0], done[1].stderr)
        self.assertEqual(len(calls), 1)
        self.assertFalse(any(link["relayed"] for rank in json.loads(done[0].stdout)["ranks"] for link in rank["links"]))
        nowhere = ["--advertise", "tcp://127.0.0.1:1"]  # nobody listens there
        done = self.job(3, "doctor", "--seconds", "0.1", own=lambda rank: nowhere if rank else [])
        self.assertEqual([p.returncode for p in done], [0, 0, 0], done[1].stderr)
        self.assertRegex(done[2].stdout, r"(?m)^1, 2 +relayed ")

    def test_advise(self):
        text = self.both("advise", "--measure", "--model", "mlp:hidden=16", "--data", "glyphs:train=512,test=128")
        self.assertIn(f"--listen {self.meeting}", text)
        self.assertIn("--ranks 2", text)
        self.assertNotIn("mpirun", text)


if __name__ == "__main__":
    unittest.main()
