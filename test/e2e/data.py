#!/usr/bin/env python3
"""Data as samples: --data, --shuffle, --epochs, the next samples of a resumed run, and inference over every sample once."""
import math
import os
import shutil
import struct
import unittest

import bad_input
import e2e

MODEL = "gpt2-tiny"
SAMPLES = 160  # in the 20 recorded batches of the model
ABSTRACT = os.path.join(e2e.ONNX, "abstract.onnx")


class Data(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        self.batches = os.path.join(e2e.MODELS, MODEL, "batches")
        os.mkdir(self.path("samples"))
        for file in os.listdir(self.batches):
            dtype, shape, values = e2e.read_npy(os.path.join(self.batches, file))
            e2e.write_npy(self.path("samples", file), dtype, (shape[0] * shape[1], *shape[2:]), values)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def plan(self, ranks, strategy, batch=8):
        folder = self.path(f"plan-{strategy}-{batch}")
        if not os.path.exists(folder):
            e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), f"--cluster=local:{ranks}", f"--strategy={strategy}", f"--global-batch={batch}", "--train=adamw",
                      "--lr=1e-3", "--verify=off", "-o", folder])
        return folder

    def losses(self, plan, *words):
        """Returns [(step, loss)] of a run."""
        metrics = self.path("metrics.jsonl")
        if os.path.exists(metrics):
            os.remove(metrics)
        e2e.must([e2e.tool("dpc-run"), plan, *words, "--metrics=" + metrics])
        return [(line["step"], line["loss"]) for line in e2e.read_metrics(metrics) if "loss" in line]

    def samples(self, *words):
        return ["--data=" + self.path("samples"), *words]

    def test_samples_in_order_are_the_batches(self):
        plan = self.plan(2, "dp=2")
        want = self.losses(plan, "--batches=" + self.batches)
        self.assertEqual(len(want), 20)
        self.assertEqual(self.losses(plan, *self.samples()), want)
        self.assertNotEqual(self.losses(plan, *self.samples("--shuffle")), want)

    def test_steps_and_epochs_end_with_what_comes_first(self):
        dp2 = self.plan(2, "dp=2")
        self.assertEqual(len(self.losses(dp2, *self.samples("--epochs=1", "--steps=5"))), 5)
        self.assertEqual(len(self.losses(dp2, *self.samples("--epochs=1", "--steps=1000"))), SAMPLES // 8)

    def test_a_token_file_gives_ids_and_next_tokens(self):
        """Sample i of a .bin has L tokens as ids, and the L tokens from its second one on as labels."""
        plan = self.plan(2, "dp=2")
        ports = e2e.read_plan(plan)["inputs"]
        self.assertEqual(len(ports), 2)
        length = ports[0]["global_shape"][1]
        tokens = [(7 * i) % 50 for i in range(16 * length + 1)]
        token_file, arrays = self.path("tokens.bin"), self.path("arrays")
        with open(token_file, "wb") as file:
            file.write(struct.pack(f"<{len(tokens)}H", *tokens))
        os.mkdir(arrays)
        for shift, port in enumerate(ports):
            e2e.write_npy(os.path.join(arrays, port["name"] + ".npy"), "i8", (16, length), tokens[shift:shift + 16 * length])
        self.assertEqual(self.losses(plan, "--data=" + token_file), self.losses(plan, "--data=" + arrays))

    def test_any_plan_takes_the_same_samples(self):
        want = self.losses(self.plan(1, "dp=1"), *self.samples("--shuffle=3", "--steps=6"))
        for ranks, strategy in ((3, "dp=3"), (4, "dp=2,pp=2,micro_batch=1")):
            got = self.losses(self.plan(ranks, strategy), *self.samples("--shuffle=3", "--steps=6"))
            self.assertLess(e2e.largest_difference([loss for _, loss in got], [loss for _, loss in want]), 1e-4, strategy)

    def test_a_run_goes_on_in_the_middle_of_an_epoch(self):
        words = self.samples("--shuffle=3", "--epochs=2")
        dp2 = self.plan(2, "dp=2")
        want = self.losses(dp2, *words)
        self.assertEqual(len(want), 40)
        saved = self.path("saved")
        self.losses(dp2, *self.samples("--shuffle=3", "--steps=23"), "--checkpoint=" + saved)
        resume = "--resume=" + os.path.join(saved, "step-23")
        self.assertEqual(self.losses(dp2, *words, resume), want[23:])
        outputs = self.path("outputs")
        # the run had ended, so there is nothing to write
        self.losses(dp2, *self.samples("--shuffle=3", "--steps=23"), resume, "--outputs=" + outputs)
        self.assertEqual(os.listdir(outputs), [])
        for lost in ([], ["--batches=" + self.batches]):  # the position in the samples is missing
            ran = e2e.call([e2e.tool("dpc-run"), dp2, *lost, "--steps=24", resume])
            self.assertEqual(ran.returncode, 1)
            self.assertIn("read its data from 160 samples (--data); give --data again", ran.stderr)
            self.assertEqual(len(self.losses(dp2, *lost, "--steps=24", resume, "--new-data")), 1)
        other = self.losses(self.plan(2, "tp=2"), *words, resume)
        self.assertLess(e2e.largest_difference([loss for _, loss in other], [loss for _, loss in want[23:]]), 1e-3)

    def test_inference_takes_its_values_from_a_checkpoint(self):
        saved, infer = self.path("saved"), self.path("infer")
        trained = self.losses(self.plan(2, "dp=2"), *self.samples("--steps=4"), "--checkpoint=" + saved, "--checkpoint-every=3", "--checkpoint-keep=9")
        e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--infer", "--cluster=local:2", "--strategy=tp=2", "--global-batch=8", "-o", infer])
        resume = "--resume=" + os.path.join(saved, "step-3")
        loss = self.losses(infer, *self.samples("--steps=4"), resume)[3][1]
        self.assertLess(abs(loss - trained[3][1]), 1e-4)
        self.assertIn(f"the values come from {saved}/step-3\n", e2e.must([e2e.tool("dpc-run"), infer, "--steps=1", resume]))

    def test_another_global_batch_goes_on_with_the_next_sample(self):
        saved = self.path("saved")
        shuffled = self.samples("--shuffle=3")
        self.losses(self.plan(2, "dp=2"), *shuffled, "--steps=13", "--checkpoint=" + saved)
        resume = "--resume=" + os.path.join(saved, "step-13")
        half = self.plan(1, "dp=1", 4)
        steps = [step for step, _ in self.losses(half, *shuffled, "--epochs=2", resume)]
        self.assertEqual(steps, list(range(14, 14 + (2 * SAMPLES - 13 * 8) // 4)))
        for words, part in (([], "8 samples a step"), (self.samples("--shuffle=4"), "shuffled by seed 3"),
                            (self.samples(), "now there are 160, as they lie")):
            ran = e2e.call([e2e.tool("dpc-run"), half, *words, resume])
            self.assertEqual(ran.returncode, 1)
            self.assertIn(part, ran.stderr)
        self.assertEqual(len(self.losses(half, *self.samples("--steps=14"), resume, "--new-data")), 1)

    def test_a_resumed_run_says_what_has_changed(self):
        saved, words = self.path("saved"), self.samples("--shuffle=3", "--steps=4")
        self.losses(self.plan(2, "dp=2"), *self.samples("--shuffle=3", "--steps=2"), "--checkpoint=" + saved)
        resume = "--resume=" + os.path.join(saved, "step-2")
        for batch, lr, options, said in ((8, "1e-3", [], ""), (4, "1e-3", [], "global_batch 4 instead of 8\n"),
                                         (8, "0.1", ["--precision=bf16"], "precision bf16 instead of fp32, lr 0.1 instead of 0.001\n"),
                                         (8, "1e-3", ["--eps=1e-6", "--clip-grad-norm=2"], "eps 1e-06 instead of 1e-08, clip_grad_norm 2 instead of none\n")):
            plan = self.path("changed")
            e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--cluster=local:1", f"--global-batch={batch}", "--train=adamw", "--lr=" + lr, *options,
                      "--verify=off", "-o", plan])
            ran = e2e.call([e2e.tool("dpc-run"), plan, *words, resume])
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stderr, said and f"dpc-run: warning: --resume: the plan differs from the one that wrote {saved}/step-2: {said}")
            shutil.rmtree(plan)
        ran = e2e.call([e2e.tool("dpc-run"), self.plan(2, "dp=2"), *words, resume, "--last-batch=drop"])
        self.assertEqual((ran.returncode, ran.stderr), (0, "dpc-run: warning: --resume: --last-batch=drop instead of wrap\n"))
        # as many samples, but in another order
        file = sorted(os.listdir(self.path("samples")))[0]
        dtype, shape, values = e2e.read_npy(self.path("samples", file))
        e2e.write_npy(self.path("samples", file), dtype, shape, values[::-1])
        ran = e2e.call([e2e.tool("dpc-run"), self.plan(2, "dp=2"), *words, resume])
        self.assertEqual(ran.returncode, 1)
        self.assertIn("the previous run read as many samples, but with other contents; --new-data starts with the first sample", ran.stderr)

    def test_all_samples_are_checked_before_the_first_step(self):
        plan, file = self.plan(2, "dp=2"), self.path("samples", "labels.npy")
        _, shape, values = e2e.read_npy(file)
        changed = list(values)
        changed[-1] = 10000  # in the last sample, which two steps do not read
        e2e.write_npy(file, "i8", shape, changed)
        ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--steps=2")])
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn(f"sample {SAMPLES - 1}: element {shape[1] - 1} of input 'labels' is 10000, expected 0 to ", ran.stderr)
        e2e.write_npy(file, "i8", shape, [-100] * len(values))
        ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--steps=2")])
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("all labels of input 'labels' are -100, which the loss ignores", ran.stderr)

    def test_a_run_says_what_its_data_holds(self):
        plan, file = self.plan(2, "dp=2"), self.path("samples", "labels.npy")
        _, shape, values = e2e.read_npy(file)
        changed = [-100] * (16 * shape[1]) + list(values)[16 * shape[1]:]  # 10 % of the samples: steps 1 and 2
        e2e.write_npy(file, "i8", shape, changed)
        e2e.write_npy(self.path("samples", "weights.npy"), "f4", (1,), [1.0])
        said = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--steps=5", "--on-nan=go-on")]).stdout.split("step 1/5")[0].splitlines()
        kept = changed[16 * shape[1]:]
        for line in (f"--data={self.path('samples')}: no input reads 'weights.npy'", f"input 'labels': {min(kept)} to {max(kept)}, 10 % ignored (-100)",
                     "input 'labels': all labels of 16 of 160 samples are ignored, first sample 0",
                     "160 samples, 20 steps an epoch, 0.25 epochs, in the order of the file",
                     "step 1: all labels are ignored, so that their mean loss is nan"):
            self.assertIn(line, said)
        ids = e2e.read_npy(self.path("samples", "ids.npy"))
        e2e.write_npy(file, "i8", shape, ids[2])  # labels that are not shifted
        said = e2e.must([e2e.tool("dpc-run"), plan, *self.samples("--steps=1")])
        self.assertIn("inputs 'ids' and 'labels' hold equal values\n", said)

    def test_inputs_that_are_infinite_in_fp16_are_said(self):
        batches = self.path("large")
        shutil.copytree(os.path.join(e2e.MODELS, "dit-tiny", "batches"), batches)
        dtype, shape, values = e2e.read_npy(f"{batches}/lat.npy")
        values[3] = 70000
        e2e.write_npy(f"{batches}/lat.npy", dtype, shape, values)
        for precision in ("fp16", "fp32"):
            plan = self.path(precision)
            e2e.must([e2e.tool("dpc-opt"), e2e.model("dit-tiny"), "--cluster=local:1", "--global-batch=4", "--precision=" + precision, "--verify=off", "-o", plan])
            said = e2e.must([e2e.tool("dpc-run"), plan, "--batches=" + batches, "--steps=1", "--on-nan=go-on"])
            line = "input 'lat' holds 70000; the plan computes from it in fp16, whose largest number is 65504\n"
            (self.assertIn if precision == "fp16" else self.assertNotIn)(line, said)

    def test_values_that_become_equal_in_bf16_are_said(self):
        plan, data = self.path("narrow"), self.path("stamps")
        e2e.must([e2e.tool("dpc-opt"), bad_input.MLP, "--cluster=local:1", "--global-batch=8", "--precision=bf16", "--verify=off", "-o", plan])
        for port in e2e.read_plan(plan)["inputs"]:
            size = math.prod(port["global_shape"][1:])
            for first, is_said in ((10000, True), (-0.5, False)):
                values = [first + (i // size) * (2 if is_said else 0.01) for i in range(40 * size)]
                os.makedirs(data + str(first), exist_ok=True)
                is_float = port["dtype"] == "f32"
                e2e.write_npy(os.path.join(data + str(first), port["name"] + ".npy"), "f4" if is_float else "i8", (40, *port["global_shape"][1:]), values if is_float else [i % 2 for i in range(40 * size)])
        for first, is_said in ((10000, True), (-0.5, False)):
            said = e2e.must([e2e.tool("dpc-run"), plan, "--data=" + data + str(first), "--init=random:1", "--steps=1", "--on-nan=go-on"])
            line = ": 40 values of element 0 of a sample (10000 to 10078) become 2 in bf16, in which the plan computes from it\n"
            (self.assertIn if is_said else self.assertNotIn)(line if is_said else " become ", said)

    def test_a_rate_that_is_too_large_is_said(self):
        for rate, is_said in (("1000", True), ("0.001", False)):
            plan = self.path("rate-" + rate)
            e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--cluster=local:1", "--global-batch=8", "--train=adamw", "--lr=" + rate, "--verify=off", "-o", plan])
            ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--steps=8")])
            (self.assertIn if is_said else self.assertNotIn)("; the learning rate is 1000", ran.stderr)

    def test_a_file_that_holds_more_than_its_array_is_refused(self):
        file = self.path("samples", "labels.npy")
        with open(file, "ab") as more:
            more.write(b"12345")
        ran = e2e.call([e2e.tool("dpc-run"), self.plan(2, "dp=2"), *self.samples("--steps=1")])
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"{file}: 5 bytes follow the array ", ran.stderr)

    def test_a_schedule_that_does_not_fit_the_run_is_said(self):
        plan = self.path("scheduled")
        e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--cluster=local:1", "--global-batch=8", "--train=adamw", "--lr=1e-3", "--lr-schedule=linear,warmup=2,total=4",
                  "--verify=off", "-o", plan])
        for steps, line in ((2, "the run ends within the warmup of 2 steps: its last learning rate is 0.0005 of 0.001"),
                            (3, "the run ends at step 3 of a schedule of 4 steps: its last learning rate is 0.001"),
                            (6, "the learning rate is 0 from step 5 on")):
            self.assertIn(line + "\n", e2e.must([e2e.tool("dpc-run"), plan, *self.samples(f"--steps={steps}")]))

    def test_a_run_of_batches_resumes_with_these_batches(self):
        dp2, saved, other = self.plan(2, "dp=2"), self.path("saved"), self.path("other")
        self.losses(dp2, "--batches=" + self.batches, "--steps=2", "--checkpoint=" + saved)
        resume = "--resume=" + os.path.join(saved, "step-2")
        os.mkdir(other)
        for file in os.listdir(self.batches):
            dtype, shape, values = e2e.read_npy(os.path.join(self.batches, file))
            e2e.write_npy(os.path.join(other, file), dtype, shape, values[::-1])
        self.assertEqual(len(self.losses(dp2, "--batches=" + self.batches, "--steps=3", resume)), 1)
        for words, said in ((["--batches=" + other], "read other --batches; --new-data continues with these"),
                            (self.samples(), "read its data from steps (--batches); give --batches again")):
            ran = e2e.call([e2e.tool("dpc-run"), dp2, *words, "--steps=3", resume])
            self.assertEqual(ran.returncode, 1)
            self.assertIn(said, ran.stderr)
            self.assertEqual(len(self.losses(dp2, *words, "--steps=3", resume, "--new-data")), 1)

    def test_machines_with_other_checkpoints_of_one_name(self):
        if not e2e.mpirun(2):
            self.skipTest("no mpirun")
        dp2 = self.plan(2, "dp=2")
        for name, words in (("a", []), ("b", ["--shuffle=1"])):
            os.mkdir(self.path(name))
            self.losses(dp2, *self.samples("--steps=2", *words), "--checkpoint=" + self.path(name, "ck"))
        words = [e2e.tool("dpc-run"), dp2, *self.samples("--steps=3", "--resume=ck/step-2", "--new-data", "--timeout-seconds=20")]
        ran = e2e.call([*e2e.mpirun(1), "-wdir", self.path("a"), *words, ":", "-np", "1", "-wdir", self.path("b"), *words])
        self.assertEqual(ran.returncode, 1, ran.stderr)
        errors = [line for line in ran.stderr.splitlines() if line.startswith("dpc-run:")]
        self.assertEqual(errors, ["dpc-run: error: rank 1: --resume: ck/step-2: is not the checkpoint that rank 0 reads from the folder of this name; "
                                  "all machines must share the folder"])

    def test_inference_gives_every_sample_once(self):
        model, count = self.path("abstract.onnx"), 19
        shutil.copy(ABSTRACT, model)
        plan = self.path("plan")
        e2e.must([e2e.tool("dpc-opt"), model, "--infer", "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "-o", plan])
        port = e2e.read_plan(plan)["inputs"][0]
        x = [((i * 37) % 101) / 50 - 1 for i in range(count * 6)]
        os.mkdir(self.path("x"))
        e2e.write_npy(self.path("x", port["name"] + ".npy"), "f4", (count, 6), x)
        e2e.must([e2e.tool("dpc-run"), plan, "--data=" + self.path("x"), "--outputs=" + self.path("y"), "--init=random:1"])
        dtype, shape, y = e2e.read_npy(self.path("y", "y.npy"))
        self.assertEqual((dtype, shape), ("f4", (count, 4)))
        for sample in range(count):  # one sample per batch; the other seven are zeros
            os.makedirs(self.path("one"), exist_ok=True)
            e2e.write_npy(self.path("one", port["name"] + ".npy"), "f4", (8, 6), x[sample * 6:sample * 6 + 6] + [0.0] * 42)
            if sample % 6 == 0:
                e2e.must([e2e.tool("dpc-run"), plan, "--inputs=" + self.path("one"), "--outputs=" + self.path("z"), "--init=random:1"])
                z = e2e.read_npy(self.path("z", "y.npy"))[2]
                self.assertLess(e2e.largest_difference(z[:4], y[sample * 4:sample * 4 + 4]), 1e-6)

    def test_samples_without_outputs_are_counted(self):
        plan, out = self.path("infer"), self.path("out")
        e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--infer", "--cluster=local:1", "--global-batch=8", "-o", plan])
        batches = "--batches=" + os.path.join(e2e.MODELS, MODEL, "batches")
        for words, rest in ((self.samples("--steps=2"), "16 of 160 samples: --steps ends the run before the others"),
                            ([batches, "--steps=3"], "8 of 24 samples, those of the last step; with --data, of all")):
            run = [e2e.tool("dpc-run"), plan, *words]
            self.assertIn(f"--outputs={out} gets the outputs of {rest}\n", e2e.must([*run, "--outputs=" + out]))
            self.assertNotIn("gets the outputs", e2e.must(run))
        for words in (self.samples(), [batches, "--steps=1"]):
            self.assertNotIn("gets the outputs", e2e.must([e2e.tool("dpc-run"), plan, *words, "--outputs=" + out]))

    def test_a_mean_over_samples_is_of_full_steps(self):
        for batch, done in ((8, True), (7, False)):
            plan = self.path(f"infer-{batch}")
            e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--infer", "--cluster=local:1", f"--global-batch={batch}", "-o", plan])
            ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples()])
            if done:
                self.assertIn("over 160 samples", ran.stdout)
                mean = ran.stdout.splitlines()[-1]
            else:
                self.assertEqual(ran.returncode, 1)
                self.assertIn("160 samples do not fill whole steps; --last-batch=mask fills the last step", ran.stderr)
                masked = e2e.must([e2e.tool("dpc-run"), plan, *self.samples("--last-batch=mask")]).splitlines()[-1]
                self.assertAlmostEqual(float(masked.split()[1]), float(mean.split()[1]), delta=1e-4)
        ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--checkpoint=" + self.path("c"))])
        self.assertIn("--checkpoint is only for training", ran.stderr)
        ran = e2e.must([e2e.tool("dpc-run"), plan, *self.samples("--last-batch=drop")])
        self.assertIn("over 154 samples", ran)

    def test_negative_ids_and_labels_are_refused(self):
        plan = self.plan(2, "dp=2")
        # -100 is the label that the loss of the model ignores.
        for name, value, accepted in (("ids", -1, False), ("ids", -100, False), ("labels", -1, False), ("labels", -100, True)):
            for dtype in ("i8", "i4"):
                with self.subTest(name=name, value=value, dtype=dtype):
                    file = self.path("samples", name + ".npy")
                    _, shape, values = e2e.read_npy(file)
                    changed = list(values)
                    changed[2 * shape[1] + 5] = value
                    e2e.write_npy(file, dtype, shape, changed)
                    ran = e2e.call([e2e.tool("dpc-run"), plan, *self.samples("--steps=1")])
                    self.assertEqual(ran.returncode, 0 if accepted else 1, ran.stderr)
                    if not accepted:
                        self.assertIn(f"sample 2: element 5 of input '{name}' is {value}, expected 0 to ", ran.stderr)
                    e2e.write_npy(file, "i8", shape, values)

    def test_a_loss_without_ignore_index_ignores_no_label(self):
        model, plan = self.path("gpt.onnx"), self.path("plan")
        e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=1", "--hidden=16", "--heads=2", "--vocab=32", "--seq=8", "-o", model])
        e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--global-batch=2", "--verify=off", "-o", plan])
        os.mkdir(self.path("tokens"))
        for name in ("ids", "labels"):
            e2e.write_npy(self.path("tokens", name + ".npy"), "i8", (2, 8), range(16))
        run = [e2e.tool("dpc-run"), plan, "--data=" + self.path("tokens"), "--init=random:1", "--steps=1"]
        e2e.must(run)
        e2e.write_npy(self.path("tokens", "labels.npy"), "i8", (2, 8), [*range(13), -100, 14, 15])
        ran = e2e.call(run)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"sample 1: element 5 of input 'labels' is -100, expected 0 to 31\n")

    def test_indices_of_one_hot_are_refused_out_of_range(self):
        plan = self.path("plan")
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "integers.pt2")  # with one_hot(b, 6)
        e2e.must([e2e.tool("dpc-opt"), model, "--infer", "--cluster=local:1", "--verify=off", "-o", plan])
        os.mkdir(self.path("in"))
        e2e.write_npy(self.path("in", "a.npy"), "i8", (3, 4), [4, -5, 0, -2, 4, 1, -3, -3, 1, 5, -1, 4])
        run = [e2e.tool("dpc-run"), plan, "--inputs=" + self.path("in")]
        for value in (5, -1, 6):
            with self.subTest(value=value):
                e2e.write_npy(self.path("in", "b.npy"), "i8", (3, 4), [2, 4, 4, value, 2, 2, 4, 1, 1, 2, 3, 3])
                ran = e2e.call(run)
                self.assertEqual(ran.returncode, 0 if value == 5 else 1, ran.stderr)
                if value != 5:
                    self.assertRegex(ran.stderr, f"element 3 of input 'b' is {value}, expected 0 to 5\n")

    def test_an_integer_divided_by_zero_is_an_error(self):
        """Processors raise SIGFPE, which would end the programs without a message."""
        plan = self.path("plan")
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "integers.pt2")  # divides a by b
        compiled = e2e.call([e2e.tool("dpc-opt"), model, "--infer", "--cluster=local:1", "-o", plan])
        self.assertEqual(compiled.returncode, 1)
        self.assertRegex(compiled.stderr, r"^dpc-opt: error: kernel '.+': an integer is divided by 0 for these inputs .*--verify=off skips it\)\n$")
        e2e.must([e2e.tool("dpc-opt"), model, "--infer", "--cluster=local:1", "--verify=off", "-o", plan])
        os.mkdir(self.path("in"))
        e2e.write_npy(self.path("in", "a.npy"), "i8", (3, 4), [4] * 12)
        e2e.write_npy(self.path("in", "b.npy"), "i8", (3, 4), [2] * 11 + [0])
        ran = e2e.call([e2e.tool("dpc-run"), plan, "--inputs=" + self.path("in")])
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"^dpc-run: error: kernel '.+': an integer is divided by 0 for these inputs")


if __name__ == "__main__":
    unittest.main()
