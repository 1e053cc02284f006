"""Makes figures.json: losses and gradients as PyTorch (and torchvision's and segmentation-models' formulas) have them.

usage: python make_figures.py      needs torch; by hand
"""
import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(5)
rows = []


def row(name, loss, outputs, target, formula, **more):
    """outputs: shapes by name, the first one has the loss; formula(outputs as tensors, target)."""
    z = {n: (v if isinstance(v, torch.Tensor) else torch.randn(v)).double().round(decimals=4).requires_grad_() for n, v in outputs.items()}
    value = formula(z, target)
    grads = torch.autograd.grad(value, list(z.values()))
    rows.append({'name': name, 'loss': loss, 'z': {n: v.tolist() for n, v in z.items()}, 'target': None if target is None else target.tolist(),
                 'integers': target is not None and not target.is_floating_point(), 'value': value.item(),
                 'grad': {n: [round(q, 9) for q in g.flatten().tolist()] for n, g in zip(z, grads)}, **more})


def one(f, *a, **k):
    return lambda z, t: f(next(iter(z.values())), t, *a, **k)


def dice(p, t, dims, smooth=0., eps=1e-7):
    both, all_ = (p * t).sum(dims), (p + t).sum(dims)
    score = (2 * both + smooth) / (all_ + smooth).clamp_min(eps)
    return ((1 - score) * (t.sum(dims) > 0)).mean()


def focal(z, t, alpha=.25, gamma=2.):  # torchvision.ops.sigmoid_focal_loss
    p, ce = torch.sigmoid(z), F.binary_cross_entropy_with_logits(z, t, reduction='none')
    p_t = p * t + (1 - p) * (1 - t)
    return ((alpha * t + (1 - alpha) * (1 - t)) * ce * (1 - p_t) ** gamma).mean()


def softmax_focal(z, t, gamma=2., w=None, ignore=-100):  # divided as cross_entropy: by the weights of the labels that count
    w = torch.ones(z.shape[1]).double() if w is None else w
    ce = F.cross_entropy(z, t, reduction='none', ignore_index=ignore)
    terms = (1 - torch.exp(-ce)) ** gamma * F.cross_entropy(z, t, w, reduction='none', ignore_index=ignore)
    return terms.sum() / w[t[t != ignore]].sum()


c5, c45 = torch.randint(0, 5, (6,)), torch.randint(0, 5, (6, 4))
values, yes, shares = torch.randn(6, 5).double().round(decimals=4), torch.randint(0, 2, (6, 5)).double(), torch.softmax(torch.randn(6, 5), 1).double()
w5 = torch.tensor([1, .5, 2, 0, 3.]).double()

row('cross_entropy', 'cross_entropy', {'y': (6, 5)}, c5, one(F.cross_entropy))
some = c5.clone()
some[[1, 4]] = -100
row('cross_entropy, -100', 'cross_entropy', {'y': (6, 5)}, some, one(F.cross_entropy))
row('cross_entropy, -100, weights, smooth', 'cross_entropy:class_weights=[1,0.5,2,0,3],label_smoothing=0.1', {'y': (6, 5)}, some,
    one(F.cross_entropy, w5, label_smoothing=.1))
row('nll, -100', 'nll', {'y': torch.log_softmax(torch.randn(6, 5), 1)}, some, one(F.nll_loss))
row('cross_entropy of places, ignore_index', 'cross_entropy:ignore_index=2', {'y': (6, 5, 4)}, c45, one(F.cross_entropy, ignore_index=2))
row('kl', 'kl', {'y': torch.log_softmax(torch.randn(6, 5), 1)}, shares, one(F.kl_div, reduction='batchmean'))
row('kl, log_target', 'kl:log_target=true', {'y': torch.log_softmax(torch.randn(6, 5), 1)}, shares.log(), one(F.kl_div, reduction='batchmean', log_target=True))

