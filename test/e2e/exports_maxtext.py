#!/usr/bin/env python3
"""--emit=maxtext and --for=maxtext write a configuration that defines the model and the run, or refuse them.

By default this checks keys and types against a recording of MaxText's source (test/fixtures/exports), and learning rates against its
formula. With DPC_TEST_LONG, MaxText reads the files: it makes the mesh of each plan, builds the model without memory, counts its parameters, and trains two steps.
"""
import json
import math
import os
import re
import subprocess
import sys
import unittest

import e2e
import exports

KEYS = exports.FACTS["maxtext"]["keys"]
# Model, ranks, strategy, options of the training.
PLANS = [
    ("llama", 1, "dp=1,recompute=full"),
    ("llama", 4, "dp=4,zero=3,recompute=full,micro_batch=1", "--lr-schedule=cosine,warmup=10,total=100,min=1e-5"),
    ("llama", 4, "dp=4,zero=1,recompute=selective", "--lr-schedule=linear,total=50"),
    ("llama-tied", 8, "dp=4,tp=2,sp=true,zero=3,hybrid_shard=2,recompute=full", "--lr-schedule=linear,warmup=4,total=40", "--lr=3e-4"),
    ("llama", 4, "dp=2,cp=2,cp_kind=ring,zero=3,recompute=full,micro_batch=2", "--lr-schedule=constant,warmup=3", "--train=sgd"),
    ("llama", 4, "dp=2,pp=2,schedule=gpipe,recompute=full,micro_batch=2"),
    ("llama", 4, "dp=2,pp=2,vpp=2,schedule=interleaved,recompute=selective,micro_batch=2"),
    ("moe", 4, "dp=4,ep=2,zero=3,recompute=full"),
    ("moe", 8, "dp=4,tp=2,ep=4,zero=3,recompute=full", "--lr-schedule=cosine,total=20,min=1e-4"),
]


def numbers(text):
    """Reads a flow list or a scalar."""
    return [exports.scalar(part.strip()) for part in text[1:-1].split(",")] if text.startswith("[") else exports.scalar(text)


def read_keys(folder):
    """Returns the keys of maxtext.yml, which has one level. Floats need a dot: YAML 1.1 reads 1e-8 as a string."""
    lines = [line.split(": ", 1) for line in exports.read(folder, "maxtext.yml").splitlines() if line and not line.startswith("#")]
    keys = {}
    for key, text in lines:
        assert key not in keys, key
        keys[key] = float(text) if re.fullmatch(r"-?\d+\.\d+(e[-+]\d+)?", text) else numbers(text)
    return keys


def rates_of(keys, steps):
    """The rates of create_learning_rate_schedule in maxtext/utils/maxtext_utils.py, if the run is not longer than the schedule."""
    lr, length = keys["learning_rate"], keys["learning_rate_schedule_steps"]
    length = steps if length == -1 else length
    last, warmup = lr * keys["learning_rate_final_fraction"], int(length * keys["warmup_steps_fraction"])
    decay = length - warmup if keys["lr_schedule_type"] == "cosine" else int(length * keys["wsd_decay_steps_fraction"])
    for step in range(steps):
        done = (step - (length - decay)) / max(1, decay - 1)
        if step < warmup:
            yield lr * step / warmup
        elif done < 0 or decay == 0:
            yield lr
        elif keys["lr_schedule_type"] == "cosine":
            yield last + (lr - last) * (1 + math.cos(math.pi * done)) / 2
        else:
            yield lr + (last - lr) * done


