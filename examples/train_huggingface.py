#!/usr/bin/env python3
"""Trains a Hugging Face model from its config to weights that its library loads: train_huggingface.py NAME FOLDER

    python3 examples/train_huggingface.py gpt2 mine --ranks=4                  (needs torch, transformers, safetensors)
    python3 examples/train_huggingface.py sd3 mine --strategy=dp=2,tp=2 --ranks=4                   (needs diffusers too)

NAME is gpt2, llama, bert, vit or sd3: small models with random weights, whose config you can replace. The steps:

1. export the module and its loss to FOLDER/model.pt2, with a symbolic batch size;
2. write batches as FOLDER/batches/INPUT.npy, [steps, global batch, ...];
3. `dpc-opt` searches a strategy, or uses yours, and writes FOLDER/plan;
4. `dpc-run` trains on that many ranks and saves FOLDER/trained.safetensors;
5. rename the weights to the library's names, write FOLDER/trained/ with save_pretrained, and load it with
   from_pretrained.

With --compare, torch trains the same model on the same batches, and the losses are printed side by side.
"""
import argparse
import json
import pathlib
import subprocess

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

STEPS, BATCH, LENGTH, VOCABULARY, CLASSES = 10, 8, 32, 512, 10
SIZES = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


class LanguageLoss(nn.Module):
    """A model whose forward pass returns the loss, as dpc requires for training."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


class ClassLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels):
        return self.model(pixel_values=pixel_values, labels=labels).loss


class FlowLoss(nn.Module):
    """The loss of rectified flow: the transformer predicts the direction from the latents to the noise."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, latents, text, pooled, timestep, target):
        predicted = self.model(hidden_states=latents, encoder_hidden_states=text, pooled_projections=pooled,
                               timestep=timestep, return_dict=False)[0]
        return F.mse_loss(predicted, target)


def language_model(name, **sizes):
    """Returns a decoder or BERT model of the transformers library, and batches of token ids."""
    import transformers
    classes = {"gpt2": ("GPT2LMHeadModel", "GPT2Config"), "llama": ("LlamaForCausalLM", "LlamaConfig"),
               "bert": ("BertForMaskedLM", "BertConfig")}[name]
    config = getattr(transformers, classes[1])(vocab_size=VOCABULARY, **sizes)
    config.use_cache = False
    ids = torch.randint(0, VOCABULARY, (STEPS, BATCH, LENGTH))
    return LanguageLoss(getattr(transformers, classes[0])(config)), {"input_ids": ids, "labels": ids}


def vit():
    import transformers
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=CLASSES, **SIZES)
    return ClassLoss(transformers.ViTForImageClassification(config)), {
        "pixel_values": torch.randn(STEPS, BATCH, 3, 32, 32), "labels": torch.randint(0, CLASSES, (STEPS, BATCH))}


def sd3():
    import diffusers
    model = diffusers.SD3Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=4,
        joint_attention_dim=32, caption_projection_dim=64, pooled_projection_dim=48, out_channels=4, pos_embed_max_size=16)
    return FlowLoss(model), {
        "latents": torch.randn(STEPS, BATCH, 4, 16, 16), "text": torch.randn(STEPS, BATCH, 12, 32),
        "pooled": torch.randn(STEPS, BATCH, 48), "timestep": torch.rand(STEPS, BATCH) * 1000,
        "target": torch.randn(STEPS, BATCH, 4, 16, 16)}


MODELS = {
    "gpt2": lambda: language_model("gpt2", n_layer=2, n_embd=64, n_head=4, n_positions=LENGTH),
    "llama": lambda: language_model("llama", num_key_value_heads=2, **SIZES),
    "bert": lambda: language_model("bert", **SIZES),
    "vit": vit,
    "sd3": sd3,
}


def export(module, batches, path):
    first = {name: value[0] for name, value in batches.items()}
    batch = torch.export.Dim("batch", min=2, max=1 << 20)
    program = torch.export.export(module, (), kwargs=first, dynamic_shapes={name: {0: batch} for name in first}, strict=False)
    torch.export.save(program, path)


def write_batches(folder, batches):
    folder.mkdir(exist_ok=True)
    for name, value in batches.items():
        np.save(folder / f"{name}.npy", value.numpy())


def call(*words):
    print("$", *words)
    subprocess.run([str(word) for word in words], check=True)


def give_back(model, trained, folder):
    """Loads trained weights into the model of the library, saves the model and loads it again."""
    prefix = "model."  # the prefix of the wrapper that adds the loss
    weights = {name.removeprefix(prefix): value for name, value in load_file(trained).items()}
    own = model.state_dict()
    # --save-params writes a tied weight under each of its names, --export only under the first one.
    tensors = {id(value): name for name, value in model.named_parameters(remove_duplicate=False) if name in weights}
    for name, value in model.named_parameters(remove_duplicate=False):
        own[name] = weights[tensors[id(value)]]
    model.load_state_dict(own)
    model.save_pretrained(folder)
    again = type(model).from_pretrained(folder)
    for name, value in again.state_dict().items():
        assert torch.equal(value, own[name]), name
    return again


def torch_losses(module, batches):
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        loss = module(**{name: value[step] for name, value in batches.items()})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--tools", type=pathlib.Path, default=REPOSITORY / "build" / "bin")
    parser.add_argument("--compare", action="store_true", help="also train with torch")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    module, batches = MODELS[options.name]()
    module.eval()  # no dropout
    export(module, batches, folder / "model.pt2")
    write_batches(folder / "batches", batches)
    call(options.tools / "dpc-opt", folder / "model.pt2", f"--cluster=local:{options.ranks}", f"--global-batch={BATCH}",
         f"--strategy={options.strategy}", "--train=adamw", "--lr=1e-3", "-o", folder / "plan")
    call(options.tools / "dpc-run", folder / "plan", f"--batches={folder / 'batches'}", f"--steps={STEPS}",
         f"--metrics={folder / 'metrics.jsonl'}", f"--save-params={folder / 'trained.safetensors'}")

    losses = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if options.compare:
        expected = torch_losses(module, batches)
        for step, (got, want) in enumerate(zip(losses, expected)):
            print(f"step {step + 1:2d}   dpc {got:.6f}   torch {want:.6f}")
        print(f"largest difference: {max(abs(g / w - 1) for g, w in zip(losses, expected)):.1e}")
    again = give_back(module.model, folder / "trained.safetensors", folder / "trained")
    print(f"{type(again).__name__}.from_pretrained({str(folder / 'trained')!r}) has the trained weights")


if __name__ == "__main__":
    main()
