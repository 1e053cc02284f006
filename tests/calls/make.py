"""Makes the model and data of this folder (needs onnx): one Gemm whose weights lie in a file beside the model."""
import gzip
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

here = pathlib.Path(__file__).resolve().parent
rng = np.random.default_rng(3)
weight = rng.normal(size=(4, 3)).astype(np.float32)
bias = np.zeros(3, np.float32)
g = helper.make_graph([helper.make_node('Gemm', ['x', 'weight', 'bias'], ['y'])], 'linear',
                      [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['N', 4])],
                      [helper.make_tensor_value_info('y', TensorProto.FLOAT, ['N', 3])],
                      [numpy_helper.from_array(weight, 'weight'), numpy_helper.from_array(bias, 'bias')])
m = helper.make_model(g, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
(here / 'linear.data').unlink(missing_ok=True)
onnx.save_model(m, here / 'linear.onnx', save_as_external_data=True, location='linear.data', size_threshold=0)

x = rng.uniform(size=(40, 4)).astype(np.float32).round(2)
y = np.arange(40) % 3
rows = ''.join(','.join(f'{v:.2f}' for v in r) + f',{c}\n' for r, c in zip(x, y))
(here / 'table.csv').write_text('a,b,c,d,target\n' + rows)
(here / 'table.csv.gz').write_bytes(gzip.compress(('a,b,c,d,target\n' + rows).encode(), mtime=0))
np.savez_compressed(here / 'arrays.npz', x=x, target=y)
