"""Builds and trains what megatron.sh describes, with megatron-core; exports_targets.py calls it.

The package has megatron.core but not the programs that parse flags. The tables below say which field of its configuration
each flag sets (megatron/training/arguments.py); a flag outside of all tables is an error.
"""
import contextlib
import re

import torch
import torch.nn.functional as F

# Flag: field of TransformerConfig, and how its value is read.
CONFIG = {"num-layers": ("num_layers", int), "hidden-size": ("hidden_size", int), "ffn-hidden-size": ("ffn_hidden_size", int),
          "num-attention-heads": ("num_attention_heads", int), "kv-channels": ("kv_channels", int), "num-query-groups": ("num_query_groups", int),
          "norm-epsilon": ("layernorm_epsilon", float), "normalization": ("normalization", str), "attention-dropout": ("attention_dropout", float),
          "hidden-dropout": ("hidden_dropout", float), "num-experts": ("num_moe_experts", int), "moe-ffn-hidden-size": ("moe_ffn_hidden_size", int),
          "moe-router-topk": ("moe_router_topk", int), "moe-shared-expert-intermediate-size": ("moe_shared_expert_intermediate_size", int),
          "moe-layer-freq": ("moe_layer_freq", lambda text: eval(text.strip('"'), {})), "moe-router-load-balancing-type": ("moe_router_load_balancing_type", str),
          "moe-token-dispatcher-type": ("moe_token_dispatcher_type", str), "moe-expert-capacity-factor": ("moe_expert_capacity_factor", float),
          "moe-token-drop-policy": ("moe_token_drop_policy", str), "recompute-granularity": ("recompute_granularity", str),
          "recompute-method": ("recompute_method", str), "recompute-num-layers": ("recompute_num_layers", int)}
# Flag without a value: fields of TransformerConfig.
SWITCHES = {"group-query-attention": {}, "disable-bias-linear": {"add_bias_linear": False}, "add-qkv-bias": {"add_qkv_bias": True},
            "swiglu": {"gated_linear_unit": True, "activation_func": F.silu}, "no-bias-gelu-fusion": {"bias_activation_fusion": False},
            "qk-layernorm": {"qk_layernorm": True}, "moe-router-pre-softmax": {"moe_router_pre_softmax": True}}
# Flag: argument of GPTModel.
MODEL = {"vocab-size": ("vocab_size", int), "max-position-embeddings": ("max_sequence_length", int), "position-embedding-type": ("position_embedding_type", str),
         "rotary-base": ("rotary_base", int), "untie-embeddings-and-output-weights": ("share_embeddings_and_output_weights", lambda _: False)}
# Flag: field of OptimizerConfig.
OPTIMIZER = {"optimizer": ("optimizer", str), "lr": ("lr", float), "min-lr": ("min_lr", float), "weight-decay": ("weight_decay", float),
             "sgd-momentum": ("sgd_momentum", float), "adam-beta1": ("adam_beta1", float), "adam-beta2": ("adam_beta2", float), "adam-eps": ("adam_eps", float),
             "clip-grad": ("clip_grad", float), "loss-scale": ("loss_scale", float), "initial-loss-scale": ("initial_loss_scale", float),
             "loss-scale-window": ("loss_scale_window", float), "hysteresis": ("hysteresis", int), "bf16": ("bf16", lambda _: True), "fp16": ("fp16", lambda _: True)}
SCHEDULE = {"lr-decay-style", "lr-warmup-iters", "lr-decay-iters"}
# Flags that divide the work over ranks: one rank builds the whole model.
PLAN = {"tensor-model-parallel-size", "pipeline-model-parallel-size", "sequence-parallel", "tp-comm-overlap", "context-parallel-size", "cp-comm-type",
        "expert-model-parallel-size", "expert-tensor-parallel-size", "pipeline-model-parallel-layout", "num-virtual-stages-per-pipeline-rank",
        "use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather", "use-megatron-fsdp", "data-parallel-sharding-strategy", "ckpt-format",
        "num-distributed-optimizer-instances", "optimizer-cpu-offload", "use-precision-aware-optimizer", "use-tp-pp-dp-mapping", "micro-batch-size",
        "global-batch-size", "seq-length", "make-vocab-size-divisible-by"}


def flags_of(path):
    with open(path, encoding="utf-8") as file:
        flags = dict(re.findall(r"^  --([\w-]+)(?: (.+?))?(?: \\)?$", file.read(), re.M))
    unknown = set(flags) - set(CONFIG) - set(SWITCHES) - set(MODEL) - set(OPTIMIZER) - SCHEDULE - PLAN
    assert not unknown, f"no table has {sorted(unknown)}"
    return flags


def taken(flags, table):
    return {table[flag][0]: table[flag][1](value) for flag, value in flags.items() if flag in table}


def start():
    """One process is the whole job."""
    from megatron.core import parallel_state
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        parallel_state.initialize_model_parallel()


