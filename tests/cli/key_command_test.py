"""telegrad key: new files that only their owner may read, and the same public key and fingerprint ever after."""
import os
import pathlib
import stat
import subprocess
import unittest
import net_tool
from cli_tool import CliTest, ENVIRONMENT, TELEGRAD, run


@unittest.skipUnless(net_tool.AVAILABLE, net_tool.WHY)
class Key(CliTest):
    def new(self, name):
        return self.ok("key", "new", self.path(name))

    def test_new(self):
        old = os.umask(0)
        try:
            public = self.new("a.key")
        finally:
            os.umask(old)
        self.assertRegex(public, r"^tgk1:[A-Za-z0-9+/]{43}\n$")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("a.key")).st_mode), 0o600)
        self.assertNotIn(public.strip(), self.new("b.key"))
        self.assertEqual(self.ok("key", "show", self.path("a.key")), public)

    def test_an_existing_file_stays(self):
        with open(self.path("old"), "w", encoding="utf-8") as file:
            file.write("precious")
        os.symlink("nowhere", self.path("link"))
        self.refused(1, ["old: File exists: a key is never replaced"], "key", "new", self.path("old"))
        self.refused(1, ["link: File exists"], "key", "new", self.path("link"))
        with open(self.path("old"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_a_full_disk_behind_stdout(self):
        """The file stays, and how to get at the public key is said."""
        path = self.path("a.key")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TELEGRAD, "key", "new", path], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output: No space left on device", done.stderr)
        self.assertIn("a.key has been written; telegrad key show prints its public key", done.stderr)
        self.assertRegex(self.ok("key", "show", path), "^tgk1:")

    def test_fingerprint(self):
        public = self.new("a.key").strip()
        print_ = self.ok("key", "fingerprint", public)
        self.assertRegex(print_, r"^[0-9a-f]{4}(-[0-9a-f]{4}){4}\n$")
        self.assertEqual(self.ok("key", "fingerprint", self.path("a.key")), print_)
        pathlib.Path(self.path("friends")).write_text(f"{public} a\n", encoding="utf-8")
        self.refused(1, ["friends: not a private key, but a public key: allowed: ", "or a public key itself, tgk1:"], "key", "fingerprint",
                     self.path("friends"))
        self.refused(2, ['"tgk1:short" is not a public key', "allowed: tgk1:"], "key", "fingerprint", "tgk1:short")

    def test_files_that_are_no_keys(self):
        public = self.new("a.key")
        with open(self.path("public"), "w", encoding="utf-8") as file:
            file.write(public)
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("text")
        for mode in 0o600, 0o644:  # that it is no key comes before who may read it
            os.chmod(self.path("public"), mode)
            os.chmod(self.path("text"), mode)
            self.refused(1, ["public: not a private key, but a public key: ", "telegrad key new"], "key", "show", self.path("public"))
            self.refused(1, ["text: not a private key: ", "telegrad key new"], "key", "fingerprint", self.path("text"))
        os.chmod(self.path("a.key"), 0o640)
        self.refused(1, ["accessible to other users", "0640", "allowed: 0600"], "key", "show", self.path("a.key"))
        self.refused(1, ["missing: No such file"], "key", "show", self.path("missing"))

    def test_usage(self):
        self.refused(2, ["key: no subcommand: ", "allowed: telegrad key new, telegrad key show, telegrad key fingerprint"], "key")
        self.refused(2, ['key neww: did you mean "new"?'], "key", "neww")
        self.refused(2, ["key new: no argument: allowed: telegrad key new FILE"], "key", "new")
        self.refused(2, ["key show: more than one argument"], "key", "show", "a", "b")
        self.refused(2, ["key fingerprint: an empty name: allowed: telegrad key fingerprint FILE|tgk1:..."], "key", "fingerprint", "")
        self.refused(2, ["key new -: a key must go to a file (./- is a file of that name)"], "key", "new", "-", cwd=self.folder)
        self.refused(2, ["unrecognized option '--force'"], "key", "new", "--force", self.path("x"))
        done = run("key", "new", self.path("x"), OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("key new runs in one process", done.stderr)


if __name__ == "__main__":
    unittest.main()
