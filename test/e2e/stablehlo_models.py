#!/usr/bin/env python3
"""JAX models train as in JAX: unchanged training steps, and losses that dpc differentiates (test/fixtures/stablehlo/models)."""
import os
import re
import unittest

import e2e

MODELS = os.path.join(e2e.SOURCE, "test", "fixtures", "stablehlo", "models")
TOLERANCE = 1e-4  # relative, for a loss: rounding in another order over ten steps
STRATEGIES = [(1, "dp=1"), (2, "dp=2"), (3, "dp=3"), (4, "dp=2,tp=2")]


class Models(unittest.TestCase):
    def setUp(self):
        scratch = e2e.scratch()
        self.folder = scratch.__enter__()
        self.addCleanup(scratch.__exit__, None, None, None)

    def losses(self, name, ranks, strategy):
        model = os.path.join(MODELS, name)
        oracle = e2e.read_json(f"{model}/oracle.json")
        words = ["--train=adamw", f"--lr={oracle['lr']}", f"--weight-decay={oracle['weight_decay']}"] if "lr" in oracle else []
        plan = f"{self.folder}/plan"
        e2e.must([e2e.tool("dpc-opt"), f"{model}/model.mlir", f"--init={model}/model.safetensors", f"--cluster=local:{ranks}",
                  f"--strategy={strategy}", "--verify=off", "-o", plan, *words])
        e2e.must([e2e.tool("dpc-run"), plan, f"--batches={model}/batches", f"--steps={oracle['steps']}", f"--metrics={plan}.jsonl",
                  "--poison", f"--save-params={plan}.safetensors"])
        return [row["loss"] for row in e2e.read_metrics(f"{plan}.jsonl")], oracle["losses"]

    def follow(self, name, strategies):
        for ranks, strategy in strategies:
            with self.subTest(ranks=ranks, strategy=strategy):
                got, want = self.losses(name, ranks, strategy)
                self.assertEqual(len(got), len(want))
                worst = max(abs(a - b) / abs(b) for a, b in zip(got, want))
                print(f"{name} on {ranks}, {strategy}: {got[0]:.4f} -> {got[-1]:.4f}, at most {worst:.1e} from JAX")
                self.assertLessEqual(worst, TOLERANCE)

    def test_step_mlp(self):
        """AdamW with clipped gradients, all inside the step; different batches in every step."""
        self.follow("step-mlp", STRATEGIES + [(4, "auto"), (2, "tp=2"), (2, "dp=2,zero=1"), (2, "dp=2,zero=3"), (2, "dp=2,micro_batch=2"), (2, "pp=2")])

    def test_step_gpt(self):
        """A scan over layers and its gradient; AdamW with a schedule that counts steps in a state."""
        self.follow("step-gpt", STRATEGIES + [(4, "dp=2,tp=2,zero=1")])

    def test_step_resnet(self):
        """Convolutions, a max pool, and batch norms whose running statistics are states."""
        self.follow("step-resnet", STRATEGIES)

    def test_loss_gpt(self):
        """dpc's own gradients and optimizer."""
        self.follow("loss-gpt", STRATEGIES + [(2, "dp=2,zero=3")])

    def test_a_step_takes_no_optimizer(self):
        done = e2e.call([e2e.tool("dpc-opt"), f"{MODELS}/step-mlp/model.mlir", "--cluster=local:2", "--train=adamw", "-o", f"{self.folder}/p"])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "is already a training step, with gradients and optimizer inside: --train=adamw is for models without")

    def sharded(self, name, *words, model=None):
        """Compiles a model that has shardings; returns the result of dpc-opt and the sharding of each parameter."""
        model = model or os.path.join(os.path.dirname(MODELS), "shardings", f"{name}.mlir")
        plan = f"{self.folder}/{name}"
        done = e2e.call([e2e.tool("dpc-opt"), model, "--init=random:1", "--train=sgd", "-o", plan, *words])
        if done.returncode:
            return done, {}
        return done, {tensor["name"]: tensor["layout"] for tensor in e2e.read_plan(plan)["tensors"]}

    def test_shardings_of_arguments_are_kept(self):
        layouts = {}
        for name in ("columns", "rows", "whole"):
            done, layouts[name] = self.sharded(name, "--cluster=local:4")
            self.assertEqual(done.returncode, 0, done.stderr)
            chosen = e2e.read_report(f"{self.folder}/{name}")["chosen"]["strategy"]
            self.assertEqual((chosen["dp"], chosen["tp"]), (2, 2))
            self.assertIn("1 sharding constraints inside the model are left to the search", " ".join(done.stdout.split()))
        split = {name: {weight: ["tp" in str(dim) for dim in layout] for weight, layout in found.items() if weight in ("params.w1", "params.w2")}
                 for name, found in layouts.items()}
        self.assertEqual(split["columns"], {"params.w1": [False, True], "params.w2": [True, False]})
        self.assertEqual(split["rows"], {"params.w1": [True, False], "params.w2": [False, True]})
        self.assertEqual(split["whole"], {"params.w1": [False, False], "params.w2": [False, True]})

    def test_shardings_without_sdy_are_the_same(self):
        """The older spelling of XLA: data is the outer axis of 2 x 2 devices and model the inner one."""
        spelled = {'[{"model"}, {}]': "[2,1,2]<=[2,2]T(1,0)", '[{}, {"model"}]': "[1,2,2]<=[2,2]T(1,0)", '[{"data"}, {}]': "[2,1,2]<=[4]"}
        with open(os.path.join(os.path.dirname(MODELS), "shardings", "rows.mlir"), encoding="utf-8") as file:
            lines = [line for line in file if "sdy.sharding_constraint" not in line and "sdy.mesh" not in line]
        text = "".join(lines).replace("(%5, %arg2)", "(%4, %arg2)")
        for axes, devices in spelled.items():
            text = text.replace(f"sdy.sharding = #sdy.sharding<@mesh, {axes}>", f'mhlo.sharding = "{{devices={devices} last_tile_dim_replicate}}"')
        self.assertEqual((text.count("mhlo.sharding"), text.count("sdy.")), (4, 0))
        with open(f"{self.folder}/old.mlir", "w", encoding="utf-8") as file:
            file.write(text)
        done, layouts = self.sharded("old", "--cluster=local:4", model=f"{self.folder}/old.mlir")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(layouts, self.sharded("rows", "--cluster=local:4")[1])

    def test_names_of_arguments_are_not_needed(self):
        """A step whose arguments have no names: paths of results and aliasing lead to the same roles."""
        with open(f"{MODELS}/step-mlp/model.mlir", encoding="utf-8") as file:
            text = re.sub(r'(%arg\d+: tensor<[^>]*>) loc\("[^"]*"\)', r"\1", file.read())
        with open(f"{self.folder}/step.mlir", "w", encoding="utf-8") as file:
            file.write(text)
        layouts = []
        for model in (f"{MODELS}/step-mlp/model.mlir", f"{self.folder}/step.mlir"):
            plan = f"{self.folder}/plan"
            e2e.must([e2e.tool("dpc-opt"), model, "--cluster=local:2", "--strategy=dp=2,zero=1", "--init=random:1", "--verify=off", "-o", plan])
            layouts.append([(tensor["role"], tensor["layout"]) for tensor in e2e.read_plan(plan)["tensors"]])
        self.assertEqual(*layouts)

    def test_shardings_that_cannot_be_kept(self):
        for name, words, message in (("columns", ["--cluster=local:4", "--strategy=tp=4"], "--strategy=tp=4: the model's shardings are over a mesh of dp=2, tp=2"),
                                     ("columns", ["--cluster=local:2"], "a mesh of dp=2, tp=2; its size does not divide the 2 devices"),
                                     ("fsdp", ["--cluster=local:4"], "argument 'params.w1' is split over 'data', which splits the batch")):
            done, _ = self.sharded(name, *words)
            self.assertEqual(done.returncode, 1, name)
            self.assertRegex(done.stderr, message)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
