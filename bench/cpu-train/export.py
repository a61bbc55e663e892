#!/usr/bin/env python3
"""Writes the model `gpt` (.onnx) or `mixture` (.pt2), whose output is the loss, and its batches: export.py MODEL FOLDER STEPS"""
import pathlib
import sys
import warnings

import numpy as np
import torch

from model import make_batches, make_model


def main(name, folder, steps):
    folder.joinpath("batches").mkdir(parents=True, exist_ok=True)
    ids, labels = make_batches(steps)
    np.save(folder / "batches" / "ids.npy", ids.numpy())
    np.save(folder / "batches" / "labels.npy", labels.numpy())
    warnings.simplefilter("ignore")
    if name == "mixture":
        batch = torch.export.Dim("batch", min=2, max=4096)
        program = torch.export.export(make_model(name).train(), (ids[0], labels[0]), dynamic_shapes=({0: batch}, {0: batch}), strict=False)
        torch.export.save(program, folder / "model.pt2")
        return
    torch.onnx.export(
        make_model(name).train(), (ids[0], labels[0]), str(folder / "model.onnx"),
        input_names=["ids", "labels"], output_names=["loss"],
        dynamic_axes={"ids": {0: "batch"}, "labels": {0: "batch"}},
        opset_version=17, do_constant_folding=False, dynamo=False,
        training=torch.onnx.TrainingMode.TRAINING)


main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))
