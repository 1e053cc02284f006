"""Makes the models of this folder: what exporters and quantisers leave of the same small networks.

usage: make.py FOLDER     (with torch, onnx, onnxscript, onnxruntime)
"""
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from torch import nn
from torch.onnx import TrainingMode

FOLDER = sys.argv[1]


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class Residual(nn.Module):
    """ResNet in small: five convolutions, each with a norm behind it."""

    def __init__(self, c=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, c, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.layer = nn.Sequential(Block(c), Block(c))
        self.fc = nn.Linear(c, 10)

    def forward(self, x):
        return self.fc(self.layer(torch.relu(self.bn1(self.conv1(x)))).mean((2, 3)))


class Plain(nn.Module):
    """VGG in small: eight convolutions with a bias; with norms or without."""

    def __init__(self, norms, c=4):
        super().__init__()
        layers, before = [], 1
        for k in range(8):
            layers += [nn.Conv2d(before, c, 3, padding=1)] + norms * [nn.BatchNorm2d(c)] + [nn.ReLU()]
            layers += (k in (1, 3, 5)) * [nn.MaxPool2d(2)]
            before = c
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(c * 9, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def save(model, name):
    """Without the stack traces that the exporter leaves in every node."""
    for n in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer]:
        for field in ('metadata_props', 'doc_string'):
            if field in n.DESCRIPTOR.fields_by_name:
                n.ClearField(field)
    del model.graph.value_info[:]
    model.graph.ClearField('metadata_props')
    onnx.checker.check_model(model)
    onnx.save(model, f'{FOLDER}/{name}.onnx')


def fresh(make, *a):
    torch.manual_seed(1)
    return make(*a)


def export(model, name, **how):
    with tempfile.TemporaryDirectory() as d:
        if how['dynamo']:
            how |= dict(dynamic_shapes=({0: torch.export.Dim('N')},), external_data=False)
        else:
            how |= dict(dynamic_axes={'input': {0: 'N'}, 'output': {0: 'N'}})
        torch.onnx.export(model, (torch.randn(2, 1, 28, 28),), f'{d}/m.onnx', input_names=['input'], output_names=['output'], **how)
        save(onnx.load(f'{d}/m.onnx'), name)


class Pictures(CalibrationDataReader):
    left = 2

    def get_next(self):
        self.left -= 1
        return {'input': np.random.default_rng(self.left).normal(size=(4, 1, 28, 28)).astype('f4')} if self.left >= 0 else None


def dense(dtype, label):
    """Two dense layers; label: the class in place of its scores."""
    rng = np.random.default_rng(0)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensors = [numpy_helper.from_array((rng.normal(size=s) / 4).astype(dtype), n)
               for n, s in (('w1', (8, 16)), ('b1', (16,)), ('w2', (16, 10)), ('b2', (10,)))]
    nodes = [helper.make_node('Gemm', ['input', 'w1', 'b1'], ['h'], 'fc1'), helper.make_node('Relu', ['h'], ['r'], 'relu'),
             helper.make_node('Gemm', ['r', 'w2', 'b2'], ['scores'], 'fc2')]
    outputs = [helper.make_tensor_value_info('scores', kind, ['N', 10])]
    if label:
        nodes.append(helper.make_node('ArgMax', ['scores'], ['label'], 'label', axis=1, keepdims=0))
        outputs = [helper.make_tensor_value_info('label', TensorProto.INT64, ['N'])]
    g = helper.make_graph(nodes, 'dense', [helper.make_tensor_value_info('input', kind, ['N', 8])], outputs, tensors)
    return helper.make_model(g, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)


export(fresh(Residual).train(), 'norms-training', dynamo=False, training=TrainingMode.TRAINING, do_constant_folding=False)
export(fresh(Residual).eval(), 'norms-shared', dynamo=False, training=TrainingMode.EVAL, do_constant_folding=False)
export(fresh(Residual).eval(), 'norms-kept', dynamo=True, optimize=False)
export(fresh(Residual).eval(), 'folded-torchscript', dynamo=False)
export(fresh(Residual).train(), 'folded-dynamo', dynamo=True)
export(fresh(Plain, True).eval(), 'folded-dynamo-biases', dynamo=True)
export(fresh(Plain, False).eval(), 'plain-torchscript', dynamo=False)
export(fresh(Plain, False).eval(), 'plain-dynamo', dynamo=True)
with tempfile.TemporaryDirectory() as d:
    quantize_dynamic(f'{FOLDER}/plain-torchscript.onnx', f'{d}/q.onnx')
    save(onnx.load(f'{d}/q.onnx'), 'quantised-dynamic')
    quantize_static(f'{FOLDER}/plain-torchscript.onnx', f'{d}/q.onnx', Pictures(), quant_format=QuantFormat.QDQ)
    save(onnx.load(f'{d}/q.onnx'), 'quantised-static')
save(dense(np.float32, True), 'argmax')
save(dense(np.float16, False), 'half')
