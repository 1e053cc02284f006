"""Makes cases/: small networks exported with a batch of one, and what PyTorch makes of them in batches of four.

usage: make_cases.py [NAME ...]     with PyTorch and its ONNX exporters; the tests need neither
"""
import os
import sys

import numpy as np
import onnx
import torch

from networks import networks

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cases')
SAMPLES, BATCH, STEPS = 10, 4, 5


def draw(shape, classes, rng, n):
    if classes is None:
        return torch.from_numpy(rng.standard_normal((n, *shape)).astype(np.float32))
    return torch.from_numpy(rng.integers(0, classes, (n, *shape)))


def export(module, one, names, exporter, path):
    training = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in module.modules())
    if exporter == 'dynamo':
        torch.onnx.export(module, one, path, input_names=names, output_names=['y'], dynamo=True, external_data=False, optimize=not training,
                          verbose=False)
    else:
        mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(module, one, path, input_names=names, output_names=['y'], dynamo=False, opset_version=17, training=mode,
                          do_constant_folding=not training)
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ''
        del node.metadata_props[:]
    for value in list(model.graph.value_info):
        value.doc_string = ''
        del value.metadata_props[:]
    del model.metadata_props[:]
    onnx.save(model, path)
    # Constants of the exporter, whatever they look like: GroupNorm below opset 21 is InstanceNormalization with scale 1 and
    # bias 0; the scale of attention.
    fixed = {n for node in model.graph.node if node.op_type == 'InstanceNormalization' for n in node.input[1:]}
    fixed |= {t.name for t in model.graph.initializer if list(t.dims) == [1] and t.name.startswith('val_') and t.data_type == 1}
    return sorted(fixed)


def train(module, data, target):
    """Losses of STEPS updates, in batches in order that wrap around."""
    module.train()
    o = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        at = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        loss = torch.nn.functional.cross_entropy(module(*[d[at] for d in data]), target[at])
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss.item())
    return np.array(losses)


def main(only):
    os.makedirs(HERE, exist_ok=True)
    for name, (make, inputs) in networks.items():
        if only and name not in only:
            continue
        for exporter in ('dynamo', 'script'):
            torch.manual_seed(3)
            rng = np.random.default_rng(5)
            module = make().eval()
            with torch.no_grad():
                for parameter in module.parameters(): # exporters store equal tensors once, and they would train as one
                    parameter += 0.1 * torch.randn_like(parameter)
            data = [draw(shape, classes, rng, SAMPLES) for shape, classes in inputs.values()]
            if name == 'padding_mask':
                data[1][:, 0] = 1
            target = torch.from_numpy(rng.integers(0, 3, SAMPLES))
            stem = os.path.join(HERE, f'{name}-{exporter}')
            try:
                fixed = export(module, tuple(d[:1] for d in data), list(inputs), exporter, stem + '.onnx')
            except Exception as e:
                print(name, exporter, 'no export:', type(e).__name__, str(e)[:150])
                continue
            with torch.no_grad():
                y = torch.cat([module(*[d[i:i + 1] for d in data]) for i in range(SAMPLES)]).numpy()
            losses = train(module, data, target)
            arrays = {n: d.numpy() for n, d in zip(inputs, data)}
            np.savez_compressed(stem + '.npz', **arrays, expected_fixed=np.array(fixed, 'S'), target=target.numpy(), expected_y=y, expected_losses=losses)
            print(stem, losses[[0, -1]])


if __name__ == '__main__':
    main(sys.argv[1:])
