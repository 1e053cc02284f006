"""Models of very many small parts: the time of a command grows with the size of the file, not with its square.

usage: test_parts.py PROGRAM
"""
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh


def save(path, nodes, tensors, outputs=()):
    x, y = (h.make_tensor_value_info(name, T.FLOAT, ['N', 4]) for name in 'xy')
    more = [h.make_tensor_value_info(name, T.FLOAT, ['N', 4]) for name in outputs]
    g = h.make_graph(nodes, 'g', [x], [y] + more, [nh.from_array(a, name) for name, a in tensors])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 18)], ir_version=9), path)


def chain(n, node):
    """n nodes, each on what the one before gave: node(i, its input)."""
    return [node(i, f'a{i - 1}' if i else 'x') for i in range(n)]


def many_outputs(path, n=40000):
    save(path, [h.make_node('Relu', ['x'], ['y'])] + [h.make_node('Relu', ['x'], [f'z{i}']) for i in range(n)], [], [f'z{i}' for i in range(n)])


def many_branches(path, n=20000):
    def branch(op, i, source):
        return h.make_graph([h.make_node(op, [source], [f'{op}{i}'])], op, [], [h.make_tensor_value_info(f'{op}{i}', T.FLOAT, None)])

    nodes = chain(n, lambda i, source: h.make_node('If', ['yes'], [f'a{i}'], then_branch=branch('Sigmoid', i, source), else_branch=branch('Relu', i, source)))
    save(path, nodes + [h.make_node('MatMul', [f'a{n - 1}', 'w'], ['y'])], [('yes', np.array(True)), ('w', np.eye(4, dtype=np.float32))])


def equal_weights(path, n=20000):
    nodes = chain(n, lambda i, source: h.make_node('MatMul', [source, f'w{i}'], [f'a{i}']))
    save(path, nodes + [h.make_node('Relu', [f'a{n - 1}'], ['y'])], [(f'w{i}', np.eye(4, dtype=np.float32)) for i in range(n)])


def many_readers(path, n=12000):
    """Of one tensor that an exporter would have merged; comparing every two of them may only be cheap."""
    nodes = chain(n, lambda i, source: h.make_node('Mul', [source, 'w'], [f'a{i}'], name=f'/layers.{i}/Mul'))
    save(path, nodes + [h.make_node('Relu', [f'a{n - 1}'], ['y'])], [('w', np.ones(4, np.float32))])


def main():
    program = sys.argv[1]
    with open(program, 'rb') as f:
        seconds = 60 if b'__asan_init' in f.read() else 10  # of CPU time: a busy machine fails nothing
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        model = os.path.join(d, 'm.onnx')
        for make, command in (many_outputs, ['export', model, '-o', os.path.join(d, 'o1.onnx')]), (many_branches, ['export', model, '-o', os.path.join(d, 'o2.onnx')]), \
                (equal_weights, ['inspect', model]), (many_readers, ['check', model, '--train', 'w', '--untie', 'auto']):
            make(model)
            r = subprocess.run([program] + command, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)))
            if r.returncode:
                bad += 1
                print(f'FAILED: {make.__name__}: {command[0]} ends with {r.returncode} within {seconds} s of CPU time\n{r.stderr.decode()[-300:]}')
    return bad


if __name__ == '__main__':
    sys.exit(main())
