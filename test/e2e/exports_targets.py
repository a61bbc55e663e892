#!/usr/bin/env python3
"""Reads exported files with their target's own code; exports_installed.py runs it in an environment that has the code.

usage: exports_targets.py ENVIRONMENT accelerate|colossalai|deepspeed|megatron|torchtitan RANKS:FOLDER...
       exports_targets.py CHECKOUT calculon RANKS:FOLDER...
       exports_targets.py SCHEMA.proto chakra RANKS:FOLDER...
"""
import dataclasses
import json
import logging
import os
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
import types


def job_of(folder):
    with open(os.path.join(folder, os.pardir, os.pardir, "job.json"), encoding="utf-8") as stream:
        return json.load(stream)


def check_optimizer(folder, file, optimizer=None, clip=None, rates=None):
    """Compares what a target reads with what the options said: the optimizer, the largest norm of gradients, and the learning rates of the first steps.

    What the target does not read, a remark says is not expressed. Rates differ at most where a remark says so.
    """
    job = job_of(folder)
    with open(os.path.join(folder, os.pardir, "report.json"), encoding="utf-8") as stream:
        remarks = "\n".join(text for text in json.load(stream)["remarks"] if text.startswith(file))
    said = {"optimizer": "AdamW (" in remarks or "SGD (" in remarks, "clip": "--clip-grad-norm=" in remarks, "rates": re.search(r"not expressed:.*--lr-schedule=", remarks) is not None}
    differing = re.search(r"in the first (\d+) steps, the learning rates of .* by up to lr / (\d+) ", remarks)
    steps, part = map(int, differing.groups()) if differing else (0, 1)
    assert steps <= job["warmup"] + 1, remarks
    read = {"optimizer": optimizer, "clip": clip, "rates": rates}
    for key, value in read.items():
        wanted = key != "rates" or job["varies"] or value is not None
        assert (value is None) == (said[key] or not wanted), f"{key}: read {value}, remarks: {remarks}"
    if optimizer is not None:
        expected = {key: tuple(value) if isinstance(value, list) else value for key, value in job["optimizer"].items() if key != "name"}
        assert optimizer == expected, f"{optimizer} is not {expected}"
    assert clip is None or clip == job["clip"], clip
    for i, (theirs, ours) in enumerate(zip(rates or [], job["rates"])):
        most = job["optimizer"]["lr"] * (1 / part + 1e-9 if i < steps else 1e-9)
        assert abs(theirs - ours) <= most, f"step {i + 1}: {theirs}, not {ours}"


def rates_of(optimizer, scheduler, steps=40):
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return rates


def read_group(group):
    """The settings of a group of parameters of torch.optim."""
    keys = ("lr", "betas", "eps", "weight_decay") if "betas" in group else ("lr", "momentum", "weight_decay")
    return {key: tuple(group[key]) if key == "betas" else group[key] for key in keys}


def accelerate(ranks, folder):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    config = load_config_from_file(os.path.join(folder, "accelerate.yaml"))
    assert config.num_processes == ranks, config
    sizes = {key.removeprefix("parallelism_config_"): value for key, value in config.parallelism_config.items()}
    if sizes:
        names = {field.name for field in dataclasses.fields(ParallelismConfig)}
        parallelism = ParallelismConfig(**{key: value for key, value in sizes.items() if key in names})
        assert parallelism.total_size == ranks or sizes.get("sp_size", 1) > 1, parallelism
        fsdp = config.distributed_type.value == "FSDP"
        assert not fsdp or parallelism.dp_shard_enabled or parallelism.cp_enabled, "FSDP has nothing to split over"
    clip = config.deepspeed_config.get("gradient_clipping") or config.megatron_lm_config.get("megatron_lm_gradient_clipping")
    check_optimizer(folder, "accelerate.yaml", clip=clip)
    if config.megatron_lm_config:
        degrees = [config.megatron_lm_config.get("megatron_lm_" + key, 1) for key in ("tp_degree", "pp_degree", "context_parallel_size")]
        assert ranks % (degrees[0] * degrees[1] * degrees[2]) == 0


