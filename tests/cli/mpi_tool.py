"""Runs the command under mpirun, where MPI is there and the command was built with it."""
import os
import re
import shutil
import subprocess
import sys
from cli_tool import ENVIRONMENT, TELEGRAD

MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
MPI_ENVIRONMENT = {**ENVIRONMENT, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def library_of_mpi():
    found = re.search(r"=> (\S*libmpi\S*)", subprocess.run(["ldd", TELEGRAD], capture_output=True, text=True).stdout)
    return found and found[1]


AVAILABLE = MPIRUN is not None and library_of_mpi() is not None
WHY = "SKIP: no mpirun, or the command was built without MPI"


def mpirun(*groups, timeout=120, start=False):
    """Each group is (ranks, arguments of the command). The finished process, or the started one."""
    command = [MPIRUN, "--bind-to", "none"]
    for i, (ranks, arguments) in enumerate(groups):
        command += ([":"] if i else []) + ["-n", str(ranks), TELEGRAD, *arguments]
    if start:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=MPI_ENVIRONMENT, start_new_session=True)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=MPI_ENVIRONMENT)


def beside_a_sleeper(rank, arguments, seconds=60):
    """Two ranks, of which the command is this one; the other starts MPI and sleeps."""
    sleeps = ("import ctypes, time\n"
              f"ctypes.CDLL({library_of_mpi()!r}, ctypes.RTLD_GLOBAL).MPI_Init(None, None)\ntime.sleep({seconds})")
    groups = [["-n", "1", TELEGRAD, *arguments], ["-n", "1", sys.executable, "-c", sleeps]]
    command = [MPIRUN, "--bind-to", "none", *groups[rank], ":", *groups[1 - rank]]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=MPI_ENVIRONMENT,
                            start_new_session=True)


def ranks_of(job):
    """The processes of the command that `job` (a Popen of mpirun) started, lowest pid first."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == job.pid and os.readlink(f"/proc/{pid}/exe") == os.path.realpath(TELEGRAD):
                found.append(int(pid))
        except OSError:
            pass
    return sorted(found)
