#!/usr/bin/env python3
"""Trains a case in PyTorch: torch.compile, bf16 autocast, fused AdamW on fp32 weights.

    train_torch.py CASE BATCHES [--device=cuda]

BATCHES holds ids.npy and labels.npy, [1, batch, length]. For every line "N" on stdin it runs N steps and prints one
JSON line {"seconds": of all steps, "loss": the last}. The host waits only after the last step, so that it prepares
steps while others run. A line "free" restores the initial weights and returns unused memory to the device.
"""
import argparse
import json
import sys
import time

import numpy
import torch

import torch_models
from cases import ADAMW, named, sizes


def make_step(case, device):
    """Returns a function that runs one step, and one that restores the initial weights."""
    torch.manual_seed(1)
    model = getattr(torch_models, case.torch)(**sizes(case.model)).to(device)
    with torch.no_grad():
        for weight in model.parameters(): # the distribution of dpc-run --init=random, for every weight
            weight.normal_(std=0.02)
    initial = [weight.detach().cpu() for weight in model.parameters()]
    rate, betas, decay = ADAMW["lr"], (ADAMW["beta1"], ADAMW["beta2"]), ADAMW["weight_decay"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=betas, eps=ADAMW["eps"], weight_decay=decay, fused=True)
    network = torch.compile(model) if device == "cuda" else model

    def step(ids, labels):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = network(ids, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def restore():
        with torch.no_grad():
            for weight, value in zip(model.parameters(), initial):
                weight.copy_(value)
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()
    return step, restore


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case")
    parser.add_argument("batches")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    ids, labels = (torch.from_numpy(numpy.load(f"{options.batches}/{name}.npy")[0]).to(options.device) for name in ("ids", "labels"))
    step, restore = make_step(named(options.case), options.device)
    for line in map(str.strip, sys.stdin):
        if line == "free":
            restore()
            if options.device == "cuda":
                torch.cuda.empty_cache()
            continue
        wait()
        begin = time.perf_counter()
        for _ in range(int(line)):
            loss = step(ids, labels)
        wait()
        print(json.dumps({"seconds": time.perf_counter() - begin, "loss": loss.item(), "version": torch.__version__}), flush=True)

main()
