"""telegrad train as processes that meet over a network: the same bits, and what each person is told when something is wrong."""
import os
import re
import signal
import time
import unittest
import net_tool
from cli_tool import TINY, last_run, over, records

MLP = ["--model", "mlp:hidden=16", "--no-eval"]
LONG = ["train", *TINY, *MLP, "--steps", "100000"]
SOON = 10  # seconds; a timeout would take 60


def hash_of(text):
    return re.search(r"params hash +([0-9a-f]{16})", text)[1]


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Train(net_tool.NetTest):
    def test_same_bits(self):
        """The parameters are those of --workers N, by any method and strategy, and every rank says so."""
        self.new_keys(3)
        for ranks, args in ((2, ["--method", "dgc:density=0.01"]), (3, ["--method", "powersgd"]),
                            (3, ["--method", "2bit:threshold=0.005", "--strategy", "cd:k=3,warmup=2"]),
                            (2, ["--strategy", "diloco:every=2"]), (3, ["--method", "topk:density=0.05,exchange=auto"])):
            with self.subTest(args=args):
                args = ["train", *TINY, *MLP, "--steps", "8", *args]
                expected = hash_of(self.ok(*args, "--workers", str(ranks)))
                done = self.job(ranks, *args)
                for rank, process in enumerate(done):
                    self.assertEqual(process.returncode, 0, process.stderr)
                    self.assertIn(f"joined as rank {rank} of {ranks}", process.stderr)
                    self.assertEqual(hash_of(process.stdout), expected)
                self.assertIn(f"workers        {ranks} (tcp)", done[0].stdout)
                self.assertIn(f"rank           1 of {ranks} (tcp)", done[1].stdout)

    def test_servers(self):
        """The last ranks of the list. Same bits as with threads, with answers coded or not; each says that it is one."""
        self.new_keys(4)
        for servers, args in ((1, ["--method", "topk:density=0.01,exchange=twoway"]), (2, ["--method", "fp16"]),
                              (1, ["--method", "2bit:threshold=0.005", "--strategy", "cd:k=3,warmup=2"]),
                              (1, ["--strategy", "server", "--optimizer", "adam"])):
            with self.subTest(args=args):
                with open(self.path("friends"), "w", encoding="utf-8") as file:
                    file.writelines(f"{key} host\n" for key in self.public[1:2 + servers])
                args = ["train", *TINY, *MLP, "--steps", "8", "--servers", str(servers), *args]
                expected = hash_of(self.ok(*args, "--workers", "2"))
                done = self.job(2 + servers, *args)
                self.assertEqual([p.returncode for p in done], [0] * len(done), done[-1].stderr)
                self.assertEqual([hash_of(p.stdout) for p in done[:2]], [expected] * 2)
                for q, process in enumerate(done[2:]):
                    self.assertIn(f"rank {2 + q} is server {q} of {servers}\n", process.stderr)
                    self.assertRegex(process.stdout, rf"^rank +{2 + q} of {2 + servers} \(tcp\): server {q} of {servers}; rank 0 has the results\n"
                                                     r"answers +[1-9].* received, .* sent, in .*\n$")

    def test_a_server_is_interrupted(self):
        """It says what to do; the second time, the job ends on all ranks."""
        self.new_keys(3)
        ranks = [self.start(*LONG, "--servers", "1", *self.options(rank, 3)) for rank in range(3)]
        said = ""
        while "is server 0 of 1" not in said and ranks[2].poll() is None:
            said += ranks[2].stderr.readline()
        ranks[2].send_signal(signal.SIGINT)
        while "a server ends when its workers do" not in said and ranks[2].poll() is None:
            said += ranks[2].stderr.readline()
        time.sleep(0.3)  # what comes sooner counts as the same interrupt
        self.assertEqual([process.poll() for process in ranks], [None] * 3, said)
        begin = time.monotonic()
        ranks[2].send_signal(signal.SIGINT)
        done = [net_tool.Done(process) for process in ranks]
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertEqual([p.returncode for p in done], [1, 1, 130])
        for process in done[:2]:
            self.assertIn("rank 2 has left", process.stderr)

    def test_without_keys(self):
        args = ["train", *TINY, *MLP, "--steps", "4"]
        expected = hash_of(self.ok(*args, "--workers", "2"))
        both = [self.start(*args, *own, "--insecure") for own in (["--listen", self.meeting, "--ranks", 2], ["--join", self.meeting])]
        for process in both:
            done = net_tool.Done(process)
            self.assertEqual((done.returncode, hash_of(done.stdout)), (0, expected), done.stderr)
            self.assertIn("warning: --insecure: no keys and no encryption", done.stderr)

    def test_records_and_traces(self):
        out, trace = self.path("run.jsonl"), self.path("trace.json")
        done = self.job(2, "train", *TINY, *MLP, "--steps", "4", "--trace", trace, "--out", out)
        self.assertEqual([p.returncode for p in done], [0, 0], done[1].stderr)
        self.assertEqual(last_run(out)[0]["transport"], "tcp")
        self.assertIn("--out", done[1].stderr)
        self.assertIn("rank 0 writes the records", done[1].stderr)
        self.assertNotIn("rank 0 writes", done[0].stderr)
        for name in (trace, trace + ".1"):
            self.assertTrue(os.path.getsize(name) > 1000, name)

    def test_link_on_one_side(self):
        """It could not be understood by the other; the call is refused at once."""
        self.new_keys(2)
        meeting = self.quick(*self.options(0, 2))
        done = net_tool.Done(self.quick(*self.options(1, 2), "--link", "100mbit"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('refuses: job "train over --link 100mbit": this meeting point is for job "train"', done.stderr)
        friend = net_tool.Done(self.quick(*self.options(1, 2), "--init", "none", "--dump-gradients", self.path("g")))
        self.assertEqual((friend.returncode, net_tool.Done(meeting).returncode), (0, 0), friend.stderr)
        self.assertIn("warning: --init none has no effect here: rank 0 sends its weights to all; this is rank 1", friend.stderr)
        for option in ("init", "dump-gradients"):
            self.assertEqual(friend.stderr.count(f"warning: --{option} "), 1, friend.stderr)

    def test_members_of_a_node(self):
        """They hand their gradients to the node's leader whole, and nobody calls that a fault of the method."""
        args = ["train", "--model", "mlp:hidden=16", *TINY, "--method", "dgc:density=0.01,warmup=0", "--steps", "8", "--no-eval"]
        done = self.job(4, *args, "--nodes", "2")
        self.assertEqual([(d.returncode, "sent all elements" in d.stderr) for d in done], [(0, False)] * 4)

    def test_nodes_are_machines(self):
        """All ranks are on this machine, so there is one node, where exchanges are dense."""
        args = ["train", *TINY, *MLP, "--steps", "4", "--method", "topk:density=0.01"]
        done = self.job(2, *args, "--nodes", "auto")
        self.assertEqual(done[0].returncode, 0, done[0].stderr)
        self.assertEqual(hash_of(done[0].stdout), hash_of(self.ok(*args, "--workers", "2", "--nodes", "2", "--quiet")))
        self.assertIn("nodes          the machines", done[0].stdout)

    # ---- joining ------------------------------------------------------------------------------------------------

    def quick(self, *args):
        return self.start("train", *TINY, *MLP, "--steps", "2", *args)

    def test_wrong_keys(self):
        self.new_keys(2)
        self.ok("key", "new", self.path("stranger.key"))
        meeting = self.quick(*self.options(0, 2))
        stranger = net_tool.Done(self.quick("--join", self.meeting, "--peer-key", self.public[0], "--key", self.path("stranger.key")))
        self.assertEqual(stranger.returncode, 1)
        self.assertIn("the meeting point at tcp://127.0.0.1:", stranger.stderr)
        mistaken = net_tool.Done(self.quick("--join", self.meeting, "--peer-key", self.public[1], "--key", self.path("1.key")))
        self.assertEqual(mistaken.returncode, 1)
        self.assertIn("the meeting point at tcp://127.0.0.1:", mistaken.stderr)
        found, expected = (self.ok("key", "fingerprint", self.path(f"{r}.key")).strip() for r in range(2))
        self.assertIn(f"its key is {found}, but the expected one (--peer-key) is {expected}", mistaken.stderr)
        friend = net_tool.Done(self.quick(*self.options(1, 2)))  # strangers are turned away, friends are not
        self.assertEqual((friend.returncode, net_tool.Done(meeting).returncode), (0, 0), friend.stderr)

    def test_keys_on_one_side(self):
        """The one that joins is told what may be wrong, and a program that does not speak TLS is named as such."""
        self.new_keys(2)
        for rank0, other, words in ((self.options(0, 2), ["--insecure"], "with keys, and this rank without?"),
                                    (["--listen", self.meeting, "--ranks", "2", "--insecure"], self.options(1, 2)[2:],
                                     "without keys, and this rank with keys?")):
            host = self.quick(*rank0, "--timeout", "4")
            time.sleep(0.3)
            guest = net_tool.Done(self.quick("--join", self.meeting, *other, "--timeout", "2"))
            self.assertEqual((guest.returncode, net_tool.Done(host).returncode), (1, 1))
            self.assertIn(words, guest.stderr.splitlines()[-1])

    def test_a_list_that_is_short(self):
        """Said to a person: ranks may share a key."""
        self.new_keys(2)
        host = self.start("train", *TINY, "-v", "--timeout", "1", *self.options(0, 4))
        done = net_tool.Done(host, 30)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--allow {self.path('friends')} has 1 key for 3 other ranks: add those that are missing, or let ranks share a key\n", done.stderr)

    def test_own_key_on_the_list(self):
        """Said at once. It lets in another process with that key, and no other."""
        self.new_keys(2)
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(f"{self.public[0]} me\n")
        done = net_tool.Done(self.quick(*self.options(0, 2), "--timeout", "1"), 30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("warning: rank 0's own key is on its list of allowed keys: rank 0 needs no entry there", done.stderr)
        self.assertIn("another process with rank 0's own key has not joined within 1 s", done.stderr)
        host = self.quick(*self.options(0, 2))
        guest = net_tool.Done(self.quick("--join", self.meeting, "--peer-key", self.public[0], "--key", self.path("0.key")))
        self.assertEqual((guest.returncode, net_tool.Done(host).returncode), (0, 0), guest.stderr)

    def test_nobody_there(self):
        """Each says what it waits for, and gives up after --timeout."""
        self.new_keys(2)
        host = self.quick(*self.options(0, 2), "--timeout", "2")
        guest = self.quick("--join", f"tcp://127.0.0.1:{net_tool.free_port()}", *self.options(1, 2)[2:], "--timeout", "2")
        host, guest = net_tool.Done(host), net_tool.Done(guest)
        self.assertEqual((host.returncode, guest.returncode), (1, 1))
        self.assertIn("waiting for 1 of 1 other ranks (not here: rank 1)", host.stderr)
        self.assertIn("joining timed out", host.stderr.splitlines()[-1])
        self.assertIn("waiting for the meeting point", guest.stderr)
        self.assertIn("Connection refused", guest.stderr)

    def test_addresses(self):
        self.new_keys(2)
        host = self.quick(*self.options(0, 2))
        time.sleep(0.3)
        taken = net_tool.Done(self.quick(*self.options(0, 2)))
        self.assertEqual(taken.returncode, 1)
        self.assertIn(f"cannot listen at {self.meeting}: Address already in use", taken.stderr)
        lost = net_tool.Done(self.quick("--join", "tcp://no-such-host.invalid:4242", *self.options(1, 2)[2:], "--timeout", "5"))
        self.assertEqual(lost.returncode, 1)
        self.assertIn("tcp://no-such-host.invalid:4242: ", lost.stderr)
        more = net_tool.Done(self.quick(*self.options(1, 2), "--ranks", "3"))
        self.assertEqual(more.returncode, 1)
        self.assertIn("2 ranks", more.stderr)
        host.kill()

    def test_another_command(self):
        """Ranks of train and of compare do not meet."""
        self.new_keys(2)
        host = self.quick(*self.options(0, 2))
        other = net_tool.Done(self.start("compare", *TINY, *MLP, "--run", "method=dense", *self.options(1, 2)))
        self.assertEqual(other.returncode, 1)
        self.assertIn('job "compare of 1 run": this meeting point is for job "train"', other.stderr)
        host.kill()

    def test_interrupted_while_joining(self):
        self.new_keys(2)
        for number, status, rank in ((signal.SIGINT, 130, 0), (signal.SIGTERM, 143, 1)):
            process = self.quick(*self.options(rank, 2))
            time.sleep(0.7)
            process.send_signal(number)
            begin = time.monotonic()
            done = net_tool.Done(process)
            self.assertLess(time.monotonic() - begin, 3)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(f"interrupted by {number.name} before the first step", done.stderr.splitlines()[-1])

    # ---- different settings ---------------------------------------------------------------------------------------

    def test_different_settings(self):
        """Both are told which setting, and both values."""
        self.new_keys(2)
        for args, words in ((["--method", "dgc"], ["--method dense", "--method dgc"]), (["--batch", "8"], ["--batch 16", "--batch 8"]),
                            (["--seed", "2"], ["--seed 1", "--seed 2"]), (["--data", "glyphs:train=256,test=128"], ["512", "256"])):
            with self.subTest(args=args):
                done = [net_tool.Done(process) for process in [
                    self.start(*over("train", *TINY, *MLP, "--steps", "4", *(args if rank else [])), *self.options(rank, 2))
                    for rank in range(2)]]
                for rank, process in enumerate(done):
                    self.assertEqual(process.returncode, 1)
                    last = process.stderr.splitlines()[-1]
                    self.assertIn(f"rank {rank}", last)
                    self.assertIn(f"rank {1 - rank}", last)
                    for word in words:
                        self.assertIn(word, last)

    def test_missing_data(self):
        """One rank cannot begin: it says why, and the other that it is gone."""
        done = self.job(2, "train", *MLP, "--steps", "4", "--batch", "16",
                        own=lambda rank: ["--data", "mnist:/no/such/folder" if rank else "glyphs:train=512,test=128"])
        self.assertEqual([p.returncode for p in done], [1, 1])
        self.assertIn("/no/such/folder", done[1].stderr.splitlines()[-1])
        self.assertIn("rank 1 has left: ", done[0].stderr.splitlines()[-1])
        self.assertIn("/no/such/folder", done[0].stderr.splitlines()[-1])

    def test_hangup_while_waiting(self):
        """After SIGHUP a key that was put on the list counts while rank 0 still waits, which says who was turned away before."""
        self.new_keys(2)
        self.ok("key", "new", self.path("1.key.late"))
        late = self.ok("key", "show", self.path("1.key.late")).strip()
        mark = self.ok("key", "fingerprint", self.path("1.key.late")).strip()
        join = ["--join", self.meeting, "--peer-key", self.public[0], "--key", self.path("1.key.late")]
        for command in (["train", *TINY, *MLP, "--steps", "2"], ["doctor", "--seconds", "0.1"]):
            self.new_list(self.public[1])
            host = self.start(*command, *self.options(0, 2))
            self.line_with(host, "waiting for")
            self.assertEqual(net_tool.Done(self.start(*command, *join)).returncode, 1)
            line = self.line_with(host, "a call from 127.0.0.1")
            self.assertIn(mark, line)
            self.assertIn("it is not on the list of allowed keys", line)
            self.new_list(late)
            host.send_signal(signal.SIGHUP)
            self.line_with(host, "is read again: 1 key")
            for done in (net_tool.Done(self.start(*command, *join)), net_tool.Done(host)):
                self.assertEqual(done.returncode, 0, done.stderr)

    def new_list(self, *keys):
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.writelines(f"{key}\n" for key in keys)

    def test_diverged(self):
        """Each says that the run failed, and exits with status 1."""
        for args in (["train", "--save", self.path("ck")], ["compare", "--run", "name=bad"]):
            for done in self.job(2, *args[:1], *TINY, *MLP, "--steps", "20", "--optimizer", "sgd:lr=1e9", *args[1:]):
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("the run failed: ", done.stderr)
                self.assertNotIn("to go on", done.stdout)

    # ---- in the middle ------------------------------------------------------------------------------------------------

    def long_run(self, ranks, *more):
        """Ranks that train until they are told to stop."""
        self.new_keys(ranks)
        out = self.path("long.jsonl")
        started = [self.start(*LONG, *self.options(rank, ranks), *more, *(["--out", out, "--log-every", "1"] if rank == 0 else []))
                   for rank in range(ranks)]
        until = time.monotonic() + 60
        while not any(name.startswith("long.jsonl") and os.path.getsize(self.path(name)) > 4000 for name in os.listdir(self.folder)):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        return started

    def test_killed(self):
        """The others end at once, with status 1, and name the rank."""
        started = self.long_run(3)
        started[2].kill()
        begin = time.monotonic()
        for process in started[:2]:
            done = net_tool.Done(process)
            self.assertEqual(done.returncode, 1)
            self.assertIn("rank 2", done.stderr.splitlines()[-1])
        self.assertLess(time.monotonic() - begin, SOON)

    def test_key_taken_off(self):
        """After SIGHUP rank 0 reads its list again; a member that is no longer on it is disconnected, and all end."""
        started = self.long_run(3)
        with open(self.path("friends"), encoding="utf-8") as file:
            first = file.readline()
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write("nonsense\n")
        started[0].send_signal(signal.SIGHUP)
        self.assertIn("the list of keys stays as it was", self.line_with(started[0], "SIGHUP"))
        with open(self.path("friends"), "w", encoding="utf-8") as file:
            file.write(first)
        started[0].send_signal(signal.SIGHUP)
        begin = time.monotonic()
        for process in started:
            done = net_tool.Done(process)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], r"rank 2|rank \(2\)")
        self.assertLess(time.monotonic() - begin, SOON)

    def line_with(self, process, word):
        """The next line on its stderr that has the word."""
        while word not in (line := process.stderr.readline()):
            self.assertTrue(line, word)
        return line

    def test_meeting_point_killed(self):
        started = self.long_run(2)
        started[0].kill()
        begin = time.monotonic()
        done = net_tool.Done(started[1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 0", done.stderr.splitlines()[-1])
        self.assertLess(time.monotonic() - begin, SOON)

    def test_interrupted(self):
        """All stop after the same step, whoever is asked, and exit with the signal's status."""
        started = self.long_run(3)
        started[1].send_signal(signal.SIGINT)
        hashes = set()
        for rank, process in enumerate(started):
            done = net_tool.Done(process)
            self.assertEqual(done.returncode, 130, done.stderr)
            self.assertIn(f"telegrad: {'' if rank == 1 else 'rank 1 was '}interrupted by SIGINT after step ", done.stderr)
            hashes.add(hash_of(done.stdout))
        self.assertEqual(len(hashes), 1)
        self.assertEqual(records(self.path("long.jsonl"))[-1]["type"], "end")


if __name__ == "__main__":
    unittest.main()
