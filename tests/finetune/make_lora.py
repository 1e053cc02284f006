"""Makes lora.json beside it: losses and merged weights of a training with low-rank adapters, by PyTorch (own network, random weights).

usage: make_lora.py
"""
import json
import os

import torch
import torch.nn.functional as F

from lora_network import ALPHA, BATCH, LR, NAMES, RANK, STEPS, data, starts, weights

torch.set_default_dtype(torch.float64)
w = {n: torch.tensor(v) for n, v in weights().items()}
ab = {n: [torch.tensor(v, requires_grad=True) for v in pair] for n, pair in starts().items()}
s = ALPHA / RANK


def linear(x, n, weight):
    a, b = ab[n]
    return x @ weight + s * (x @ a @ b)


def forward(x):
    h = torch.relu(linear(x, 'fc1.weight', w['fc1.weight'].T) + w['fc1.bias'])
    h = torch.tanh(2 * linear(h, 'fc2.weight', w['fc2.weight']))
    h = h[:, None, :]
    a, b = ab['conv.weight']
    h = F.conv1d(h, w['conv.weight'], w['conv.bias']) + s * F.conv1d(F.conv1d(h, a), b)
    return linear(torch.relu(h).flatten(1), 'fc3.weight', w['fc3.weight']) + w['fc3.bias']


x, y = data()
x, y = torch.tensor(x), torch.tensor(y)
optimizer = torch.optim.AdamW([v for n in NAMES for v in ab[n]], lr=LR)
losses = []
for step in range(STEPS):
    at = [(step * BATCH + i) % len(y) for i in range(BATCH)]
    loss = F.cross_entropy(forward(x[at]), y[at])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
merged = {}
for n in NAMES:
    a, b = ab[n]
    delta = torch.einsum('ri...,or->oi...', a, b[..., 0]) if n == 'conv.weight' else a @ b
    merged[n] = (w[n] + s * (delta.T if n == 'fc1.weight' else delta)).tolist()
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lora.json'), 'w') as f:
    json.dump({'losses': losses, 'merged': merged}, f)
    f.write('\n')
print(losses)
