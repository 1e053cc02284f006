"""The network of these tests: Conv, BatchNormalization, Relu, two Gemm; 307 parameters.  The same as ONNX and, where torch is there, in PyTorch."""
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

SHAPES = {'conv.weight': (4, 2, 3, 3), 'conv.bias': (4,), 'norm.weight': (4,), 'norm.bias': (4,), 'norm.running_mean': (4,), 'norm.running_var': (4,),
          'hidden.weight': (8, 16), 'hidden.bias': (8,), 'out.weight': (5, 8), 'out.bias': (5,)}
STATISTICS = ('norm.running_mean', 'norm.running_var')


def onnx_model(tensors, batch='N', names=('x', 'y'), tail=None):
    """tail: "Softmax" or "LogSoftmax" behind the last Gemm; names: of input and output."""
    tensors = {n: tensors[n] for n in SHAPES}
    w = [numpy_helper.from_array(np.asarray(tensors[n], np.float32).reshape(s), n) for n, s in SHAPES.items()]
    n = h.make_node
    nodes = [n('Conv', ['x', 'conv.weight', 'conv.bias'], ['c'], name='conv'),
             n('BatchNormalization', ['c', 'norm.weight', 'norm.bias', *STATISTICS], ['b'], name='norm', momentum=0.9, epsilon=1e-5),
             n('Relu', ['b'], ['r']), n('Flatten', ['r'], ['f']),
             n('Gemm', ['f', 'hidden.weight', 'hidden.bias'], ['g'], name='hidden', transB=1), n('Tanh', ['g'], ['t']),
             n('Gemm', ['t', 'out.weight', 'out.bias'], ['z' if tail else names[1]], name='out', transB=1)]
    nodes[0].input[0] = names[0]
    if tail:
        nodes.append(n(tail, ['z'], [names[1]], axis=-1))
    g = h.make_graph(nodes, 'net', [h.make_tensor_value_info(names[0], T.FLOAT, [batch, 2, 4, 4])], [h.make_tensor_value_info(names[1], T.FLOAT, [batch, 5])], w)
    return h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8)


def torch_model(tensors):
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.hidden, self.out = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(16, 8), nn.Linear(8, 5)

        def forward(self, x):
            return self.out(torch.tanh(self.hidden(torch.relu(self.norm(self.conv(x))).flatten(1))))

    net = Net()
    net.load_state_dict({**net.state_dict(), **{n: torch.tensor(np.asarray(v, np.float32)) for n, v in tensors.items()}})
    return net


def read(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
