"""Every optimizer of --optimizer against its formula in float64: the weights of a linear model after some updates.

usage: test_formulas.py PROGRAM

The formulas are those of the papers, in the form of PyTorch's documentation where PyTorch has the optimizer.  To add an optimizer, write its formula
and a row of ROWS: how it decays weights, its documented defaults, and sets of keys that together change each of them.
"""

import collections
import os
import re
import tempfile
from types import SimpleNamespace

from scripts import call, check, finish, h, np, numpy_helper, onnx, T, verdict

UPDATES, BATCH, SEED = 8, 10, 7  # 8: by the default beta2, radam rectifies from update 6 on
# The program computes in f32.  Tolerance: RTOL of the largest change in the tensor (all pass with 1e-6), and two roundings of
# the weight (decay, step) per update.
RTOL, ROUND = 4e-6, 2 * 2.0**-24

# Formulas: weight, gradient, states (0 at first), number of the update from 1, keys -> step, which lr multiplies


def average(s, name, beta, value):
    s[name] = beta * s[name] + (1 - beta) * value
    return s[name]


def sgd(w, g, s, t, k):
    s['b'] = k.momentum * s['b'] + (g if t == 1 else (1 - k.dampening) * g)
    return g + k.momentum * s['b'] if k.nesterov else s['b']


def adam(w, g, s, t, k):
    m, v = average(s, 'm', k.beta1, g), average(s, 'v', k.beta2, g * g)
    if k.amsgrad:
        v = s['top'] = np.maximum(s['top'], v)
    return m / (1 - k.beta1**t) / (np.sqrt(v / (1 - k.beta2**t)) + k.eps)


def adagrad(w, g, s, t, k):
    s['sum'] = (k.initial_accumulator_value if t == 1 else s['sum']) + g * g
    return g / (np.sqrt(s['sum']) + k.eps) / (1 + (t - 1) * k.lr_decay)


def adadelta(w, g, s, t, k):
    step = np.sqrt(s['steps'] + k.eps) / np.sqrt(average(s, 'v', k.rho, g * g) + k.eps) * g
    average(s, 'steps', k.rho, step * step)
    return step


def rmsprop(w, g, s, t, k):
    v, mean = average(s, 'v', k.alpha, g * g), average(s, 'mean', k.alpha, g)
    s['b'] = k.momentum * s['b'] + g / (np.sqrt(v - mean * mean if k.centered else v) + k.eps)
    return s['b']


def adamax(w, g, s, t, k):
    s['u'] = np.maximum(k.beta2 * s['u'], np.abs(g) + k.eps)
    return average(s, 'm', k.beta1, g) / (1 - k.beta1**t) / s['u']


def nadam(w, g, s, t, k):
    mu, following = (k.beta1 * (1 - 0.5 * 0.96 ** (i * k.momentum_decay)) for i in (t, t + 1))
    s['mu'] = mu * (s['mu'] if t > 1 else 1)
    ahead = following * average(s, 'm', k.beta1, g) / (1 - s['mu'] * following) + (1 - mu) * g / (1 - s['mu'])
    return ahead / (np.sqrt(average(s, 'v', k.beta2, g * g) / (1 - k.beta2**t)) + k.eps)


def radam(w, g, s, t, k):
    m, v = average(s, 'm', k.beta1, g) / (1 - k.beta1**t), average(s, 'v', k.beta2, g * g)
    limit = 2 / (1 - k.beta2) - 1
    rho = limit - 2 * t * k.beta2**t / (1 - k.beta2**t)
    if rho <= 5:
        return m
    rect = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
    return m * rect * np.sqrt(1 - k.beta2**t) / (np.sqrt(v) + k.eps)


def lion(w, g, s, t, k):
    step = np.sign(k.beta1 * s['m'] + (1 - k.beta1) * g)
    average(s, 'm', k.beta2, g)
    return step


def lamb(w, g, s, t, k):
    step = adam(w, g, s, t, SimpleNamespace(**vars(k), amsgrad=False)) + k.weight_decay * w
    return np.linalg.norm(w) / np.linalg.norm(step) * step


def lars(w, g, s, t, k):
    size = np.linalg.norm(w)
    rate = k.trust_coefficient * size / (np.linalg.norm(g) + k.weight_decay * size + k.eps)
    s['b'] = k.momentum * s['b'] + rate * (g + k.weight_decay * w)
    return s['b']


