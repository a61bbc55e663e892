#!/usr/bin/env python3
"""Exports a PyTorch model for dpc, with batches to train on: export_torch.py FOLDER

    python3 examples/export_torch.py mine         (needs torch, onnx and numpy)
    build/bin/dpc-opt mine/model.onnx --cluster=local:2 --global-batch=32 -o mine/plan
    build/bin/dpc-run mine/plan --batches=mine/batches --steps=50
"""
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, FEATURES, CLASSES = 32, 20, 5


class Classifier(nn.Module):
    """The forward pass ends in a scalar, the loss: that is what dpc trains."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, CLASSES))

    def forward(self, x, label):
        return F.cross_entropy(self.layers(x), label)


def main(folder):
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    x = torch.randn(10, BATCH, FEATURES)  # ten batches
    label = (x @ torch.randn(FEATURES, CLASSES)).argmax(-1)
    # One file per input of the model: [steps, global batch, ...].
    np.save(folder / "batches" / "x.npy", x.numpy())
    np.save(folder / "batches" / "label.npy", label.numpy())
    torch.onnx.export(
        Classifier().train(), (x[0], label[0]), str(folder / "model.onnx"),
        input_names=["x", "label"], output_names=["loss"],
        dynamic_axes={"x": {0: "batch"}, "label": {0: "batch"}},
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        opset_version=17, dynamo=False)


main(pathlib.Path(sys.argv[1]))
