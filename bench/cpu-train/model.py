"""The models that both programs train. Their forward passes return the loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 4, 256, 4, 128, 8, 8192
ADAMW = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.reshape(-1))


class Mixture(nn.Module):
    """A Mixtral of transformers with 8 experts, of which each token has 2."""

    def __init__(self):
        super().__init__()
        from transformers import AutoModelForCausalLM, MixtralConfig
        self.inner = AutoModelForCausalLM.from_config(MixtralConfig(
            vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=5, num_attention_heads=HEADS,
            num_key_value_heads=2, max_position_embeddings=CONTEXT, num_local_experts=8, num_experts_per_tok=2, use_cache=False,
            pad_token_id=None))

    def forward(self, ids, labels):
        return F.cross_entropy(self.inner(input_ids=ids).logits.flatten(0, 1), labels.flatten())


def make_model(name):
    torch.manual_seed(1)
    return {"gpt": Gpt, "mixture": Mixture}[name]()


def make_batches(steps):
    """Returns ids and labels of shape [steps, batch, length]: the same random batch in every step."""
    random = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1), generator=random)
    repeat = lambda part: part.unsqueeze(0).expand(steps, -1, -1).contiguous()
    return repeat(tokens[:, :-1]), repeat(tokens[:, 1:])
