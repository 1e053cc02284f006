"""Exports networks as their libraries say, and writes down what PyTorch makes of them.

usage: make.py FOLDER [--only TEXT] [--family NAME] [--export d1|tt|own|dd] [--again]

One folder per graph: model.onnx, data.npz (inputs and target of eight samples, what is expected) and facts.json. A graph that is there
is left alone. `d1` is torch.onnx.export with its defaults and a batch of one; `tt` the TorchScript exporter in training mode with
an open batch; `own` the library's exporter; `dd`, only when asked for, what `d1` is with a dynamic batch: its losses are `d1`'s.
"""
import argparse
import copy
import inspect
import io
import json
import logging
import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout

os.environ.setdefault('OMP_NUM_THREADS', '1')
import numpy as np
import onnx
import torch

import families
from cases import by_name
from values import kinds

warnings.filterwarnings('ignore')
logging.disable(logging.CRITICAL)
torch.set_num_threads(1)
SAMPLES, BATCH, STEPS, SECONDS = 8, 4, 5, 600


def norms(module):
    return [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]


def prepare(module, fold):
    """Parameters of their own values (exporters store equal tensors once). With `fold`, BatchNorm adds its bias and does nothing else, so that
    folding it into a convolution leaves the convolution's weight as the parameter; its scale, and biases that end in
    its bias, do not train."""
    g = torch.Generator().manual_seed(7)
    if hasattr(getattr(module, 'config', None), 'layerdrop'):
        module.config.layerdrop = 0.0
    for m in module.modules():
        if hasattr(m, 'layerdrop'):
            m.layerdrop = 0.0
        if hasattr(m, 'drop_prob'):
            m.drop_prob = 0.0 # noise that no option turns off: an export in training mode draws it
        if type(m).__name__ == 'StochasticDepth':
            m.p = 0.0
        if isinstance(m, torch.nn.Embedding) and not fold:
            m.padding_idx = None # a row without a gradient: TorchScript's exporter does not say so
    with torch.no_grad():
        for p in module.parameters():
            if p.is_floating_point() and p.requires_grad:
                p += torch.randn(p.shape, generator=g) * (0.1 * p.std() if p.numel() > 1 and p.std() > 1e-3 * p.abs().max() else 0.02)
        for m in norms(module):
            if not m.track_running_stats:
                continue
            if not fold:
                m.running_mean += 0.1 * torch.randn(m.running_mean.shape, generator=g)
                m.running_var *= 1 + 0.2 * torch.rand(m.running_var.shape, generator=g)
                continue
            v, eps = np.float32(1 - m.eps), np.float32(m.eps)
            while np.float32(v + eps) != 1:
                v = np.nextafter(v, np.float32(2 if v + eps < 1 else 0))
            m.running_mean.zero_()
            m.running_var.fill_(float(v))
            if m.affine:
                m.weight.fill_(1).requires_grad_(False)
        for m in module.modules(): # Keras'
            if fold and type(m).__name__ == 'BatchNormalization':
                m.moving_mean.assign(torch.zeros_like(m.moving_mean.value))
                m.moving_variance.assign(torch.full_like(m.moving_variance.value, 1 - m.epsilon))
        for name, p in module.named_parameters():
            if fold and 'batch_normalization/gamma' in name:
                p.fill_(1).requires_grad_(False)
        if fold and norms(module):
            for m in module.modules():
                if isinstance(m, (torch.nn.modules.conv._ConvNd, torch.nn.Linear)) and m.bias is not None:
                    m.bias.zero_().requires_grad_(False)


def first(y):
    """The first tensor of floats in what a module gives."""
    if isinstance(y, torch.Tensor):
        return y if y.is_floating_point() else None
    parts = y.values() if isinstance(y, dict) else y if isinstance(y, (list, tuple)) else ()
    return next((t for t in map(first, parts) if t is not None), None)


def pick(module, y):
    """The output that is trained."""
    name = getattr(module, 'zoo_output', None)
    return y[name] if name else first(y)


def call(module, data, at):
    return pick(module, module(**{k: v[at] for k, v in data.items()}) if by_name(module) else module(*[v[at] for v in data.values()]))


