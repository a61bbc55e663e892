#!/usr/bin/env python3
"""Draws strategies at random; each has to compute what one device computes.

usage: drawn_strategies.py [--count=N] [--seed=N] [--only=MODEL,...] [--models=DIR] [--verbose]

Half of the draws train one of the models of test/fixtures/models and follow PyTorch's curve (follow_curve.py). The
others compile a model of odd sizes (odd_models.py) with an odd batch and let dpc-opt verify all ranks against one
device (--verify=on). Degrees are drawn so that all ranks are in use, on up to 8 ranks, with every key of --strategy.
The seed is printed first; the same seed draws the same strategies. By default it is SEED, so that every change is
judged by the same draws; with DPC_TEST_LONG it is new each time. A combination that dpc-opt refuses is a failure unless
the message contains one of the REASONS below.
"""
import argparse
import os
import random
import sys

import e2e
import follow_curve

EXPERTS = 4  # in models with experts
SEED = 1

# The reasons that dpc-opt gives for impossible combinations.
REASONS = (
    "ops can be placed on a stage",  # more pipeline stages than ops
    "attention cannot be fused",  # a ring, or a mask
)


def degrees_of(ranks, count, rng):
    """Returns `count` factors whose product is `ranks`."""
    factors = [1] * count
    divisor = 2
    while ranks > 1:
        while ranks % divisor == 0:
            factors[rng.randrange(count)] *= divisor
            ranks //= divisor
        divisor += 1
    return factors