row('hinge', 'hinge', {'y': (6, 5)}, c5, one(F.multi_margin_loss))
row('hinge, p, margin', 'hinge:p=2,margin=0.7', {'y': (6, 5)}, c5, one(F.multi_margin_loss, p=2, margin=.7))
row('hinge, sum', 'hinge:reduction=sum', {'y': (6, 5)}, c5, one(F.multi_margin_loss, reduction='sum'))
row('focal', 'focal', {'y': (6, 5)}, yes, one(focal))
row('focal, whole numbers', 'focal:alpha=0.6,gamma=1.5', {'y': (6, 5)}, yes.long(), lambda z, t: focal(z['y'], t.double(), .6, 1.5))
row('focal of classes', 'focal', {'y': (6, 5)}, c5, one(softmax_focal))
row('focal of classes, weights', 'focal:gamma=3,class_weights=[1,0.5,2,0,3]', {'y': (6, 5)}, c5, one(softmax_focal, 3., w5))
mask = torch.randint(0, 2, (6, 1, 3, 4))
row('dice of masks', 'dice:smooth=1', {'y': (6, 1, 3, 4)}, mask[:, 0], lambda z, t: dice(torch.sigmoid(z['y']), t.double()[:, None], (0, 2, 3), 1.))
row('dice of values', 'dice', {'y': (6, 5)}, yes, lambda z, t: dice(torch.sigmoid(z['y']), t, (0,)))
row('dice of classes', 'dice', {'y': (6, 5, 4)}, c45 % 4, lambda z, t: dice(torch.softmax(z['y'], 1), F.one_hot(t, 5).transpose(1, 2).double(), (0, 2)))

pm = torch.tensor([1, -1, 1, -1, -1, 1])
row('cosine', 'cosine:other=b', {'a': (6, 5), 'b': (6, 5)}, pm, lambda z, t: F.cosine_embedding_loss(z['a'], z['b'], t))
row('cosine, margin', 'cosine:other=b,margin=0.3', {'a': (6, 5), 'b': (6, 5)}, pm, lambda z, t: F.cosine_embedding_loss(z['a'], z['b'], t, margin=.3))
row('cosine to a target', 'cosine', {'a': (6, 5)}, values, lambda z, t: F.cosine_embedding_loss(z['a'], t, torch.ones(6)))
three = {'a': (6, 5), 'p': (6, 5), 'n': (6, 5)}
for key, more in ('', {}), (',margin=2,p=1', dict(margin=2., p=1.)), (',swap=true,eps=1e-3', dict(swap=True, eps=1e-3)):
    row('triplet' + key, 'triplet:positive=p,negative=n' + key, three, None, lambda z, t: F.triplet_margin_loss(z['a'], z['p'], z['n'], **more))
row('contrastive', 'contrastive:other=b,margin=4', {'a': (6, 5), 'b': (6, 5)}, (pm > 0).long(),
    lambda z, t: (t * F.pairwise_distance(z['a'], z['b']) ** 2 + (1 - t) * (4 - F.pairwise_distance(z['a'], z['b'])).clamp_min(0) ** 2).mean())
counts = torch.randint(0, 7, (6, 5)).double()
row('poisson_nll', 'poisson_nll', {'y': (6, 5)}, counts, one(F.poisson_nll_loss))
row('poisson_nll, full', 'poisson_nll:full=true', {'y': (6, 5)}, counts, one(F.poisson_nll_loss, full=True))
row('poisson_nll, rates', 'poisson_nll:log_input=false,eps=1e-3', {'y': torch.rand(6, 5) + .1}, counts, one(F.poisson_nll_loss, log_input=False, eps=1e-3))
for key, more in ('', {}), (',full=true', dict(full=True)):
    row('gaussian_nll' + key, 'gaussian_nll:var=v' + key, {'y': (6, 5), 'v': torch.rand(6, 5) + .1}, values,
        lambda z, t: F.gaussian_nll_loss(z['y'], t, z['v'], **more))

# ctc: repeated labels, empty targets, more labels than steps; an output with the samples first and second
labels = torch.tensor([[1, 2, 2, 3], [4, 4, -1, -1], [2, -1, -1, -1], [-1, -1, -1, -1], [3, 1, 3, 1], [1, 1, 1, -1]])
lengths, steps = (labels >= 0).sum(1), torch.tensor([9, 5, 9, 3, 8, 6])


def ctc(z, t, blank=0, ends=None, n=lengths, **k):
    p = torch.log_softmax(z['y'], -1).transpose(0, 1)
    return F.ctc_loss(p, t.clamp_min(0), torch.full((6,), 9) if ends is None else ends, n, blank, **k)


