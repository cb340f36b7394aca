"""The wheel is built and installed by pip, each in an environment of its own, and works there: C programs too.

    wheel_test.py SOURCES     status 77: pip cannot get scikit-build-core
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

SOURCES = pathlib.Path(sys.argv[1])
USE = """
import array, ctypes.util, os, pathlib, subprocess, telegrad
folder = pathlib.Path(telegrad.__file__).parent
assert (folder / "py.typed").exists()
net = telegrad.Network.local(1)[0]
assert telegrad.Reducer("topk:density=0.5", 2, net).mean_(array.array("f", [1, 2]))[1] == 2
assert telegrad.Key().public.startswith("tgk1:")  # of libtelegrad-net
library = folder / "lib"
subprocess.run(["cc", "codec.c", "-I", telegrad.get_include(), f"-L{library}", f"-Wl,-rpath,{library}", "-ltelegrad", "-lm", "-o", "codec"],
               check=True)
assert b"became" in subprocess.run(["./codec"], capture_output=True, check=True).stdout
print("used", telegrad.__version__)
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(" ".join(map(str, command)) + "\n" + done.stdout[-4000:] + done.stderr[-4000:])
    return done.stdout


def environment(folder):
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    python = environment(folder / "build")
    if subprocess.run([python, "-m", "pip", "install", "-q", "scikit-build-core>=0.10"], capture_output=True).returncode != 0:
        print("SKIP: pip cannot get scikit-build-core")
        sys.exit(77)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TELEGRAD"))}
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-C", "cmake.define.CMAKE_CUDA_ARCHITECTURES=90",
        "-w", folder, SOURCES, env=clean)  # one architecture: nvcc takes most of the time
    wheels = list(folder.glob("telegrad-*-py3-none-*.whl"))
    assert len(wheels) == 1, list(folder.iterdir())
    with zipfile.ZipFile(wheels[0]) as wheel:
        for_gpus = any("libtelegrad-cuda" in name for name in wheel.namelist())
    assert wheels[0].stat().st_size < (4 if for_gpus else 2) << 20, f"{wheels[0].stat().st_size} bytes"
    python = environment(folder / "use")
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheels[0])
    (folder / "codec.c").write_text((SOURCES / "examples" / "codec.c").read_text())
    print(run(python, "-c", USE, cwd=folder, env=clean), end="")
    doctor = run(python, "-m", "telegrad.doctor", cwd=folder, env=clean)
    assert doctor.count("\nok ") == 4 and "no PyTorch" in doctor, doctor
    command = python.parent / "telegrad"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, env=clean)
    if done.returncode == 1:
        assert "was built without the command, which needs jansson and zlib" in done.stderr, done
        print("SKIP: no jansson or no zlib: the wheel has no command")
        sys.exit()
    assert done.stdout.startswith("telegrad ") and "\noneDNN none\n" in done.stdout and "\nMPI none\n" in done.stdout, done
    assert run(command, "key", "new", folder / "a.key", env=clean).startswith("tgk1:")
    assert "topk" in run(command, "methods", env=clean)
    assert "--listen" in run(command, "serve", "--help", env=clean)
    assert "train" not in run(command, "--help", env=clean).split("Commands:")[1].split("  methods")[0]
    done = subprocess.run([command, "train"], capture_output=True, text=True, env=clean)
    assert done.returncode == 2 and "built without a trainer, which needs oneDNN: it has no \"train\"" in done.stderr, done
    linked = run("ldd", pathlib.Path(run(python, "-c", "import telegrad; print(telegrad.__file__)", cwd=folder, env=clean)).parent / "bin" / "telegrad")
    assert not any(name in linked for name in ("jansson", "dnnl", "libmpi", "not found")), linked
