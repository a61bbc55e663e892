#!/usr/bin/env python3
"""A model trains the same, whether PyTorch exports it as .pt2 or as .onnx.

usage: two_routes.py MODEL_DIR --strategy=dp=2,tp=2 --ranks=4

Trains MODEL_DIR/model.onnx and MODEL_DIR/model.pt2 on the same batches from the same weights (those of model.onnx;
mlp/model.pt2 has its own weights, which are equal). Both must follow PyTorch's curve in oracle.json within the limits
of follow_curve.py, and must agree closely with each other.
"""
import argparse
import copy
import sys

import e2e
from follow_curve import Case, Curve, largest

# The routes may sum in different orders, which changes rounding.
LOSS_TOLERANCE = 5e-6


def initial_weights(case, folder):
    """Writes model.onnx's weights to a file: one step with a learning rate of 0 does not change them."""
    still = copy.deepcopy(case)
    still.oracle["optimizer"]["lr"], still.oracle["steps"] = 0, 1
    still.train(f"{folder}/start", "dp=1", 1, "local")
    return f"{folder}/start.safetensors"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder with model.onnx, model.pt2, batches/ and oracle.json")
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    arguments = parser.parse_args()
    onnx = Case(arguments.model, arguments.strategy, arguments.ranks)
    pt2 = copy.deepcopy(onnx)
    pt2.model, pt2.frozen = f"{arguments.model}/model.pt2", []
    with e2e.scratch() as folder:
        if onnx.oracle["model"] != "mlp":
            pt2.words.append(f"--init={initial_weights(onnx, folder)}")
        oracle, found, curves = Curve.of_oracle(onnx.oracle), [], {}
        for name, case in (("onnx", onnx), ("pt2", pt2)):
            plan = f"{folder}/{name}"
            curves[name] = case.train(plan, case.strategy, case.ranks, "local")
            problems, summary = case.problems(plan, curves[name], oracle)
            found += [f"{name}: {problem}" for problem in problems]
            print(name, summary)
        apart = largest(curves["pt2"].losses, curves["onnx"].losses)
        if not apart <= LOSS_TOLERANCE:
            found.append("losses of the two routes")
    print("FAIL" if found else "ok  ", onnx.oracle["model"], arguments.strategy, f"apart={apart:.1e}", "; ".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
