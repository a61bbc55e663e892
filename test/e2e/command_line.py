#!/usr/bin/env python3
"""The command lines: help lists every option, and the comparison tool of the tests can fail."""
import os
import re
import shutil
import subprocess
import sys
import unittest

import e2e

# The options of the two commands that the tests check for.
COMPILE = """--cluster -o --output --bind --global-batch --micro-batch --bucket-mb --compress-gradients --compress-weights --train --infer --loss --lr --beta1 --beta2 --eps --weight-decay
    --momentum --clip-grad-norm --lr-schedule --precision --loss-scale --strategy --objective --top --frozen --trainable --target-cpu --target-gpu --attention --init --init-partial --emit
    --verify --report --what-if --dump-ir-dir --calibrate --device --links --device-file --version --doctor --completion --help""".split()
RUN = """--batches --data --inputs --outputs --steps --init --init-partial --comm --device --threads --timeout-seconds --no-overlap --poison --metrics --save-params
    --export --max-shard-size --max-restarts --elastic --elastic-wait --ranks-file --trace --dump-ledger --measure-links --measure-device --tf32 --ranks --profile --version --completion --help""".split()


class Help(unittest.TestCase):
    def helps(self, tool, options, *mentions):
        for word in ("--help", "-h"):
            done = e2e.call([e2e.tool(tool), word])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            words = done.stdout.replace(",", " ").split()
            self.assertEqual([o for o in options if o not in words], [])
            for mention in mentions:
                self.assertIn(mention, done.stdout)
    
    def test_compile(self):
        self.helps("dpc-opt", COMPILE, "MODEL", "adamw", "cross_entropy", "random:SEED", "local:N", "sp=true|false", "throughput", "native",
                   "plan,report")

    def test_run(self):
        self.helps("dpc-run", RUN, "PLAN", "mpirun", "safetensors", "local", "mpi")

    def test_without_words(self):
        for words, mention in ((["dpc-opt", "--cluster=local:1"], "MODEL"), (["dpc-run"], "PLAN")):
            done = e2e.call([e2e.tool(words[0]), *words[1:]])
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(mention, done.stderr)

    def test_each_says_its_version(self):
        found = {tool: e2e.must([e2e.tool(tool), "--version"]).splitlines()[0].split() for tool in ("dpc-opt", "dpc-run", "dpc-model", "dpc-validate")}
        self.assertEqual([words[0] for words in found.values()], list(found))
        self.assertEqual(len({words[1] for words in found.values()}), 1, found)

    def test_what_was_probably_meant(self):
        for tool, words, near in (("dpc-opt", ["m.onnx", "--clustr=local:1"], "--cluster"), ("dpc-opt", ["m.onnx", "--globalbatch", "8"], "--global-batch"),
                                  ("dpc-run", ["plan", "--step=3"], "--steps"), ("dpc-model", ["gpt", "--hiden=64"], "--hidden"), ("dpc-validate", ["--jsn"], "--json"),
                                  ("dpc-opt", ["m.onnx", "--qwertyuiop"], None)):
            done = e2e.call([e2e.tool(tool), *words])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            if near:
                self.assertIn(f"did you mean {near}?", done.stderr)
            else:
                self.assertNotIn("did you mean", done.stderr)

    def test_options_of_the_compiler_are_named(self):
        known = e2e.must([e2e.tool("dpc-opt"), "--help"])
        for option in ("--lr", "--train", "--global-batch", "--precision"):
            self.assertIn(f" {option} ", known)
            done = e2e.call([e2e.tool("dpc-run"), "plan", option + "=1"])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(f"; {option} is an option of dpc-opt, and the plan fixes it: compile again", done.stderr)

    def test_kinds_of_metrics_are_known(self):
        done = e2e.call([e2e.tool("dpc-run"), "plan", "--metrics=wandb:x"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("--metrics: 'wandb:x' is not FILE.jsonl, tensorboard:DIR or prometheus:FILE", done.stderr)
        for word in ("m.jsonl", "run-1:m.jsonl", "jsonl:m", "out/a:b"):
            self.assertNotIn("--metrics", e2e.call([e2e.tool("dpc-run"), "plan", "--metrics=" + word]).stderr)

    def test_a_word_in_place_of_a_number(self):
        """The message says what is accepted, and not the limits of a type."""
        for tool, words in (("dpc-run", ["plan", "--data=d", "--shuffle=true"]), ("dpc-run", ["plan", "--data=d", "--shuffle=-1"]), ("dpc-run", ["plan", "--data=d", "--epochs=many"]),
                            ("dpc-run", ["plan", "--spike=high"]), ("dpc-run", ["plan", "--steps=all"]), ("dpc-opt", ["m.onnx", "--seed=new"]), ("dpc-opt", ["m.onnx", "--lr=high"]),
                            ("dpc-validate", ["--every=two"])):
            done = e2e.call([e2e.tool(tool), *words])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(words[-1].split("=")[0], done.stderr)
            self.assertNotRegex(done.stderr, r"\d{12}")
        self.assertIn("--shuffle: 'true' is not a whole number from 0 to 2^64 - 1", e2e.call([e2e.tool("dpc-run"), "plan", "--data=d", "--shuffle=true"]).stderr)

    def test_a_value_that_is_missing(self):
        for tool, word in (("dpc-opt", "--calibrate="), ("dpc-run", "--measure-device=")):
            done = e2e.call([e2e.tool(tool), word, "--device=cuda"])
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{tool}: error: {word}: its value is missing", done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for tool, words in (("dpc-model", ["gpt", "--layers=", "--hidden=64"]), ("dpc-validate", ["--plot=", "--json"])):
            self.assertIn(f"{tool}: error: {words[-2]}: its value is missing", e2e.call([e2e.tool(tool), *words]).stderr)

    def test_a_model_that_is_missing(self):
        """Only - reads standard input."""
        module = "module {\n}\n"
        for words, said in (([], "MODEL is missing: name an .onnx, .pt2 or .mlir file"),
                            (["--canonicalize"], "the input of the passes is missing: name a .mlir file, or - for standard input")):
            done = subprocess.run([e2e.tool("dpc-opt"), *words], input=module, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"dpc-opt: error: {said}\n"))
            done = subprocess.run([e2e.tool("dpc-opt"), *words, "-"], input=module, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, module.strip(), ""))

    def test_options_of_training_are_not_those_of_inference(self):
        for word in ("--lr=1", "--lr-schedule=constant", "--eps=1e-6", "--weight-decay=0", "--momentum=0", "--clip-grad-norm=1", "--loss-scale=8",
                     "--frozen=l1.*", "--seed=3", "--bucket-mb=1"):
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("mlp"), "--infer", word])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(f"{word.split('=')[0]}: is for training, and --infer compiles the forward pass only", done.stderr)

    def test_options_without_effect_are_said(self):
        with e2e.scratch() as scratch:
            said = e2e.must([e2e.tool("dpc-opt"), e2e.model("mlp"), "--seed=3", "--clip-grad-norm=0", "--init=random:1", "--cluster=local:1", "--global-batch=8", "--verify=off",
                             "-o", f"{scratch}/plan"])
        said = " ".join(said.split())
        self.assertIn("--seed=3 changes nothing: the model has no dropout", said)
        self.assertIn("--clip-grad-norm=0 clips no gradients", said)
        self.assertIn("no weight lacks an initial value: --init=random:1 changes nothing", said)

    def test_swapped_betas_are_said(self):
        with e2e.scratch() as scratch:
            said = [e2e.must([e2e.tool("dpc-opt"), e2e.model("mlp"), *betas, "--cluster=local:1", "--global-batch=8", "--verify=off", "-o", f"{scratch}/plan"])
                    for betas in (("--beta1=0.999", "--beta2=0.9"), ("--beta1=0.9", "--beta2=0.95"))]
        self.assertEqual(["--beta1=0.999 is greater than --beta2=0.9" in " ".join(one.split()) for one in said], [True, False])

    def test_links_of_gpus_are_not_those_of_cpus(self):
        done = e2e.call([e2e.tool("dpc-run"), "--measure-links=links.txt", "--device=cuda"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("nccl-tests", done.stderr)


class TargetGpu(unittest.TestCase):
    """A plan for GPUs that the cluster's devices cannot run, or that was predicted for a cluster without GPUs."""

    def remarks(self, target, cluster, precision="bf16"):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={cluster}", "--global-batch=16", f"--precision={precision}",
                      f"--target-gpu={target}", "--emit=report", "--verify=off", "-o", f"{folder}/plan"])
            return "\n".join(e2e.read_report(f"{folder}/plan")["remarks"])

    def test_is_said(self):
        clusters = os.path.join(e2e.SOURCE, "examples", "clusters")
        self.assertIn("a100-sxm-80gb cannot run such a plan: its device file has no peak of fp8, which sm_89",
                      self.remarks("sm_90", f"{clusters}/dgx-a100-128.json"))
        self.assertIn("v100-sxm2-16gb cannot run such a plan: its device file has no peak of bf16, which sm_80",
                      self.remarks("sm_80", f"{clusters}/p3-16xlarge-8.json", "fp16"))
        self.assertIn("time and memory are predicted for cpu-local, which is no GPU", self.remarks("sm_90", "local:2"))
        for target, cluster in (("sm_80", "dgx-a100-128"), ("sm_90", "dgx-h100-16"), ("sm_80", "dgx-h100-16"), ("sm_90", "gb200-nvl72-8")):
            self.assertNotIn("--target-gpu", self.remarks(target, f"{clusters}/{cluster}.json"))


