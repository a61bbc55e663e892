#!/usr/bin/env python3
"""Trains a small GPT of dpc-model for two steps as an exported file says, and prints the losses as JSON.

usage: exports_train.py TARGET FOLDER, by torchrun or accelerate launch; FOLDER has exports/, weights.safetensors with the
names of dpc-model, and batches.json with the `ids` and `labels` of each step

Runs on CPUs with gloo. The weights, the batches and the loss function are the same for all targets; the optimizer, the
clipping, the schedule, the micro-batch and the sharding are those that the target reads from its file.
"""
import json
import os
import sys
import tomllib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file

HEADS, RATE = 4, 1e-2


class Linear(torch.nn.Module):
    """Weights are [inputs, outputs] as in the graph."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.zeros(inputs, outputs)), torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def block(**parts):
    return torch.nn.ModuleDict(parts)


class Layer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)
        self.attention = block(qkv=Linear(size, 3 * size), out=Linear(size, size))
        self.ffn = block(up=Linear(size, 4 * size), down=Linear(4 * size, size))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.attention["qkv"](self.norm1(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.attention["out"](seen)
        return x + self.ffn["down"](F.gelu(self.ffn["up"](self.norm2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        rows, size = weights["embedding.weight"].shape
        self.embedding, self.positions = torch.nn.Embedding(rows, size), torch.nn.Embedding(*weights["positions.weight"].shape)
        self.layers = torch.nn.ModuleList(Layer(size) for _ in range(sum(name.endswith("norm1.bias") for name in weights)))
        self.norm = torch.nn.LayerNorm(size)
        self.load_state_dict(weights)

    def forward(self, ids, labels):
        x = self.embedding(ids) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy((self.norm(x) @ self.embedding.weight.T).flatten(0, 1), labels.flatten())


def mine(batches, size):
    """Yields, of each step, the micro-batches of this process."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    for step in batches:
        ids, labels = (torch.tensor(step[name]) for name in ("ids", "labels"))
        share = slice(len(ids) * rank // ranks, len(ids) * (rank + 1) // ranks)
        yield list(zip(ids[share].split(size), labels[share].split(size)))


def mean(losses):
    total = torch.stack([loss.detach().float() for loss in losses]).mean()
    if dist.is_initialized():
        dist.all_reduce(total)
        total /= dist.get_world_size()
    return total.item()


def deepspeed(exports, weights, batches):
    import deepspeed as package
    package.init_distributed(dist_backend="gloo")
    with open(os.path.join(exports, "ds_config.json"), encoding="utf-8") as file:
        config = json.load(file)
    engine, *_ = package.initialize(model=Gpt(weights), config=config)
    for step in mine(batches, config["train_micro_batch_size_per_gpu"]):
        losses = [engine(*part) for part in step]
        for loss in losses:
            engine.backward(loss)
            engine.step()
        yield mean(losses)


def accelerate(exports, weights, batches):
    """Its file names no optimizer, and for FSDP and DDP no largest norm: a remark says so, and the script states them."""
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = Gpt(weights)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01))
    for step in mine(batches, 4):
        losses = [model(*part) for part in step]
        for loss in losses:
            accelerator.backward(loss / len(losses))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield mean(losses)


def torchtitan(exports, weights, batches):
    """torchtitan 0.2.2 reads the optimizer and the mesh; FSDP2, which it calls, shards the model."""
    from torch.distributed.fsdp import fully_shard
    from torchtitan.components.lr_scheduler import build_lr_schedulers
    from torchtitan.components.optimizer import build_optimizers
    from torchtitan.config import job_config
    with open(os.path.join(exports, "torchtitan.toml"), "rb") as file:
        config = tomllib.load(file)
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (config["parallelism"]["data_parallel_shard_degree"],))
    assert mesh.size() == dist.get_world_size()
    model = Gpt(weights)
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh, reshard_after_forward=config["parallelism"]["fsdp_reshard_after_forward"] == "always").set_force_sum_reduction_for_comms(True)
    optimizers = build_optimizers([model], job_config.Optimizer(**{**config["optimizer"], "implementation": "for-loop"}), None)
    schedulers = build_lr_schedulers(optimizers, job_config.LRScheduler(**config["lr_scheduler"]), 1000)
    for step in mine(batches, config["training"]["local_batch_size"]):
        losses = [model(*part) for part in step]
        for loss in losses:
            (loss / len(losses)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["training"]["max_norm"])
        optimizers.step()
        optimizers.zero_grad()
        schedulers.step()
        yield mean(losses)


def megatron(exports, weights, batches):
    import exports_megatron
    yield from exports_megatron.train(os.path.join(exports, "megatron.sh"), weights, mine(batches, 4))


def colossalai(exports, weights, batches):
    """Its file names a plugin with the largest norm, but no optimizer, which the script states."""
    import colossalai as package
    from colossalai.booster import Booster, plugin
    from colossalai.shardformer.policies.base_policy import Policy

    class Unchanged(Policy):
        """The plugin replaces layers of models that it knows; this one keeps its layers."""

        def config_sanity_check(self):
            pass

        def preprocess(self):
            return self.model

        def postprocess(self):
            return self.model

        def module_policy(self):
            return {}

    package.launch_from_torch(backend="gloo", verbose=False)
    with open(os.path.join(exports, "colossalai.json"), encoding="utf-8") as file:
        config = json.load(file)
    booster = Booster(plugin=getattr(plugin, config["plugin"])(**config["kwargs"], custom_policy=Unchanged()))
    model = Gpt(weights)
    model, optimizer, *_ = booster.boost(model, torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01))
    for step in mine(batches, config["batch_size"]):
        losses = [model(*part) for part in step]
        for loss in losses:
            booster.backward(loss / len(losses), optimizer)
        optimizer.step()
        optimizer.zero_grad()
        yield mean(losses)


def main():
    target, folder = sys.argv[1:]
    torch.set_num_threads(1)
    with open(os.path.join(folder, "batches.json"), encoding="utf-8") as file:
        batches = json.load(file)
    weights = {name: value for name, value in load_file(os.path.join(folder, "weights.safetensors")).items() if not name.startswith("const_")}
    losses = list(globals()[target](os.path.join(folder, "exports"), weights, batches))
    if int(os.environ.get("RANK", 0)) == 0:
        print("losses", json.dumps(losses))


if __name__ == "__main__":
    main()
