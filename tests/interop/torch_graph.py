"""An ONNX graph as a PyTorch function, for the operators of `onnxtrain new`'s kinds."""
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def symmetric(a, rank):
    """ONNX pads as PyTorch's padding, one number per axis."""
    pads = list(a.get('pads', [0] * 2 * rank))
    assert pads[:rank] == pads[rank:], pads
    return pads[:rank]


def conv(a, x, w, b=None):
    rank = w.dim() - 2
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return f(x, w, b, a.get('strides', [1] * rank), symmetric(a, rank), a.get('dilations', [1] * rank), a.get('group', 1))


def conv_transpose(a, x, w, b=None):
    rank = w.dim() - 2
    return F.conv_transpose2d(x, w, b, a.get('strides', [1] * rank), symmetric(a, rank), a.get('output_padding', [0] * rank),
                              a.get('group', 1), a.get('dilations', [1] * rank))


def gemm(a, x, w, c=None):
    x = x.T if a.get('transA') else x
    w = w.T if a.get('transB') else w
    y = a.get('alpha', 1.0) * (x @ w)
    return y if c is None else y + a.get('beta', 1.0) * c


def clip(a, x, low=None, high=None):
    low = a.get('min') if low is None else low.item()
    high = a.get('max') if high is None else high.item()
    return torch.clamp(x, low, high)


def max_pool(a, x):
    rank = x.dim() - 2
    return F.max_pool2d(x, a['kernel_shape'], a.get('strides', [1] * rank), symmetric(a, rank))


def batch_norm(a, x, w, b, mean, var):
    """In training mode: by the batch; running statistics are not wanted here."""
    return F.batch_norm(x, None, None, w, b, True, 0.0, a.get('epsilon', 1e-5))


OPERATORS = {
    'Add': lambda a, x, y: x + y,
    'BatchNormalization': batch_norm,
    'Clip': clip,
    'Conv': conv,
    'ConvTranspose': conv_transpose,
    'Flatten': lambda a, x: x.flatten(a.get('axis', 1)),
    'Gemm': gemm,
    'GlobalAveragePool': lambda a, x: x.mean(tuple(range(2, x.dim())), keepdim=True),
    'MaxPool': max_pool,
    'Relu': lambda a, x: F.relu(x),
    'Sigmoid': lambda a, x: torch.sigmoid(x),
    'Softplus': lambda a, x: F.softplus(x),
}


def load(path, dtype):
    """The graph and its initializers as leaves that want gradients."""
    g = onnx.load(path).graph
    return g, {t.name: torch.tensor(numpy_helper.to_array(t), dtype=dtype, requires_grad=True) for t in g.initializer}


def run(g, values, x):
    values = dict(values, **{i.name: x for i in g.input if i.name not in values})
    for node in g.node:
        inputs = [values[i] if i else None for i in node.input]
        values[node.output[0]] = OPERATORS[node.op_type](attributes(node), *inputs)
    return values[g.output[0].name]