class Command(unittest.TestCase):
    """command.json, from which --elastic compiles plans of the same step."""
    # command.json does not contain options for the strategy, for measurements and for output.
    OTHERS = set("cluster strategy micro-batch top calibrate device links output emit report for headroom routing what-if tokens price deadline mtbf checkpoint-time restart-time explain print-pipeline diff dump-ir-dir version doctor completion help".split())

    def written(self, *words):
        with e2e.scratch() as scratch:
            e2e.must([e2e.tool("dpc-opt"), os.path.relpath(e2e.model("mlp")), "--verify=off", "-o", scratch + "/plan", *words])
            return e2e.read_json(scratch + "/plan/command.json")

    def test_it_says_what_a_step_computes(self):
        found = self.written("--cluster=local:2", "--strategy=dp=2", "--global-batch=8", "--train=sgd", "--lr", "0.5", "--momentum=0.9", "--micro-batch=2",
                             "--frozen=l1.*,l2.bias", "--bucket-mb=3", "--precision=bf16")
        self.assertEqual((found["version"], found["cluster"]), (1, "local:2"))
        # The system must resolve this path: after a symbolic link, ".." is not the folder before it in the text.
        self.assertEqual(found["model"], os.path.join(os.getcwd(), os.path.relpath(e2e.model("mlp"))))
        self.assertEqual(sorted(found["words"]), ["--bucket-mb=3", "--frozen=l1.*,l2.bias", "--global-batch=8", "--lr=0.5", "--momentum=0.9",
                                                  "--precision=bf16", "--train=sgd", "--verify=off"])

    def test_what_a_configuration_sets_is_said(self):
        with e2e.scratch() as scratch:
            e2e.write_json(scratch + "/ds.json", {"train_batch_size": 16, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1},
                                                 "optimizer": {"type": "SGD", "params": {}}})
            found = self.written("--cluster=local:2", f"--strategy=@{scratch}/ds.json")
        self.assertEqual(sorted(found["words"]), ["--global-batch=16", "--precision=bf16", "--train=sgd", "--verify=off"])

    def test_flags_that_are_off_are_not_said(self):
        self.assertNotIn("--infer", self.written("--cluster=local:2", "--global-batch=8", "--infer=false")["words"])

    def test_every_option_is_of_a_step_or_not(self):
        """A new option belongs in kStepOptions (runtime/plan/PlanCommand.cpp) or here."""
        with open(os.path.join(e2e.SOURCE, "runtime/plan/PlanCommand.cpp"), encoding="utf-8") as file:
            step = re.search(r"kStepOptions\[\] = \{(.*?)\}", file.read(), re.DOTALL)[1]
        step = set(re.findall(r'"([a-z0-9-]+)"', step))
        found = set(re.findall(r"^ +(?:-\w,)?--([a-z0-9-]+)", e2e.must([e2e.tool("dpc-opt"), "--help"]), re.MULTILINE))
        self.assertEqual(found, step | self.OTHERS)
        self.assertFalse(step & self.OTHERS)