def muon(w, g, s, t, k):
    if w.ndim < 2:
        return adam(w, g, s, t, k)
    m = average(s, 'm', k.momentum, g)
    y = (1 - k.momentum) * g + k.momentum * m if k.nesterov else m
    y = y / max(np.linalg.norm(y), 1e-7)
    for _ in range(k.ns_steps):  # a Newton-Schulz step acts on the singular values alone
        u, d, v = np.linalg.svd(y, full_matrices=False)
        y = u * (3.4445 * d - 4.775 * d**3 + 2.0315 * d**5) @ v
    return np.sqrt(max(1, k.outs / k.ins)) * y


# Rows: the formula, its weight decay, the defaults, and sets of keys (weight_decay: by --weight-decay)
ADAM = dict(lr=1e-3, weight_decay=0, beta1=0.9, beta2=0.999, eps=1e-8)
ROWS = {
    'sgd': (sgd, 'l2', dict(lr=1e-2, weight_decay=0, momentum=0, dampening=0, nesterov=False),
          dict(lr=0.3, momentum=0.8, dampening=0.3, weight_decay=0.2), dict(lr=0.2, momentum=0.7, nesterov=True, weight_decay=0.1)),
    'adam': (adam, 'l2', dict(ADAM, amsgrad=False), dict(lr=0.02, beta1=0.7, beta2=0.9, eps=0.01, weight_decay=0.2), dict(lr=0.1, beta2=0.5, amsgrad=True)),
    'adamw': (adam, 'decoupled', dict(ADAM, amsgrad=False, weight_decay=0.01), dict(lr=0.02, beta1=0.7, beta2=0.9, eps=0.01, weight_decay=0.5),
            dict(lr=0.1, beta2=0.5, amsgrad=True, weight_decay=0)),
    'adagrad': (adagrad, 'l2', dict(lr=1e-2, weight_decay=0, lr_decay=0, initial_accumulator_value=0, eps=1e-10),
              dict(lr=0.05, lr_decay=0.2, weight_decay=0.2), dict(initial_accumulator_value=0.03, eps=0.02)),
    'adadelta': (adadelta, 'l2', dict(lr=1, weight_decay=0, rho=0.9, eps=1e-6), dict(lr=2, rho=0.7, eps=1e-3, weight_decay=0.2)),
    'rmsprop': (rmsprop, 'l2', dict(lr=1e-2, weight_decay=0, alpha=0.99, eps=1e-8, centered=False, momentum=0),
              dict(lr=0.02, alpha=0.8, centered=True, momentum=0.6), dict(eps=0.02, momentum=0.5, weight_decay=0.2)),
    'adamax': (adamax, 'l2', dict(ADAM, lr=2e-3), dict(lr=0.05, beta1=0.7, beta2=0.8, eps=0.01, weight_decay=0.2)),
    'nadam': (nadam, 'l2', dict(ADAM, lr=2e-3, momentum_decay=4e-3, decoupled_weight_decay=False),
            dict(lr=0.02, beta1=0.7, beta2=0.9, eps=0.01, momentum_decay=0.5, weight_decay=0.2), dict(decoupled_weight_decay=True, weight_decay=0.5)),
    'radam': (radam, 'l2', dict(ADAM, decoupled_weight_decay=False), dict(lr=0.02, beta1=0.7, beta2=0.9, eps=0.01, weight_decay=0.2),
            dict(decoupled_weight_decay=True, weight_decay=0.5)),
    'lion': (lion, 'decoupled', dict(lr=1e-4, weight_decay=0, beta1=0.9, beta2=0.99), dict(lr=0.05, beta1=0.2, beta2=0.6, weight_decay=0.5)),
    'lamb': (lamb, 'own', dict(ADAM, eps=1e-6), dict(lr=0.05, beta1=0.7, beta2=0.9, eps=0.01, weight_decay=0.5)),
    'lars': (lars, 'own', dict(lr=1, weight_decay=0, momentum=0.9, trust_coefficient=1e-3, eps=1e-8),
           dict(lr=2, momentum=0.6, trust_coefficient=0.02, eps=0.05, weight_decay=0.2), dict(eta=0.03)),
    'muon': (muon, 'decoupled', dict(ADAM, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5, amsgrad=False),
           dict(lr=0.02, momentum=0.7, nesterov=False, ns_steps=3, weight_decay=0.5), dict(lr=0.03, beta1=0.7, beta2=0.5, eps=0.01, amsgrad=True)),
}


