#!/usr/bin/env python3
"""Exactly N samples: the loss of held-out samples during training (--eval-plan), and epochs whose last step is not full (--last-batch=mask)."""
import math
import os
import random
import shutil
import struct
import subprocess
import unittest

import e2e

MODEL = "gpt2-tiny"
HELD_OUT = 19  # not a multiple of 8


class Evaluation(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)
        self.write_samples("train", 0, 96)
        self.write_samples("held-out", 100, HELD_OUT)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write_samples(self, name, begin, count):
        """The given number of the 160 samples in the recorded batches."""
        batches = os.path.join(e2e.MODELS, MODEL, "batches")
        os.mkdir(self.path(name))
        for file in os.listdir(batches):
            dtype, shape, values = e2e.read_npy(os.path.join(batches, file))
            size = len(values) // (shape[0] * shape[1])
            e2e.write_npy(self.path(name, file), dtype, (count, *shape[2:]), values[begin * size:(begin + count) * size])

    def plan(self, ranks, strategy, *words, batch=8, model=MODEL):
        folder = self.path("-".join(["plan", model, strategy, str(batch), *words]))
        if not os.path.exists(folder):
            e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", f"--strategy={strategy}", f"--global-batch={batch}",
                      *(words or ["--train=adamw", "--lr=1e-3"]), "--verify=off", "-o", folder])
        return folder

    def run_plan(self, plan, *words, before=()):
        """Returns the lines of the metrics file: those of steps and those of evaluations."""
        metrics = self.path("metrics.jsonl")
        if os.path.exists(metrics):
            os.remove(metrics)
        e2e.must([*before, e2e.tool("dpc-run"), plan, *words, "--metrics=" + metrics])
        lines = e2e.read_metrics(metrics)
        return [line for line in lines if "loss" in line], [line for line in lines if "eval_loss" in line]

    def loss_on_one_device(self, checkpoint):
        """The loss of the held-out samples, one by one."""
        plan = self.plan(1, "dp=1", "--infer", batch=1)
        said = e2e.must([e2e.tool("dpc-run"), plan, "--data=" + self.path("held-out"), "--resume=" + checkpoint])
        words = said.splitlines()[-1].split()  # loss X over N samples
        self.assertEqual((words[0], words[3]), ("loss", str(HELD_OUT)))
        return float(words[1])

    def check(self, ranks, training, inference, before=()):
        plan, saved = self.plan(ranks, training), self.path("saved-" + training)
        words = ["--data=" + self.path("train"), "--steps=5"]
        alone = self.run_plan(plan, *words)[0]
        steps, evaluations = self.run_plan(plan, *words, "--checkpoint=" + saved, "--checkpoint-every=2", "--checkpoint-keep=9", "--eval-every=2",
                                           "--eval-plan=" + self.plan(ranks, inference, "--infer"), "--eval-data=" + self.path("held-out"), before=before)
        # evaluation does not affect training
        self.assertEqual([line["loss"] for line in steps], [line["loss"] for line in alone])
        self.assertEqual([(line["step"], line["eval_samples"]) for line in evaluations], [(2, HELD_OUT), (4, HELD_OUT), (5, HELD_OUT)])
        for line in evaluations:
            want = self.loss_on_one_device(os.path.join(saved, f"step-{line['step']}"))
            self.assertLess(abs(line["eval_loss"] - want), 1e-4 * want, f"{training} evaluated by {inference}, step {line['step']}")
        return plan, saved, words

    def test_constants_of_a_plan_are_its_own(self):
        """The plans have constants under other names, and only the training stops a gradient."""
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "torch", "constants.pt2")
        for name, words in (("trains", ["--strategy=dp=2", "--train=adamw", "--lr=1e-2"]), ("infers", ["--strategy=tp=2", "--infer"])):
            e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", *words, "--verify=off", "-o", self.path(name)])
        for name, count in (("some", 16), ("others", 8)):
            os.mkdir(self.path(name))
            for file, shape in (("x.npy", (2, 4, 4)), ("target.npy", (1, 8, 8))):
                size = math.prod(shape)
                e2e.write_npy(self.path(name, file), "f4", (count, *shape), [math.sin(i * len(file) + count) for i in range(count * size)])
        saved = self.path("w.safetensors")
        ran = e2e.call([e2e.tool("dpc-run"), self.path("trains"), "--data=" + self.path("some"), "--steps=3", "--eval-plan=" + self.path("infers"),
                        "--eval-data=" + self.path("others"), "--save-params=" + saved])
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        alone = e2e.must([e2e.tool("dpc-run"), self.path("infers"), "--data=" + self.path("others"), "--init=" + saved]).splitlines()[-1]
        self.assertIn(f"step 3: {alone} of --eval-data\n", ran.stdout)

    def test_a_mean_over_held_out_samples_is_that_of_one_device(self):
        plan, saved, words = self.check(4, "dp=2,zero=3,tp=2", "dp=4")  # in the last step, one rank has no sample
        metrics = self.run_plan(plan, *words[:1], "--steps=7", "--resume=" + os.path.join(saved, "step-4"), "--eval-every=3",
                                "--eval-plan=" + self.plan(4, "tp=4", "--infer"), "--eval-data=" + self.path("held-out"))
        self.assertEqual([line["step"] for line in metrics[1]], [6, 7])

    def test_stages_of_a_pipeline_give_their_values(self):
        self.check(4, "dp=2,pp=2,micro_batch=2", "tp=2,dp=2")

    def test_processes_exchange_values(self):
        before = e2e.mpirun(2)
        if not before:
            self.skipTest("mpirun is not installed")
        self.check(2, "tp=2", "dp=2", before=before)

    def test_what_cannot_evaluate_is_refused(self):
        plan, data = self.plan(2, "dp=2"), "--data=" + self.path("train")
        infer, held_out = "--eval-plan=" + self.plan(2, "dp=2", "--infer"), "--eval-data=" + self.path("held-out")
        for words, part in (([held_out], "--eval-plan=PLAN, made from the same model with dpc-opt --infer"),
                            ([infer], "--eval-data=PATH"),
                            (["--eval-plan=" + plan, held_out], "it is a training plan, expected an inference plan of the same model"),
                            (["--eval-plan=" + self.plan(1, "dp=1", "--infer", batch=1), held_out], "it is for 1 rank, but the training plan is for 2"),
                            (["--eval-plan=" + self.plan(2, "dp=2", "--infer", model="llama-tiny"), held_out], "is not in the training plan"),
                            ([infer, "--eval-data=" + self.path("nowhere")], "nowhere"),
                            ([infer, held_out, "--ignored-label=target=-1"], "no integer input 'target' with labels"),
                            ([infer, held_out, "--ignored-label=labels"], "NAME=VALUE"),
                            (["--ignored-label=labels=-100"], "--ignored-label=labels=-100: has no effect without --last-batch=mask and --eval-data"),
                            ([infer, "--eval-data=" + self.path("train"), "--ignored-label=target=-1"], "no integer input 'target' with labels"),
                            ([infer, held_out, "--ignored-label=labels=5"], "samples whose labels 'labels' are 5, but the loss counts them")):
            ran = e2e.call([e2e.tool("dpc-run"), plan, data, "--steps=1", *words])
            self.assertEqual(ran.returncode, 1, words)
            self.assertIn(part, ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)

    def changed_labels(self, name, change):
        """Writes the held-out samples with the labels change(labels, length) to the folder `name`. Returns the option."""
        shutil.copytree(self.path("held-out"), self.path(name))
        dtype, shape, values = e2e.read_npy(self.path(name, "labels.npy"))
        e2e.write_npy(self.path(name, "labels.npy"), dtype, shape, change(list(values), shape[1]))
        return "--eval-data=" + self.path(name)

    def test_held_out_samples_are_checked_before_the_first_step(self):
        words = [e2e.tool("dpc-run"), self.plan(2, "dp=2"), "--data=" + self.path("train"), "--steps=2", "--eval-plan=" + self.plan(2, "dp=2", "--infer")]
        for name, change, part in (("off", lambda labels, length: labels[:-1] + [10000], f"sample {HELD_OUT - 1}: element "),
                                   ("none", lambda labels, length: [-100] * len(labels), "all labels of input 'labels' are -100, which the loss ignores")):
            ran = e2e.call([*words, self.changed_labels(name, change)])
            self.assertEqual((ran.returncode, ran.stdout), (1, ""), name)
            self.assertIn(part, ran.stderr)
        said = e2e.must([*words, "--eval-data=" + self.path("train")])
        self.assertIn(f"96 of 96 samples of --eval-data are also in --data={self.path('train')}\n", said)
        self.assertNotIn("also in --data", e2e.must([*words, "--eval-data=" + self.path("held-out")]))

    def test_held_out_tokens_that_are_a_slice_of_the_training_tokens_are_said(self):
        """Its samples begin at other tokens, so that no sample is trained."""
        drawn = random.Random(0)
        tokens = [drawn.randrange(50) for _ in range(8000)]
        said = []
        for name, part in (("train.bin", tokens[:6000]), ("slice.bin", tokens[1005:3005]), ("other.bin", tokens[6000:])):
            with open(self.path(name), "wb") as file:
                file.write(struct.pack(f"<{len(part)}H", *part))
            said.append(e2e.must([e2e.tool("dpc-run"), self.plan(2, "dp=2"), "--data=" + self.path("train.bin"), "--steps=2", "--eval-plan=" + self.plan(2, "dp=2", "--infer"),
                                  "--eval-data=" + self.path(name)]))
        self.assertRegex(said[1], r"\nabout \d+ % of the passages of 12 ids in input '\w+' of --eval-data are also in --data=")
        self.assertNotIn("passages", said[0])
        self.assertNotIn("passages", said[2])

    def test_an_evaluation_that_is_not_finite_ends_the_run_after_it_is_saved(self):
        """The weights of this rate overflow in the first update, after which the evaluation is the first to read them."""
        plan = self.path("overflow")
        e2e.must([e2e.tool("dpc-opt"), e2e.model(MODEL), "--cluster=local:2", "--strategy=dp=2", "--global-batch=8", "--train=adamw", "--lr=1e30",
                  "--verify=off", "-o", plan])
        data, saved, file = "--eval-data=" + self.path("held-out"), self.path("saved"), self.path("p.safetensors")
        words = ["--data=" + self.path("train"), "--steps=3", "--eval-plan=" + self.plan(2, "dp=2", "--infer"), data, "--eval-every=1"]
        for before in [()] + ([e2e.mpirun(2)] if e2e.mpirun(2) else []):
            ran = e2e.call([*before, e2e.tool("dpc-run"), plan, *words, "--checkpoint=" + saved, "--save-params=" + file])
            self.assertEqual(ran.returncode, 3, ran.stderr)
            errors = [line for line in ran.stderr.splitlines() if line.startswith("dpc-run:")]
            self.assertEqual(errors, [f"dpc-run: error: after step 1: the loss of {data} is nan; --on-nan=go-on continues"])
            self.assertEqual([name for name in os.listdir(saved) if name.startswith("step-")], ["step-1"])
            os.remove(file)
            shutil.rmtree(saved)
        e2e.must([e2e.tool("dpc-run"), plan, *words, "--on-nan=go-on"])

    def test_an_evaluation_of_another_loss_is_said(self):
        text = """func.func @forward(%x: tensor<8x4xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0}},
                                   %w: tensor<4x4xf32> {{dpc.name = "w", dpc.role = "parameter"}}) -> (tensor<f32> {{dpc.name = "loss", dpc.loss}}) {{
            %0 = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
            %1 = dpc.binary {kind} %0, %0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
            %2 = dpc.reduce sum %1 dims = [0, 1] : tensor<8x4xf32> -> tensor<f32>
            return %2 : tensor<f32>
        }}"""
        os.mkdir(self.path("x"))
        e2e.write_npy(self.path("x", "x.npy"), "f4", (8, 4), [0.5] * 32)
        for kind in ("mul", "add"):
            with open(self.path(kind + ".mlir"), "w") as file:
                file.write(text.format(kind=kind))
        for name, kind, options in (("plan", "mul", ["--train=sgd"]), ("same", "mul", ["--infer"]), ("other", "add", ["--infer"]),
                                    ("rounded", "mul", ["--infer", "--precision=bf16"])):
            e2e.must([e2e.tool("dpc-opt"), self.path(kind + ".mlir"), "--cluster=local:1", *options, "-o", self.path(name)])
        for name, said in (("same", ""), ("other", "its model computes the loss by another graph than the model that is trained, so that the two losses may "
                                                   "differ in meaning"),
                           ("rounded", "it computes in bf16, the training plan in fp32")):
            said = said and f"dpc-run: warning: --eval-plan={self.path(name)}: {said}\n"
            ran = e2e.call([e2e.tool("dpc-run"), self.path("plan"), "--data=" + self.path("x"), "--steps=1", "--init=random",
                            "--eval-plan=" + self.path(name), "--eval-data=" + self.path("x")])
            self.assertEqual((ran.returncode, ran.stderr), (0, said))

    def test_a_label_that_the_loss_counts_is_said(self):
        self.write_samples("full", 100, 16)
        label = e2e.read_npy(self.path("full", "labels.npy"))[2][0]
        ran = e2e.call([e2e.tool("dpc-run"), self.plan(1, "dp=1"), "--data=" + self.path("train"), "--steps=1", f"--ignored-label=labels={label}",
                        "--eval-plan=" + self.plan(1, "dp=1", "--infer"), "--eval-data=" + self.path("full")])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f": --ignored-label=labels={label} has no effect: the loss counts this label\n", ran.stderr)

    def test_samples_of_another_shape_are_said(self):
        """Sequences of three positions are evaluated, and of four are trained."""
        for name, length, words in (("trains", 4, ["--train=sgd"]), ("infers", 3, ["--infer"])):
            model = self.path(name + ".mlir")
            with open(model, "w") as file:
                file.write(f"""func.func @forward(%w: tensor<6x5xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                    %x: tensor<8x{length}x6xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}}) -> (tensor<8x{length}x5xf32> {{dpc.name = "y"}}) {{
                  %y = dpc.matmul %x, %w : (tensor<8x{length}x6xf32>, tensor<6x5xf32>) -> tensor<8x{length}x5xf32>
                  return %y : tensor<8x{length}x5xf32>
                }}""")
            e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--loss=cross_entropy", "--verify=off", *words, "-o", self.path(name)])
            os.mkdir(self.path(name + "-data"))
            e2e.write_npy(self.path(name + "-data", "x.npy"), "f4", (8, length, 6), [(i * i % 7) / 7 for i in range(8 * length * 6)])
            e2e.write_npy(self.path(name + "-data", "labels.npy"), "i8", (8, length), [i % 5 for i in range(8 * length)])
        ran = e2e.call([e2e.tool("dpc-run"), self.path("trains"), "--data=" + self.path("trains-data"), "--init=random:1",
                        "--eval-plan=" + self.path("infers"), "--eval-data=" + self.path("infers-data")])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"--eval-plan={self.path('infers')}: it evaluates samples of another shape than the training plan: "
                      "'x' f32[8, 3, 6] (in training f32[8, 4, 6]), 'labels' i64[8, 3] (in training i64[8, 4])\n", ran.stderr)

    def test_a_mean_that_depends_on_the_steps_is_said(self):
        text = """func.func @forward(%x: tensor<8x4xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0}},
                                   %w: tensor<4x1xf32> {{dpc.name = "w", dpc.role = "parameter"}}) -> (tensor<f32> {{dpc.name = "loss", dpc.loss}}) {{
            %0 = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x1xf32>) -> tensor<8x1xf32>
            %1 = dpc.reduce sum %{first} dims = [0, 1] : tensor<8x1xf32> -> tensor<f32>
            {second}
            return %{loss} : tensor<f32>
        }}"""
        os.mkdir(self.path("x"))
        e2e.write_npy(self.path("x", "x.npy"), "f4", (24, 4), [(k * k % 17) / 8 - 1 for k in range(96)])
        for name, first, second, loss, said in (
                ("sum", 2, "", 1, ""),
                ("product", 0, "%3 = dpc.binary mul %1, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>", 3,
                 "the mean of 'eval_loss' over 3 steps depends on the --global-batch of the plan: in a step, it is no mean over samples")):
            body = text.format(first=first, second=second, loss=loss)
            if first == 2:
                body = body.replace("            %1 =", "            %2 = dpc.binary mul %0, %0 : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>\n            %1 =")
            with open(self.path(name + ".mlir"), "w") as file:
                file.write(body)
            for plan, option in (("train", "--train=sgd"), ("infer", "--infer")):
                e2e.must([e2e.tool("dpc-opt"), self.path(name + ".mlir"), "--cluster=local:1", option, "-o", self.path(name + plan)])
            ran = e2e.call([e2e.tool("dpc-run"), self.path(name + "train"), "--data=" + self.path("x"), "--steps=1", "--init=random",
                            "--eval-plan=" + self.path(name + "infer"), "--eval-data=" + self.path("x")])
            said = said and f"dpc-run: warning: --eval-plan={self.path(name + 'infer')}: {said}\n"
            self.assertEqual((ran.returncode, ran.stderr), (0, said))

    def test_a_mean_of_inference_weighs_samples_alike(self):
        data, plan = "--data=" + self.path("held-out"), self.plan(2, "dp=2", "--infer")
        said = e2e.must([e2e.tool("dpc-run"), plan, data, "--last-batch=mask"]).splitlines()[-1].split()
        _, shape, _ = e2e.read_npy(self.path("held-out", "labels.npy"))
        self.assertEqual((said[0], *said[2:]), ("loss", "over", str(HELD_OUT * shape[1]), "labels"))
        alone = e2e.must([e2e.tool("dpc-run"), self.plan(1, "dp=1", "--infer", batch=1), data]).splitlines()[-1].split()
        self.assertLess(abs(float(said[1]) - float(alone[1])), 1e-5 * float(alone[1]))

    def test_a_mean_over_labels_does_not_depend_on_the_steps(self):
        """Steps have different numbers of labels: every batch size gives the mean over all labels."""
        file = self.path("held-out", "labels.npy")
        dtype, shape, values = e2e.read_npy(file)
        kept = [min(shape[1], 1 + sample) if sample < 16 else 1 for sample in range(HELD_OUT)]
        for sample, count in enumerate(kept):
            for place in range(count, shape[1]):
                values[sample * shape[1] + place] = -100
        e2e.write_npy(file, dtype, shape, values)
        held_out, losses = self.path("held-out"), []
        for batch, words in ((1, []), (19, []), (8, ["--last-batch=mask"])):
            said = e2e.must([e2e.tool("dpc-run"), self.plan(1, "dp=1", "--infer", batch=batch), "--data=" + held_out, *words]).splitlines()[-1].split()
            self.assertEqual((said[0], *said[2:]), ("loss", "over", str(sum(kept)), "labels"))
            losses.append(float(said[1]))
        saved = self.path("saved")
        _, evaluations = self.run_plan(self.plan(1, "dp=1"), "--data=" + self.path("train"), "--steps=1", "--checkpoint=" + saved,
                                       "--eval-plan=" + self.plan(1, "dp=1", "--infer"), "--eval-data=" + held_out)
        said = e2e.must([e2e.tool("dpc-run"), self.plan(1, "dp=1", "--infer", batch=19), "--data=" + held_out,
                         "--resume=" + os.path.join(saved, "step-1")]).splitlines()[-1]
        for loss, want in ((losses[1], losses[0]), (losses[2], losses[0]), (evaluations[-1]["eval_loss"], float(said.split()[1]))):
            self.assertLess(abs(loss - want), 1e-4 * want)
            self.assertGreater(want, 0)

    def test_a_loss_that_counts_what_fills_up_is_refused(self):
        for words, part in ((["--ignored-label=labels=5"], "samples whose labels 'labels' are 5, but the loss counts them"),
                            (["--ignored-label=target=0"], "no integer input 'target' with labels")):
            ran = e2e.call([e2e.tool("dpc-run"), self.plan(2, "dp=2"), "--data=" + self.path("held-out"), "--last-batch=mask", *words])
            self.assertEqual(ran.returncode, 1, words)
            self.assertIn(part, ran.stderr)
            self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)

    def test_no_rank_waits_in_the_check_for_a_rank_with_other_weights(self):
        """The file of the model is relative to the working folder, so that the ranks read different files."""
        if not e2e.mpirun(2):
            self.skipTest("no mpirun")
        for name in ("same", "changed"):
            os.mkdir(self.path(name))
            shutil.copy(e2e.model(MODEL), self.path(name, "model.onnx"))
        plan = self.path("plan")
        subprocess.run([e2e.tool("dpc-opt"), "/proc/self/cwd/model.onnx", "--cluster=local:2", "--strategy=dp=2", "--global-batch=8", "--train=adamw",
                        "--verify=off", "-o", plan], cwd=self.path("same"), check=True, capture_output=True, timeout=e2e.TIMEOUT_SECONDS)
        with open(self.path("changed", "model.onnx"), "r+b") as file:
            file.seek(200000)  # a weight
            byte = file.read(1)
            file.seek(200000)
            file.write(bytes([byte[0] ^ 1]))
        words = [e2e.tool("dpc-run"), plan, "--data=" + self.path("held-out"), "--last-batch=mask", "--timeout-seconds=20"]
        ran = e2e.call([*e2e.mpirun(1), "-wdir", self.path("same"), *words, ":", "-np", "1", "-wdir", self.path("changed"), *words])
        self.assertEqual(ran.returncode, 1, ran.stderr)
        errors = [line for line in ran.stderr.splitlines() if line.startswith("dpc-run:")]
        self.assertEqual(len(errors), 1, ran.stderr)
        self.assertIn("rank 1: --last-batch=mask: /proc/self/cwd/model.onnx: changed since the plan", errors[0])

    def test_a_step_that_is_not_full_is_the_mean_over_its_samples(self):
        """With 21 samples the third step has 5; the same applies to the next epoch."""
        self.write_samples("uneven", 40, 21)
        data, mask = "--data=" + self.path("uneven"), "--last-batch=mask"
        full, rest = self.plan(1, "dp=1"), self.plan(1, "dp=1", batch=5)
        saved, want = self.path("by-hand"), []
        # One device runs the same steps by hand. The third step of each epoch has 5 samples and another plan.
        for step in range(1, 7):
            words = [data, "--last-batch=drop", f"--steps={step}", "--checkpoint=" + saved, "--save-params=" + self.path("want.safetensors")]
            if step == 4:  # a new epoch
                words.append("--new-data")
            if step > 1:
                words.append("--resume")
            if step % 3 == 0:
                self.write_samples(f"tail-{step}", 56, 5)
                words = ["--data=" + self.path(f"tail-{step}"), *words[1:], "--new-data"]
            want += self.run_plan(rest if step % 3 == 0 else full, *words)[0]
        parameters = e2e.read_safetensors(self.path("want.safetensors"))
        for ranks, strategy in ((4, "dp=4"), (4, "dp=2,pp=2,micro_batch=2"), (2, "tp=2,micro_batch=1")):
            got = self.run_plan(self.plan(ranks, strategy), data, mask, "--epochs=2", "--save-params=" + self.path("got.safetensors"))[0]
            self.assertEqual([line["step"] for line in got], [1, 2, 3, 4, 5, 6])
            for name in ("loss", "grad_norm"):
                self.assertLess(e2e.largest_difference([line[name] for line in got], [line[name] for line in want]), 2e-4, f"{strategy} {name}")
            for name, (_, _, values) in e2e.read_safetensors(self.path("got.safetensors")).items():
                self.assertLess(e2e.largest_difference(values, parameters[name][2]), 5e-3, f"{strategy} {name}")


if __name__ == "__main__":
    unittest.main()
