#!/usr/bin/env python3
"""Exports a PyTorch module for dpc: export_torch.py FOLDER [--format=pt2|onnx] [--without-weights] [--module=FILE.py:make]

    python3 examples/export_torch.py mine         (needs torch, tested with 2.15, and numpy; --format=onnx also needs onnx)
    build/bin/dpc-opt mine/model.pt2 --cluster=local:2 --global-batch=32 -o mine/plan
    build/bin/dpc-run mine/plan --batches=mine/batches --steps=50

--module names your own function that returns (module, inputs): an nn.Module whose forward returns the loss as a scalar,
and a dict from the names of forward's arguments to tensors. Dimension 0 of every input is the batch. An example with a
Hugging Face model, which trains with dropout if it is in .train() mode:

    class Loss(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, input_ids, labels):
            return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss

    def make():
        ids = torch.randint(0, 50257, (2, 128))
        return Loss(GPT2LMHeadModel(GPT2Config(...))), {"input_ids": ids, "labels": ids.clone()}

--without-weights writes a model of any size for planning, without allocating its parameters. To train it, set values
with `dpc-opt --init=random:SEED` or `--init=FILE.safetensors`.
"""
import argparse
import contextlib
import copy
import importlib.util
import inspect
import json
import pathlib
import sys
import zipfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, FEATURES, CLASSES = 32, 20, 5


class Classifier(nn.Module):
    """A model whose forward pass returns the loss, as dpc requires for training."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, CLASSES))

    def forward(self, x, label):
        return F.cross_entropy(self.layers(x), label)


def make_classifier():
    return Classifier().train(), {"x": torch.randn(BATCH, FEATURES), "label": torch.zeros(BATCH, dtype=torch.long)}


def write_batches(folder):
    """Writes ten batches for the classifier: one file of shape [steps, global batch, ...] for each input."""
    folder.mkdir(parents=True, exist_ok=True)
    x = torch.randn(10, BATCH, FEATURES)
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "label.npy", (x @ torch.randn(FEATURES, CLASSES)).argmax(-1).numpy())


def load(word):
    """Returns the function `make` of "FILE.py:make"."""
    path, _, function = word.rpartition(":")
    if not path.endswith(".py"):
        sys.exit(f"error: --module={word}: expected FILE.py:FUNCTION")
    if not pathlib.Path(path).is_file():
        sys.exit(f"error: --module={word}: there is no file {path}")
    sys.path.insert(0, str(pathlib.Path(path).resolve().parent))  # as for a script, which may import files beside it
    spec = importlib.util.spec_from_file_location("model_to_export", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        names = sorted(name for name, value in vars(module).items() if inspect.isfunction(value))
        sys.exit(f"error: --module={word}: {path} has no function '{function}', only {', '.join(names) or 'none'}")
    return getattr(module, function)


def checked(made):
    """Returns (module, inputs) if `made` is that."""
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module) and isinstance(made[1], dict)
            and all(isinstance(tensor, torch.Tensor) for tensor in made[1].values())):
        sys.exit(f"error: the function of --module returned {type(made).__name__}; expected (module, inputs): an nn.Module, and a dict "
                 "from the names of forward's arguments to tensors")
    module, inputs = made
    accepted = inspect.signature(module.forward).parameters
    if unknown := [name for name in inputs if name not in accepted]:
        if not any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in accepted.values()):
            sys.exit(f"error: forward has no argument '{unknown[0]}', only {', '.join(accepted)}")
    return module, inputs


def export_pt2(module, inputs, path):
    if any(tensor.dim() > 0 and len(tensor) < 2 for tensor in inputs.values()):
        sys.exit("error: the example inputs have 1 sample; expected 2 or more, because torch.export keeps a size of 1")
    batch = torch.export.Dim("batch", min=2, max=1 << 20)
    # torch.export merges inputs that are one tensor, and the program then reads only one of them.
    inputs = {name: tensor.clone() for name, tensor in inputs.items()}
    program = torch.export.export(module, (), kwargs=inputs, dynamic_shapes={name: {0: batch} for name in inputs},
                                  strict=False)
    torch.export.save(program, path)


def keep_ties(module, path):
    """Assigns a separate record to every tensor, but one record to tied tensors. PyTorch assigns one record to all tensors without values."""
    records, names = {}, {}
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
        names[name] = records.setdefault(id(tensor), f"weight_{len(records)}")
    with zipfile.ZipFile(path) as source:
        files = {name: source.read(name) for name in source.namelist() if "/data/weights/weight_" not in name}
    config = next(name for name in files if name.endswith("model_weights_config.json"))
    table = json.loads(files[config])
    for name, entry in table["config"].items():
        entry["path_name"] = names[name]
    files[config] = json.dumps(table)
    files.update({config.replace("model_weights_config.json", record): b"" for record in records.values()})
    with zipfile.ZipFile(path, "w") as out:
        for name, data in files.items():
            out.writestr(name, data)


def output_names(module, inputs):
    """Returns the keys of the dict that the module returns, or "loss"."""
    with torch.no_grad(), torch.random.fork_rng():
        returned = copy.deepcopy(module)(**inputs)
    return list(returned) if isinstance(returned, dict) else ["loss"]


def name_buffers(module, path):
    """Writes the names of buffers and frozen parameters into the file, because ONNX does not distinguish them from trained weights."""
    import onnx
    model = onnx.load(path, load_external_data=False)
    names = [name for name, _ in module.named_buffers()] + [name for name, weight in module.named_parameters() if not weight.requires_grad]
    onnx.helper.set_model_props(model, {"dpc.buffers": json.dumps(names)})
    path.write_bytes(model.SerializeToString())


def export_onnx(module, inputs, path, weights):
    try:
        torch.onnx.export(
            module, (), str(path), kwargs=inputs, input_names=list(inputs), output_names=output_names(module, inputs),
            dynamic_axes={name: {0: "batch"} for name in inputs}, training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False, opset_version=17, dynamo=False)
    except torch.onnx.errors.OnnxExporterError as error:
        sys.exit(f"export_torch.py: error: PyTorch cannot write this module as ONNX: {str(error).splitlines()[0]}; "
                 "--format=pt2 takes any module that torch.export does")
    name_buffers(module, path)
    if not weights:
        forget_weights(path)


def forget_weights(path):
    """Replaces the data of every float weight by a reference to a file that does not exist."""
    import onnx
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.dims and tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16,
                                                onnx.TensorProto.BFLOAT16):
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights.bin")
    path.write_bytes(model.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--format", choices=["pt2", "onnx"], default="pt2")
    parser.add_argument("--without-weights", action="store_true")
    parser.add_argument("--module", metavar="FILE.py:FUNCTION")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    make = load(options.module) if options.module else make_classifier
    fake = contextlib.nullcontext()
    if options.without_weights and options.format == "pt2":
        from torch._subclasses.fake_tensor import FakeTensorMode
        fake = FakeTensorMode()  # tensors with a shape and no values
    path = options.folder / f"model.{options.format}"
    with fake:
        module, inputs = checked(make())
        if options.format == "pt2":
            export_pt2(module, inputs, path)
            if options.without_weights:
                keep_ties(module, path)
        else:
            export_onnx(module, inputs, path, not options.without_weights)
    if not options.module:
        write_batches(options.folder / "batches")
    print("wrote", path)


main()
