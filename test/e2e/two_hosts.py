"""Two machines on one: network namespaces with a link between them.

    with TwoHosts(bits_per_second=10**9) as hosts:
        e2e.must(hosts.mpirun(per_host=2) + [command])

Each namespace has its own network stack and host name, so that Open MPI sees two machines. Everything between them goes
through the link, a veth pair whose rate `tc` can limit. mpirun starts its daemon on the other side with an agent script
instead of ssh. Needs root, `ip` (iproute2) and, for a rate, `tc`. No traffic leaves the machine.
"""
import json
import os
import shutil
import subprocess
import tempfile

import e2e

# The addresses of both ends of the link, in a private range that only the two namespaces use.
ADDRESSES = ("10.213.77.1", "10.213.77.2")
NETWORK = "10.213.77.0/30"
# Processes are not bound to cores, because the daemon of each side would choose the first core.
MPI_WORDS = ["--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", NETWORK, "--mca", "oob_tcp_if_include", NETWORK,
             "--mca", "plm", "rsh", "--oversubscribe", *e2e.UNBOUND]

AGENT = """#!/bin/sh
# Called in place of ssh: HOST COMMAND...
shift
exec {cores} ip netns exec {namespace} unshare --uts sh -c 'hostname {namespace}; exec sh -c "$0"' "$*"
"""


def why_not():
    """Returns why two hosts are impossible here, or None."""
    for program in ("ip", "tc", "unshare", "mpirun"):
        if not shutil.which(program):
            return f"no {program} on this machine"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"dpc-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return "no network namespaces on this machine"
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


class TwoHosts:
    """With `own_cores` each host has half of the machine's cores, like two machines."""
    def __init__(self, bits_per_second=None, own_cores=False):
        self.rate = bits_per_second
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        self.cores = [["taskset", "-c", ",".join(map(str, part))] if own_cores and half else []
                      for part in (cores[:half], cores[half:])]
        self.names = [f"dpc-{os.getpid()}-{side}" for side in "ab"]
        self.folder = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="dpc-hosts-")
        try:
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        # A veth pair is deleted with its namespaces.
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _connect(self):
        for name in self.names:
            e2e.must(["ip", "netns", "add", name])
        # Interface names have at most 15 characters.
        ends = [f"dpc{os.getpid()}{side}" for side in "ab"]
        e2e.must(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]])
        for end, name, address in zip(ends, self.names, ADDRESSES):
            e2e.must(["ip", "link", "set", end, "netns", name])
            inside = ["ip", "-n", name]
            e2e.must(inside + ["addr", "add", f"{address}/30", "dev", end])
            e2e.must(inside + ["link", "set", end, "up"])
            e2e.must(inside + ["link", "set", "lo", "up"])
            # The bucket must fit a segment of 64 KB. Otherwise the CPU splits segments as a network card would.
            if self.rate:
                e2e.must(["tc", "-n", name, "qdisc", "add", "dev", end, "root", "tbf", "rate", f"{self.rate}bit",
                          "burst", "1mbit", "latency", "200ms"])
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w") as file:
            file.write(AGENT.format(namespace=self.names[1], cores=" ".join(self.cores[1])))
        os.chmod(self.agent, 0o755)

    def mpirun(self, per_host):
        """Returns the words before a command that start `per_host` processes on each side, the first ones on side a."""
        hosts = ",".join(f"{address}:{per_host}" for address in ADDRESSES)
        inside = [*self.cores[0], "ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", f'hostname {self.names[0]}; exec "$0" "$@"']
        return inside + ["mpirun", "--mca", "plm_rsh_agent", self.agent, *MPI_WORDS, "--host", hosts, "-np", str(2 * per_host),
                         "-x", "OMPI_ALLOW_RUN_AS_ROOT", "-x", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]

    def sent_bytes(self):
        """Returns the bytes that side a has sent over the link so far."""
        shown = e2e.must(["ip", "-n", self.names[0], "-s", "-j", "link", "show", f"dpc{os.getpid()}a"])
        return json.loads(shown)[0]["stats64"]["tx"]["bytes"]
