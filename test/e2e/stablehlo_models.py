#!/usr/bin/env python3
"""JAX models train as in JAX: training steps as they stand, and losses that dpc differentiates (test/fixtures/stablehlo/models)."""
import os
import unittest

import e2e

MODELS = os.path.join(e2e.SOURCE, "test", "fixtures", "stablehlo", "models")
TOLERANCE = 1e-4  # of a loss, relative: rounding in another order, over ten steps
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
        """AdamW with clipped gradients, all inside the step; other batches every step."""
        self.follow("step-mlp", STRATEGIES + [(4, "auto"), (2, "tp=2"), (2, "dp=2,zero=1"), (2, "dp=2,zero=3"), (2, "dp=2,micro_batch=2"), (2, "pp=2")])

    def test_step_gpt(self):
        """A scan over layers and its gradient, AdamW with a schedule that counts steps in a state."""
        self.follow("step-gpt", STRATEGIES + [(4, "dp=2,tp=2,zero=1")])

    def test_step_resnet(self):
        """Convolutions, a max pool, batch norms whose running statistics are states."""
        self.follow("step-resnet", STRATEGIES)

    def test_loss_gpt(self):
        """dpc's own gradients and optimizer."""
        self.follow("loss-gpt", STRATEGIES + [(2, "dp=2,zero=3")])

    def test_a_step_takes_no_optimizer(self):
        done = e2e.call([e2e.tool("dpc-opt"), f"{MODELS}/step-mlp/model.mlir", "--cluster=local:2", "--train=adamw", "-o", f"{self.folder}/p"])
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "is a training step already, with gradients and optimizer inside: --train=adamw is for models without")


if __name__ == "__main__":
    unittest.main()
