"""Common code of the fault tests: a run under a supervisor, and the faults."""
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import e2e  # noqa: E402

LONG = bool(os.environ.get("DPC_TEST_LONG"))
BATCHES = os.path.join(e2e.MODELS, "gpt2-tiny", "batches")


def children_of(pid):
    """The descendants of process `pid`, nearest first."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                        found += [int(entry), *children_of(int(entry))]
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def is_rank(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split("\0")[0].endswith("dpc-run")
    except (FileNotFoundError, ProcessLookupError):
        return False


def send(pid, number):
    """Sends a signal, unless the process has already ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def damage(path):
    """Flips a bit; a second call restores it."""
    with open(path, "r+b") as file:
        file.seek(-9, os.SEEK_END)
        byte = file.read(1)
        file.seek(-9, os.SEEK_END)
        file.write(bytes([byte[0] ^ 8]))


def checkpoints(folder):
    """Names of the checkpoints in a folder, including unfinished ones."""
    return sorted(name for name in os.listdir(folder) if name.startswith("step-"))


class Supervised:
    """A run of dpc-run --max-restarts, whose output is read as it comes."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=e2e.environment())
        self.said, self.heard = [], threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.last_step = 0

    def read(self):
        for line in self.process.stderr:
            with self.heard:
                self.said.append(line)
                self.heard.notify_all()

    def await_steps(self, count):
        """Reads until `count` more steps are reported; false at the end of the output."""
        while count:
            line = self.process.stdout.readline()
            if not line:
                return False
            if found := re.match(r"step (\d+)/", line):
                self.last_step = int(found[1])
                count -= 1
        return True

    def await_words(self, text, count=1):
        """Reads steps until stderr contains `text` on `count` lines."""
        while sum(text in line for line in self.said) < count:
            if not self.await_steps(1):
                raise AssertionError(f"ended without '{text}': {''.join(self.said)}")

    def ranks(self):
        return [pid for pid in children_of(self.process.pid) if is_rank(pid)]

    def disturb_any(self, draw, disturb):
        ranks = self.ranks()
        if ranks:
            disturb(draw.choice(ranks))

    def end(self, number=None):
        """The exit status and stderr; sends signal `number` first, if given."""
        if number:
            send(self.process.pid, number)
        self.await_steps(1 << 60)
        status = self.process.wait(timeout=e2e.TIMEOUT_SECONDS)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, "".join(self.said)


class FaultTest(unittest.TestCase):
    """A test with a folder that contains a plan of gpt2-tiny for four ranks."""
    steps = 60

    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        self.plan = self.path("plan")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--strategy=dp=2,tp=2", "--global-batch=8", "--train=adamw",
                  "--verify=off", "-o", self.plan])

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def words(self, name, words, steps=None):
        data = [] if any(word.startswith("--data") for word in words) else ["--batches=" + BATCHES]
        return [e2e.tool("dpc-run"), self.plan, *data, f"--steps={steps or self.steps}", "--metrics=" + self.path(name), *words]

    def metrics_of(self, name, words=None, steps=None):
        """[(step, loss, norm)] of a run with `words`, or of an earlier run without them."""
        if words is not None:
            e2e.must(self.words(name, words, steps))
        return [(line["step"], line["loss"], line["grad_norm"]) for line in e2e.read_metrics(self.path(name))]

    def disturbed(self, name, words, disturb, times):
        """Runs under a supervisor and disturbs a rank `times` times, each time after some steps; returns stderr."""
        run = Supervised(self.words(name, ["--checkpoint=" + self.path(name + "-ck"), "--checkpoint-every=2", "--max-restarts=20", *words]))
        draw = random.Random(3)
        for _ in range(times):
            run.await_steps(draw.randrange(1, 5))
            time.sleep(draw.uniform(0, 0.02))
            run.disturb_any(draw, disturb)
        status, err = run.end()
        self.assertEqual(status, 0, err)
        return err


def kill(pid):
    send(pid, signal.SIGKILL)


def stop(pid):
    send(pid, signal.SIGSTOP)
