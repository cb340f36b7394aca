"""--nodes: two levels give the same parameters in threads and under mpirun, the link is between nodes, and what stays within
a node is counted apart."""
import re
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, records

JOB = ["--model", "mlp:hidden=32", *TINY, "--steps", "6", "--no-eval"]
DELAYED = ["--method", "dgc:density=0.01,warmup=3", "--strategy", "cd:k=3,warmup=2", "--nodes", "3"]  # 3 and 1 workers


def params_hash(text):
    return re.search(r"params hash +([0-9a-f]{16})", text).group(1)


class Nodes(CliTest):
    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_mpi(self):
        for mpi, threads in ((DELAYED, DELAYED), (["--nodes", "auto", "--transport", "mpi"], ["--nodes", "4"])):
            done = mpi_tool.mpirun((4, ["train", *JOB, *mpi]))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(params_hash(done.stdout), params_hash(self.ok("train", *JOB, "--workers", "4", *threads)))

    def test_servers(self):
        """Servers take the gradients of nodes, and have their bits."""
        topk = ["--method", "topk:density=0.05", "--nodes", "2"]
        keeps = ["--strategy", "server"]
        updates, gradients = (params_hash(self.ok("train", *JOB, "--workers", "4", *topk, "--strategy", s)) for s in ("updates", "ssgd"))
        for more, expected in (([], updates), (["--link", "100mbit,2ms"], updates), (keeps, gradients)):
            self.assertEqual(params_hash(self.ok("train", *JOB, "--workers", "4", "--servers", "2", *topk, *more)), expected, more)
        self.ok("train", *JOB, "--workers", "4", "--servers", "1", *topk, *keeps, "--server-mode", "async")
        if mpi_tool.AVAILABLE:
            done = mpi_tool.mpirun((6, ["train", *JOB, *topk, *keeps, "--servers", "2"]))
            self.assertEqual((done.returncode, params_hash(done.stdout)), (0, gradients), done.stderr)

    def test_bytes_and_link(self):
        def run(*args):
            self.ok("train", *JOB, "--workers", "4", "--method", "topk:density=0.01", "--out", self.path("out"), *args)
            lines = records(self.path("out"))
            return lines[0], [line for line in lines if line["type"] == "step"][-1], lines[-1]
        start, step, end = run("--nodes", "2", "--link", "40ms")
        self.assertEqual(start["nodes"], 2)
        self.assertEqual(step["bytes_dense"], 4 * start["params"])  # 8 n (N - 1) / N of two nodes
        self.assertGreater(step["bytes_near"], 4 * start["params"])
        self.assertGreater(step["bytes_sent"], step["bytes_near"])
        self.assertLess(end["bytes_per_step"], start["params"])  # of what is coded, alone
        self.assertGreater(end["bytes_near"], end["bytes_per_step"])
        self.assertGreaterEqual(end["step_ms_median"], 40)
        alone, _, end = run("-q", "--nodes", "4", "--link", "2s")  # nobody is on the other side of the link
        self.assertEqual((alone["nodes"], end["bytes_per_step"], end["ratio_wire"]), (4, 0, None))
        none, step, end = run()
        self.assertEqual((none["nodes"], step["bytes_near"], end["bytes_near"]), (None, 0, 0))

    def test_refused(self):
        four = ["--workers", "4", "--nodes", "3"]
        self.refused(2, ["signsgd", "different sizes", "one vote"], "train", *JOB, *four, "--method", "signsgd", "--optimizer", "sgd:lr=0.001,momentum=0")
        self.refused(2, ["exchange=none", "nodes"], "train", *JOB, *four, "--method", "dense:exchange=none")

    def test_compare(self):
        table = self.ok("compare", *JOB, "--run", "name=flat", "--run", "name=two levels;nodes=2")
        self.assertIn("two levels", table)


if __name__ == "__main__":
    unittest.main()
