"""Operators of ai.onnx.ml against the standard's reference evaluator.

usage: test_ml.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx.reference import ReferenceEvaluator
except ImportError as e:
    print(f'skipped: {e}')
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
failed = total = 0
TYPES = {np.dtype(np.float32): T.FLOAT, np.dtype(np.int64): T.INT64, np.dtype(np.float64): T.DOUBLE}


def run(what, op, feeds, outputs=1, code=0, want=None, **attrs):
    global failed, total
    total += 1
    names = ['y', 'z'][:outputs]
    node = h.make_node(op, list(feeds), names, name='the_node', domain='ai.onnx.ml', **attrs)
    g = h.make_graph([node], 'g', [h.make_tensor_value_info(k, TYPES[v.dtype], v.shape) for k, v in feeds.items()], [h.make_tensor_value_info(n, 0, None) for n in names])
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)], ir_version=10)
    with tempfile.TemporaryDirectory() as d:
        for o in m.graph.output:
            o.ClearField('type')
        onnx.save(m, d + '/m.onnx')
        np.savez(d + '/x.npz', **feeds)
        r = subprocess.run([program, 'run', d + '/m.onnx', '--data', d + '/x.npz', '-o', d + '/y.npz'], capture_output=True, text=True, timeout=120)
        problem = None
        if r.returncode != code or (code and 'the_node' not in r.stderr):
            problem = f'exit {r.returncode}, {code} is right: {r.stderr.strip()}'
        elif not code:
            got = np.load(d + '/y.npz')
            right = [want] if want is not None else ReferenceEvaluator(m).run(None, feeds)
            for n, w in zip(names, right):
                if got[n].shape != w.shape or got[n].dtype != w.dtype or not np.allclose(got[n], w, rtol=1e-5, atol=1e-6):
                    problem = f'{n} is {got[n].dtype} {got[n].tolist()}, {w.dtype} {w.tolist()} is right'
        if problem:
            print(f'FAILED {what}: {problem}')
            failed += 1


x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
gaps = np.where(x > 0.3, np.float32('nan'), x)
k = np.array([[3, 1], [7, 5]], np.int64)
run('scaler', 'Scaler', {'x': x}, offset=[1.0, 2.0, -1.0], scale=[0.5, 2.0, 3.0])
run('scaler of one number', 'Scaler', {'x': x}, offset=[1.0], scale=[0.5])
run('scaler of integers', 'Scaler', {'x': k}, offset=[1.0, 2.0], scale=[0.5, 2.0], want=((k - [1, 2]) * [0.5, 2]).astype(np.float32))
run('binarizer', 'Binarizer', {'x': x}, threshold=0.2)
for norm in ('MAX', 'L1', 'L2'):
    run('normalizer ' + norm, 'Normalizer', {'x': x}, norm=norm)
run('imputer of NaN', 'Imputer', {'x': gaps}, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float('nan'))
run('imputer of a number', 'Imputer', {'x': np.round(x)}, imputed_value_floats=[9.0], replaced_value_float=1.0)
run('imputer of integers', 'Imputer', {'x': k}, code=3, imputed_value_int64s=[9], replaced_value_int64=1)
for shape in ([2], [1, 2]):
    run('extractor', 'ArrayFeatureExtractor', {'x': x, 'i': np.array([2, 0], np.int64).reshape(shape)})
run('extractor of a line', 'ArrayFeatureExtractor', {'x': x[0].copy(), 'i': np.array([2, 0], np.int64)})
run('one hot', 'OneHotEncoder', {'x': k}, cats_int64s=[1, 3, 9])
run('one hot of strings', 'OneHotEncoder', {'x': k}, code=3, cats_strings=['a'])
run('regressor', 'LinearRegressor', {'x': x}, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], targets=1)
run('regressor of two', 'LinearRegressor', {'x': x}, coefficients=[0.1, 0.2, 0.3, -1.0, 2.0, 4.0], intercepts=[0.5, -0.5], targets=2)
run('regressor that does not fit', 'LinearRegressor', {'x': x}, code=3, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], targets=2)
three = dict(coefficients=[0.1, 0.2, 0.3, -1.0, 2.0, 4.0, 0.3, 0.5, -0.7], intercepts=[0.5, -0.5, 0.1], classlabels_ints=[4, 7, 2])
for transform in ('NONE', 'LOGISTIC', 'SOFTMAX'):
    run('classifier ' + transform, 'LinearClassifier', {'x': x}, outputs=2, post_transform=transform, **three)
    run('classifier of two by one row, ' + transform, 'LinearClassifier', {'x': x}, outputs=2, post_transform=transform, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5],
        classlabels_ints=[0, 1])
run('classifier PROBIT', 'LinearClassifier', {'x': x}, code=3, post_transform='PROBIT', **three)
run('classifier of strings', 'LinearClassifier', {'x': x}, code=3, coefficients=[0.1, 0.2, 0.3], intercepts=[0.5], classlabels_strings=['a', 'b'])
print(f'{total} nodes, {failed} failed')
sys.exit(failed != 0)