class Emit(unittest.TestCase):
    def test_what_is_asked_for_is_written(self):
        """The program is written even without a plan, and nothing else is."""
        programs = []
        for emit, files in (("mlir", {"program.mlir"}), ("report", {"report.json", "report.html"}), ("mlir,report", {"program.mlir", "report.json", "report.html"}),
                            ("plan,mlir", {"program.mlir", "report.json", "report.html", "plan.json", "command.json", "kernels"})):
            with self.subTest(emit=emit), e2e.scratch() as scratch:
                e2e.must([e2e.tool("dpc-opt"), e2e.model("mlp"), "--cluster=local:2", "--global-batch=8", "--verify=off", f"--emit={emit}",
                          "--strategy=dp=2", "-o", f"{scratch}/out"])
                written = set(os.listdir(f"{scratch}/out"))
                self.assertEqual(written - {"constants.bin"}, files)
                if "program.mlir" in files:
                    with open(f"{scratch}/out/program.mlir", encoding="utf-8") as file:
                        programs.append(file.read())
        self.assertIn("dpc.all_reduce", programs[0])
        self.assertEqual(len(set(programs)), 1)


STOPPED = """func.func @forward(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "parameter"}) -> (tensor<f32> {dpc.loss, dpc.name = "loss"}) {
  %0 = dpc.convert %x {dpc.stop_gradient} : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.binary mul %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.reduce sum %1 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
"""