def build(flags):
    """As megatron's gpt_builders.py, with its layers for PyTorch alone."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig
    start()
    fields = taken(flags, CONFIG)
    for flag in set(flags) & set(SWITCHES):
        fields.update(SWITCHES[flag])
    # The defaults of the programs where they differ from those of the class.
    biased = fields.get("add_bias_linear", True)
    config = TransformerConfig(**{"bias_activation_fusion": biased and "swiglu" not in flags, "bias_dropout_fusion": False, "use_cpu_initialization": True,
                                  "perform_initialization": True, **fields})
    if "num-experts" in flags:
        from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher
        MoEAlltoAllTokenDispatcher.cuda_dtoh_stream = "none"  # the constructor makes one on a GPU
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
    else:
        spec = get_gpt_layer_local_spec(qk_layernorm=config.qk_layernorm, normalization=config.normalization)
    return GPTModel(config, spec, **{"share_embeddings_and_output_weights": True, **taken(flags, MODEL)})


def scheduled(flags, groups):
    """OptimizerParamScheduler with the arguments that get_optimizer_param_scheduler (megatron/training) gives it."""
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    batch = int(flags["global-batch-size"])
    optimizer = type("Optimizer", (), {"param_groups": groups})()
    steps = int(flags.get("lr-decay-iters", 1000))
    return OptimizerParamScheduler(optimizer, init_lr=0.0, max_lr=float(flags["lr"]), min_lr=float(flags.get("min-lr", 0)),
                                   lr_warmup_steps=int(flags.get("lr-warmup-iters", 0)) * batch, lr_decay_steps=steps * batch,
                                   lr_decay_style=flags["lr-decay-style"], start_wd=float(flags["weight-decay"]), end_wd=float(flags["weight-decay"]),
                                   wd_incr_steps=steps, wd_incr_style="constant")


def optimizer_of(flags):
    """What OptimizerConfig and OptimizerParamScheduler read: the arguments of exports_targets.check_optimizer."""
    from megatron.core.optimizer import OptimizerConfig
    config = OptimizerConfig(**taken(flags, OPTIMIZER))
    read = {"lr": config.lr, "weight_decay": config.weight_decay}
    read.update({"momentum": config.sgd_momentum} if config.optimizer == "sgd" else
                {"betas": (config.adam_beta1, config.adam_beta2), "eps": config.adam_eps})
    group = {"lr": 0.0, "weight_decay": 0.0}
    scheduler = scheduled(flags, [group])
    rates = []
    for _ in range(40):
        rates.append(group["lr"])
        scheduler.step(increment=int(flags["global-batch-size"]))
    return read, config.clip_grad, rates


def load(model, weights, heads):
    """Gives the model the weights of dpc-model: Megatron-LM's are [outputs, inputs], and q, k and v of a head follow each other."""
    state = {"embedding.word_embeddings.weight": weights["embedding.weight"], "embedding.position_embeddings.weight": weights["positions.weight"],
             "decoder.final_layernorm.weight": weights["norm.weight"], "decoder.final_layernorm.bias": weights["norm.bias"]}
    names = {"attention.out": "self_attention.linear_proj", "ffn.up": "mlp.linear_fc1", "ffn.down": "mlp.linear_fc2", "norm1": "input_layernorm",
             "norm2": "pre_mlp_layernorm", "attention.qkv": "self_attention.linear_qkv"}
    for name, value in weights.items():
        found = re.fullmatch(r"layers\.(\d+)\.(.*)\.(weight|bias)", name)
        if not found:
            continue
        value = value.T
        if found[2] == "attention.qkv":
            value = value.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2)
        state[f"decoder.layers.{found[1]}.{names[found[2]]}.{found[3]}"] = value
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("_extra_state" in name for name in missing), (missing, unexpected)


def train(path, weights, steps):
    """Yields the loss of each step. The optimizer is the one that megatron.core.optimizer falls back to without Apex; it decays no vectors."""
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker
    torch.cuda.current_device = lambda: "cpu"  # attention makes its buffers there
    CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()  # the file says that nothing is dropped
    flags = flags_of(path)
    model = build(flags)
    load(model, weights, int(flags["num-attention-heads"]))
    config = OptimizerConfig(**taken(flags, OPTIMIZER))
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    optimizer = torch.optim.AdamW([{"params": others}, {"params": vectors, "weight_decay": 0.0}], lr=config.lr, betas=(config.adam_beta1, config.adam_beta2),
                                  eps=config.adam_eps, weight_decay=config.weight_decay)
    for step in steps:
        losses = []
        for ids, labels in step:
            positions = torch.arange(ids.shape[1]).expand_as(ids)
            mask = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
            losses.append(model(ids, positions, mask, labels=labels).mean())
            (losses[-1] / len(step)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_grad)
        optimizer.step()
        optimizer.zero_grad()
        yield torch.stack(losses).mean().item()
