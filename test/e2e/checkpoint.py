#!/usr/bin/env python3
"""Checkpoints: a resumed run equals the uninterrupted run, on the same plan and on any other one.

On the plan that wrote the checkpoint, losses, gradient norms and parameters are equal bit for bit. Another plan first
has the same parameters bit for bit and then follows the recorded PyTorch curve from the middle. The tests kill and
terminate processes, and truncate, change and delete files: complete checkpoints are never lost, and damage is named.
"""
import itertools
import math
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import e2e

LONG = bool(os.environ.get("DPC_TEST_LONG"))
OPTIMIZER = ["--global-batch=8", "--train=adamw", "--verify=off"]
# By name: ranks, strategy.
LAYOUTS = {
    "one": (1, "dp=1"), "dp2": (2, "dp=2"), "tp2": (2, "tp=2"), "tp3": (3, "tp=3"), "pp2": (2, "pp=2,micro_batch=2"),
    "zero1": (4, "dp=4,zero=1"), "zero3": (4, "dp=4,zero=3"), "dp2tp2": (4, "dp=2,tp=2,zero=1"), "tp2pp2": (4, "tp=2,pp=2,micro_batch=4"),
    "zero2": (3, "dp=3,zero=2"), "all": (8, "dp=2,tp=2,pp=2,zero=1,micro_batch=2"), "offload": (2, "dp=2,zero=3,offload=optimizer"),
}
# The pairs that the default run tests, of 144: each layout is a source once and a target once.
SAMPLE = [("one", "all"), ("all", "tp3"), ("tp3", "zero3"), ("zero3", "pp2"), ("pp2", "dp2tp2"), ("dp2tp2", "offload"), ("offload", "zero2"),
          ("zero2", "tp2pp2"), ("tp2pp2", "one")]


def optimizer_of(oracle):
    words = list(OPTIMIZER)
    names = {"lr": "lr", "beta2": "beta2", "weight_decay": "weight-decay", "clip_grad_norm": "clip-grad-norm"}
    return words + [f"--{option}={oracle['optimizer'][key]}" for key, option in names.items() if key in oracle["optimizer"]]