def draw_strategy(rng, batch, micro_batches=True, experts=0, sequence=True):
    """Returns (strategy, ranks); draws `ep` for a model with experts and `cp` for a model with a sequence."""
    ranks = rng.choice([2, 2, 3, 4, 4, 4, 6, 8, 8])
    names = ("dp", "tp", "pp", "cp") if sequence else ("dp", "tp", "pp")
    degrees = {"cp": 1, **dict(zip(names, degrees_of(ranks, len(names), rng)))}
    strategy = dict(degrees)
    local = -(-batch // degrees["dp"])
    if micro_batches and rng.random() < 0.7:
        strategy["micro_batch"] = rng.randint(1, local)
    if experts and rng.random() < 0.6:
        dp, tp = degrees["dp"], degrees["tp"]
        fitting = [ep for ep in range(1, experts + 1) if dp % ep == 0 or (ep % tp == 0 and dp % (ep // tp) == 0)]
        strategy["ep"] = rng.choice(fitting)
    if degrees["dp"] > 1 or degrees["cp"] > 1:
        strategy["zero"] = rng.randint(0, 3)
    if degrees["tp"] > 1 and rng.random() < 0.4:
        strategy["sp"] = "true"
    if degrees["tp"] in (4, 8) and rng.random() < 0.5:
        strategy["tp"] = "2x2" if degrees["tp"] == 4 else "2x2x2"
    if degrees["pp"] > 1:
        strategy["schedule"] = rng.choice(["gpipe", "1f1b", "interleaved", "zb-h1"])
        if strategy["schedule"] == "interleaved":
            strategy["vpp"] = 2
    if degrees["cp"] > 1:
        strategy["cp_kind"] = rng.choice(["ring", "ulysses"])
    if degrees["dp"] == 4 and strategy.get("zero") and rng.random() < 0.5:
        strategy["hybrid_shard"] = 2
    if rng.random() < 0.4:
        strategy["recompute"] = rng.choice(["selective", "full"])
    if rng.random() < 0.3:
        strategy["offload"] = rng.choice(["optimizer", "parameters", "all"])
        strategy["offload_to"] = rng.choice(["host", "disk"])
    return ",".join(f"{name}={value}" for name, value in strategy.items()), ranks


class Matrix:
    def __init__(self, rng, models):
        self.rng, self.models = rng, models

    def draw(self):
        """Returns one case: (text, a function that runs it and returns an error or None)."""
        import odd_models
        if self.models and self.rng.random() < 0.5:
            return self.draw_curve()
        kind = self.rng.choice(sorted(odd_models.BUILDERS))
        model = odd_models.BUILDERS[kind](self.rng)
        batch = self.rng.choice([3, 5, 7, 9, 12])
        strategy, ranks = draw_strategy(self.rng, batch, sequence=kind == "decoder")
        # The effect of bf16 rounding has no proven bound, so a person has to examine failures.
        precision = self.rng.choice(["fp32", "fp32", "fp32", "bf16"]) if os.environ.get("DPC_TEST_LONG") else "fp32"
        words = [self.rng.choice(["--train=adamw", "--train=sgd"]) if self.rng.random() < 0.85 else "--infer",
                 f"--global-batch={batch}", f"--precision={precision}", f"--strategy={strategy}", f"--cluster=local:{ranks}"]
        return f"{kind} {' '.join(words)}", lambda: self.verify(model, words)

    def draw_curve(self):
        folder = self.rng.choice(self.models)
        oracle = e2e.read_json(f"{folder}/oracle.json")
        batch = e2e.read_npy(f"{folder}/batches/{oracle['inputs'][0]}.npy")[1][1]
        name = os.path.basename(folder)
        # With micro-batches, batch norm computes another function. Capacity slots are counted over the whole batch.
        strategy, ranks = draw_strategy(self.rng, batch, micro_batches=name not in ("resnet-tiny", "moe-capacity"),
                                        experts=EXPERTS if "moe" in name else 0, sequence=name not in ("resnet-tiny", "mlp"))
        words = ["--attention=fused"] if self.rng.random() < 0.25 else []
        return " ".join([name, strategy, f"on {ranks}", *words]), lambda: self.follow(folder, strategy, ranks, words)

    def follow(self, folder, strategy, ranks, words):
        case = follow_curve.Case(folder, strategy, ranks, words=words)
        case.memory_tolerance = None
        found, summary = case.outcome()
        if found:
            # Rounding decides on which side of a relu's kink an activation is, and the curve depends on it (resnet-tiny
            # has such an activation in its second step). This happens at one learning rate. A wrong plan is wrong at
            # any learning rate.
            found, summary = case.at_other_rate().outcome()
        return f"{'; '.join(found)} {summary}" if found else None

    def verify(self, model, words):
        import onnx
        with e2e.scratch() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            done = e2e.call([e2e.tool("dpc-opt"), f"{folder}/model.onnx", *words, "--verify=on", "-o", f"{folder}/plan"])
        return None if done.returncode == 0 else f"exit {done.returncode}: {done.stderr.strip()[-400:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    is_long = bool(os.environ.get("DPC_TEST_LONG"))
    parser.add_argument("--count", type=int, default=500 if is_long else 24)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6) if is_long else SEED)
    parser.add_argument("--only", help="models, comma separated")
    parser.add_argument("--models", default=e2e.MODELS, help="folder of the models with oracles")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    print(f"seed={arguments.seed} count={arguments.count}", flush=True)
    names = arguments.only.split(",") if arguments.only else sorted(os.listdir(arguments.models))
    folders = [f"{arguments.models}/{name}" for name in names if os.path.exists(f"{arguments.models}/{name}/oracle.json")]
    matrix = Matrix(random.Random(arguments.seed), folders)
    failed = refused = 0
    for number in range(arguments.count):
        text, run = matrix.draw()
        why = run()
        word = "ok" if not why else "refused" if any(reason in why for reason in REASONS) else "FAIL"
        failed += word == "FAIL"
        refused += word == "refused"
        if word == "FAIL" or arguments.verbose:
            print(f"{word:8}{number}: {text} {why or ''}", flush=True)
    print(f"{arguments.count - failed - refused} right, {failed} wrong, {refused} refused for a reason")
    sys.exit(1 if failed or refused == arguments.count else 0)


if __name__ == "__main__":
    main()
