"""The options by which processes meet over a network: those that do not fit together, and files and addresses that are wrong."""
import os
import unittest
import net_tool
from cli_tool import ENVIRONMENT, TINY, run

KEYS = ["--key", "k", "--allow", "a"]
PEER = "tgk1:" + "A" * 43
LISTEN = ["--listen", "tcp://127.0.0.1:1"]
JOIN = ["--join", "tcp://127.0.0.1:1"]
WRONG = [
    (["--ranks", "2"], ["--ranks requires --listen, at rank 0; in one process: --workers N"]),
    (["--key", "k"], ["--key requires --listen (rank 0), --join (the others) or, in train, --server"]),
    (["--allow", "k"], ["--allow requires --listen, at rank 0"]),
    (["--peer-key", PEER], ["--peer-key requires --join tcp://HOST:PORT, where rank 0 listens"]),
    (["--insecure"], ["--insecure requires --listen"]),
    (["--advertise", "tcp://h:1"], ["--advertise requires --listen"]),
    (["--ranks", "0", *LISTEN], ['--ranks "0": allowed: 1 to 4096']),
    (["--ranks", "2x", *LISTEN], ['--ranks "2x": allowed: 1 to 4096']),
    (LISTEN, ["--listen requires --ranks N"]),
    ([*LISTEN, "--ranks", "2"], ["--listen requires --key FILE", "telegrad key new", "--insecure"]),
    (JOIN, ["--join requires --key FILE", "--insecure"]),
    ([*LISTEN, "--ranks", "2", "--key", "k"], ["--listen with --key requires --allow FILE"]),
    ([*JOIN, "--key", "k"], ["--join with --key requires --peer-key tgk1:...", "telegrad key show"]),
    ([*JOIN, *KEYS, "--peer-key", PEER], ["--join and --allow cannot be combined"]),
    ([*LISTEN, "--ranks", "2", *KEYS, "--peer-key", PEER], ["--peer-key requires --join"]),
    ([*LISTEN, "--ranks", "2", "--insecure", "--key", "k"], ["--insecure and --key cannot be combined"]),
    ([*JOIN, "--insecure", "--peer-key", PEER], ["--insecure and --peer-key cannot be combined"]),
    ([*LISTEN, "--ranks", "2", *KEYS, "--workers", "2"], ["--workers 2 with --listen: each process is one worker, so use --ranks N"]),
    ([*JOIN, "--insecure", "--workers", "2"], ["--workers 2 with --join"]),
    ([*JOIN, "--insecure", "--transport", "inproc"], ["--transport inproc with --join", "allowed: tcp"]),
    (["--transport", "tcp"], ["--transport tcp requires --listen (rank 0) or --join (the others)"]),
    ([*JOIN, "--insecure", "--clock", "virtual"], ["--clock virtual with --join", "threads of one process"]),
    (["--join", "host:1", "--insecure"], ['--join "host:1": did you mean tcp://host:1?']),
    (["--join", ":1", "--insecure"], ['--join ":1": allowed: tcp://HOST:PORT, with PORT 1 to 65535']),
    (["--join", "http://host:1", "--insecure"], ['--join "http://host:1": allowed: tcp://HOST:PORT']),
    (["--join", "tcp://0.0.0.0:1", "--insecure"], ['--join "tcp://0.0.0.0:1": ', "but not connect to", "the machine of rank 0"]),
    (["--join", "tcp://[0:0::]:1", "--insecure"], ["but not connect to"]),
    (["--join", "tcp://:1", "--insecure"], ["it has no host"]),
    (["--listen", ":1", "--ranks", "2", "--insecure"], ['--listen ":1": did you mean tcp://0.0.0.0:1?']),
    (["--listen", "tcp://127.0.0.1:65536", "--ranks", "2", "--insecure"], ['--listen "tcp://127.0.0.1:65536": allowed: ', "PORT 1 to 65535"]),
    ([*JOIN, "--listen", "tcp://0.0.0.0:65536", "--insecure"], ["PORT 0 to 65535"]),
    ([*LISTEN, "--ranks", "2", "--insecure", "--advertise", "tcp://[::]:1"], ['--advertise "tcp://[::]:1": ', "but not connect to", "this machine"]),
    (["--listen", "tcp://127.0.0.1", "--ranks", "2", "--insecure"], ['--listen "tcp://127.0.0.1": allowed: tcp://HOST:PORT']),
    (["--listen", "tcp://127.0.0.1:0", "--ranks", "2", "--insecure"], ['--listen "tcp://127.0.0.1:0": allowed: ', "PORT 1 to 65535"]),
    ([*JOIN, "--listen", JOIN[1], "--insecure"], ['--listen and --join "tcp://127.0.0.1:1": this rank would wait for itself', "at rank 0"]),
    (["--master-addr", "host"], ["did you mean '--join tcp://HOST:PORT'?"]),
    (["--port", "4242"], ["did you mean '--listen tcp://HOST:PORT'?"]),
    ([*JOIN, "--insecure", "--dry-run"], ["--dry-run and --join cannot be combined", "--listen and --ranks N"]),
    ([*JOIN, "--insecure", "--advertise", "x"], ['--advertise "x": allowed: tcp://']),
]


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Options(net_tool.NetTest):
    def test_wrong_combinations(self):
        for args, words in WRONG:
            with self.subTest(args=args):
                done = run("train", *TINY, *args)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr.splitlines()[-1])

    def test_wrong_files(self):
        """The file is to blame: status 1, and the option is named."""
        public = self.new_keys(2)
        friends, key = self.path("friends"), self.path("0.key")
        base = ["train", *TINY, "--listen", self.meeting, "--ranks", "2"]
        self.refused(1, ["--key ", "missing: No such file"], *base, "--key", self.path("missing"), "--allow", friends)
        self.refused(1, ["--allow ", "missing: No such file"], *base, "--key", key, "--allow", self.path("missing"))
        self.refused(1, ["--key ", "friends: not a private key, but a public key"], *base, "--key", friends, "--allow", friends)
        with open(friends, "a", encoding="utf-8") as file:
            file.write("tgk1:what? a friend\n")
        self.refused(1, ["--allow ", 'friends, line 2: "tgk1:what?" is not a public key'], *base, "--key", key, "--allow", friends)
        os.chmod(key, 0o644)
        self.refused(1, ["--key ", "accessible to other users"], *base, "--key", key, "--allow", friends)
        self.refused(2, ['--peer-key "tgk1:short" is not a public key'], "train", *TINY, "--join", self.meeting, "--key",
                     self.path("1.key"), "--peer-key", "tgk1:short")
        done = run("train", *TINY, "--join", self.meeting, "--key", self.path("1.key"), "--peer-key", self.path("0.key"))
        self.assertIn("is not a public key: allowed: tgk1: and 43 characters, as printed by telegrad key show FILE", done.stderr)
        self.assertEqual(len(public), 2)

    def test_under_mpirun(self):
        done = run("train", *TINY, *JOIN, "--insecure", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", **ENVIRONMENT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--join under mpirun or srun --mpi, which already connect the ranks", done.stderr)

    def test_tasks_of_srun(self):
        """srun --mpi=none starts tasks that meet by these options."""
        task = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "0"}
        listen = ["--listen", self.meeting, "--ranks", "1", "--insecure"]
        for args in (["train", *TINY, "--model", "mlp:hidden=16", "--steps", "1", "--no-eval"],
                     ["bench", "exchange", "dense", "--elements", "2000", "--seconds", "0.01"]):
            done = run(*args, *listen, **task)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.refused(2, ["one of 3 tasks that do not know each other"], *args, **task)

    def test_dry_run(self):
        """The plan needs nobody else."""
        args = ["train", *TINY, "--dry-run"]
        alone = self.ok(*args, "--listen", self.meeting, "--ranks", "3", "--insecure")
        self.assertEqual(alone, self.ok(*args, "--workers", "3"))
        self.assertNotEqual(alone, self.ok(*args, "--workers", "2"))

    def test_insecure_says_so(self):
        done = run("train", *TINY, "--steps", "1", "--no-eval", "--listen", self.meeting, "--ranks", "1", "--insecure")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: --insecure: no keys and no encryption", done.stderr)


if __name__ == "__main__":
    unittest.main()
