"""Makes the cases of this folder: quantised models, and what PyTorch and ONNX Runtime make of them.

usage: make_quantised.py FOLDER [NAME...]     (with torch, onnx, onnxruntime)

NAME.onnx is the model, NAME.npz one batch of it: inputs and target, `want_OUTPUT` by ONNX Runtime, and, of five updates of SGD
at a rate of 0.05 in PyTorch, `losses` and the trained initializers at the end, `end_NAME`, as the file keeps them.
"""
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

FOLDER, NAMES = sys.argv[1], sys.argv[2:]
RATE, STEPS = 0.05, 5


# ---- networks ----------------------------------------------------------------------------

class Pictures(nn.Module):
    def __init__(self, c=4, twice=True):
        super().__init__()
        self.conv1 = nn.Conv2d(2, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.conv4 = self.conv2 if twice else nn.Conv2d(c, c, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * c, c, 1)
        self.fc = nn.Linear(c * 4, 5)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = F.max_pool2d(x, 2)
        x = x + torch.relu(self.conv2(x))
        x = torch.relu(self.conv3(torch.cat([x, self.conv4(x)], 1)))
        return self.fc(torch.flatten(F.avg_pool2d(x, 2), 1))


class Once(Pictures):
    """A QLinearConv has no scale of its own for a bias: two that share one read it differently, and it stays as it is."""

    def __init__(self):
        super().__init__(twice=False)


class Tokens(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)
        self.head = nn.Linear(d, 3)

    def forward(self, x):
        return self.head((x + self.down(torch.sigmoid(self.up(self.norm(x))))).mean(1))


PICTURES, TOKENS = (6, 2, 8, 8), (6, 5, 8)


def batch(shape, classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype('f4'), rng.integers(0, classes, shape[0])


def exported(make, shape, dynamo=False):
    torch.manual_seed(3)
    net = make().eval()
    with tempfile.TemporaryDirectory() as d:
        if dynamo:
            torch.onnx.export(net, (torch.randn(shape),), f'{d}/m.onnx', dynamo=True, input_names=['input'], output_names=['output'], external_data=False)
            model = onnx.load(f'{d}/m.onnx')
            for n in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
                keep = {p.key: p.value for p in n.metadata_props if 'trace' not in p.key}
                n.ClearField('metadata_props')
                n.metadata_props.extend(onnx.StringStringEntryProto(key=k, value=v) for k, v in keep.items())
            return model
        torch.onnx.export(net, (torch.randn(shape),), f'{d}/m.onnx', dynamo=False, opset_version=17, input_names=['input'],
                          output_names=['output'], dynamic_axes={'input': {0: 'N'}, 'output': {0: 'N'}})
        return onnx.load(f'{d}/m.onnx')


class Reader(CalibrationDataReader):
    def __init__(self, shape):
        self.left = [batch(shape, 2, k + 1)[0] for k in range(3)]

    def get_next(self):
        return {'input': self.left.pop()} if self.left else None


def static(make, shape, **how):
    with tempfile.TemporaryDirectory() as d:
        onnx.save(exported(make, shape), f'{d}/m.onnx')
        quantize_static(f'{d}/m.onnx', f'{d}/q.onnx', Reader(shape), **how)
        return onnx.load(f'{d}/q.onnx')


def dynamic(make, shape, **how):
    with tempfile.TemporaryDirectory() as d:
        onnx.save(exported(make, shape), f'{d}/m.onnx')
        quantize_dynamic(f'{d}/m.onnx', f'{d}/q.onnx', **how)
        return onnx.load(f'{d}/q.onnx')


def aware(dynamo=False):
    """As PyTorch's quantisation-aware training exports: weights in floats, ranges of 7 bits are a Clip between Q and DQ."""
    class Aware(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(2, 4, 3), nn.Linear(16, 5)
            self.register_buffer('scale', self.conv.weight.detach().abs().amax((1, 2, 3)) / 100)
            self.register_buffer('zero', torch.zeros(4, dtype=torch.int32))

        def forward(self, x):
            x = torch.fake_quantize_per_tensor_affine(x, 0.02, 60, 0, 127)
            w = torch.fake_quantize_per_channel_affine(self.conv.weight, self.scale, self.zero, 0, -128, 127)
            x = torch.relu(F.conv2d(x, w, self.conv.bias))
            x = torch.fake_quantize_per_tensor_affine(F.max_pool2d(x, 3), 0.012, 3, 0, 127)
            return F.linear(torch.flatten(x, 1), torch.fake_quantize_per_tensor_affine(self.fc.weight, 0.002, 0, -128, 127), self.fc.bias)
    return exported(Aware, PICTURES, dynamo)


def blocks():
    """Weights alone in int4 and uint4, a scale for every block of rows."""
    rng = np.random.default_rng(7)
    pack = lambda name, kind, v: helper.make_tensor(name, kind, v.shape, v.reshape(-1).tolist())
    tensors = [pack('up', TensorProto.INT4, rng.integers(-8, 8, (8, 12))), pack('down', TensorProto.UINT4, rng.integers(0, 16, (12, 5))),
               numpy_helper.from_array((rng.random((2, 12)) / 20 + .01).astype('f4'), 'up_scale'),
               numpy_helper.from_array((rng.random((3, 5)) / 20 + .01).astype('f4'), 'down_scale'),
               pack('down_zero', TensorProto.UINT4, rng.integers(5, 11, (3, 5)))]
    node = helper.make_node
    nodes = [node('DequantizeLinear', ['up', 'up_scale'], ['w1'], axis=0, block_size=4), node('MatMul', ['input', 'w1'], ['h']),
             node('Relu', ['h'], ['r']), node('DequantizeLinear', ['down', 'down_scale', 'down_zero'], ['w2'], axis=0, block_size=5),
             node('MatMul', ['r', 'w2'], ['output'])]
    f = TensorProto.FLOAT
    g = helper.make_graph(nodes, 'blocks', [helper.make_tensor_value_info('input', f, ['N', 8])],
                          [helper.make_tensor_value_info('output', f, ['N', 5])], tensors)
    return helper.make_model(g, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)


QDQ, OPERATORS = dict(quant_format=QuantFormat.QDQ), dict(quant_format=QuantFormat.QOperator)
CASES = {
    'tensor': (lambda: static(Pictures, PICTURES, activation_type=QuantType.QUInt8, **QDQ), PICTURES, 5),
    'channel': (lambda: static(Pictures, PICTURES, per_channel=True, activation_type=QuantType.QInt8, **QDQ), PICTURES, 5),
    'unsigned': (lambda: static(Pictures, PICTURES, weight_type=QuantType.QUInt8, activation_type=QuantType.QUInt8, **QDQ), PICTURES, 5),
    'tokens': (lambda: static(Tokens, TOKENS, per_channel=True, **QDQ), TOKENS, 3),
    'aware': (aware, PICTURES, 5), 'aware-dynamo': (lambda: aware(True), PICTURES, 5),
    'blocks': (blocks, (6, 8), 5),
    'operators': (lambda: static(Once, PICTURES, activation_type=QuantType.QUInt8, **OPERATORS), PICTURES, 5),
    'operators-channel': (lambda: static(Once, PICTURES, per_channel=True, activation_type=QuantType.QInt8, **OPERATORS), PICTURES, 5),
    'operators-tokens': (lambda: static(Tokens, TOKENS, activation_type=QuantType.QUInt8, **OPERATORS), TOKENS, 3),
    'dynamic-pictures': (lambda: dynamic(Pictures, PICTURES, weight_type=QuantType.QUInt8), PICTURES, 5),
    'dynamic-tokens': (lambda: dynamic(Tokens, TOKENS), TOKENS, 3),
    'dynamic-channel': (lambda: dynamic(Tokens, TOKENS, per_channel=True), TOKENS, 3),
}


# ---- quantised operators as plain ones between DequantizeLinear and QuantizeLinear ----------------

def spelled(model):
    """Nodes and tensors.  A product of integers that were quantised dynamically becomes one of floats, too; 'Fake' rounds by the range."""
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    made = {o: n for n in model.graph.node for o in n.output}
    read = {}
    for n in model.graph.node:
        for i in n.input:
            read.setdefault(i, []).append(n)
    nodes, gone = [], set()
    add = lambda op, i, o, **at: nodes.append(helper.make_node(op, [k for k in i], [o], **at)) or o
    for n in model.graph.node:
        i, o, op = list(n.input), n.output[0], n.op_type
        at = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        dq = lambda k, **a: add('DequantizeLinear', i[k:k + 3], f'{o}/{k}', **a)

        def bias(k, first, second):
            if k >= len(i) or not i[k]:
                return []
            tensors[f'{o}/step'] = tensors[i[first]] * tensors[i[second]]
            return [add('DequantizeLinear', [i[k], f'{o}/step'], f'{o}/bias', axis=0)]
        if o in gone:
            continue
        if op == 'QLinearConv':
            add('QuantizeLinear', [add('Conv', [dq(0), dq(3, axis=0), *bias(8, 1, 4)], f'{o}/y', **at), *i[6:8]], o)
        elif op == 'QLinearMatMul':
            add('QuantizeLinear', [add('MatMul', [dq(0), dq(3, axis=-1)], f'{o}/y'), *i[6:8]], o)
        elif op == 'QGemm':
            y = add('Gemm', [dq(0), dq(3, axis=0 if at.get('transB') else 1), *bias(6, 1, 4)], f'{o}/y', transB=at.get('transB', 0))
            add('QuantizeLinear', [y, *i[7:9]], o) if len(i) > 7 else add('Identity', [y], o)
        elif op == 'QLinearAdd':
            add('QuantizeLinear', [add('Add', [dq(0), dq(3)], f'{o}/y'), *i[6:8]], o)
        elif op in ('QLinearSigmoid', 'QLinearAveragePool'):
            add('QuantizeLinear', [add(op[7:], [dq(0)], f'{o}/y', **at), *i[3:5]], o)
        elif op == 'QLinearConcat':
            add('QuantizeLinear', [add('Concat', [dq(k) for k in range(2, len(i), 3)], f'{o}/y', **at), *i[:2]], o)
        elif op in ('MatMulInteger', 'ConvInteger'):
            cast, = read[o]
            mul, = read[cast.output[0]]
            scales = made[next(k for k in mul.input if k != cast.output[0])]
            ws = next(k for k in scales.input if k in tensors)
            add('Fake', [made[i[0]].input[0]], f'{o}/x')
            add('DequantizeLinear', [i[1], ws, i[3]], f'{o}/w', axis=-1)
            add('Conv' if op == 'ConvInteger' else 'MatMul', [f'{o}/x', f'{o}/w'], mul.output[0], **at)
            gone |= {cast.output[0], mul.output[0]}
        elif op != 'DynamicQuantizeLinear' and not any(made.get(k) and made[k].op_type == 'DynamicQuantizeLinear' for k in i):
            nodes.append(n)
    return nodes, tensors


# ---- the judge: the nodes in PyTorch, roundings straight-through ------------------------------

class Judge:
    """Initializers that are floats train, and integers that a DequantizeLinear alone reads, as the floats they stand for."""

    def __init__(self, model):
        self.nodes, self.tensors = spelled(model)
        for n in self.nodes:
            if n.op_type == 'Constant':
                self.tensors[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
        self.made = {n.output[0]: n for n in self.nodes}
        self.masters, self.how = {}, {}
        scales = {i for n in self.nodes if n.op_type in ('QuantizeLinear', 'DequantizeLinear') for i in n.input[1:]}
        for n in self.nodes:
            if n.op_type == 'DequantizeLinear' and n.input[0] in self.tensors:
                self.how[n.input[0]] = n
                s, z = self.grid(n, self.tensors[n.input[0]].shape)
                self.masters[n.input[0]] = torch.tensor((self.tensors[n.input[0]].astype('f8') - z).astype('f4') * s, requires_grad=True)
        for t in model.graph.initializer:
            if t.data_type == TensorProto.FLOAT and t.name not in scales and len(t.dims) > 0:
                self.masters[t.name] = torch.tensor(self.tensors[t.name], requires_grad=True)

    def grid(self, n, shape):
        """Scale and zero point of a Q or DQ, as broad as x."""
        at = {a.name: a.i for a in n.attribute}
        s = self.tensors[n.input[1]]
        z = self.tensors[n.input[2]].astype('i8') if len(n.input) > 2 else np.zeros(s.shape, 'i8')
        out = []
        for v in (s, z):
            if at.get('block_size'):
                axis = at['axis']
                v = np.take(np.repeat(v, at['block_size'], axis), range(shape[axis]), axis)
            elif v.size > 1:
                v = v.reshape([-1 if d == at.get('axis', 1) % len(shape) else 1 for d in range(len(shape))])
            out.append(v)
        return out

    def kind(self, n):
        name = n.input[0] if n.input[0] in self.tensors and n.op_type == 'DequantizeLinear' else n.input[2] if len(n.input) > 2 else None
        d = self.tensors[name].dtype if name else np.dtype('u1')
        bits = {'int4': 4, 'uint4': 4}.get(d.name, d.itemsize * 8)
        return (-2 ** (bits - 1), 2 ** (bits - 1) - 1) if d.name.startswith('int') else (0, 2 ** bits - 1)

    def rounded(self, x, n, low, high):
        s, z = (torch.tensor(np.asarray(v, 'f4')) for v in self.grid(n, x.shape))
        q = torch.round(x / s) + z
        inside = (q >= low) & (q <= high)
        y = (torch.clamp(q, low, high) - z) * s
        return torch.where(inside, x, x.detach()) * inside + (y - x * inside).detach()

    def get(self, env, name):
        if name in env:
            return env[name]
        return self.masters[name] if name in self.masters else torch.tensor(self.tensors[name])

    def __call__(self, x):
        env = {'input': x}
        for n in self.nodes:
            at = {a.name: helper.get_attribute_value(a) for a in n.attribute}
            i, op = list(n.input), n.op_type
            if op == 'Constant' or (op == 'Clip' and self.made.get(i[0], n).op_type == 'QuantizeLinear'):
                continue
            if op == 'QuantizeLinear':
                env[n.output[0]] = self.rounded(self.get(env, i[0]), n, *self.kind(n))
                continue
            if op == 'Fake':
                x = self.get(env, i[0])
                low, high = (v.detach().clamp(max=0) if k == 0 else v.detach().clamp(min=0) for k, v in enumerate((x.min(), x.max())))
                s = (high - low) / 255
                z = torch.clamp(torch.round(-low / s), 0, 255)
                y = (torch.clamp(torch.round(x / s) + z, 0, 255) - z) * s
                env[n.output[0]] = x + (y - x).detach()
                continue
            if op == 'DequantizeLinear':
                low, high = self.kind(n)
                if i[0] in self.tensors:
                    y = self.rounded(self.masters[i[0]], n, low, high)
                else:
                    q = self.made[i[0]]
                    y = env.get(i[0])
                    if q.op_type == 'Clip':
                        low, high = (int(self.tensors[k]) if k else v for k, v in zip(q.input[1:], self.kind(n)))
                        y = self.rounded(self.get(env, self.made[q.input[0]].input[0]), n, low, high)
            else:
                a = [self.get(env, k) for k in i]
                y = {
                    'Conv': lambda: F.conv2d(a[0], a[1], a[2] if len(a) > 2 else None, at.get('strides', [1, 1]), at.get('pads', [0])[0]),
                    'Gemm': lambda: a[0] @ (a[1].T if at.get('transB') else a[1]) + a[2], 'MatMul': lambda: a[0] @ a[1], 'Add': lambda: a[0] + a[1],
                    'Mul': lambda: a[0] * a[1], 'Reshape': lambda: a[0].reshape(a[1].tolist()), 'Relu': lambda: torch.relu(a[0]), 'Sigmoid': lambda: torch.sigmoid(a[0]), 'Flatten': lambda: torch.flatten(a[0], 1),
                    'Concat': lambda: torch.cat(a, at.get('axis')), 'ReduceMean': lambda: a[0].mean(at['axes'], bool(at.get('keepdims', 1))),
                    'MaxPool': lambda: F.max_pool2d(a[0], at['kernel_shape'], at['strides']),
                    'AveragePool': lambda: F.avg_pool2d(a[0], at['kernel_shape'], at['strides']), 'Identity': lambda: a[0],
                    'LayerNormalization': lambda: F.layer_norm(a[0], a[1].shape, a[1], a[2], at.get('epsilon', 1e-5)),
                }[op]()
            env[n.output[0]] = y
        return env['output']

    def end(self, name):
        """The integers of a master; a float as it is."""
        v = self.masters[name].detach()
        if name not in self.how:
            return v.numpy()
        n = self.how[name]
        s, z = self.grid(n, v.shape)
        return np.clip(np.rint(v.numpy() / s) + z, *self.kind(n)).astype('i4')


def trained(model, x, target):
    judge = Judge(model)
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(judge(torch.tensor(x)), torch.tensor(target))
        losses.append(loss.item())
        for g, w in zip(torch.autograd.grad(loss, list(judge.masters.values()), allow_unused=True), judge.masters.values()):
            with torch.no_grad():
                w -= 0 if g is None else RATE * g
    return {'losses': np.array(losses)} | {f'end_{k}': judge.end(k) for k in judge.masters}


def main():
    for name, (make, shape, classes) in CASES.items():
        if NAMES and name not in NAMES:
            continue
        model = make()
        del model.graph.value_info[:]
        onnx.checker.check_model(model)
        x, target = batch(shape, classes)
        onnx.save(model, f'{FOLDER}/{name}.onnx')
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        want = ort.InferenceSession(f'{FOLDER}/{name}.onnx', options, providers=['CPUExecutionProvider']).run(None, {'input': x})[0]
        arrays = {'input': x, 'target': target, 'want_output': want} | trained(model, x, target)
        np.savez_compressed(f'{FOLDER}/{name}.npz', **arrays)
        print(f'{name}: {len(model.graph.node)} nodes, losses', *(f'{v:.5f}' for v in arrays['losses']))


main()
