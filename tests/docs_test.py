"""What the documents say can be run: every ```sh block of README.md and some of docs/ runs, every ```c block
of README.md compiles, every file that a document names exists.   docs_test.py PATH-OF-TELEGRAD"""
import ast
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TELEGRAD = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = README + "".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in
                            ("command", "optimizers", "data", "cluster", "strategies", "virtual-clock", "report", "advise",
                             "security", "networks", "tuning", "servers", "mxnet"))
MPI = shutil.which("mpirun") and "libmpi" in subprocess.run(["ldd", TELEGRAD], capture_output=True, text=True).stdout
TCP = "libssl" in subprocess.run(["ldd", TELEGRAD], capture_output=True, text=True).stdout


def blocks(kind, text=README):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.S | re.M)


def digit(label, noise):
    """A bar whose height is the label, on a little noise."""
    image = bytearray(byte >> 3 for byte in noise)
    for row in (4 + 2 * label, 5 + 2 * label):
        image[row * 28 + 6:row * 28 + 22] = bytes([200]) * 16
    return bytes(image)


def write_digits(folder):
    """Files in MNIST's format that a network learns soon, where commands look for them: real digits take longer to draw."""
    os.makedirs(folder)
    for stem, count in (("train", 10000), ("t10k", 500)):
        random_bytes = random.Random(1)
        with open(os.path.join(folder, stem + "-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 28, 28))
            file.writelines(digit(i % 10, random_bytes.randbytes(784)) for i in range(count))
        with open(os.path.join(folder, stem + "-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))


def documents():
    """README.md, CONTRIBUTING.md, CHANGELOG.md, all pages of docs/, and the pages of the library's rooms and of other folders."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")),
            *sorted((ROOT / "src").glob("*/README.md")), ROOT / "trainer/README.md", ROOT / "bench/torch/README.md",
            ROOT / "examples/README.md"]


class Docs(unittest.TestCase):
    def test_commands_run(self):
        others = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "TELEGRAD_DATA")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        environment.update(PATH=os.path.dirname(TELEGRAD) + ":" + os.environ["PATH"], OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                           OMPI_MCA_hwloc_base_binding_policy="none")
        commands = [line for block in blocks("sh", COMMANDS) for line in block.replace("\\\n", "").splitlines()]
        self.assertGreaterEqual(len(commands), 5)
        with tempfile.TemporaryDirectory() as folder:
            write_digits(os.path.join(folder, "data", "mnist"))
            for command in commands:
                if command.startswith("mpirun") and not MPI:
                    print("SKIP without MPI:", command)
                    continue
                if re.match("telegrad serve|.*--server ", command):
                    continue  # serve_test.py runs them
                if re.match("telegrad (key|doctor)|.*--listen", command) and not TCP:
                    print("SKIP without OpenSSL:", command)
                    continue
                done = subprocess.run(command, shell=True, cwd=folder, env=environment, timeout=200,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, command + "\n" + done.stdout + done.stderr)
                self.assertNotEqual(done.stdout, "", command)

    def test_c_compiles(self):
        compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
        if not compiler:
            self.skipTest("SKIP: no mpicc")
        for code in blocks("c"):
            subprocess.run([compiler, "-std=c17", "-Wall", "-Werror", "-fsyntax-only", "-I", ROOT / "include", "-xc", "-"],
                           input=code, text=True, check=True)

    def test_files_exist(self):
        for document in documents():
            folders = "src|docs|include|examples|scripts|tools|tests|bench|cmake|command|trainer|report|contrib"
            for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", document.read_text(encoding="utf-8")):
                if "NAME" not in name:
                    self.assertTrue((ROOT / name).exists(), f"{document.relative_to(ROOT)} names {name}")

    def test_architecture_is_the_tree(self):
        """docs/architecture.md names every folder, and every room of the library with its floor."""
        text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        tree, floors = text.split("## Floors of the library")
        folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name not in ("build", "data") and p.name[0] != "."}
        self.assertEqual(set(re.findall(r"`(\w+)/(?:telegrad/)?`", tree)), folders)
        table, path = floors.split("## The path of a gradient")
        rooms = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
        named = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| \[?`(\w+)`", table, re.M)}
        self.assertEqual(set(named), rooms)
        checker = (ROOT / "scripts/check-floors").read_text(encoding="utf-8")
        self.assertEqual(named, ast.literal_eval(re.search(r"^LIBRARY = (\{.*?\})", checker, re.S | re.M)[1]))
        drawn = re.findall(r"^ +(\d)  (\w+) ", path, re.M)
        self.assertGreaterEqual(len(drawn), 5)
        for floor, room in drawn:
            self.assertEqual(named[room], int(floor), f"the picture's floor of {room}")

    def test_links_lead_somewhere(self):
        for document in documents():
            for name in re.findall(r"\]\(([\w./-]+)\)", document.read_text(encoding="utf-8")):
                self.assertTrue((document.parent / name).exists(), f"{document.name} links to {name}")

    def test_lines_fit(self):
        """Lines are at most 120 columns wide; only tables may be wider."""
        for document in documents():
            for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
                if not line.startswith("|"):
                    self.assertLessEqual(len(line), 120, f"{document.relative_to(ROOT)}:{number}")


if __name__ == "__main__":
    unittest.main()
