#!/usr/bin/env python3
"""The cases of real_models.py; runs in the Python environment that real_models.py creates."""
import argparse
import contextlib
import io
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn as nn

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOLERANCE = 1e-3  # relative to the largest output
LOSS_TOLERANCE = 1e-5


# Files from packages.

def picture(height, width):
    """A white page with a line of text, scaled like PP-OCR's input."""
    from PIL import Image, ImageDraw
    page = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(page).text((10, height // 3), "to be or not to be", fill="black")
    return {"x": ((np.asarray(page, dtype=np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None].copy()}


def sound(draw, samples=576):
    return {"input": draw.standard_normal((1, samples), dtype=np.float32) / 10,
            "state": draw.standard_normal((2, 1, 128), dtype=np.float32) / 10, "sr": np.array(16000, dtype=np.int64)}


def shipped(draw):
    """{name: (file, inputs)}"""
    ocr, vad = "rapidocr_onnxruntime/models/", "silero_vad/data/"
    named = sound(draw)
    without_rate = {name: named[name] for name in ("input", "state")}
    return {
        "pp-ocr-det": (ocr + "ch_PP-OCRv4_det_infer.onnx", picture(96, 160)),
        "pp-ocr-rec": (ocr + "ch_PP-OCRv4_rec_infer.onnx", picture(48, 320)),
        "pp-ocr-cls": (ocr + "ch_ppocr_mobile_v2.0_cls_infer.onnx", picture(48, 192)),
        "silero-vad": (vad + "silero_vad.onnx", named),
        "silero-vad-15": (vad + "silero_vad_16k_op15.onnx", named),
        "silero-vad-18": (vad + "silero_vad_op18_ifless.onnx", named),
        "silero-vad-half": (vad + "silero_vad_half.onnx", without_rate),
        "silero-vad-openvino": (vad + "silero_vad_openvino_16k.onnx", without_rate),
        "magika": ("magika/models/standard_v3_3/model.onnx", {"bytes": draw.integers(0, 256, (1, 2048)).astype(np.int32)}),
    }


# Modules.

class Logits(nn.Module):
    """A model of token ids with one output."""

    def __init__(self, model, output):
        super().__init__()
        self.model, self.output = model, output

    def forward(self, input_ids):
        return getattr(self.model(input_ids=input_ids), self.output)


class Pixels(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(pixel_values=x).logits


class Latents(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, text, pooled, t):
        return self.model(hidden_states=x, encoder_hidden_states=text, pooled_projections=pooled, timestep=t, return_dict=False)[0]


VOCABULARY = 211
SIZES = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": VOCABULARY}


def language_model(name, output="logits", **sizes):
    def make():
        import transformers
        config = getattr(transformers, name[1])(**sizes)
        config.use_cache = False
        if hasattr(config, "num_local_experts"):
            config._experts_implementation = "batched_mm"
        return Logits(getattr(transformers, name[0])(config), output), {"input_ids": torch.randint(0, VOCABULARY, (2, 24))}
    return make


def vision(name):
    def make():
        import torchvision
        model = getattr(torchvision.models, name)(weights=None)
        for parameter in model.parameters():  # some heads are initialized with zeros
            if not parameter.any():
                nn.init.normal_(parameter, std=0.02)
        return model, {"x": torch.randn(2, 3, 224, 224)}
    return make


def vit():
    import transformers
    sizes = {key: value for key, value in SIZES.items() if key != "vocab_size"}
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=7, **sizes)
    return Pixels(transformers.ViTForImageClassification(config)), {"x": torch.randn(2, 3, 32, 32)}


def sd3():
    import diffusers
    model = diffusers.SD3Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=4,
        joint_attention_dim=32, caption_projection_dim=64, pooled_projection_dim=48, out_channels=4, pos_embed_max_size=16)
    return Latents(model), {"x": torch.randn(2, 4, 16, 16), "text": torch.randn(2, 12, 32), "pooled": torch.randn(2, 48),
                            "t": torch.tensor([500.0, 20.0])}


MODULES = {
    "resnet50": vision("resnet50"), "vit-b-16": vision("vit_b_16"), "swin-t": vision("swin_t"), "convnext-t": vision("convnext_tiny"),
    "gpt2": language_model(("GPT2LMHeadModel", "GPT2Config"), n_layer=2, n_embd=64, n_head=4, n_positions=64, vocab_size=VOCABULARY),
    "llama": language_model(("LlamaForCausalLM", "LlamaConfig"), num_key_value_heads=2, **SIZES),
    "mixtral": language_model(("MixtralForCausalLM", "MixtralConfig"), num_key_value_heads=2, num_local_experts=4, **SIZES),
    "bert": language_model(("BertModel", "BertConfig"), "last_hidden_state", **SIZES),
    "roberta": language_model(("RobertaModel", "RobertaConfig"), "last_hidden_state", **SIZES),
    "t5": language_model(("T5EncoderModel", "T5Config"), "last_hidden_state", num_layers=2, d_model=64, d_ff=128, num_heads=4, d_kv=16,
                         vocab_size=VOCABULARY),
    "vit": vit, "sd3": sd3,
}

# Models that torch cannot export: (model, route) -> a part of the error message.
NOT_EXPORTED = {("gpt2", "script"): "aten::diff", ("llama", "script"): "aten::diff", ("mixtral", "script"): "aten::",
                ("t5", "dynamo"): "decompose"}
ROUTES = ("script", "dynamo", "pt2")
EXAMPLES = ("gpt2", "llama", "bert", "vit", "sd3")


def export(module, inputs, route, path):
    # Under no_grad, TorchScript fuses layers into ops that ONNX does not have.
    gradients = torch.set_grad_enabled(route == "script")
    with contextlib.redirect_stdout(io.StringIO()), gradients:
        if route == "script":
            torch.onnx.export(module, tuple(inputs.values()), path, input_names=list(inputs), output_names=["y"],
                              opset_version=17, dynamo=False, dynamic_axes={name: {0: "batch"} for name in inputs})
        elif route == "dynamo":
            torch.onnx.export(module, (), path, kwargs=inputs, dynamo=True, input_names=list(inputs), output_names=["y"],
                              external_data=False, verbose=False)
        else:
            torch.export.save(torch.export.export(module, (), kwargs=inputs, strict=False), path)


# Running and comparing.

class Runner:
    def __init__(self, tools):
        self.tools = tools

    def call(self, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{os.path.basename(words[0])}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")

    def run(self, path, inputs, strategy, ranks, bind=()):
        """{output: array} of one step."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/in")
            for name, value in inputs.items():
                np.save(f"{folder}/in/{name}.npy", value)
            self.call(f"{self.tools}/dpc-opt", path, "--infer", f"--cluster=local:{ranks}", f"--strategy={strategy}", "--verify=off",
                      *bind, "-o", f"{folder}/plan")
            self.call(f"{self.tools}/dpc-run", f"{folder}/plan", f"--inputs={folder}/in", f"--outputs={folder}/out")
            return {name[:-4]: np.load(f"{folder}/out/{name}") for name in os.listdir(f"{folder}/out")}


def bindings(path, inputs):
    """--bind with the symbolic sizes of the file and with the values of whole numbers."""
    words = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        given = inputs[value.name]
        if given.ndim == 0:
            words[value.name] = given.item()
        for d, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:
                words[dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}.{d}"] = given.shape[d]
    return ["--bind=" + ",".join(f"{name}={size}" for name, size in words.items())] if words else []


def difference(got, want):
    """The largest error, relative to the largest expected value."""
    if got.shape != want.shape:
        raise RuntimeError(f"output of shape {got.shape}, expected {want.shape}")
    if not np.isfinite(got).all() or not np.abs(want).max() > 0:
        raise RuntimeError("outputs that say nothing")
    return np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()


def check_file(runner, path, inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    want = dict(zip((output.name for output in session.get_outputs()), session.run(None, inputs)))
    bind = bindings(path, inputs)
    known = {name: value for name, value in inputs.items() if value.ndim > 0}
    got = runner.run(path, known, "dp=1", 1, bind)
    return max(difference(got[name.replace("/", "_")], value) for name, value in want.items())


def check_module(runner, make, name, route):
    torch.manual_seed(0)
    module, inputs = make()
    module.eval()
    with torch.no_grad():
        want = module(**inputs).numpy()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{name}." + ("pt2" if route == "pt2" else "onnx")
        try:
            export(module, inputs, route, path)
        except Exception as error:
            if NOT_EXPORTED.get((name, route), "\0") in str(error):
                return None
            raise
        arrays = {key: value.numpy() for key, value in inputs.items()}
        bind = bindings(path, arrays) if route == "script" else []
        worst = 0.0
        for strategy, ranks in (("dp=1", 1), ("tp=2", 2)):
            (got,) = runner.run(path, arrays, strategy, ranks, bind).values()
            worst = max(worst, difference(got, want))
        return worst


def check_example(tools, name):
    """Trains with examples/train_huggingface.py, which also loads the weights again; returns the largest difference of a loss."""
    example = os.path.join(SOURCE, "examples", "train_huggingface.py")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, example, name, folder, "--tools", tools, "--compare"], capture_output=True, text=True)
    if done.returncode or "has the trained weights" not in done.stdout:
        raise RuntimeError((done.stderr or done.stdout).strip()[-300:])
    return float(re.search(r"largest difference: (\S+)", done.stdout)[1])


def report(name, check, tolerance=TOLERANCE):
    """Prints a line; returns whether the result is good."""
    try:
        worst = check()
    except Exception as error:
        print(f"FAIL {name}: {str(error)[:400]}", flush=True)
        return False
    if worst is None:
        print(f"--   {name}: torch does not export it", flush=True)
        return True
    print(f"{'ok  ' if worst <= tolerance else 'FAIL'} {name}: {worst:.1e}", flush=True)
    return worst <= tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", required=True)
    parser.add_argument("--shipped", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # dpc's tools run at the same time
    runner = Runner(options.tools)
    checks = {name: (lambda file=file, inputs=inputs: check_file(runner, os.path.join(options.shipped, file), inputs))
              for name, (file, inputs) in shipped(np.random.default_rng(0)).items()}
    for name, make in MODULES.items():
        for route in ROUTES:
            checks[f"{name}.{route}"] = lambda name=name, make=make, route=route: check_module(runner, make, name, route)
    for name in EXAMPLES:
        checks[f"train.{name}"] = lambda name=name: check_example(options.tools, name)
    chosen = [name for name in checks if not options.names or any(name.startswith(word) for word in options.names)]
    if not chosen:
        sys.exit(f"no such model; there are: {', '.join(checks)}")
    good = [report(name, checks[name], LOSS_TOLERANCE if name.startswith("train.") else TOLERANCE) for name in chosen]
    print(f"{sum(good)} of {len(good)} models are right")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
