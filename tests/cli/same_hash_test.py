"""The same seed gives the same params_hash: twice, at every instruction set level, with a communication thread and
inline, and under mpirun as with --workers, for every method and strategy."""
import re
import unittest
import mpi_tool
from cli_tool import CliTest, TINY, over, run

METHODS = ["dense", "dense:exchange=ring", "fp16", "bf16", "2bit:threshold=0.01", "2bit:threshold=auto",
           "topk:density=0.01", "topk:density=0.01,values=1bit,scope=tensor",
           "topk:density=0.02,select=trimmed", "randomk:density=0.01", "strom",
           "adacomp", "atomo:rank=2", "dgc:density=0.01,warmup=4", "int8",
           "topk:density=0.02,exchange=reducescatter", "cltk:density=0.05", "fp16:exchange=ring", "qsgd:feedback=residual",
           "qsgd:bits=6,norm=l2,coding=elias", "terngrad", "1bit:twoway=yes", "signum", "efsign", "powersgd:rank=2",
           "csc:chunk=256,warmup=2", "fetchsgd:ratio=4", "dct"]
STRATEGIES = ["ssgd", "od:warmup=2", "cd:k=3,warmup=2"]
RULES = ["--method", "dgc:density=0.01,warmup=4", "--rule", "*.bias=f32", "--rule", "fc2*=randomk:density=0.1"]
# Every method, every strategy, and all pairs of these; a process each, so not all pairs of all.
PAIRS = sorted({(m, STRATEGIES[i % len(STRATEGIES)]) for i, m in enumerate(METHODS)} |
               {(m, s) for m in ("2bit:threshold=0.01", "dgc:density=0.01,warmup=4", "terngrad") for s in STRATEGIES})
JOB = ["--model", "mlp:hidden=32", *TINY, "--steps", "8", "--no-eval"]


def params_hash(text):
    return re.search(r"params hash +([0-9a-f]{16})", text).group(1)


class SameHash(CliTest):
    def one(self, *args, **more):
        done = run("train", *over(*JOB, *args), **more)  # signum and randomk have another rate, which is said
        self.assertEqual(done.returncode, 0, done.stderr)
        return params_hash(done.stdout)

    def test_levels_and_drivers(self):
        for method, strategy in PAIRS:
            job = ["--workers", "3", "--method", method, "--strategy", strategy]
            hashes = {self.one(*job), self.one(*job, TG_CPU="ref"), self.one(*job, "--driver", "inline")}
            self.assertEqual(len(hashes), 1, (method, strategy))

    def test_rules(self):
        job = ["--workers", "3", *RULES]
        hashes = {self.one(*job), self.one(*job), self.one(*job, TG_CPU="ref"), self.one(*job, "--driver", "inline")}
        self.assertEqual(len(hashes), 1)

    def test_every_level_with_the_real_model(self):
        job = ["--model", "lenet5", "--workers", "2", "--method", "dgc:density=0.001,warmup=2"]
        levels = ["ref"]
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = file.read()
        levels += ["avx2"] if " avx2 " in flags else []
        levels += ["avx512"] if " avx512vl " in flags and " avx512bw " in flags else []
        self.assertEqual(len({self.one(*job, TG_CPU=level) for level in levels}), 1, levels)

    def test_another_seed_is_another_run(self):
        self.assertNotEqual(self.one("--seed", "1"), self.one("--seed", "2"))

    @unittest.skipUnless(mpi_tool.AVAILABLE, mpi_tool.WHY)
    def test_mpi(self):
        for method, strategy in PAIRS:
            job = ["--method", method, "--strategy", strategy]
            done = mpi_tool.mpirun((4, ["train", *over(*JOB, *job)]))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(params_hash(done.stdout), self.one("--workers", "4", *job), job)
        done = mpi_tool.mpirun((4, ["train", *JOB, *RULES]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(params_hash(done.stdout), self.one("--workers", "4", *RULES))


if __name__ == "__main__":
    unittest.main()
