#!/usr/bin/env python3
"""--elastic: a run continues with the remaining ranks, and with all of them when they return; no sample is skipped or repeated."""
import os
import random
import re
import signal
import unittest

import faults
from faults import BATCHES, LONG, e2e, kill, stop

TOLERANCE = 2e-3  # relative, for a loss: plans sum in different orders


class Elastic(faults.FaultTest):
    steps = 1000000  # the run is ended by a signal

    def start(self, name, *words):
        return faults.Supervised(self.words(name, ["--checkpoint=" + self.path(name + "-ck"), "--checkpoint-every=3", "--max-restarts=30",
                                                   "--elastic=2:4", *words]))

    def samples(self):
        """The recorded batches as samples, with a new order in each epoch."""
        folder = self.path("samples")
        if not os.path.exists(folder):
            os.mkdir(folder)
            for file in os.listdir(BATCHES):
                dtype, shape, values = e2e.read_npy(os.path.join(BATCHES, file))
                e2e.write_npy(os.path.join(folder, file), dtype, (shape[0] * shape[1], *shape[2:]), values)
        return ["--data=" + folder, "--shuffle=5"]

    def check(self, name, run, data):
        """Ends the run and compares its losses with those of an undisturbed run on the first plan."""
        status, err = run.end(signal.SIGTERM)
        self.assertEqual(status, 128 + signal.SIGTERM, err)
        found = self.metrics_of(name)
        whole = self.metrics_of("whole", data, steps=len(found))
        self.assertEqual([step for step, _, _ in found], list(range(1, len(found) + 1)), err)
        for (step, loss, _), (_, want, _) in zip(found, whole):
            self.assertLess(abs(loss - want), TOLERANCE * abs(want), f"step {step}: {err}")
        return err

    def test_fewer_and_more_by_a_file(self):
        ranks, data, draw = self.path("ranks"), self.samples(), random.Random(7)

        def there_are(count):
            with open(ranks + ".new", "w") as file:
                file.write(f"{count}\n")
            os.rename(ranks + ".new", ranks)

        there_are(4)
        run, restarts = self.start("file", "--ranks-file=" + ranks, *data), 0
        for changes, count in enumerate((3, 2, 4) * (3 if LONG else 1)):
            run.await_steps(draw.randrange(1, 9))
            there_are(count)
            run.await_words("the number of available ranks has changed", changes + 1)
            run.await_steps(draw.randrange(1, 9))
            if count != 4:
                run.disturb_any(draw, kill)
                restarts += 1
                run.await_words(f"restart {restarts} of 30")
        run.await_steps(5)
        err = self.check("file", run, data)
        self.assertIn("searching for a plan for 3 ranks\n", err)
        self.assertRegex(err, r"2 ranks: dp=\S+, ")
        self.assertRegex(err, r"the number of available ranks has changed; resuming after step \d+\n")

    def test_a_lost_rank_comes_back_after_a_while(self):
        run = self.start("while", "--elastic-wait=2")
        run.await_steps(4)
        run.disturb_any(random.Random(1), kill)
        run.await_words("the number of available ranks has changed")
        run.await_steps(5)
        err = self.check("while", run, [])
        self.assertRegex(err, r"restart 1 of 30: the run was ended by signal 9 .*\n.*searching for a plan for 3 ranks\n.*3 ranks: dp=\S+, .*\n.*"
                              r"the number of available ranks has changed; resuming after step \d+\n")

    def test_processes(self):
        """Ranks are killed and stopped in turn; mpirun starts as many as are available."""
        launcher = e2e.mpirun("{ranks}")
        if not launcher:
            self.skipTest("no mpirun")
        data = self.samples()
        run = self.start("mpi", "--elastic-wait=6", "--hang-seconds=15", "--launcher=" + " ".join(launcher), *data)
        draw = random.Random(2)
        for disturb in (kill, stop, kill, kill) if LONG else (kill, stop):
            run.await_steps(draw.randrange(2, 9))
            run.disturb_any(draw, disturb)
        run.await_words("restart 2 of 30")
        run.await_words("the number of available ranks has changed")
        run.await_steps(5)
        self.check("mpi", run, data)

    def refused(self, words, *expected):
        done = e2e.call(self.words("metrics", ["--checkpoint=" + self.path("ck"), "--max-restarts=1", *words]))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for text in expected:
            self.assertIn(text, done.stderr)

    def test_what_cannot_be_is_refused(self):
        for word in ("3", "0:4", "4:3", "2:x", "2:4:6", "1:99999999999"):
            self.refused(["--elastic=" + word], "--elastic=" + word, "MIN:MAX")
        self.refused(["--elastic=1:3"], "is for 4 ranks")
        self.refused(["--elastic=1:4", "--launcher=mpirun -np 4"], "{ranks}")
        self.refused(["--elastic=1:4", "--ranks-file=" + self.path("none")], "--ranks-file", "none")

    def test_what_a_plan_was_made_of_is_not_trusted(self):
        """No word in it may name an output file, a program, or an option in place of the model."""
        path = os.path.join(self.plan, "command.json")
        good = e2e.read_json(path)
        for key, value, expected in (("words", ["--output=/tmp/x"], "--output=/tmp/x"), ("words", ["--calibrate=/tmp/x"], "--calibrate"),
                                     ("words", ["--train=adamw", "x.onnx"], "x.onnx"), ("words", ["--lr\n=1"], "--lr"), ("words", "--lr=1", "is not a list"),
                                     ("words", [3], "word 3"), ("model", "--version", "--version"), ("model", "a.onnx", "a.onnx"),
                                     ("cluster", "cluster.json", "cluster.json"), ("cluster", None, "cluster null"), ("version", 2, "version 2")):
            with self.subTest(key=key, value=value):
                e2e.write_json(path, {**good, key: value})
                self.refused(["--elastic=1:4"], "command.json", expected)
        with open(path, "w") as file:
            file.write("{")
        self.refused(["--elastic=1:4"], "command.json", "is not the JSON object that dpc-opt writes")
        os.remove(path)
        self.refused(["--elastic=1:4"], "command.json", "dpc-opt writes it with every plan")

    def test_a_model_that_is_gone_ends_the_run(self):
        path = os.path.join(self.plan, "command.json")
        e2e.write_json(path, {**e2e.read_json(path), "model": self.path("gone.onnx")})
        run = self.start("gone")
        run.await_steps(2)
        run.disturb_any(random.Random(1), kill)
        status, err = run.end()
        self.assertEqual(status, 1)
        self.assertIn("gone.onnx", err)
        self.assertEqual(len(re.findall("no plan for . ranks was made", err)), 2, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
