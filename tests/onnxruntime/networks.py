"""Networks that optimizers know how to fuse, written as transformers writes them."""
import math, torch
from torch import nn
import torch.nn.functional as F

D, H, V, T, L = 16, 2, 24, 6, 2


def heads(x):
    return x.view(x.size(0), x.size(1), H, D // H).permute(0, 2, 1, 3)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(D, D) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x, mask):
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(D // H)
        y = torch.matmul(torch.softmax(s + mask, -1), v).permute(0, 2, 1, 3).contiguous()
        y = y.view(y.size(0), y.size(1), D)
        x = self.norm1(self.dense(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(V, D), nn.Embedding(8, D), nn.Embedding(2, D)
        self.register_buffer('position_ids', torch.arange(8).expand((1, -1)))
        self.norm = nn.LayerNorm(D, eps=1e-12)
        self.layer = nn.ModuleList(BertLayer() for _ in range(L))
        self.classifier = nn.Linear(D, 3)

    def forward(self, input_ids, attention_mask, token_type_ids):
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -10000.0
        p = self.position_ids[:, :input_ids.size(1)]
        x = self.norm(self.word(input_ids) + self.kind(token_type_ids) + self.position(p))
        for layer in self.layer:
            x = layer(x, mask)
        return self.classifier(x[:, 0])


class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf) * .2), nn.Parameter(torch.randn(nf) * .1)

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + (self.nf,))


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GptLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.c_attn, self.c_proj, self.fc, self.proj = Conv1D(3 * D, D), Conv1D(D, D), Conv1D(4 * D, D), Conv1D(D, 4 * D)
        self.register_buffer('bias', torch.tril(torch.ones(8, 8, dtype=torch.bool)).view(1, 1, 8, 8))

    def forward(self, x):
        q, k, v = (heads(t) for t in self.c_attn(self.ln_1(x)).split(D, dim=2))
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(D // H)
        n = w.size(-1)
        w = torch.where(self.bias[:, :, :n, :n], w, torch.full([], -3.4e38))
        y = torch.matmul(torch.softmax(w, -1), v).permute(0, 2, 1, 3).contiguous()
        x = x + self.c_proj(y.view(y.size(0), y.size(1), D))
        return x + self.proj(gelu_new(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(8, D)
        self.h = nn.ModuleList(GptLayer() for _ in range(L))
        self.ln_f = nn.LayerNorm(D)
        self.lm_head = nn.Linear(D, V, bias=False)

    def forward(self, input_ids):
        p = torch.arange(0, input_ids.size(1)).unsqueeze(0)
        x = self.wte(input_ids) + self.wpe(p)
        for h in self.h:
            x = h(x)
        return self.lm_head(self.ln_f(x))


class Rms(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(D) + .5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def half(x):
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)
        self.n1, self.n2 = Rms(), Rms()

    def forward(self, x, cos, sin, mask):
        h = self.n1(x)
        q, k, v = heads(self.q_proj(h)), heads(self.k_proj(h)), heads(self.v_proj(h))
        q, k = q * cos + half(q) * sin, k * cos + half(k) * sin
        y = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(D // H) + mask, -1), v)
        x = x + self.o_proj(y.transpose(1, 2).contiguous().reshape(x.size(0), x.size(1), D))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(L))
        self.norm, self.lm_head = Rms(), nn.Linear(D, V, bias=False)
        d = D // H
        a = torch.outer(torch.arange(T).float(), 1 / 10000 ** (torch.arange(0, d, 2).float() / d))
        a = torch.cat((a, a), -1)
        self.register_buffer('cos', a.cos()[None, None]), self.register_buffer('sin', a.sin()[None, None])
        self.register_buffer('mask', torch.triu(torch.full((T, T), -1e9), 1)[None, None])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return self.lm_head(self.norm(x))


class Convs(nn.Module):
    """What the C++ optimizer fuses in vision: Conv with its activation and its sum, Gemm with Relu."""
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3, self.c4 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 16, 1)
        self.f1, self.f2 = nn.Linear(16, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.c1(x))
        x = torch.relu(x + self.c2(x))
        x = F.leaky_relu(self.c3(x), 0.1)
        x = torch.clamp(self.c4(x), 0, 6)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.f2(F.elu(self.f1(x)))