class Files(unittest.TestCase):
    def check_keys(self, keys):
        for key, value in keys.items():
            self.assertIn(key, KEYS)
            kinds, kind = KEYS[key], type(value).__name__
            if set(kinds) <= {"any", "int", "float", "bool", "str", "list", "dict"}:
                self.assertTrue({"any", kind} & set(kinds), f"{key}: {value!r} is no {kinds}")
            else:
                self.assertIn(value, kinds, key)

    def check_sizes(self, keys, ranks):
        mesh = [value for key, value in keys.items() if re.fullmatch(r"(ici|dcn)_\w+_parallelism", key)]
        self.assertEqual(math.prod(mesh), ranks)
        samples = int(keys["per_device_batch_size"] * ranks)
        self.assertEqual(samples * keys["gradient_accumulation_steps"], 8)
        if keys["ici_pipeline_parallelism"] > 1:
            self.assertEqual(samples % keys["num_pipeline_microbatches"], 0)
            self.assertEqual(keys["ici_pipeline_parallelism"] * keys["num_pipeline_repeats"] * keys["num_layers_per_pipeline_stage"], keys["base_num_decoder_layers"])

    def test_keys_sizes_and_rates(self):
        for plan in PLANS:
            with self.subTest(str(plan)), e2e.scratch() as folder:
                done = exports.emit(folder, plan[:3], "report,maxtext", *plan[3:])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                keys = read_keys(folder)
                self.check_keys(keys)
                self.check_sizes(keys, plan[1])
                expected = exports.optimizer_of(plan[3:])
                for theirs, ours in zip(rates_of(keys, 20), expected["rates"]):
                    self.assertAlmostEqual(theirs, ours, delta=1e-9 * expected["optimizer"]["lr"])
                self.assertEqual(keys["gradient_clipping_threshold"], expected["clip"])
                self.assertEqual(keys["opt_type"], expected["optimizer"]["name"])

    def test_what_it_reads_is_the_strategy(self):
        for plan in PLANS:
            with self.subTest(str(plan)), e2e.scratch() as folder:
                self.assertEqual(exports.emit(folder, plan[:3], "report,maxtext", *plan[3:]).returncode, 0)
                chosen = e2e.read_report(f"{folder}/out")["chosen"]["strategy"]
                done = e2e.call([e2e.tool("dpc-opt"), exports.model(plan[0]), f"--cluster=local:{plan[1]}", "--verify=off", "--emit=report",
                                 f"--strategy=@{folder}/out/exports/maxtext.yml", "-o", f"{folder}/again"])
                self.assertEqual(done.returncode, 0, done.stderr)
                again = e2e.read_report(f"{folder}/again")["chosen"]["strategy"]
                self.assertEqual({**again, "micro_batch": 0}, {**chosen, "micro_batch": 0})

    def test_refusals_are_one_line(self):
        for plan, mention in ((("gpt2-tiny", 4, "dp=4,zero=3,recompute=full"), "fix the epsilon of the norm before feed-forward parts to 1e-06"),
                              (("bert-tiny", 4, "dp=4,recompute=full"), "MaxText"),
                              (("moe-shared", 2, "dp=2,recompute=full"), "neither shared experts"),
                              (("llama", 4, "dp=4,zero=3"), "recompute=selective or full"),
                              (("llama", 4, "dp=2,pp=2,micro_batch=2,recompute=full"), "schedule=gpipe"),
                              (("llama", 4, "tp=4,recompute=full"), "heads of keys and values")):
            with self.subTest(str(plan)), e2e.scratch() as folder:
                done = exports.emit(folder, plan, "maxtext")
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertIn(mention, done.stderr)
                self.assertFalse(os.path.exists(f"{folder}/out/exports"))

    def test_the_search_finds_pipelines_that_it_has(self):
        with e2e.scratch() as folder:
            path = f"{folder}/llama.onnx"
            e2e.must([e2e.tool("dpc-model"), "llama", "--layers=8", "--hidden=1024", "--heads=16", "--kv-heads=4", "--ffn=2816", "--vocab=32000", "--seq=1024", "-o", path])
            e2e.must([e2e.tool("dpc-opt"), path, f"--cluster={e2e.SOURCE}/examples/clusters/a100-2x8.json", "--global-batch=64", "--precision=bf16", "--verify=off",
                      "--for=maxtext", "--strategy=pp=2", "-o", f"{folder}/out"])
            report = e2e.read_report(f"{folder}/out")
            self.assertIn(report["chosen"]["strategy"]["schedule"], ("gpipe", "interleaved"))
            keys = read_keys(folder)
            self.assertEqual((keys["dcn_pipeline_parallelism"], keys["ici_pipeline_parallelism"]), (2, 1))


