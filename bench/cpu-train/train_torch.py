#!/usr/bin/env python3
"""Trains a model in PyTorch and prints one JSON line: train_torch.py MODEL RANKS STEPS [--compile]

Runs in fp32, eagerly or with torch.compile, and with one thread per rank; two or more ranks use DistributedDataParallel over gloo.
"""
import json
import os
import socket
import sys
import time

import torch
import torch.multiprocessing

from model import ADAMW, BATCH, make_batches, make_model


def train(rank, name, ranks, steps, port, compiles):
    torch.set_num_threads(1)
    model = make_model(name)
    network = model
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
        network = torch.nn.parallel.DistributedDataParallel(model)
    if compiles:
        network = torch.compile(network)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    share = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    ids, labels = (part[0, share] for part in make_batches(1))
    seconds, losses = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = network(ids, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        seconds.append(time.perf_counter() - begin)
    last = losses[-1]
    if ranks > 1:
        torch.distributed.all_reduce(last)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "loss": last.item() / ranks,
                          "version": torch.__version__}))
    if ranks > 1:
        torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    name, ranks, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    compiles = "--compile" in sys.argv
    if ranks == 1:
        train(0, name, 1, steps, 0, compiles)
    else:
        torch.multiprocessing.spawn(train, (name, ranks, steps, free_port(), compiles), nprocs=ranks)
