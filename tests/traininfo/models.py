"""Models with nodes of ai.onnx.preview.training, and calls of the program: what the tests here share."""
import json
import os
import subprocess
import sys

from scripts import T as TensorProto, h as helper, np, numpy_helper, onnx

TRAINING = 'ai.onnx.preview.training'
program = os.path.abspath(sys.argv[1])
failed = []


def check(ok, what):
    if not ok:
        failed.append(what)
        print('FAILED', what)


def end():
    print(f'{len(failed)} failed')
    sys.exit(1 if failed else 0)


def call(*arguments, code=0):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    check(r.returncode == code, f'{" ".join(arguments)}: exit {r.returncode}, not {code}: {r.stderr.strip()[-400:]}')
    return r


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, tensors=None, name='g'):
    return helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(np.asarray(v), k) for k, v in (tensors or {}).items()])


def model(g, functions=()):
    opsets = [helper.make_opsetid('', 17), helper.make_opsetid(TRAINING, 1), helper.make_opsetid('local', 1)]
    return helper.make_model(g, opset_imports=opsets, ir_version=8, functions=functions)


def gradient(inputs, outputs, xs, y, **more):
    return helper.make_node('Gradient', inputs, outputs, domain=TRAINING, xs=xs, y=y, **more)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


def run(folder, m, arrays):
    onnx.save(m, f'{folder}/m.onnx')
    np.savez(f'{folder}/x.npz', **arrays)
    call('run', f'{folder}/m.onnx', '--data', f'{folder}/x.npz', '-o', f'{folder}/y.npz', '-q')
    return dict(np.load(f'{folder}/y.npz'))


def refused(folder, m, arrays, *texts):
    onnx.save(m, f'{folder}/m.onnx')
    np.savez(f'{folder}/x.npz', **arrays)
    r = call('run', f'{folder}/m.onnx', '--data', f'{folder}/x.npz', '-o', f'{folder}/y.npz', '-q', code=3)
    for text in texts:
        check(text in r.stderr, f'"{text}" is not in: {r.stderr.strip()}')


def tensors(path):
    """Every initializer of a file, those of its training algorithm too."""
    m = onnx.load(path)
    return {i.name: numpy_helper.to_array(i) for g in [m.graph] + [t.algorithm for t in m.training_info] for i in g.initializer}


def train(folder, name, data, *options, out='t', code=0):
    """The tensors of the written file, the losses of the steps, what was said."""
    r = call('train', f'{folder}/{name}.onnx', '--data', f'{folder}/{data}.npz', '--device', 'cpu', '--threads', '1', '--run-dir', 'none', '-o', f'{folder}/{out}.onnx',
             '--log', f'{folder}/log', '--no-shuffle', *options, code=code)
    if code:
        return None, None, r.stderr
    losses = [e['loss'] for e in map(json.loads, open(f'{folder}/log')) if e['event'] == 'step']
    return tensors(f'{folder}/{out}.onnx'), losses, r.stderr