def train(module, data, target, lr):
    o = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=lr or 0, momentum=0.9)
    losses = []
    for step in range(STEPS):
        at = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        y = call(module, data, at)
        loss = torch.nn.functional.mse_loss(y, target[at].to(y.dtype))
        o.zero_grad()
        loss.backward()
        if lr is None:
            g2 = sum((p.grad.double() ** 2).sum().item() for p in module.parameters() if p.grad is not None)
            return float(f'{0.03 * loss.item() / max(g2, 1e-12):.3g}')
        o.step()
        losses.append(loss.item())
    return losses


def export(module, data, how, path):
    one = {k: v[:1 if how == 'd1' else 2] for k, v in data.items()} # a size of one is a constant, and nothing that BatchNorm trains on
    names = list(one)
    args = {'args': (), 'kwargs': one} if by_name(module) else {'args': tuple(one.values())}
    if how in ('d1', 'dd'):
        more = {'dynamic_shapes': {k: {0: torch.export.Dim.DYNAMIC} for k in names}} if how == 'dd' else {}
        torch.onnx.export(module, **args, f=path, input_names=names, dynamo=True, external_data=False, verbose=False, **more)
    else:
        forward = module.forward
        module.forward = lambda *a, **k: pick(module, forward(**dict(zip(names, a)), **k) if by_name(module) else forward(*a)) # it traces no classes of outputs
        if by_name(module): # nor other parameters, whose defaults would become inputs
            module.forward.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
        torch.onnx.export(module, **args, f=path, input_names=names, output_names=['y'], dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamic_axes={k: {0: 'batch'} for k in [*names, 'y']})
    module.__dict__.pop('forward', None)
    return module


def output_of(model, case, file, data, y):
    """The file's name of the output that is trained: the first of floats, or the one that has the named output's values."""
    floats = [o.name for o in model.graph.output if o.type.tensor_type.elem_type == 1]
    if not case.output:
        return floats[0]
    import onnxruntime as ort
    s = ort.InferenceSession(file, providers=['CPUExecutionProvider'])
    got = dict(zip(floats, s.run(floats, {i.name: data[i.name][:1].numpy() for i in s.get_inputs()})))
    return min((n for n in floats if got[n].shape[1:] == y.shape[1:]), key=lambda n: np.abs(got[n] - y[:1].numpy()).max())


