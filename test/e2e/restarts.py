#!/usr/bin/env python3
"""--max-restarts: a run that dies or hangs goes on by itself, and its curve is the undisturbed one's."""
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import e2e

LONG = bool(os.environ.get("DPC_TEST_LONG"))
BATCHES = os.path.join(e2e.MODELS, "gpt2-tiny", "batches")
STEPS = 60


def children_of(pid):
    """Processes below `pid`, the nearest first."""
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
    """What ended by itself meanwhile needs no signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def damage(path):
    """Flips a bit; the second time, back."""
    with open(path, "r+b") as file:
        file.seek(-9, os.SEEK_END)
        byte = file.read(1)
        file.seek(-9, os.SEEK_END)
        file.write(bytes([byte[0] ^ 8]))


class Restarts(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        self.plan = os.path.join(self.folder, "plan")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--strategy=dp=2,tp=2", "--global-batch=8", "--train=adamw",
                  "--verify=off", "-o", self.plan])
        self.whole = self.metrics_of("whole", [])

    def words(self, name, words):
        return [e2e.tool("dpc-run"), self.plan, "--batches=" + BATCHES, f"--steps={STEPS}", "--metrics=" + os.path.join(self.folder, name), *words]

    def metrics_of(self, name, words):
        if words is not None:
            e2e.must(self.words(name, words))
        return [(line["step"], line["loss"], line["grad_norm"]) for line in e2e.read_metrics(os.path.join(self.folder, name))]

    def disturbed(self, name, words, disturb, times):
        """Runs under a supervisor and disturbs a rank `times` times, each time after some steps; returns what was said."""
        checkpoint = "--checkpoint=" + os.path.join(self.folder, name + "-ck")
        run = subprocess.Popen(self.words(name, [checkpoint, "--checkpoint-every=2", "--max-restarts=20", *words]), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=e2e.environment())
        draw = random.Random(3)
        for _ in range(times):
            for _ in range(draw.randrange(1, 5)):
                while (line := run.stdout.readline()) and not line.startswith("step "):
                    pass
            time.sleep(draw.uniform(0, 0.02))
            ranks = [pid for pid in children_of(run.pid) if is_rank(pid)]
            if ranks:
                disturb(draw.choice(ranks))
        _, err = run.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(self.metrics_of(name, None), self.whole, err)
        return err

    def test_killed_threads(self):
        err = self.disturbed("killed", [], lambda pid: send(pid, signal.SIGKILL), 20 if LONG else 5)
        self.assertRegex(err, r"restart \d of 20: the run was ended by signal 9 \(Killed\) after step \d+; going on after step \d+\n")

    def test_stopped_threads(self):
        err = self.disturbed("hung", ["--hang-seconds=2"], lambda pid: send(pid, signal.SIGSTOP), 4 if LONG else 1)
        self.assertRegex(err, r"restart 1 of 20: no step ended for 2 s after step \d+; (going on after step \d+|starting again)\n")

    def test_killed_processes(self):
        launcher = e2e.mpirun(4)
        if not launcher:
            self.skipTest("no mpirun")
        err = self.disturbed("mpi", ["--launcher=" + " ".join(launcher)], lambda pid: send(pid, signal.SIGKILL), 5 if LONG else 2)
        self.assertRegex(err, r"restart 1 of 20: the run .* after step \d+; (going on after step \d+|starting again)\n")

    def test_a_damaged_checkpoint_is_passed_over(self):
        folder = os.path.join(self.folder, "ck")
        e2e.must(self.words("metrics", ["--checkpoint=" + folder, "--checkpoint-every=10", "--checkpoint-keep=9"]))
        for step in (30, 40, 50, 60):
            shutil.rmtree(os.path.join(folder, f"step-{step}"))
        damage(os.path.join(folder, "step-20", "rank-0.safetensors"))
        words = self.words("metrics", ["--checkpoint=" + folder, "--max-restarts=3", "--checkpoint-keep=9", "--resume"])
        refused = e2e.call(words)
        self.assertEqual(refused.returncode, 1)  # the first start is the user's to judge
        self.assertIn("do not have their checksum", refused.stderr)
        # Whole again for the first start, damaged for the second.
        whole = os.path.join(folder, "step-20", "rank-0.safetensors")
        damage(whole)
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not run.stdout.readline().startswith("step "):
            pass
        damage(whole)
        for pid in children_of(run.pid):
            send(pid, signal.SIGKILL)
        _, err = run.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("do not have their checksum: the file was changed; it is renamed\n", err)
        self.assertIn("going on after step 10\n", err)
        self.assertIn("step-20.damaged", os.listdir(folder))
        self.assertEqual(self.metrics_of("metrics", None), self.whole)

    def test_restarts_end(self):
        folder = os.path.join(self.folder, "ck")
        run = subprocess.Popen(self.words("metrics", ["--checkpoint=" + folder, "--max-restarts=1"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        killed = []
        for _ in range(2):
            started = []
            while not started and run.poll() is None:  # what was killed is a child until it is waited for
                started = [pid for pid in children_of(run.pid) if pid not in killed]
                time.sleep(0.01)
            for pid in started:
                send(pid, signal.SIGKILL)
            killed += started
        _, err = run.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(err, r"error: the run was ended by signal 9 .* and 1 restarts are used up\n$")

    def test_what_is_refused_once_is_not_tried_again(self):
        done = e2e.call([e2e.tool("dpc-run"), self.plan + "-nowhere", "--checkpoint=" + self.folder, "--max-restarts=5"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(re.findall("error:", done.stderr)), 1, done.stderr)
        self.assertNotIn("restart", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
