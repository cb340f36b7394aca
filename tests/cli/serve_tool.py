"""For tests of telegrad serve: servers and workers in processes over 127.0.0.1."""
import json
import pathlib
import re
import signal
import threading
import time
import net_tool

MLP = ["--model", "mlp:hidden=32", "--data", "glyphs:train=512,test=128", "--method", "topk:density=0.05", "--lr", "0.01"]
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def documented(kind):
    """The fields of a server's record in docs/records.md."""
    table = (DOCS / "records.md").read_text(encoding="utf-8").split(f"| field of `{kind}` | meaning |\n", 1)[1].split("\n\n", 1)[0]
    return {name for row in re.findall(r"^\|(.*?)\|", table, re.M) for name in re.findall(r"`(\w+)`", row)}


class ServeTest(net_tool.NetTest):
    def serve(self, *args, listen=None):
        server = self.start("serve", "--listen", listen or self.meeting, "--insecure", *args)
        return self.told(server, "listens at")

    def told(self, process, part):
        """Waits until the process says this on stderr."""
        process.said = getattr(process, "said", "")
        patience = threading.Timer(60, process.kill)  # a silent process ends the reading
        patience.start()
        while part not in process.said:
            line = process.stderr.readline()
            process.said += line
            if not line:
                patience.cancel()
                self.fail(f"{part!r} was not said: {process.said}")
        patience.cancel()
        return process

    def until(self, fact):
        end = time.time() + 60
        while not fact():
            self.assertLess(time.time(), end)
            time.sleep(0.05)

    def worker(self, *args):
        return self.start("train", "--server", self.meeting, "--insecure", *MLP, *args)

    def ends(self, server):
        server.send_signal(signal.SIGTERM)
        done = net_tool.Done(server)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\d+ answers?, .* received \(.*/s\), .* sent, in .*\n$")
        return server.said + done.stderr

    def fine(self, process):
        done = net_tool.Done(process)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def records(self, name, kind):
        """Those of a file that may be growing."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                *lines, _ = file.read().split("\n")
        except OSError:
            return []
        all_records = [json.loads(line) for line in lines]
        return [record for record in all_records if record["type"] == kind]