def write(case, how, path):
    torch.manual_seed(0)
    facts = {'family': case.family, 'name': case.name, 'export': how}
    began = time.time()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        module = case.make().eval()
        if sum(p.numel() for p in module.parameters()) > 50e6:
            raise ValueError('over 50 million parameters')
        module.zoo_output = case.output
        prepare(module, how in ('d1', 'dd') or case.family == 'keras')
        rng = np.random.default_rng(5)
        data = {k: v(SAMPLES, rng) for k, v in case.inputs.items()}
        file = os.path.join(path, 'model.onnx')
        truth = (case.export or export)(copy.deepcopy(module), data, how, file).eval()
        if how in ('d1', 'dd'):
            truth = module
        model = onnx.load(file)
    with torch.no_grad():
        y = call(truth, data, list(range(BATCH)))
        apart = torch.cat([call(truth, data, [i]) for i in range(BATCH)])
    facts['output'] = output_of(model, case, file, data, y)
    facts['mixes'] = float((y - apart).abs().max() / max(1, y.abs().max())) # does the module itself mix its batch?
    held = {n for n, p in module.named_parameters() if not p.requires_grad} # a copy of Keras' forgets it
    for n, p in truth.named_parameters():
        p.requires_grad_(p.requires_grad and n not in held)
    floats = {n: p for n, p in truth.named_parameters() if p.is_floating_point()}
    facts['tensors'], facts['lost'] = kinds(model, {n: p.detach().float().numpy() for n, p in floats.items() if p.requires_grad},
                                            {n: p.detach().float().numpy() for n, p in floats.items() if not p.requires_grad},
                                            [b.float().numpy() for b in truth.buffers() if b.is_floating_point()])
    for n, p in truth.named_parameters(): # what the exporter folded into something else cannot train
        p.requires_grad_(p.requires_grad and n not in facts['lost'])
    target = torch.from_numpy(rng.standard_normal((SAMPLES, *y.shape[1:])).astype('f4')) * y.std() + y.mean()
    arrays = {k: v.numpy() for k, v in data.items()}
    names = [i.name for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    arrays = {n: a for n, a in zip(names, arrays.values())} if not set(names) <= set(arrays) else {n: arrays[n] for n in names}
    arrays |= {'target_' + facts['output']: target.numpy(), 'expected_batch': y.numpy(), 'expected_apart': apart.numpy()}
    try:
        import onnxruntime as ort
        ort.set_default_logger_severity(4)
        s = ort.InferenceSession(file, providers=['CPUExecutionProvider'])
        arrays['expected_ort'] = s.run([facts['output']], {n: arrays[n][:1] for n in names})[0]
        off = np.abs(arrays['expected_ort'] - apart[:1].numpy()).max() / max(1, apart.abs().max().item())
        facts['ort_off'] = float(off)
    except Exception as e:
        facts['ort'] = str(e)[:300]
    facts['lr'] = train(copy.deepcopy(truth), data, target, None)
    after = copy.deepcopy(truth)
    facts['losses'] = train(after, data, target, facts['lr'])
    try: # how far rounding alone takes the losses
        exact = train(copy.deepcopy(truth).double(), {k: v.double() if v.is_floating_point() else v for k, v in data.items()}, target, facts['lr'])
        facts['rounding'] = max(abs(a - b) / abs(b) for a, b in zip(facts['losses'], exact))
    except RuntimeError:
        facts['rounding'] = 0.0 # a type is written down in the module
    with torch.no_grad():
        arrays['expected_after'] = call(after, data, [0]).numpy()
    facts['seconds'] = round(time.time() - began, 1)
    np.savez(os.path.join(path, 'data.npz'), **arrays)
    json.dump(facts, open(os.path.join(path, 'facts.json'), 'w'), indent=0)
    return facts


def one(case, how, folder):
    """In a process of its own, so that an exporter's crash or endless loop ends one graph."""
    stem = os.path.join(folder, f'{case.family}-{case.name}-{how}')
    tmp = stem + '.tmp'
    shutil.rmtree(tmp, ignore_errors=True)
    os.makedirs(tmp)
    pid = os.fork()
    if not pid:
        signal.alarm(SECONDS)
        try:
            f = write(case, how, tmp)
            os.rename(tmp, stem)
            print(f"made {os.path.basename(stem)} {f['seconds']} s, losses {f['losses'][0]:.4g} to {f['losses'][-1]:.4g}", flush=True)
        except BaseException as e:
            while e.__cause__ is not None: # exporters wrap what they met
                e = e.__cause__
            where = traceback.extract_tb(e.__traceback__)[-1]
            open(stem + '.refused', 'w').write(f'{type(e).__name__}: {str(e)[:400]} ({where.filename}:{where.lineno})')
            print(f'no export {os.path.basename(stem)}: {type(e).__name__}: {str(e)[:160]!r} ({os.path.basename(where.filename)}:{where.lineno})', flush=True)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        open(stem + '.refused', 'w').write(f'the exporter ended with status {status}')
        print(f'no export {os.path.basename(stem)}: status {status}', flush=True)
    shutil.rmtree(tmp, ignore_errors=True)


def turns(work):
    """The families by turns, so that all are seen early."""
    queues = {}
    for case, how in work:
        queues.setdefault((case.family, how), []).append((case, how))
    while queues:
        for key in list(queues):
            yield queues[key].pop(0)
            if not queues[key]:
                del queues[key]


def main():
    p = argparse.ArgumentParser()
    p.add_argument('folder')
    p.add_argument('--only', default='')
    p.add_argument('--family', default='')
    p.add_argument('--export', default='')
    p.add_argument('--again', action='store_true')
    p.add_argument('--first', help='a file of names, one a line: these, and in this order')
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    work = list(turns([(c, h) for c in families.cases(a.family) for h in c.exports + (('dd',) if (a.first or a.export == 'dd') and 'd1' in c.exports else ())]))
    if a.first:
        order = open(a.first).read().split()
        there = {f'{c.family}-{c.name}-{h}': (c, h) for c, h in work}
        work = [there[n] for n in order if n in there]
    for case, how in work:
        stem = os.path.join(a.folder, f'{case.family}-{case.name}-{how}')
        if a.only not in stem or (a.export and how != a.export):
            continue
        if a.again:
            shutil.rmtree(stem, ignore_errors=True)
        if a.again or not (os.path.exists(stem) or os.path.exists(stem + '.refused')):
            one(case, how, a.folder)


if __name__ == '__main__':
    main()