class Infer(unittest.TestCase):
    def test_stops_of_gradients_are_for_training(self):
        with e2e.scratch() as scratch:
            with open(f"{scratch}/stopped.mlir", "w", encoding="utf-8") as file:
                file.write(STOPPED)
            e2e.must([e2e.tool("dpc-opt"), f"{scratch}/stopped.mlir", "--cluster=local:1", "--infer", "--emit=report", f"--dump-ir-dir={scratch}/ir",
                      "-o", f"{scratch}/plan"])
            texts = {}
            for name in os.listdir(f"{scratch}/ir"):
                with open(f"{scratch}/ir/{name}", encoding="utf-8") as file:
                    texts[name.split("-", 1)[-1]] = file.read()
        self.assertIn("dpc.convert", texts["import.mlir"])
        self.assertNotIn("dpc.convert", texts["fused.mlir"])
        self.assertIn("dpc.reduce", texts["fused.mlir"])


class PlansAreEqual(unittest.TestCase):
    def test_wherever_the_model_lies(self):
        """Equal except for the locations of the weights."""
        plans = []
        with e2e.scratch() as scratch:
            for name in ("here", "there"):
                shutil.copytree(os.path.dirname(e2e.model("mlp")), f"{scratch}/{name}")
                e2e.must([e2e.tool("dpc-opt"), f"{scratch}/{name}/model.onnx", "--cluster=local:2", "--global-batch=8", "--verify=off",
                          "-o", f"{scratch}/{name}.plan"])
                plan = e2e.read_plan(f"{scratch}/{name}.plan")
                for tensor in plan["tensors"]:
                    tensor["source"] = None
                for file in plan["source_files"]:
                    del file["file"]
                del plan["checksum"]
                plans.append(plan)
                self.assertNotIn("model_onnx", str(plan))
        self.assertEqual(*plans)


