"""Network namespaces: machines of their own on this one. They need root and ip (iproute2)."""
import os
import re
import shutil
import subprocess

PREFIX = f"tgns{os.getpid()}-"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def remove_old():
    """What tests have left that were killed: namespaces, and files for `ip netns exec`."""
    for folder in ("/run/netns", "/etc/netns"):
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            pid = re.match(r"tgns(\d+)-", name)
            if not pid or os.path.exists("/proc/" + pid[1]):
                continue
            if folder == "/run/netns":
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            else:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def why_not():
    """Why there are no namespaces here; "": there are."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "SKIP: network namespaces need root and ip (iproute2)"
    remove_old()
    try:
        ip("netns", "add", PREFIX + "try")
        ip("netns", "del", PREFIX + "try")
    except subprocess.CalledProcessError as error:
        return "SKIP: no network namespaces here: " + error.stderr.strip()
    return ""


class Machines:
    """Machines on one switch: {"host-a": "10.77.0.1", ...}. In `ip netns exec`, they know each other's names."""

    def __init__(self, case, hosts):
        """They are gone after the test case."""
        self.case, self.hosts = case, hosts
        self.switch = self.space("switch")
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for i, (host, address) in enumerate(hosts.items()):
            names = f"/etc/netns/{PREFIX}{host}"
            os.makedirs(names)
            case.addCleanup(shutil.rmtree, names)
            with open(names + "/hosts", "w", encoding="utf-8") as file:
                file.writelines(f"{address} {name}\n" for name, address in hosts.items())
            name = self.space(host)
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
            ip("-n", name, "addr", "add", address + "/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")

    def space(self, name):
        self.case.addCleanup(subprocess.run, ["ip", "netns", "del", PREFIX + name], capture_output=True)
        ip("netns", "add", PREFIX + name)
        ip("-n", PREFIX + name, "link", "set", "lo", "up")
        return PREFIX + name

    def prefix(self, host):
        """What runs a command there."""
        return ["ip", "netns", "exec", PREFIX + host]

    def separate(self, one, other):
        """From now on packets between the two are lost. `other` hears no answers; `one` is told at once, as by a firewall of its own."""
        ip("-n", PREFIX + one, "route", "add", "blackhole", self.hosts[other] + "/32")
        ip("-n", PREFIX + other, "neigh", "replace", self.hosts[one], "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
