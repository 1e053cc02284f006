"""Small networks as people export them: the batch of one of the example that was traced is baked in.

Each is a function that gives a module and what one sample of its inputs looks like: (shape, number of classes of integers or
None for floats).  The weights are random."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, bias=None):
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-2, -1) / 2
        s = s if bias is None else s + bias
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, w))


class PaddingMask(nn.Module):
    """The mask is looked up by (sample, place), as transformers does: GatherND with a table of indices made for one sample."""

    def __init__(self):
        super().__init__()
        self.embed, self.a, self.head = nn.Embedding(11, 8), Attention(8, 2), nn.Linear(8, 3)

    def forward(self, ids, mask):
        b, n = ids.shape
        places = mask.bool()[torch.arange(b)[:, None, None, None], torch.arange(n)[None, None, None, :]]
        bias = torch.where(places, 0.0, -1e4)
        return self.head(torch.tanh(self.a(self.embed(ids), bias)).mean(1))


class Unet(nn.Module):
    """Resize to the size of what it is joined with."""

    def __init__(self):
        super().__init__()
        self.down, self.deep, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Conv2d(8, 3, 3, 1, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.interpolate(F.relu(self.deep(a)), size=a.shape[2:], mode='bilinear')
        return self.up(torch.cat([a, b], 1)).mean((2, 3))


class PyramidPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(2, 4, 3, 1, 1), nn.Conv2d(4, 4, 1), nn.Linear(8, 3)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.interpolate(self.b(F.adaptive_avg_pool2d(a, 2)), size=(8, 8), mode='nearest')
        return self.head(torch.cat([a, b], 1).flatten(2).amax(2))


class PooledByIndex(nn.Module):
    """as_strided: everything flat, then a table of places."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Conv2d(2, 5, 3, 1, 1), nn.Linear(5, 3)

    def forward(self, x):
        y = F.relu(self.a(x)).mean((2, 3), keepdim=True)
        return self.head(y.reshape(-1)[torch.arange(5)].reshape(1, 5)) if torch.onnx.is_in_onnx_export() else self.head(y.flatten(1))


class PositionTable(nn.Module):
    """roberta's position ids: running sums of what is no padding, and a table [1, N] looked into by element."""

    def __init__(self):
        super().__init__()
        self.embed, self.places, self.head = nn.Embedding(11, 8), nn.Embedding(9, 8), nn.Linear(8, 3)
        self.register_buffer('types', torch.arange(8).remainder(2).expand(1, -1), persistent=False)

    def forward(self, ids):
        there = ids.ne(1).int()
        places = torch.cumsum(there, 1) * there
        kinds = torch.gather(self.types.expand(places.shape[0], -1), 1, places.long().clamp(max=7))
        return self.head(torch.tanh(self.embed(ids) + self.places(places.long()) * (1 + kinds[:, :, None])).mean(1))


class Probe(nn.Module):
    """siglip: a learnt question that is repeated for every sample."""

    def __init__(self):
        super().__init__()
        self.probe, self.k, self.v, self.head = nn.Parameter(torch.randn(1, 1, 8)), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        b, n, _ = x.shape
        merged = lambda y: y.transpose(0, 1).reshape(-1, b * 2, 4).transpose(0, 1)
        s = torch.bmm(merged(self.probe.repeat(b, 1, 1)), merged(self.k(x)).transpose(1, 2)).softmax(-1)
        return self.head(torch.bmm(s, merged(self.v(x))).transpose(0, 1).reshape(b, 8))


class MergedHeads(nn.Module):
    """Heads join the batch for bmm."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.slopes = nn.Parameter(torch.randn(2, 1, 5))

    def forward(self, x):
        b, n, _ = x.shape
        split = lambda y: y.view(b, n, 2, 4).transpose(1, 2).reshape(b * 2, n, 4)
        s = torch.baddbmm(self.slopes.repeat(b, 1, 1), split(self.q(x)), split(self.k(x)).transpose(1, 2)).softmax(-1)
        y = torch.bmm(s, split(self.v(x))).view(b, 2, n, 4).transpose(1, 2).reshape(b, n, 8)
        return self.head(y.mean(1))


class LastToken(nn.Module):
    """CLIP: the row of the largest token."""

    def __init__(self):
        super().__init__()
        self.embed, self.a, self.head = nn.Embedding(11, 8), Attention(8, 2), nn.Linear(8, 3)

    def forward(self, ids):
        y = self.a(self.embed(ids))
        return self.head(y[torch.arange(y.shape[0]), ids.int().argmax(-1)])


class TimeMajor(nn.Module):
    """nn.TransformerEncoderLayer as it comes: time first."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x.transpose(0, 1)).mean(0))