class Run:
    """One model and its plans in a folder."""

    def __init__(self, folder, model):
        self.folder, self.model = folder, model
        self.oracle = e2e.read_json(os.path.join(e2e.MODELS, model, "oracle.json"))
        self.batches = os.path.join(e2e.MODELS, model, "batches")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def plan(self, layout):
        folder = self.path("plan-" + layout)
        if not os.path.exists(folder):
            ranks, strategy = LAYOUTS[layout]
            e2e.must([e2e.tool("dpc-opt"), e2e.model(self.model), f"--cluster=local:{ranks}", f"--strategy={strategy}", *optimizer_of(self.oracle), "-o",
                      folder])
        return folder

    def words(self, layout, *words):
        return [e2e.tool("dpc-run"), self.plan(layout), "--batches=" + self.batches, *words]

    def run(self, layout, *words, before=()):
        e2e.must([*before, *self.words(layout, *words)])

    def metrics(self, name):
        return [(line["step"], line["loss"], line["grad_norm"]) for line in e2e.read_metrics(self.path(name))]


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Checkpoints(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def saved(self, run, layout, steps, *words):
        """Trains; returns the checkpoint's folder and the parameters in it."""
        folder, parameters = run.path("from-" + layout), run.path(f"from-{layout}.safetensors")
        if not os.path.exists(folder):
            run.run(layout, f"--steps={steps}", "--checkpoint=" + folder, "--save-params=" + parameters, *words)
        return os.path.join(folder, f"step-{steps}"), parameters

    def test_the_same_plan_goes_on_bit_for_bit(self):
        run = Run(self.folder, "gpt2-tiny")
        for layout, words in (("dp2tp2", ["--checkpoint-sync"]), ("zero3", []), ("offload", ["--checkpoint-every=3"])):
            whole, rest, folder = run.path("whole"), run.path("rest"), run.path("go-" + layout)
            run.run(layout, "--steps=8", "--metrics=" + whole, "--save-params=" + whole + ".safetensors")
            run.run(layout, "--steps=5", "--metrics=" + rest, "--checkpoint=" + folder, *words)
            with open(rest, "a", encoding="utf-8") as file:
                file.write('{"step": 6, "loss": 1')  # a line that a kill cut off
            lines = read(rest)
            os.link(rest, rest + ".link")
            run.run(layout, "--steps=8", "--metrics=" + rest, "--checkpoint=" + folder, "--resume", "--save-params=" + rest + ".safetensors")
            self.assertEqual(run.metrics("rest"), run.metrics("whole"), layout)
            # The file was replaced, not overwritten, so a kill cannot lose a line.
            self.assertEqual(read(rest + ".link"), lines)
            os.remove(rest + ".link")
            self.assertEqual(read(rest + ".safetensors"), read(whole + ".safetensors"), layout)

    def test_scale_schedule_and_random_numbers_go_on(self):
        """Dropout, and fp16 whose scale halves and doubles, on a learning rate schedule."""
        steps, half, draw = 10, 5, random.Random(3)
        plan, batches, shape = os.path.join(self.folder, "plan"), self.path("batches"), (steps, 8, 6, 16)
        e2e.write_npy(os.path.join(batches, "x.npy"), "f4", shape, [draw.gauss(0, 1) for _ in range(math.prod(shape))])
        e2e.must([e2e.tool("dpc-opt"), os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "attention.pt2"), "--cluster=local:2", "--strategy=dp=2",
                  "--global-batch=8", "--train=adamw", "--lr=1e-2", f"--lr-schedule=linear,warmup=2,total={steps}", "--precision=fp16",
                  "--loss-scale=dynamic,init=16777216,interval=2", "--verify=off", "-o", plan])

        def train(name, count, *words):
            path = os.path.join(self.folder, name)
            e2e.must([e2e.tool("dpc-run"), plan, "--batches=" + batches, f"--steps={count}", "--metrics=" + path, f"--save-params={path}.safetensors", *words])
            timed = ("step_seconds", "tokens_per_second", "samples_per_second")
            return [{key: value for key, value in row.items() if key not in timed} for row in e2e.read_metrics(path)], read(path + ".safetensors")

        whole = train("whole", steps)
        scales = [row["loss_scale"] for row in whole[0]]
        self.assertLess(scales[half], scales[0])
        self.assertGreater(len(set(scales[half:])), 1, scales)  # the scale also changes after step 5
        checkpoint = "--checkpoint=" + os.path.join(self.folder, "go")
        train("rest", half, checkpoint)
        self.assertEqual(train("rest", steps, checkpoint, "--resume"), whole)

    def check_pair(self, run, source, target, steps=10):
        checkpoint, parameters = self.saved(run, source, steps)
        taken, metrics = run.path("taken.safetensors"), run.path("after")
        run.run(target, f"--steps={steps}", "--resume=" + checkpoint, "--save-params=" + taken)
        # Compares bytes, because NaN does not equal NaN. The order of tensors differs between plans.
        found, expected = ({name: (kind, shape, values.tobytes()) for name, (kind, shape, values) in e2e.read_safetensors(path).items()}
                           for path in (taken, parameters))
        self.assertTrue(found == expected, f"{run.model}: {source} -> {target}: not the same parameters")
        run.run(target, "--resume=" + checkpoint, "--metrics=" + metrics)
        losses = run.oracle["losses"]
        found = run.metrics("after")
        self.assertEqual([step for step, _, _ in found], list(range(steps + 1, len(losses) + 1)))
        for step, loss, _ in found:
            self.assertAlmostEqual(loss, losses[step - 1], delta=2e-3 * abs(losses[step - 1]), msg=f"{run.model}: {source} -> {target}")

    def test_any_other_plan_goes_on(self):
        run = Run(self.path("gpt2"), "gpt2-tiny")
        for source, target in itertools.product(LAYOUTS, LAYOUTS) if LONG else SAMPLE:
            self.check_pair(run, source, target)

    def test_experts_go_on(self):
        run = Run(self.path("moe"), "moe-tiny")
        for source, target in itertools.product(LAYOUTS, LAYOUTS) if LONG else (("dp2", "tp3"), ("zero3", "dp2tp2")):
            self.check_pair(run, source, target)

    def path(self, name):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        return folder

    def listed(self, folder):
        return sorted(name for name in os.listdir(folder) if name != ".lock")

    def test_processes_go_on(self):
        launcher = e2e.mpirun(4)
        if not launcher:
            self.skipTest("no mpirun")
        run = Run(self.folder, "gpt2-tiny")
        whole, rest, folder = run.path("whole"), run.path("rest"), run.path("go")
        run.run("dp2tp2", "--steps=7", "--metrics=" + whole)
        run.run("dp2tp2", "--steps=4", "--metrics=" + rest, "--checkpoint=" + folder, before=launcher)
        run.run("dp2tp2", "--steps=7", "--metrics=" + rest, "--checkpoint=" + folder, "--resume", before=launcher)
        self.assertEqual(run.metrics("rest"), run.metrics("whole"))

    def test_sigterm_saves_and_leaves(self):
        run = Run(self.folder, "gpt2-tiny")
        folder, metrics = run.path("go"), run.path("metrics")
        words = run.words("dp2", "--steps=100000", "--checkpoint=" + folder, "--metrics=" + metrics)
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual((child.returncode, err), (128 + signal.SIGTERM, ""))
        self.assertIn("stopped by a signal after step", out)
        last = run.metrics("metrics")[-1][0]
        self.assertEqual(self.listed(folder), [f"step-{last}"])
        run.run("dp2", f"--steps={last + 2}", "--checkpoint=" + folder, "--resume", "--metrics=" + metrics)
        self.assertEqual([step for step, _, _ in run.metrics("metrics")], list(range(1, last + 3)))

    def stopped(self, run, *words):
        """Runs until Ctrl-C comes in the middle of the run."""
        child = subprocess.Popen(run.words("dp2", "--steps=100000", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=e2e.TIMEOUT_SECONDS)
        self.assertEqual(child.returncode, 128 + signal.SIGINT)
        self.assertIn("stopping after the current step; a second Ctrl-C stops at once and saves nothing", err)
        return out

    def test_ctrl_c_writes_parameters(self):
        """Without --checkpoint, --save-params writes the parameters after the current step."""
        run = Run(self.folder, "gpt2-tiny")
        saved, metrics = os.path.join(self.folder, "saved.safetensors"), run.path("metrics")
        out = self.stopped(run, "--save-params=" + saved, "--metrics=" + metrics)
        last = run.metrics("metrics")[-1][0]
        self.assertIn(f"stopped by a signal after step {last} of 100000; the parameters are saved, but not the optimizer state", out)
        self.assertIn(f"{saved} (weights)", out)
        whole = os.path.join(self.folder, "whole.safetensors")
        run.run("dp2", f"--steps={last}", "--save-params=" + whole)
        self.assertEqual(read(saved), read(whole))

    def test_ctrl_c_says_that_nothing_is_saved(self):
        out = self.stopped(Run(self.folder, "gpt2-tiny"))
        self.assertRegex(out, r"stopped by a signal after step \d+ of 100000; the parameters are not saved, because there is no --checkpoint=DIR, --save-params=FILE or --export=DIR")

    def test_two_runs_do_not_share_a_folder(self):
        """The second run is refused while the first one writes to the folder; it can still read."""
        run = Run(self.folder, "gpt2-tiny")
        folder = run.path("go")
        run.run("dp2", "--steps=2", "--checkpoint=" + folder)
        first = subprocess.Popen(run.words("dp2", "--steps=100000", "--resume", "--checkpoint=" + folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        while not first.stdout.readline().startswith("step "):
            pass
        self.refused(run.words("dp2", "--resume", "--checkpoint=" + folder), "another run writes its checkpoints there", folder)
        run.run("dp2", "--steps=3", f"--resume={folder}/step-2")
        first.kill()
        first.communicate()
        run.run("dp2", "--steps=3", "--resume", "--checkpoint=" + folder)
        self.assertEqual(self.listed(folder), ["step-2", "step-3"])

    def test_killed_at_any_time(self):
        """The run ends with the curve of an undisturbed run, and no accepted checkpoint is incomplete."""
        run = Run(self.folder, "gpt2-tiny")
        whole, metrics, folder = run.path("whole"), run.path("metrics"), run.path("go")
        run.run("dp2tp2", "--steps=40", "--metrics=" + whole)
        words = run.words("dp2tp2", "--steps=40", "--checkpoint=" + folder, "--checkpoint-every=1", "--resume", "--metrics=" + metrics)
        begin = time.monotonic()
        e2e.must([*words])
        seconds = time.monotonic() - begin
        self.assertEqual(run.metrics("metrics"), run.metrics("whole"))
        shutil.rmtree(folder)
        draw = random.Random(5)
        for _ in range(200 if LONG else 12):
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                _, err = child.communicate(timeout=draw.uniform(0, seconds))
                self.assertEqual((child.returncode, err), (0, ""))
                shutil.rmtree(folder)  # the run was complete, so the next one starts from the beginning
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
        e2e.must(words)
        self.assertEqual(run.metrics("metrics"), run.metrics("whole"))

    def refused(self, words, *expected):
        done = e2e.call(words)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for text in expected:
            self.assertIn(text, done.stderr)

    def test_damage_is_named(self):
        run = Run(self.folder, "gpt2-tiny")
        checkpoint, _ = self.saved(run, "dp2tp2", 2)
        words = run.words("dp2tp2", "--steps=3", "--resume=" + checkpoint)
        for name in sorted(os.listdir(checkpoint)):
            path = os.path.join(checkpoint, name)
            good = read(path)
            for at in (0, 40, len(good) // 2, len(good) - 5):
                self.overwrite(path, good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
                self.refused(words, name, "--resume")
            self.overwrite(path, good[:len(good) // 2])
            self.refused(words, name, "--resume")
            os.remove(path)
            self.refused(words, name, "--resume")
            self.overwrite(path, good)
        e2e.must(words)

    def test_what_to_take_instead_is_said(self):
        run = Run(self.folder, "gpt2-tiny")
        folder = run.path("go")
        run.run("dp2", "--steps=3", "--checkpoint=" + folder, "--checkpoint-every=1", "--checkpoint-keep=9")
        newest, before = os.path.join(folder, "step-3"), os.path.join(folder, "step-2")
        out = e2e.must(run.words("dp2", "--steps=2", "--resume=" + newest))
        self.assertIn("resuming after step 3\nnothing is left to do: the run ends after step 2\n", out)
        self.refused(run.words("dp2", "--resume=" + folder), f"--resume={newest} is the newest checkpoint in this folder")
        self.refused(run.words("dp2", "--init=" + newest), f"--init={newest}: is a checkpoint; --resume={newest} resumes from it")
        plan = run.plan("dp2")
        self.refused(run.words("dp2", "--init=" + plan), f"{plan}: has no weights, expected model.safetensors or model.safetensors.index.json; "
                     "it is the folder of a plan, which has the weights of its model file")
        path = os.path.join(newest, "rank-0.safetensors")
        good = read(path)
        self.overwrite(path, good[:-5] + bytes([good[-5] ^ 1]) + good[-4:])
        self.refused(run.words("dp2", "--resume=" + newest + "/"), "step-3", f"--resume={before} resumes from the checkpoint before it")
        for words in (["--resume"], ["--resume=" + newest], ["--resume", "--max-restarts=3"]):
            self.refused(run.words("dp2", "--checkpoint=" + folder, *words), "step-3", f"remove it to resume from {before}")

    def test_a_newer_folder_that_is_incomplete_is_named(self):
        run = Run(self.folder, "gpt2-tiny")
        folder = run.path("go")
        words = run.words("dp2", "--checkpoint=" + folder, "--checkpoint-every=1", "--checkpoint-keep=9")
        e2e.must([*words, "--steps=3"])
        self.assertNotIn("no complete checkpoint", e2e.must([*words, "--steps=4", "--resume"]))
        os.remove(os.path.join(folder, "step-4", "manifest.json"))
        os.mkdir(os.path.join(folder, "step-5.tmp-1-2"))
        os.mkdir(os.path.join(folder, "step-2.tmp-1-2"))
        out = e2e.must([*words, "--steps=6", "--resume"])
        self.assertIn(f"{folder}/step-4 (it has no manifest.json), {folder}/step-5.tmp-1-2 (its run ended while it was written) are no complete checkpoint\n"
                      "resuming after step 3\n", out)
        self.assertNotIn("no complete checkpoint", e2e.must([*words, "--steps=7", "--resume"]))

    def overwrite(self, path, data):
        with open(path, "wb") as file:
            file.write(data)

    def test_what_does_not_fit_is_refused(self):
        run = Run(self.folder, "gpt2-tiny")
        checkpoint, _ = self.saved(run, "dp2", 2)
        other = run.path("other")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("llama-tiny"), "--cluster=local:1", *OPTIMIZER, "-o", other])
        resume = "--resume=" + checkpoint
        self.refused([e2e.tool("dpc-run"), other, resume], "has no parameter", "the same model and optimizer")
        nan, saved = run.path("nan"), run.path("saved-nan")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:2", "--strategy=dp=2,zero=3", "--global-batch=8", "--train=sgd", "--lr=1e38",
                  "--verify=off", "-o", nan])
        e2e.must([e2e.tool("dpc-run"), nan, "--steps=3", "--on-nan=go-on", "--checkpoint=" + saved])
        words = [e2e.tool("dpc-run"), nan, "--steps=4", "--resume=" + os.path.join(saved, "step-3")]
        self.refused(words, "--resume: ", "step-3: parameter '", "' holds nan; --on-nan=go-on accepts it")
        e2e.must([*words, "--on-nan=go-on"])
        batch = run.path("batch")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:1", "--global-batch=4", "--train=adamw", "--verify=off", "-o", batch])
        self.refused([e2e.tool("dpc-run"), batch, resume], "8 samples a step", "--global-batch=8")
        sgd = run.path("sgd")
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:1", "--global-batch=8", "--train=sgd", "--momentum=0.9", "--verify=off", "-o", sgd])
        self.refused([e2e.tool("dpc-run"), sgd, resume], "has no state")
        self.refused(run.words("dp2", "--resume=" + run.path("nowhere")), "nowhere", "there is no such checkpoint")
        self.refused(run.words("dp2", "--resume=" + os.path.join(os.path.dirname(checkpoint), "step-1")), "there is no such checkpoint; --resume=", checkpoint,
                     " resumes from a later one")
        self.refused(run.words("dp2", "--resume"), "--checkpoint=DIR")
        self.refused(run.words("dp2", resume, "--init=zeros"), "--init")
        folder = os.path.dirname(checkpoint)
        self.refused(run.words("dp2", "--steps=1", "--checkpoint=" + folder), "step-2 belongs to another run")
        blocked = run.path("file")
        self.overwrite(blocked, b"")
        self.refused(run.words("dp2", "--steps=1", "--checkpoint=" + blocked), "--checkpoint", blocked)

    def needs_mounts(self):
        """Root in a container can lack the permission for it."""
        tried = shutil.which("unshare") and e2e.call(["unshare", "-m", "mount", "-t", "tmpfs", "none", self.folder])
        if not tried or tried.returncode != 0:
            self.skipTest("cannot mount here: " + (tried.stderr if tried else "no unshare"))

    def test_a_full_disk_loses_nothing(self):
        """A folder of limited size in a private mount namespace."""
        self.needs_mounts()
        run = Run(self.folder, "gpt2-tiny")
        full = self.path("full")
        words = run.words("dp2", "--checkpoint-every=1", "--checkpoint-keep=9", "--checkpoint=" + full)
        inner = " ".join(words)
        script = (f"mount -t tmpfs -o size=5m none {full} && {inner} --steps=9; echo exit $?; ls {full}; "
                  f"{run.words('dp2')[0]} {run.plan('dp2')} --batches={run.batches} --steps=3 --resume={full}/step-1")
        done = e2e.call(["unshare", "-m", "sh", "-c", script])
        self.assertIn("exit 1", done.stdout)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("step-1\n", done.stdout)
        self.assertNotIn(".tmp-", done.stdout)  # removed, so that it takes no space
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_full_disk_of_one_process_leaves_nothing(self):
        """Files that other processes wrote successfully are removed as well."""
        self.needs_mounts()
        launcher = e2e.mpirun(4)
        if not launcher:
            self.skipTest("no mpirun")
        run = Run(self.folder, "gpt2-tiny")
        full = self.path("full")
        # Checkpoints are synchronous, so that it is known which rank fails: the last of four writers, on a disk with
        # room for three.
        words = " ".join(launcher + run.words("dp2tp2", "--checkpoint-every=1", "--checkpoint-sync", "--checkpoint-keep=9", "--checkpoint=" + full))
        script = f"mount -t tmpfs -o size=5m none {full} && {words} --steps=9; echo exit $?; ls {full}"
        done = e2e.call(["unshare", "-m", "sh", "-c", script])
        self.assertIn("exit 1", done.stdout)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("step-1\n", done.stdout)
        self.assertNotIn(".tmp-", done.stdout)

    def test_a_removal_that_is_cut_off_is_taken_up(self):
        """A mount point in a checkpoint prevents its removal."""
        if os.geteuid() != 0 or not shutil.which("unshare"):
            self.skipTest("needs root to mount a file system")
        run = Run(self.folder, "gpt2-tiny")
        folder = self.path("go")
        words = run.words("dp2", "--checkpoint=" + folder, "--checkpoint-keep=1")
        e2e.must([*words, "--steps=1"])
        os.mkdir(os.path.join(folder, "step-1", "busy"))
        done = e2e.call(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {folder}/step-1/busy && {' '.join(words)} --resume --steps=2"])
        if "mount:" in done.stderr:
            self.skipTest("cannot mount here")
        self.assertEqual(done.returncode, 1)
        self.assertIn("step-1.tmp-old", done.stderr)
        self.assertEqual(self.listed(folder), ["step-1.tmp-old", "step-2"])
        e2e.must([*words, "--resume", "--steps=3"])
        self.assertEqual(self.listed(folder), ["step-3"])

    def test_a_read_only_folder_is_named(self):
        """The problem is found before the first step and in the middle of a run; complete checkpoints are still read."""
        self.needs_mounts()
        run = Run(self.folder, "gpt2-tiny")
        folder = self.path("mounted")
        first = " ".join(run.words("dp2", "--checkpoint=" + folder, "--steps=2"))
        again = " ".join(run.words("dp2", "--checkpoint=" + folder, "--resume", "--steps=3"))
        # Every step writes a checkpoint. The folder is made read-only after the second line of output.
        middle = " ".join(run.words("dp2", "--checkpoint=" + folder, "--resume", "--checkpoint-every=1", "--checkpoint-keep=100000",
                                    "--steps=100000"))
        taken = " ".join(run.words("dp2", f"--resume={folder}/step-2", "--steps=3"))
        script = (f"mount -t tmpfs none {folder} && {first} && mount -o remount,ro {folder} && {{ {again}; echo early $?; mount -o remount,rw {folder}; "
                  f"{middle} | {{ read line; until mount -o remount,ro {folder} 2>/dev/null; do :; done; cat >/dev/null; }}; {taken} && echo taken; }}")
        done = e2e.call(["unshare", "-m", "sh", "-c", script])
        self.assertIn("early 1\n", done.stdout)
        lines = [line for line in done.stderr.splitlines() if line]
        self.assertEqual(len(lines), 2, done.stderr)
        for line in lines:
            self.assertIn("Read-only file system", line)
            self.assertIn(folder, line)
        self.assertIn("taken\n", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
