"""The training runs to measure on a GPU: models of dpc-model on one device, at realistic sizes."""
from dataclasses import dataclass

GPT2 = ("gpt", "--layers=12", "--hidden=768", "--heads=12", "--vocab=50304", "--seq=1024")
GPT2_MEDIUM = ("gpt", "--layers=24", "--hidden=1024", "--heads=16", "--vocab=50304", "--seq=1024")
LLAMA_1B = ("llama", "--layers=16", "--hidden=2048", "--heads=32", "--kv-heads=8", "--ffn=8192", "--vocab=128256", "--seq=2048", "--tied")
BERT_LARGE = ("bert", "--layers=24", "--hidden=1024", "--heads=16", "--seq=512")
VIT_BASE = ("vit", "--layers=12", "--hidden=768", "--heads=12")

# The AdamW of PyTorch has the same parameters.
ADAMW = {"lr": 3e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}


@dataclass(frozen=True)
class Case:
    name: str
    model: tuple            # words of dpc-model
    batch: int              # samples per step
    precision: str = "bf16"
    strategy: str = ""      # besides dp=1
    torch: str = ""         # the class of torch_models.py to compare with

    @property
    def full_strategy(self):
        return "dp=1" + ("," + self.strategy if self.strategy else "")


CASES = [
    Case("gpt2", GPT2, 32, torch="Gpt"),
    Case("llama-1b", LLAMA_1B, 4, torch="Llama"),
    Case("gpt2-8", GPT2, 8),
    Case("gpt2-micro-batches", GPT2, 32, strategy="micro_batch=8"),
    Case("gpt2-recompute", GPT2, 32, strategy="recompute=full"),
    Case("gpt2-fp32", GPT2, 4, precision="fp32"),
    Case("gpt2-medium", GPT2_MEDIUM, 8),
    Case("llama-1b-fp8", LLAMA_1B, 4, precision="fp8"),
    Case("bert-large", BERT_LARGE, 16),
    Case("vit-base", VIT_BASE, 64),
]


def sizes(model):
    """Returns {"layers": 12, ...} for the words of dpc-model."""
    return {key.replace("-", "_"): int(value) for key, _, value in (word.lstrip("-").partition("=") for word in model[1:]) if value}


def named(name):
    return next(case for case in CASES if case.name == name)
