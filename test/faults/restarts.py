#!/usr/bin/env python3
"""--max-restarts: a run that dies or hangs resumes automatically, with the losses of an undisturbed run."""
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import faults
from faults import BATCHES, LONG, Supervised, children_of, damage, e2e, kill, send, stop

STOPPING = "dpc-run: stopping after the current step; a second Ctrl-C stops at once and saves nothing"

# As torchrun does, sends SIGTERM to its processes, which are in other sessions, when it receives it.
LAUNCHER = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
child = subprocess.Popen(sys.argv[1:], start_new_session=True)
try:
    sys.exit(child.wait())
finally:
    child.terminate()
    child.wait()
"""


def rank_of(pid):
    """The rank of a process; None before it has started and after its end."""
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
            found = re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
    except OSError:
        return None
    return int(found[1]) if found else None


class Restarts(faults.FaultTest):
    several = 150  # more than run while a signal is sent

    def setUp(self):
        super().setUp()
        self.whole = self.metrics_of("whole", [])

    def check_disturbed(self, name, words, disturb, times):
        err = self.disturbed(name, words, disturb, times)
        self.assertEqual(self.metrics_of(name), self.whole, err)
        return err

    def test_killed_threads(self):
        err = self.check_disturbed("killed", [], kill, 20 if LONG else 5)
        self.assertRegex(err, r"restart \d of 20: the run was ended by signal 9 \(Killed\) after step \d+; (resuming after step \d+|there is no checkpoint yet: restarting at step 1)\n")

    def test_stopped_threads(self):
        err = self.check_disturbed("hung", ["--hang-seconds=2"], stop, 4 if LONG else 1)
        self.assertRegex(err, r"dpc-run: rank \d (was last in|last finished) step \d+, \S")
        self.assertRegex(err, r"restart 1 of 20: no step ended for 2 s after step \d+; (resuming after step \d+|there is no checkpoint yet: restarting at step 1)\n")

    def launcher(self):
        launcher = e2e.mpirun(4)
        if not launcher:
            self.skipTest("no mpirun")
        return "--launcher=" + " ".join(launcher)

    def test_killed_processes(self):
        killed = []

        def kill_one(pid):
            killed.append(rank_of(pid))
            kill(pid)

        err = self.check_disturbed("mpi", [self.launcher()], kill_one, 5 if LONG else 2)
        self.check_named(err, killed[:1])  # ranks that are killed later may have no record yet
        self.assertRegex(err, r"restart 1 of 20: the run .* after step \d+; (resuming after step \d+|there is no checkpoint yet: restarting at step 1)\n")

    def check_named(self, err, ranks):
        """The message names the instruction in which each rank was lost, and its group if it has one."""
        for rank in ranks:
            self.assertRegex(err, rf"dpc-run: rank {rank} (was last in|last finished) step \d+, [^\n]*\w")
        for line in re.findall(r"dpc-run: rank \d (?:was last in|last finished) .*(?:all_reduce|gather|scatter).*", err):
            self.assertRegex(line, r"\(group \w+ ranks=\d,\d")

    def test_stopped_processes(self):
        """The other ranks report where and for which rank they wait, and the record of the stopped rank agrees."""
        stopped = []

        def stop_one(pid):
            stopped.append(rank_of(pid))
            stop(pid)

        err = self.check_disturbed("mpi", [self.launcher(), "--hang-seconds=30", "--timeout-seconds=3"], stop_one, 2 if LONG else 1)
        self.assertRegex(err, r"(step \d+, \S.* \(ledger line \d+, group \w+ ranks=\d,\d\)|after step \d+): rank \d waited 3 s in \w+ for rank")
        self.check_named(err, stopped[:1])  # ranks that are stopped later may have no record yet
        self.assertRegex(err, r"restart 1 of 20: the run .* after step \d+; (resuming after step \d+|there is no checkpoint yet: restarting at step 1)\n")

    def test_slow_processes(self):
        """A rank that is stopped nine tenths of the time is reported as a straggler, not as dead, and no other rank is."""
        run = Supervised(self.words("slow", ["--checkpoint=" + self.path("slow-ck"), "--max-restarts=2", self.launcher(), "--hang-seconds=30",
                                             "--slow-rank=3"], steps=400))  # more than run before the rank is slowed down
        run.await_steps(2)
        slow = next(pid for pid in run.ranks() if rank_of(pid) == 2)
        while run.process.poll() is None and not any("median" in line for line in run.said):
            stop(slow)
            time.sleep(0.09)
            send(slow, signal.SIGCONT)
            time.sleep(0.01)
            if not os.path.exists(f"/proc/{slow}"):
                break
        status, err = run.end()
        self.assertEqual(status, 0, err)
        self.assertEqual(self.metrics_of("slow"), self.metrics_of("undisturbed", [], steps=400), err)
        self.assertNotIn("restart", err)
        named = re.findall(r"dpc-run: step \d+: rank (\d) computes \S+ ms a step, \S+ times the median of the ranks of its stage\n", err)
        self.assertEqual(set(named), {"2"}, err)

    def test_a_damaged_checkpoint_is_passed_over(self):
        folder = os.path.join(self.folder, "ck")
        e2e.must(self.words("metrics", ["--checkpoint=" + folder, "--checkpoint-every=10", "--checkpoint-keep=9"]))
        for step in (30, 40, 50, 60):
            shutil.rmtree(os.path.join(folder, f"step-{step}"))
        damage(os.path.join(folder, "step-20", "rank-0.safetensors"))
        words = self.words("metrics", ["--checkpoint=" + folder, "--max-restarts=3", "--checkpoint-keep=9", "--resume"])
        refused = e2e.call(words)
        self.assertEqual(refused.returncode, 1)  # a failure of the first start is final
        self.assertIn("the checksum of the bytes from", refused.stderr)
        # The file is repaired before the first start and damaged before the second.
        whole = os.path.join(folder, "step-20", "rank-0.safetensors")
        damage(whole)
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not run.stdout.readline().startswith("step "):
            pass
        damage(whole)
        for pid in children_of(run.pid):
            kill(pid)
        _, err = run.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn(" on is wrong: the file was changed; the checkpoint is renamed\n", err)
        self.assertIn("resuming after step 10\n", err)
        self.assertIn("step-20.damaged", os.listdir(folder))
        self.assertEqual(self.metrics_of("metrics"), self.whole)

    def killed_once(self, name, words, after):
        """Metrics of a run that is killed after `after` steps, if possible before its first checkpoint, and again after one."""
        run = Supervised(self.words(name, ["--max-restarts=9", "--checkpoint-every=10", "--checkpoint-sync", *words], self.several))
        for steps in (after, 13):
            run.await_steps(steps)
            for pid in run.ranks():
                kill(pid)
        status, err = run.end()
        self.assertEqual(status, 0, err)
        self.assertRegex(err, r"restart \d of 9: the run was ended by signal 9 .*; resuming after step \d+0\n")
        return self.metrics_of(name), err

    def test_init_gives_the_values_until_there_is_a_checkpoint(self):
        init = "--init=" + self.path("w.safetensors")
        self.metrics_of("trained", ["--save-params=" + self.path("w.safetensors")], 3)
        whole = self.metrics_of("whole-init", [init], self.several)
        self.assertNotEqual(whole[:self.steps], self.whole)
        words = [init, "--checkpoint=" + self.path("ck")]
        got, err = self.killed_once("killed-init", words, 2)
        self.assertEqual(got, whole, err)
        out = e2e.must(self.words("killed-init", [*words, "--resume"], self.several + 1))
        self.assertIn("the values come from the checkpoint, not from --init\n", out)
        refused = e2e.call(self.words("killed-init", [init, "--resume=" + self.path("ck", f"step-{self.several}")]))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--resume=DIR/step-N excludes --init", refused.stderr)

    def test_new_data_is_begun_once(self):
        def samples(name, count):
            os.makedirs(self.path(name))
            for file in os.listdir(BATCHES):
                dtype, shape, values = e2e.read_npy(os.path.join(BATCHES, file))
                e2e.write_npy(self.path(name, file), dtype, (count, *shape[2:]), values[:count * math.prod(shape[2:])])
            return "--data=" + self.path(name)

        e2e.must(self.words("before", [samples("old", 24), "--checkpoint=" + self.path("ck")], 4))
        words = [samples("new", 40), "--shuffle=9", "--new-data", "--resume=" + self.path("ck", "step-4")]
        whole = self.metrics_of("whole-new", words, self.several)
        got, err = self.killed_once("killed-new", [*words, "--checkpoint=" + self.path("ckn")], 2)
        self.assertEqual(got, whole, err)

    def test_the_signal_that_came_is_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            run = Supervised(self.words("asked", ["--max-restarts=1", "--checkpoint=" + self.path(f"ck-{number}")], 100000))
            run.await_steps(1)
            status, err = run.end(number)
            said = STOPPING if number == signal.SIGINT else ""
            self.assertEqual((status, err.strip()), (128 + number, said))
            self.assertEqual(len(faults.checkpoints(self.path(f"ck-{number}"))), 1)

    def test_a_launcher_that_does_not_forward_sigusr1_gets_sigterm(self):
        with open(self.path("launch.py"), "w") as file:
            file.write(LAUNCHER)
        words = ["--max-restarts=1", "--checkpoint=" + self.path("ck-launched"), f"--launcher={sys.executable} {self.path('launch.py')}"]
        run = Supervised(self.words("launched", words, 100000))
        run.await_steps(1)
        status, err = run.end(signal.SIGINT)
        self.assertEqual((status, err.strip()), (128 + signal.SIGINT, STOPPING))
        self.assertEqual(len(faults.checkpoints(self.path("ck-launched"))), 1)

    def check_second_signal(self, name, words, processes):
        """While the first signal is not answered yet, the second one ends the supervisor and all ranks."""
        run = Supervised(self.words(name, ["--max-restarts=1", "--checkpoint=" + self.path("ck-" + name), *words], 100000))
        self.assertTrue(run.await_steps(2))
        ranks = run.ranks()
        self.assertEqual(len(ranks), processes)
        for rank in ranks:
            send(rank, signal.SIGSTOP)  # the step does not end
        send(run.process.pid, signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(run.process.poll(), "the first signal waits for the step")
        send(run.process.pid, signal.SIGINT)
        try:
            self.assertEqual(run.process.wait(timeout=30), 128 + signal.SIGINT)
            deadline = time.monotonic() + 10
            while (left := [rank for rank in ranks if faults.is_rank(rank)]) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(left, [], "ranks run without their supervisor")
        finally:
            for rank in ranks:
                if faults.is_rank(rank):
                    send(rank, signal.SIGKILL)
            if run.process.poll() is None:
                run.process.kill()
            run.end()

    def test_a_second_signal_ends_all_ranks(self):
        self.check_second_signal("twice", [], 1)

    def test_a_second_signal_ends_all_processes_of_mpirun(self):
        self.check_second_signal("twice-mpi", [self.launcher()], 4)

    def test_a_second_signal_ends_all_processes_of_another_launcher(self):
        with open(self.path("launch.py"), "w") as file:
            file.write(LAUNCHER)
        self.check_second_signal("twice-launched", [f"--launcher={sys.executable} {self.path('launch.py')}"], 1)

    def test_restarts_end(self):
        folder = os.path.join(self.folder, "ck")
        run = subprocess.Popen(self.words("metrics", ["--checkpoint=" + folder, "--max-restarts=1"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        killed = []
        for _ in range(2):
            started = []
            while not started and run.poll() is None:  # a killed process remains a child until `run` waits for it
                started = [pid for pid in children_of(run.pid) if pid not in killed]
                time.sleep(0.01)
            for pid in started:
                kill(pid)
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