def problem(ins, outs, transposed, scale):
    """m.onnx and d.npz: y = x w + b.  Weights, targets and so the first gradient have the given scale."""
    rng = np.random.default_rng(SEED)  # again for each row: rows do not depend on one another
    w, b, x, y = (rng.normal(0, size, shape).astype('f4') for size, shape in (
        (0.1 * scale, (outs, ins) if transposed else (ins, outs)), (0.1 * scale, outs), (1, (BATCH, ins)), (scale, (BATCH, outs))))
    graph = h.make_graph([h.make_node('Gemm', ['x', 'w', 'b'], ['y'], transB=int(transposed))], 'g',
                         [h.make_tensor_value_info('x', T.FLOAT, ['n', ins])], [h.make_tensor_value_info('y', T.FLOAT, ['n', outs])],
                         [numpy_helper.from_array(w, 'w'), numpy_helper.from_array(b, 'b')])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
    np.savez('d.npz', x=x, target=y)
    return [a.astype('f8') for a in (w, b, x, y)]


def follow(formula, decay, keys, transposed, updates, w, b, x, y):
    k, weights, states = SimpleNamespace(**keys, ins=x.shape[1], outs=y.shape[1]), [w, b], [collections.defaultdict(float) for _ in 'wb']
    coupled = decay == 'l2' and not keys.get('decoupled_weight_decay')
    for t in range(1, updates + 1):
        d = 2 / y.size * (x @ (weights[0].T if transposed else weights[0]) + weights[1] - y)  # mse: the mean over all elements
        for i, g in enumerate((d.T @ x if transposed else x.T @ d, d.sum(0))):
            v = weights[i]
            step = formula(v, g + k.weight_decay * v if coupled else g, states[i], t, k)
            weights[i] = v - k.lr * step - (0 if coupled or decay == 'own' else k.lr * k.weight_decay * v)
    return weights


def off(got, want, start, updates):
    """The largest error, in tolerances."""
    return max((np.abs(a - e) / (RTOL * np.abs(e - s).max() + updates * ROUND * np.abs(e).max())).max() for a, e, s in zip(got, want, start))


def row(name, formula, decay, defaults, changed, updates, *layout):
    start = problem(*layout)
    options = ','.join(f'{n}={v}'.lower() for n, v in changed.items() if n != 'weight_decay')
    options = ['--optimizer', name + (':' + options if options else '')]
    options += ['--weight-decay', str(changed['weight_decay'])] if 'weight_decay' in changed else []
    changed = {{'eta': 'trust_coefficient'}.get(n, n): v for n, v in changed.items()}  # another name of the same key
    what = f'{" ".join(options)}, (inputs, outputs, transposed, scale) {layout}, {updates} updates'
    if call('train', 'm.onnx', '--data', 'd.npz', '--loss', 'mse', '--steps', str(updates), '--batch-size', str(BATCH), '--no-shuffle',
            '--device', 'cpu', '--run-dir', 'none', '-o', 'out.onnx', *options).returncode:
        return
    got = {i.name: numpy_helper.to_array(i) for i in onnx.load('out.onnx').graph.initializer}
    want = follow(formula, decay, {**defaults, **changed}, layout[2], updates, *start)
    error = off((got['w'], got['b']), want, start, updates)
    verdict(what, None if error <= 1 else f'weights differ from the formula by {error:.3g} tolerances')
    for n in changed:  # a key that has no effect here is not tested
        less = follow(formula, decay, {**defaults, **changed, n: defaults[n]}, layout[2], updates, *start)
        check(off(less, want, start, updates) > 10, f'{what}: {n} has no effect in this row')


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    listed = call('help', '--markdown', 'optimizer').stdout
    keys = {name: {n for r in sets for n in r} for name, (_, _, _, *sets) in ROWS.items()}
    for n in sorted({*re.findall(r'^\| `(\w+)` \|', listed, re.M)} ^ {*ROWS}):
        check(False, f'optimizer {n}: add its formula and a row of ROWS to tests/optimizers/test_formulas.py, or help does not list it')
    for n, key in re.findall(r'^\| (\w+) \| `(\w+)` \|', listed, re.M):
        check(n not in keys or key in keys[n], f'optimizer {n}: add a set of keys with {key} to its row of ROWS in tests/optimizers/test_formulas.py')
    for name, (formula, decay, defaults, *sets) in ROWS.items():
        for layout in ((3, 6, False), (6, 3, False), (3, 6, True)) if name == 'muon' else ((6, 3, False),):
            for changed in ({}, *sets):
                row(name, formula, decay, defaults, changed, UPDATES, *layout, 1)
            # Gradients as small as an eps: the first one; radam, which uses eps later, keeps them small by its rate.
            row(name, formula, decay, defaults, *(({'lr': 1e-10}, UPDATES) if name == 'radam' else ({}, 1)), *layout, 1e-8)
    os.chdir('/')
finish('checks')
