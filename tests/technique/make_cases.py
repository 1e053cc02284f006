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


def case(name, options, optimizer, steps=8, loss=None, after=None, result=None, target=None, measure=F.cross_entropy, **more):
    """optimizer(net): one or several; after(net, step, samples fed): behind each update; result(net): what is compared at the end, else the net."""
    torch.manual_seed(0)
    net = torch_model(START)
    made = optimizer(net)
    made = made if isinstance(made, list) else [made]
    losses, data = [], (torch.tensor(X), torch.tensor(Y if target is None else target))
    for k in range(steps):
        at = [(k * BATCH + i) % SAMPLES for i in range(BATCH)]
        x, y = data[0][at], data[1][at]
        net.train()
        value = loss(net, x, y) if loss else measure(net(x), y)
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
        evaluated = measure(end(data[0]), data[1]).item()
    cases.append({'name': name, 'options': options, 'steps': steps, 'losses': numbers(losses), 'evaluated': evaluated,
                  'end': {n: numbers(v) for n, v in kept.items()}, **more})
    if target is not None:
        cases[-1]['target'] = numbers(target)


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


def swa():
    def one(name, text, steps, counts):
        average = []

        def after(net, k):
            if not average:
                average.append(AveragedModel(net, use_buffers=True))
            if counts(k + 1):
                average[0].update_parameters(net)
        case(name, [*SGD, '--swa', text], lambda net: sgd(net, momentum=.9), steps=steps, after=after, result=lambda net: average[0].module)

    one('swa of epochs', '2', 14, (8, 12, 14).__contains__)  # an epoch has 4 updates
    one('swa of the last part', '0.4', 20, (12, 16, 20).__contains__)
    one('swa of updates', '0.5:per=update', 9, (5, 6, 7, 8, 9).__contains__)
    one('swa of updates of epochs', '2:per=update', 7, (5, 6, 7).__contains__)


def lookahead():
    def one(name, text, k, alpha, optimizer, options, steps=13, **more):
        slow = {}

        def after(net, step):
            slow.update({n: torch.tensor(START[n]) for n, _ in net.named_parameters()} if not slow else {})
            for n, p in net.named_parameters() if (step + 1) % k == 0 else ():
                slow[n] += alpha * (p.data - slow[n])
                p.data.copy_(slow[n])
        case(name, [*options, '--lookahead', text], optimizer, steps=steps, after=after, **more)

    one('lookahead', '5', 5, .5, lambda net: sgd(net, momentum=.9), SGD)
    one('lookahead, adamw', '3:alpha=0.8', 3, .8, lambda net: torch.optim.AdamW([p for n, p in net.named_parameters() if n != 'conv.bias'], lr=.02),
        ['--optimizer', 'adamw:lr=0.02', '--bn-variance', 'unbiased', '--freeze', 'conv.bias'])


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


def distillation():
    other = np.random.default_rng(5)
    tensors = {n: np.abs(other.normal(0, .5, s)) + .5 if n.startswith('norm') else other.normal(0, .8, s) for n, s in SHAPES.items()}
    tensors = {n: np.round(v, 4).astype(np.float32) for n, v in tensors.items()}
    teacher = torch_model(tensors).eval()

    def loss_of(t, weight):
        def loss(net, x, y):
            with torch.no_grad():
                soft = F.log_softmax(teacher(x) / t, 1)
            z = net(x)
            return (1 - weight) * F.cross_entropy(z, y) + weight * t * t * F.kl_div(F.log_softmax(z / t, 1), soft, reduction='batchmean', log_target=True)
        return loss

    def file(name, **how):
        return {'files': {name: {'tensors': {n: numbers(v) for n, v in tensors.items()}, **how}}}

    def one(name, keys, t, weight, more):
        path = list(more['files'])[0]
        case('distillation' + name, [*SGD, '--teacher', f'DIR/{path}{keys}'], lambda net: sgd(net, momentum=.9), loss=loss_of(t, weight), **more)

    one('', ':temperature=4,weight=0.7', 4, .7, file('teacher.onnx'))
    one(', defaults, a teacher of a fixed batch size', '', 2, .5, file('fixed.onnx', batch=4))
    one(', a Softmax at the end, other names', ':temperature=3,weight=0.9', 3, .9, file('named.onnx', names=['image', 'p'], tail='Softmax'))
    one(', the teacher alone', ':weight=1,output=logp', 2, 1, file('logs.onnx', names=['x', 'logp'], tail='LogSoftmax'))

    values = np.round(np.random.default_rng(6).normal(0, 1, (SAMPLES, 5)), 3).astype(np.float32)

    def regression(net, x, y):
        with torch.no_grad():
            far = teacher(x)
        z = net(x)
        return .4 * F.mse_loss(z, y) + .6 * F.mse_loss(z, far)
    case('distillation of values', [*SGD, '--loss', 'mse', '--teacher', 'DIR/teacher.onnx:weight=0.6'], lambda net: sgd(net, momentum=.9), loss=regression,
         target=values, measure=F.mse_loss, **file('teacher.onnx'))

    bits = (values > 0).astype(np.float32)

    def binary(net, x, y):
        with torch.no_grad():
            p = torch.sigmoid(teacher(x) / 2)
        z = net(x)
        own = F.binary_cross_entropy_with_logits(z, y)
        entropy = -(p * p.log() + (1 - p) * (1 - p).log()).mean()
        return .5 * own + .5 * 4 * (F.binary_cross_entropy_with_logits(z / 2, p) - entropy)
    case('distillation of binary classes', [*SGD, '--loss', 'bce_with_logits', '--teacher', 'DIR/teacher.onnx'], lambda net: sgd(net, momentum=.9), loss=binary,
         target=bits, measure=F.binary_cross_entropy_with_logits, **file('teacher.onnx'))


def find_lr():
    rates = [1e-4 * (1e5 ** (k / 29)) for k in range(30)]
    k = iter(rates)

    class Rising(torch.optim.SGD):
        def step(self):
            self.param_groups[0]['lr'] = next(k)
            super().step()
    case('find-lr', ['--optimizer', 'sgd:momentum=0.9', '--bn-variance', 'unbiased', '--lr-range', '1e-4,10'], lambda net: Rising(net.parameters(), momentum=.9), steps=30)
    cases[-1].update(rates=numbers(rates), end=None)


for make in ema, swa, lookahead, muon, layer_decay, l1, unfreeze, distillation, find_lr:
    make()
json.dump({'batch': BATCH, 'start': {n: numbers(v) for n, v in START.items()}, 'x': numbers(X), 'y': Y.tolist(), 'cases': cases},
          open(HERE + '/cases.json', 'w'), separators=(',', ':'))
for c in cases:
    print(c['name'], c['losses'][0], c['losses'][-1], c['evaluated'])