class PathsMayBeRelative(unittest.TestCase):
    def test_model_and_plan(self):
        """A plan runs from any working folder, wherever it was written."""
        folder = os.path.dirname(e2e.model("mlp"))
        with e2e.scratch() as scratch:
            plan = os.path.relpath(f"{scratch}/plan", folder)
            here = os.getcwd()
            self.addCleanup(os.chdir, here)
            os.chdir(folder)
            e2e.must([e2e.tool("dpc-opt"), "model.onnx", "--cluster=local:2", "--global-batch=8", "-o", plan])
            e2e.must([e2e.tool("dpc-run"), plan, "--batches=batches", "--steps=1"])
            os.chdir(scratch)
            e2e.must([e2e.tool("dpc-run"), "plan", "--steps=1"])
            os.chdir(here)


class NoOverlap(unittest.TestCase):
    def test_changes_when_but_not_what(self):
        """Communication alternates with computation: the same numbers, and never both at the same time."""
        folder = os.path.dirname(e2e.model("gpt2-tiny"))
        with e2e.scratch() as scratch:
            e2e.must([e2e.tool("dpc-opt"), f"{folder}/model.onnx", "--cluster=local:2", "--global-batch=8", "--strategy=dp=2",
                      "--verify=off", "-o", f"{scratch}/plan"])
            losses, overlaps = [], []
            for words in ([], ["--no-overlap"]):
                e2e.must([e2e.tool("dpc-run"), f"{scratch}/plan", f"--batches={folder}/batches", "--steps=3", *words,
                          f"--metrics={scratch}/m.jsonl", f"--trace={scratch}/t.json"])
                losses.append([row["loss"] for row in e2e.read_metrics(f"{scratch}/m.jsonl")])
                overlaps.append(e2e.overlap_seconds(f"{scratch}/t.json")[1])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(overlaps[1], 0)


class FollowCurve(unittest.TestCase):
    """follow_curve.py reports a plan that trains differently."""

    def follow(self, *words):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "follow_curve.py")
        return e2e.call([sys.executable, script, os.path.join(e2e.MODELS, "mlp"), f"--bin={e2e.BIN}", "--ranks=2", *words])

    def test_good(self):
        done = self.follow("--strategy=dp=2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_step_and_parameter_counts(self):
        for words, mention in ((["--opt=--frozen=l1.bias"], "parameter l1.bias"), (["--opt=--lr-schedule=linear,total=1000"], "loss")):
            done = self.follow("--strategy=dp=2", *words)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertTrue(done.stdout.startswith("FAIL"), done.stdout)
            self.assertIn(mention, done.stdout)

    def test_strategy_that_does_not_fit(self):
        done = self.follow("--strategy=dp=3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it does not run", done.stdout)


class Schedules(e2e.ScratchTest):
    def test_the_plan_says_what_the_schedule_does(self):
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "models", "mlp", "model.onnx")
        for words, text in (("constant", "constant"), ("constant,warmup=2", "constant after 2 warmup steps"),
                            ("cosine,total=4", "cosine to 0 at step 4")):
            e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--global-batch=8", "--verify=off", "--lr-schedule=" + words, "-o", self.path("plan")])
            settings = {setting["name"]: setting["value"] for setting in e2e.read_plan(self.path("plan"))["settings"]}
            self.assertEqual(settings["lr_schedule"], text)

    def test_a_constant_rate_has_no_end(self):
        model = os.path.join(e2e.SOURCE, "test", "fixtures", "models", "mlp", "model.onnx")
        for words, key in (("constant,total=4", "total=4"), ("warmup=2,min=1e-5,total=4", "min=1e-5")):
            done = e2e.call([e2e.tool("dpc-opt"), model, "--cluster=local:1", "--global-batch=8", "--lr-schedule=" + words, "-o", self.path("plan")])
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--lr-schedule=constant: {key} has no effect on a rate that does not end; cosine and linear accept it, constant only warmup=N", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
