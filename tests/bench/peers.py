"""Networks in PyTorch.  Of those of `onnxtrain new` the parameters are in the order of the file's initializers, of the same shapes."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        c = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
        self.convs = nn.ModuleList(nn.Conv2d(i, o, k, s, p) for i, o, k, s, p in c)
        self.fcs = nn.ModuleList([nn.Linear(9216, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 1000)])

    def forward(self, x):
        for i, conv in enumerate(self.convs):
            x = F.relu(conv(x))
            x = F.max_pool2d(x, 3, 2) if i in (0, 1, 4) else x
        x = x.flatten(1)
        for fc in self.fcs[:2]:
            x = F.relu(fc(x))
        return self.fcs[2](x)


def conv_norm(i, o, kernel, stride=1, pad=0):
    return nn.Sequential(nn.Conv2d(i, o, kernel, stride, pad, bias=False), nn.BatchNorm2d(o))


class Basic(nn.Module):
    def __init__(self, c, m, stride):
        super().__init__()
        self.a, self.b = conv_norm(c, m, 3, stride, 1), conv_norm(m, m, 3, 1, 1)
        self.short = conv_norm(c, m, 1, stride) if stride != 1 or c != m else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.short(x))


class Bottleneck(nn.Module):
    def __init__(self, c, m, stride):
        super().__init__()
        self.a, self.b, self.c = conv_norm(c, m, 1), conv_norm(m, m, 3, stride, 1), conv_norm(m, 4 * m, 1)
        self.short = conv_norm(c, 4 * m, 1, stride) if stride != 1 or c != 4 * m else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, block, blocks, wider, classes, large):
        super().__init__()
        self.stem = conv_norm(3, 64, 7, 2, 3) if large else conv_norm(3, 64, 3, 1, 1)
        self.large, c, layers = large, 64, []
        for k, n in enumerate(blocks):
            for i in range(n):
                layers.append(block(c, 64 << k, 2 if k and not i else 1))
                c = (64 << k) * wider
        self.blocks, self.fc = nn.Sequential(*layers), nn.Linear(c, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.max_pool2d(x, 3, 2, 1) if self.large else x
        return self.fc(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


def resnet18():
    return ResNet(Basic, (2, 2, 2, 2), 1, 10, False)


def resnet50():
    return ResNet(Bottleneck, (3, 4, 6, 3), 4, 1000, True)


class Dense(nn.Module):
    """x W + b with W (in, out), as MatMul has it."""

    def __init__(self, i, o):
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.02 * torch.randn(i, o)), nn.Parameter(torch.zeros(o))

    def forward(self, x):
        return F.linear(x, self.weight.t(), self.bias)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv, self.proj = Dense(c, 3 * c), Dense(c, c)

    def forward(self, x, causal, mask):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, c // 64, 64).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.proj(y.transpose(1, 2).reshape(n, t, c))


class GptBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(c), Attention(c), nn.LayerNorm(c)
        self.fc, self.proj = Dense(c, 4 * c), Dense(4 * c, c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x), True, None)
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate='tanh'))


class Gpt2(nn.Module):
    def __init__(self, c=768, layers=12, tokens=1024, words=50257):
        super().__init__()
        self.wte, self.wpe = nn.Parameter(0.02 * torch.randn(words, c)), nn.Parameter(0.02 * torch.randn(tokens, c))
        self.h, self.ln_f = nn.ModuleList(GptBlock(c) for _ in range(layers)), nn.LayerNorm(c)

    def forward(self, ids):
        x = F.embedding(ids, self.wte) + self.wpe
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte)


class BertBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attn, self.norm_1 = Attention(c), nn.LayerNorm(c)
        self.fc, self.proj, self.norm_2 = Dense(c, 4 * c), Dense(4 * c, c), nn.LayerNorm(c)

    def forward(self, x, mask):
        x = self.norm_1(x + self.attn(x, False, mask))
        return self.norm_2(x + self.proj(F.gelu(self.fc(x))))


class Bert(nn.Module):
    def __init__(self, c=768, layers=12, tokens=512, words=30522, classes=2):
        super().__init__()
        self.wte, self.wpe = nn.Parameter(0.02 * torch.randn(words, c)), nn.Parameter(0.02 * torch.randn(tokens, c))
        self.norm = nn.LayerNorm(c)
        self.layer = nn.ModuleList(BertBlock(c) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(c, c), nn.Linear(c, classes)

    def forward(self, ids, attention_mask):
        x = self.norm(F.embedding(ids, self.wte) + self.wpe)
        mask = attention_mask[:, None, None, :].bool()
        for block in self.layer:
            x = block(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


# ---- others ------------------------------------------------------------------------------------


def small_cnn():
    layers, c = [], 3
    for m in (32, 64, 128):
        layers += [nn.Conv2d(c, m, 3, 1, 1), nn.ReLU(), nn.Conv2d(m, m, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        c = m
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


def vgg11():
    layers, c = [], 3
    for m in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        layers += [nn.Conv2d(c, m, 3, 1, 1), nn.ReLU()] if m else [nn.MaxPool2d(2)]
        c = m or c
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class InvertedResidual(nn.Module):
    def __init__(self, c, m, stride, wider):
        super().__init__()
        hidden, layers = c * wider, []
        if wider > 1:
            layers += [nn.Conv2d(c, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(hidden, m, 1, bias=False), nn.BatchNorm2d(m))
        self.residual = stride == 1 and c == m

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """For images of 32 x 32: the stem has no stride."""

    def __init__(self, classes=10):
        super().__init__()
        layers, c = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
        for wider, m, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for i in range(n):
                layers.append(InvertedResidual(c, m, 1 if i else stride, wider))
                c = m
        self.layers = nn.Sequential(*layers, nn.Conv2d(c, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6())
        self.fc = nn.Linear(1280, classes)

    def forward(self, x):
        return self.fc(self.layers(x).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, c=16, depth=4, classes=2):
        super().__init__()
        pair = lambda i, o: nn.Sequential(conv_norm(i, o, 3, 1, 1), nn.ReLU(), conv_norm(o, o, 3, 1, 1), nn.ReLU())  # noqa: E731
        sizes = [c << k for k in range(depth + 1)]
        self.down = nn.ModuleList(pair(i, o) for i, o in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, 2) for o in sizes[-2::-1])
        self.join = nn.ModuleList(pair(2 * o, o) for o in sizes[-2::-1])
        self.last = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        kept = []
        for k, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([beside, up(x)], 1))
        return self.last(x)


class Recurrent(nn.Module):
    """kind: nn.LSTM or nn.GRU; the last step's state is classified."""

    def __init__(self, kind, layers):
        super().__init__()
        self.words, self.layers, self.fc = nn.Embedding(256, 128), kind(128, 256, layers, batch_first=True), nn.Linear(256, 10)

    def forward(self, ids):
        return self.fc(self.layers(self.words(ids))[0][:, -1])


def load_weights(net, tensors):
    """tensors: arrays of the file's float initializers, scalars left out.  Both sides list theirs in the order of
    the layers; shapes must agree one by one."""
    theirs = [t for k, t in net.state_dict().items() if not k.endswith('num_batches_tracked')]
    if [tuple(a.shape) for a in tensors] != [tuple(t.shape) for t in theirs]:
        raise ValueError('the networks differ')
    with torch.no_grad():
        for t, a in zip(theirs, tensors):
            t.copy_(torch.from_numpy(a.copy()))
