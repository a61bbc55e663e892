"""The models of dpc-model in PyTorch, with the same layers, loss, sizes and initial standard deviations."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoder(nn.Module):
    """Blocks between an embedding and a head. The two share one weight."""

    def __init__(self, vocab, hidden, blocks, norm):
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def initialize(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
        return self

    def end(self, x, labels, *words):
        for block in self.blocks:
            x = block(x, *words)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.reshape(-1))


class GptBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        split = lambda part: part.view(batch, length, self.heads, -1).transpose(1, 2)
        q, k, v = map(split, self.qkv(self.norm1(x)).split(hidden, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(Decoder):
    def __init__(self, layers, hidden, heads, vocab, seq):
        super().__init__(vocab, hidden, (GptBlock(hidden, heads) for _ in range(layers)), nn.LayerNorm(hidden))
        self.positions = nn.Embedding(seq, hidden)
        self.initialize()

    def forward(self, ids, labels):
        return self.end(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)), labels)


def rotate(x, cosines, sines):
    """Applies RoPE to x [batch, heads, length, head]: the two halves of a head are the real and imaginary parts."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, hidden // heads
        self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.q, self.k, self.v = (linear(hidden, n * self.head) for n in (heads, kv_heads, kv_heads))
        self.o = linear(hidden, hidden)
        self.gate, self.up, self.down = linear(hidden, ffn), linear(hidden, ffn), linear(ffn, hidden)

    def forward(self, x, angles):
        batch, length, hidden = x.shape
        y = self.norm1(x)
        split = lambda part: part.view(batch, length, -1, self.head).transpose(1, 2)
        q, k, v = rotate(split(self.q(y)), *angles), rotate(split(self.k(y)), *angles), split(self.v(y))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, hidden))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(Decoder):
    def __init__(self, layers, hidden, heads, kv_heads, ffn, vocab, seq, theta=500000.0):
        super().__init__(vocab, hidden, (LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers)), nn.RMSNorm(hidden, eps=1e-5))
        half = hidden // heads // 2
        angles = torch.outer(torch.arange(seq).float(), theta ** (-torch.arange(half).float() / half))
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        self.initialize()

    def forward(self, ids, labels):
        return self.end(self.tokens(ids), labels, (self.cosines, self.sines))
