#!/usr/bin/env python3
"""Writes the model, whose output is the loss, and its batches: export.py FOLDER STEPS"""
import pathlib
import sys
import warnings

import numpy as np
import torch

from model import make_batches, make_model


def main(folder, steps):
    folder.joinpath("batches").mkdir(parents=True, exist_ok=True)
    ids, labels = make_batches(steps)
    np.save(folder / "batches" / "ids.npy", ids.numpy())
    np.save(folder / "batches" / "labels.npy", labels.numpy())
    warnings.simplefilter("ignore")
    torch.onnx.export(
        make_model().train(), (ids[0], labels[0]), str(folder / "model.onnx"),
        input_names=["ids", "labels"], output_names=["loss"],
        dynamic_axes={"ids": {0: "batch"}, "labels": {0: "batch"}},
        opset_version=17, do_constant_folding=False, dynamo=False,
        training=torch.onnx.TrainingMode.TRAINING)


main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