class Patches(nn.Module):
    """A vision transformer: class token, positions."""

    def __init__(self):
        super().__init__()
        self.embed, self.token, self.places = nn.Conv2d(2, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.norm, self.a, self.head = nn.LayerNorm(8), Attention(8, 2), nn.Linear(8, 3)

    def forward(self, x):
        y = self.embed(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.places
        return self.head((y + self.a(self.norm(y)))[:, 0])


class Windows(nn.Module):
    """Swin: windows join the batch, shifted."""

    def __init__(self):
        super().__init__()
        self.embed, self.a, self.bias, self.head = nn.Conv2d(2, 8, 1), Attention(8, 2), nn.Parameter(torch.randn(2, 16, 16)), nn.Linear(8, 3)

    def forward(self, x):
        y = torch.roll(self.embed(x), (-2, -2), (2, 3)).permute(0, 2, 3, 1)
        b = y.shape[0]
        y = y.view(b, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8)
        y = self.a(y, self.bias).view(b, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(b, 8, 8, 8)
        return self.head(y.mean((1, 2)))


class Recurrent(nn.Module):
    """Its initial states are zeros made for one sample."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.rnn(x.transpose(0, 1))[1][-1])


class Groups(nn.Module):
    """GroupNorm, and normalisation over channels and places of a sample."""

    def __init__(self):
        super().__init__()
        self.a, self.n, self.m, self.head = nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.LayerNorm([4, 6, 6]), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(F.gelu(self.m(self.n(self.a(x)))).mean((2, 3)))


class Scattered(nn.Module):
    """The largest two stay; the rest is zero."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        y = self.a(x)
        v, i = y.topk(2, -1)
        return self.head(torch.zeros_like(y).scatter(1, i, v.softmax(-1)))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.w = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 6, 3))

    def forward(self, x):
        return torch.einsum('be,bd,edh->bh', self.gate(x).softmax(-1), x, self.w)


class Filters(nn.Module):
    """A convolution whose weights are made of the sample: no operator takes one per sample."""

    def __init__(self):
        super().__init__()
        self.make, self.head = nn.Linear(64, 18), nn.Linear(2, 3)

    def forward(self, x):
        w = self.make(x.flatten(1))
        y = F.conv2d(x.view(1, -1, 8, 8), w.view(-1, 1, 3, 3), groups=x.shape[0])
        return self.head(F.relu(y).view(x.shape[0], 2, -1).mean(2))


class Norms(nn.Module):
    """In training its norms see the whole batch."""

    def __init__(self):
        super().__init__()
        self.a, self.n, self.head = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(F.relu(self.n(self.a(x))).mean((2, 3)))


FLOATS, PICTURE, TOKENS, SERIES = ((6,), None), ((2, 8, 8), None), ((8,), 11), ((5, 8), None)
networks = {
    'padding_mask': (PaddingMask, {'ids': TOKENS, 'mask': ((8,), 2)}),
    'unet': (Unet, {'x': PICTURE}),
    'pyramid_pool': (PyramidPool, {'x': PICTURE}),
    'pooled_by_index': (PooledByIndex, {'x': PICTURE}),
    'position_table': (PositionTable, {'ids': TOKENS}),
    'probe': (Probe, {'x': SERIES}),
    'merged_heads': (MergedHeads, {'x': SERIES}),
    'last_token': (LastToken, {'ids': TOKENS}),
    'time_major': (TimeMajor, {'x': SERIES}),
    'patches': (Patches, {'x': PICTURE}),
    'windows': (Windows, {'x': PICTURE}),
    'recurrent': (Recurrent, {'x': ((5, 4), None)}),
    'gated': (Gated, {'x': ((5, 4), None)}),
    'groups': (Groups, {'x': PICTURE}),
    'scattered': (Scattered, {'x': FLOATS}),
    'experts': (Experts, {'x': FLOATS}),
    'filters': (Filters, {'x': ((1, 8, 8), None)}),
    'norms': (Norms, {'x': PICTURE}),
}
