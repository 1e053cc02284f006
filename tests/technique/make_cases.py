"""Makes cases.json: courses of training by PyTorch, step by step, that test_follow.py follows.

usage: python make_cases.py [NAME ...]      needs torch; by hand
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from net import SHAPES, STATISTICS, torch_model

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, SAMPLES = 6, 24
rng = np.random.default_rng(3)
START = {n: np.abs(rng.normal(0, .3, s)) + .5 if n in ('norm.weight', 'norm.running_var') else rng.normal(0, .3, s) for n, s in SHAPES.items()}
START = {n: np.round(v, 4).astype(np.float32) for n, v in START.items()}
X = np.round(rng.normal(0, 1, (SAMPLES, 2, 4, 4)), 3).astype(np.float32)
Y = rng.integers(0, 5, SAMPLES)
cases = []


def numbers(v):
    return [float(f'{x:.9g}') for x in np.asarray(v, np.float64).ravel()]


def case(name, options, optimizer, steps=8, loss=None, after=None, result=None):
    """optimizer(net): one or several; after(net, step, samples fed): behind each update; result(net): what is compared at the end, else the net."""
    torch.manual_seed(0)
    net = torch_model(START)
    made = optimizer(net)
    made = made if isinstance(made, list) else [made]
    losses, data = [], (torch.tensor(X), torch.tensor(Y))
    for k in range(steps):
        at = [(k * BATCH + i) % SAMPLES for i in range(BATCH)]
        x, y = data[0][at], data[1][at]
        net.train()
        value = loss(net, x, y) if loss else F.cross_entropy(net(x), y)
        for o in made:
            o.zero_grad()
        value.backward()
        for o in made:
            o.step()
        losses.append(value.item())
        if after:
            after(net, k)
    end = result(net) if result else net
    kept = {n: v for n, v in end.state_dict().items() if n in SHAPES}
    assert set(kept) == set(SHAPES), kept.keys()
    end.eval()
    with torch.no_grad():
        evaluated = F.cross_entropy(end(data[0]), data[1]).item()
    cases.append({'name': name, 'options': options, 'steps': steps, 'losses': numbers(losses), 'evaluated': evaluated,
                  'end': {n: numbers(v) for n, v in kept.items()}})


def sgd(net, lr=.1, **more):
    return torch.optim.SGD(net.parameters(), lr=lr, **more)


SGD = ['--optimizer', 'sgd:lr=0.1,momentum=0.9', '--bn-variance', 'unbiased']


def ema():
    for decay in .5, .9:
        average = []

        def after(net, k):
            if not average:
                average.append(AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True))
            average[0].update_parameters(net)

        case(f'ema {decay}', [*SGD, '--ema', str(decay)], lambda net: sgd(net, momentum=.9), after=after, result=lambda net: average[0].module)


def muon():
    def both(net):  # without the convolution, whose bias has a gradient of nothing but rounding, which AdamW makes large
        rest = [p for n, p in net.named_parameters() if not n.startswith('conv')]
        return [torch.optim.Muon([p for p in rest if p.ndim == 2], lr=.02, weight_decay=.1),
                torch.optim.AdamW([p for p in rest if p.ndim == 1], lr=.02, weight_decay=.1)]

    whole, torch.bfloat16 = torch.bfloat16, torch.float32  # its Newton-Schulz steps in float32
    case('muon, vectors by adamw', ['--optimizer', 'muon:lr=0.02,weight_decay=0.1', '--bn-variance', 'unbiased', '--freeze', 'conv.*'], both)
    torch.bfloat16 = whole


LAYERS = ('out',), ('hidden',), ('conv', 'norm')


def layer_decay():
    def groups(net):
        return torch.optim.SGD([{'params': [p for n, p in net.named_parameters() if n.split('.')[0] in layer], 'lr': .1 * .5 ** k}
                                for k, layer in enumerate(LAYERS)], momentum=.9)
    case('layer decay', [*SGD, '--layer-decay', '0.5'], groups)


def l1():
    def loss(net, x, y):  # what is logged is the loss of the data
        penalty = sum(.01 * p.abs().sum() for p in net.parameters() if p.ndim > 1)
        return F.cross_entropy(net(x), y) + penalty - penalty.detach()
    case('l1', [*SGD, '--l1', '0.01', '--no-decay', 'norms,biases'], lambda net: sgd(net, momentum=.9), loss=loss)


def unfreeze():
    begins = {'out': 0, 'hidden': 4, 'norm': 8, 'conv': 8}  # updates; an epoch has 4

    def loss(net, x, y):
        k = net.updates = getattr(net, 'updates', -1) + 1
        for n, p in net.named_parameters():
            p.requires_grad_(n != 'conv.bias' and k >= begins[n.split('.')[0]])
        return F.cross_entropy(net(x), y)

    names = ['--unfreeze', 'hidden.*@2', '--unfreeze', 'norm.*@3', '--unfreeze', 'conv.*@3', '--bn-variance', 'unbiased', '--freeze', 'conv.bias']
    case('unfreeze, adamw', [*names, '--optimizer', 'adamw:lr=0.02'], lambda net: torch.optim.AdamW(net.parameters(), lr=.02), steps=14, loss=loss)

    class Clipped(torch.optim.SGD):
        def step(self):
            torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g['params']], .5)
            super().step()
    case('unfreeze, clipped', [*names, *SGD[:2], '--clip-norm', '0.5'], lambda net: Clipped(net.parameters(), lr=.1, momentum=.9), steps=14, loss=loss)


def find_lr():
    rates = [1e-4 * (1e5 ** (k / 29)) for k in range(30)]
    k = iter(rates)

    class Rising(torch.optim.SGD):
        def step(self):
            self.param_groups[0]['lr'] = next(k)
            super().step()
    case('find-lr', ['--optimizer', 'sgd:momentum=0.9', '--bn-variance', 'unbiased', '--lr-range', '1e-4,10'], lambda net: Rising(net.parameters(), momentum=.9), steps=30)
    cases[-1].update(rates=numbers(rates), end=None)


for make in ema, muon, layer_decay, l1, unfreeze, find_lr:
    make()
json.dump({'batch': BATCH, 'start': {n: numbers(v) for n, v in START.items()}, 'x': numbers(X), 'y': Y.tolist(), 'cases': cases},
          open(HERE + '/cases.json', 'w'), separators=(',', ':'))
for c in cases:
    print(c['name'], c['losses'][0], c['losses'][-1], c['evaluated'])