@unittest.skipUnless(exports.LONG, "installs MaxText: runs with --long")
class Installed(unittest.TestCase):
    """MaxText's own classes read the files."""
    # Its wheel installs without dependencies, most of which are for accelerators and services.
    VERSION = "maxtext==0.2.5"
    PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "pydantic", "omegaconf", "pyyaml", "absl-py", "aqtp", "qwix", "tensorboardX", "grain", "sentencepiece", "tiktoken",
                "transformers", "jinja2", "etils", "chex", "pathwaysutils", "drjax", "google-cloud-storage", "cloud-tpu-diagnostics", "ml-goodput-measurement",
                "jsonlines", "datasets", "huggingface_hub", "tokamax", "pillow", "sympy", "ml_collections")

    @classmethod
    def setUpClass(cls):
        cls.folder = os.environ.get("DPC_MAXTEXT_VENV") or os.path.join(os.path.dirname(e2e.BIN), "export-maxtext")
        cls.python, cls.source = os.path.join(cls.folder, "bin", "python"), os.path.join(cls.folder, "source")
        complete = os.path.join(cls.folder, "complete")
        if os.path.exists(complete):
            return
        subprocess.run([sys.executable, "-m", "venv", cls.folder], check=True)
        pip = [cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *cls.PACKAGES], check=True)
        # The wheel names a later Python than Debian's; exports_maxtext_read.py says what of it needs that.
        subprocess.run([*pip, "--no-deps", "--python-version=3.12", "--only-binary=:all:", "--target", cls.source, cls.VERSION], check=True)
        with open(complete, "w", encoding="utf-8"):
            pass

    def call(self, ranks, folder, *words):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports_maxtext_read.py")
        done = subprocess.run([self.python, script, str(ranks), f"{folder}/out/exports/maxtext.yml", *words], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=self.source, PYTHONDONTWRITEBYTECODE="1"))
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-3000:])
        return done.stdout

    def read(self, ranks, folder):
        return json.loads(self.call(ranks, folder).splitlines()[-1])

    def test_two_steps(self):
        """Context parallelism is left out: its attention is a kernel of GPUs."""
        for name, ranks, strategy, *_ in PLANS:
            if "cp=" in strategy:
                continue
            with self.subTest(f"{name} {strategy}"), e2e.scratch() as folder:
                done = exports.emit(folder, (name, ranks, strategy), "report,maxtext", "--lr=1e-2")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.call(ranks, folder, f"{folder}/metrics.jsonl")
                with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
                    losses = [json.loads(line)["learning/loss"] for line in file]
                self.assertEqual(len(losses), 2)
                self.assertLess(losses[1], losses[0])
                print(f"{name} {strategy}: {losses}")

    def test_parameters_mesh_and_rates(self):
        for plan in PLANS:
            with self.subTest(str(plan)), e2e.scratch() as folder:
                done = exports.emit(folder, plan[:3], "report,maxtext", *plan[3:])
                self.assertEqual(done.returncode, 0, done.stderr)
                report, read, expected = e2e.read_report(f"{folder}/out"), self.read(plan[1], folder), exports.optimizer_of(plan[3:])
                self.assertEqual(read["parameters"], report["parameters"]["count"])
                chosen = report["chosen"]["strategy"]
                self.assertEqual(read["global_batch"], 8)
                self.assertEqual(read["mesh"].get("stage", 1), chosen["pp"])
                self.assertEqual(read["mesh"].get("context", 1), chosen["cp"])
                self.assertEqual(read["mesh"].get("expert", 1), chosen["ep"])
                self.assertEqual(math.prod(read["mesh"].get(axis, 1) for axis in ("data", "fsdp", "expert")), chosen["dp"])
                self.assertEqual(math.prod(read["mesh"].get(axis, 1) for axis in ("tensor", "tensor_sequence")), chosen["tp"])
                for theirs, ours in zip(read["rates"], expected["rates"]):
                    self.assertAlmostEqual(theirs, ours, delta=1e-6 * expected["optimizer"]["lr"])  # in fp32
                print(f"{plan}: {read['parameters']} parameters, mesh {read['mesh']}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