def deepspeed(ranks, folder):
    from deepspeed.runtime import config as module
    module.dist.get_rank = lambda: 0  # as if a process group existed
    path = os.path.join(folder, "ds_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    split = config.get("tensor_parallel", {}).get("autotp_size", 1) * config.get("pipeline", {}).get("stages", 1) * config.get("sequence_parallel_size", 1)
    data = ranks // split
    read = module.DeepSpeedConfig(path, mpu=types.SimpleNamespace(get_data_parallel_world_size=lambda: data))
    import torch
    from deepspeed.runtime import lr_schedules
    optimizer = getattr(torch.optim, read.optimizer_name.replace("adamw", "AdamW").replace("sgd", "SGD"))([torch.nn.Parameter(torch.zeros(1))], **read.optimizer_params)
    settings = read_group(optimizer.param_groups[0])
    rates = None
    if "scheduler" in config:
        rates = rates_of(optimizer, getattr(lr_schedules, read.scheduler_name)(optimizer, **read.scheduler_params))
    check_optimizer(folder, "ds_config.json", settings, read.gradient_clipping, rates)
    assert read.world_size == data and read.zero_optimization_stage == config["zero_optimization"]["stage"]


def colossalai(ranks, folder):
    """The constructor of the plugin takes the arguments; a remark says that the optimizer is the script's."""
    import inspect
    from colossalai.booster import plugin
    with open(os.path.join(folder, "colossalai.json"), encoding="utf-8") as file:
        config = json.load(file)
    inspect.signature(getattr(plugin, config["plugin"])).bind(**config["kwargs"])
    check_optimizer(folder, "colossalai.json", clip=config["kwargs"]["max_norm"])


def megatron(ranks, folder):
    """The constructors of megatron-core build as many parameters as the report states."""
    import exports_megatron
    flags = exports_megatron.flags_of(os.path.join(folder, "megatron.sh"))
    with open(os.path.join(folder, os.pardir, "report.json"), encoding="utf-8") as file:
        expected = json.load(file)["parameters"]["count"]
    built = sum(parameter.numel() for parameter in exports_megatron.build(flags).parameters())
    check_optimizer(folder, "megatron.sh", *exports_megatron.optimizer_of(flags))
    assert built == expected, f"Megatron-LM builds {built} parameters, the model has {expected}"


def with_torchtitan(version, environment):
    """Restarts this program with one of the versions first in the path; both have the same module name."""
    path = os.path.join(environment, f"torchtitan-{version}")
    done = subprocess.run([sys.executable, __file__, environment, f"torchtitan-{version}", *sys.argv[3:]], env=dict(os.environ, PYTHONPATH=path))
    assert done.returncode == 0, version


class Held:
    """A container of one optimizer, for torchtitan's schedulers."""

    def __init__(self, model, lr):
        import torch
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=lr)]

    def __iter__(self):
        return iter(self.optimizers)

    def __len__(self):
        return 1


def torchtitan_toml(ranks, folder):
    from torchtitan.config import job_config
    from torchtitan.distributed import ParallelDims
    path = os.path.join(folder, "torchtitan.toml")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        config = tomllib.load(file)
    sections = {field.name: field for field in dataclasses.fields(job_config.JobConfig)}
    for name, values in config.items():
        getattr(job_config, sections[name].type.__name__ if isinstance(sections[name].type, type) else sections[name].type)(**values)
    import torch
    from torchtitan.components import lr_scheduler, optimizer
    settings = None
    model = torch.nn.Linear(1, 1)
    if "optimizer" in config:
        settings = read_group(optimizer.build_optimizers([model], job_config.Optimizer(**{**config["optimizer"], "implementation": "for-loop"}), None).optimizers[0].param_groups[0])
    held = Held(model, (settings or job_of(folder)["optimizer"])["lr"])
    rates = rates_of(held.optimizers[0], lr_scheduler.build_lr_schedulers(held, job_config.LRScheduler(**config["lr_scheduler"]), 1000))
    check_optimizer(folder, "torchtitan.py", settings, config["training"]["max_norm"], rates)
    parallelism = job_config.Parallelism(**config["parallelism"])
    ParallelDims(parallelism.data_parallel_replicate_degree, parallelism.data_parallel_shard_degree, parallelism.context_parallel_degree,
                 parallelism.tensor_parallel_degree, parallelism.pipeline_parallel_degree, parallelism.expert_parallel_degree,
                 parallelism.expert_tensor_parallel_degree, ranks)


