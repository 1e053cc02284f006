"""Makes encoder.onnx beside it: a network as PyTorch's TorchScript exporter writes it (PyTorch 2.15; own network, random weights).

Three layers that nn.TransformerEncoder clones from one, with equal weights; a layer that is called twice.
"""
import os
import warnings

import onnx
import torch
from torch import nn

warnings.filterwarnings('ignore')


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 3)
        self.shared, self.head = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.shared(self.enc(x)))
        return self.head(torch.relu(self.shared(x)))


torch.manual_seed(0)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'encoder.onnx')
torch.onnx.export(Net().eval(), (torch.randn(2, 3, 8),), path, dynamo=False, input_names=['x'], output_names=['y'])
m = onnx.load(path)
for n in m.graph.node:
    n.ClearField('doc_string')
onnx.save(m, path)
print(sum(p.numel() for p in Net().parameters()), 'parameters')