row('ctc', 'ctc', {'y': (6, 9, 5)}, labels, ctc)
row('ctc, sum', 'ctc:reduction=sum', {'y': (6, 9, 5)}, labels, lambda z, t: ctc(z, t, reduction='sum'))
row('ctc, steps first', 'ctc', {'y': (6, 9, 5)}, labels, ctc, turned=True)
row('ctc, as many steps as samples', 'ctc:batch_first=false', {'y': (6, 6, 5)}, labels[:, :3], lambda z, t: ctc(z, t, ends=torch.full((6,), 6), n=lengths.clamp_max(3)), turned=True)
row('ctc, padded with blanks', 'ctc', {'y': (6, 9, 5)}, labels.clamp_min(0), ctc)
row('ctc, another blank', 'ctc:blank=4', {'y': (6, 9, 5)}, torch.where(labels == 4, 0, labels), lambda z, t: ctc(z, t, 4))
row('ctc, lengths', 'ctc', {'y': (6, 9, 5)}, labels.clamp_min(1), lambda z, t: ctc(z, t, ends=steps, n=lengths),
    arrays={'input_lengths': steps.tolist(), 'target_lengths': lengths.tolist()})
row('ctc, zero_infinity', 'ctc:zero_infinity=true', {'y': (6, 4, 5)}, labels, lambda z, t: ctc(z, t, ends=torch.full((6,), 4), zero_infinity=True))

for name, loss, f in (('mse', 'mse', F.mse_loss), ('l1', 'l1', F.l1_loss), ('huber', 'huber:delta=0.7', lambda z, t: F.huber_loss(z, t, delta=.7)),
                      ('smooth_l1', 'smooth_l1:beta=0.6', lambda z, t: F.smooth_l1_loss(z, t, beta=.6))):
    row(name, loss, {'y': (6, 5)}, values, one(f))
row('bce', 'bce', {'y': torch.sigmoid(torch.randn(6, 5))}, yes, one(F.binary_cross_entropy))
row('bce_with_logits', 'bce_with_logits', {'y': (6, 5)}, yes, one(F.binary_cross_entropy_with_logits))

def counted(f, *a, ignore=-100, **k):  # the samples whose label counts, and no others
    return lambda z, t: f(next(iter(z.values()))[t != ignore], t[t != ignore], *a, **k)


def dice_places(ignore, smooth):
    def f(z, t):
        keep = (t != ignore).double()[:, None]
        hot = F.one_hot(torch.where(t == ignore, 0, t), 5).transpose(1, 2).double()
        return dice(torch.softmax(z['y'], 1) * keep, hot * keep, (0, 2), smooth)
    return f


row('hinge, -100', 'hinge', {'y': (6, 5)}, some, counted(F.multi_margin_loss))
row('hinge, ignore_index, sum', 'hinge:reduction=sum,ignore_index=2', {'y': (6, 5)}, c5, counted(F.multi_margin_loss, ignore=2, reduction='sum'))
row('focal of classes, -100', 'focal', {'y': (6, 5)}, some, one(softmax_focal))
row('focal of classes, ignore_index, weights', 'focal:gamma=1,ignore_index=2,class_weights=[1,0.5,2,0,3]', {'y': (6, 5, 4)}, c45, one(softmax_focal, 1., w5, 2))
row('focal of classes, gamma 0', 'focal:gamma=0,class_weights=[1,0.5,2,0,3]', {'y': (6, 5)}, some, one(F.cross_entropy, w5))
some45 = c45.clone()
some45[:, 1] = some45[2] = -100
row('dice of classes, -100', 'dice:smooth=1', {'y': (6, 5, 4)}, some45, dice_places(-100, 1.))
row('dice of classes, ignore_index', 'dice:ignore_index=2', {'y': (6, 5, 4)}, c45, dice_places(2, 0.))
row('gaussian_nll, variances below eps', 'gaussian_nll:var=v,eps=0.7', {'m': (6, 3), 'v': torch.rand(6, 3) * 1.4}, torch.randn(6, 3).double(),
    lambda z, t: F.gaussian_nll_loss(z['m'], t, z['v'], eps=.7))

with open(os.path.dirname(os.path.abspath(__file__)) + '/figures.json', 'w') as f:
    f.write('[\n' + ',\n'.join(json.dumps(r, separators=(',', ':')) for r in rows) + '\n]\n')
print(len(rows), 'rows of PyTorch', torch.__version__)