def torchtitan_recipe(ranks, folder):
    from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.distributed import ParallelDims

    @dataclasses.dataclass(kw_only=True)
    class Config:  # only the fields that the recipe uses
        training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
        parallelism: ParallelismConfig = dataclasses.field(default_factory=ParallelismConfig)
        optimizer: OptimizersContainer.Config = dataclasses.field(default_factory=OptimizersContainer.Config)
        lr_scheduler: LRSchedulersContainer.Config = dataclasses.field(default_factory=LRSchedulersContainer.Config)
        activation_checkpoint: object = None

    config = runpy.run_path(os.path.join(folder, "torchtitan.py"))["with_plan"](Config())
    import torch
    model = torch.nn.Linear(1, 1)
    groups, settings = config.optimizer.param_groups, None
    if groups:
        built = dataclasses.replace(config.optimizer, implementation="for-loop").build(model_parts=[model])
        settings = read_group(built.optimizers[0].param_groups[0])
    held = Held(model, (settings or job_of(folder)["optimizer"])["lr"])
    rates = rates_of(held.optimizers[0], config.lr_scheduler.build(optimizers=held, training_steps=1000))
    check_optimizer(folder, "torchtitan.py", settings, config.training.max_norm, rates)
    dims = ParallelDims.from_config(config.parallelism, ranks)
    assert dims.world_size == ranks


def calculon(ranks, folder):
    """Calculon itself compiles and runs the execution, on a system whose networks are as large as necessary."""
    sys.path.insert(0, sys.argv[1])
    import calculon as package
    from calculon.llm import Llm
    parts = {}
    for name in ("application", "execution"):
        with open(os.path.join(folder, f"calculon-{name}.json"), encoding="utf-8") as file:
            parts[name] = json.load(file)
    execution = Llm.Execution.from_json(parts["execution"])
    assert execution.num_procs == ranks and execution.get_json() == parts["execution"]
    with open(os.path.join(sys.argv[1], "systems", "a100_80g.json"), encoding="utf-8") as file:
        config = json.load(file)
    network = dict(config["networks"][0], size=ranks, must_be_filled=False)
    config["networks"] = [network] * max(len(config["networks"]), 1 + max(parts["execution"][f"{axis}_par_net"] for axis in ("tensor", "pipeline", "data")))
    system = package.System(config)
    model = Llm(Llm.Application(parts["application"]), logging.getLogger())
    model.compile(system, execution)
    model.run(system)
    assert model.get_total_time() > 0


def messages(data):
    """Each message follows its length."""
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            size |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
        yield data[at:at + size]
        at += size


def chakra_classes(schema):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", f"--proto_path={os.path.dirname(schema)}", f"--descriptor_set_out={file.name}", schema], check=True)
        described = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    added = pool.Add(described.file[0]) or pool.FindFileByName(described.file[0].name)
    return [message_factory.GetMessageClass(added.message_types_by_name[name]) for name in ("GlobalMetadata", "Node")]


def chakra(ranks, folder):
    """protobuf reads every rank's trace with the schema: there are no unknown fields or values, and nodes follow the nodes that they wait for."""
    from google.protobuf import unknown_fields
    metadata, node_class = chakra_classes(sys.argv[1])
    for rank in range(ranks):
        with open(os.path.join(folder, f"chakra.{rank}.et"), "rb") as file:
            parts = list(messages(file.read()))
        assert metadata.FromString(parts[0]).version
        ids = set()
        for part in parts[1:]:
            node = node_class.FromString(part)
            assert not unknown_fields.UnknownFieldSet(node) and not any(map(unknown_fields.UnknownFieldSet, node.attr)), node
            kinds = node_class.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
            assert node.type in kinds and kinds[node.type].name != "INVALID_NODE", node
            assert node.name and all(attribute.name and attribute.WhichOneof("value") for attribute in node.attr), node
            assert ids.issuperset(node.data_deps) and ids.issuperset(node.ctrl_deps) and node.id not in ids, node
            ids.add(node.id)
        assert ids, rank


def main():
    environment, target, *words = sys.argv[1:]
    readers = {"accelerate": accelerate, "deepspeed": deepspeed, "torchtitan-0.2.2": torchtitan_toml, "torchtitan-0.3.0": torchtitan_recipe, "megatron": megatron, "colossalai": colossalai,
               "calculon": calculon, "chakra": chakra}
    if target == "torchtitan":
        for version in ("0.2.2", "0.3.0"):
            with_torchtitan(version, environment)
    else:
        for word in words:
            ranks, _, folder = word.partition(":")
            try:
                readers[target](int(ranks), folder)
            except BaseException:
                print(f"{target}: {folder}: ", os.listdir(folder), file=sys.stderr)
                raise
    print(f"{len(words)} read")


if __name__ == "__main__":
    main()
