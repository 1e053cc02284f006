"""--quantized-scales recompute: a scale follows its weight only where nothing else reads it.

usage: test_scales.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile

from scripts import T, h, np, numpy_helper, onnx

program, failed = os.path.abspath(sys.argv[1]), 0
rng = np.random.default_rng(0)
f4 = lambda *s: rng.standard_normal(s).astype('f4')
v = lambda n, *dims, t=T.FLOAT: h.make_tensor_value_info(n, t, dims)


def layer(x, w, y, scale='s', bias=None):
    nodes = [h.make_node('DequantizeLinear', [w, scale], [w + '_f'])]
    if bias:
        nodes.append(h.make_node('DequantizeLinear', [bias, bias + '_s'], [y + '_b']))
    return nodes + [h.make_node('Gemm', [x, w + '_f'] + [y + '_b'] * bool(bias), [y])]


def branches(name):
    """If both branches, whose nodes read `name`, scale y."""
    def body(factor):
        return h.make_graph([h.make_node('Mul', [name, factor], ['m']), h.make_node('Mul', ['z', 'm'], ['o'])], 'b', [], [v('o', 'N', 3)])
    return h.make_node('If', ['yes'], ['y'], then_branch=body('one'), else_branch=body('two'))


def graph(nodes, outputs=(('y', ('N', 3)),)):
    weights = {'w': rng.integers(-100, 100, (4, 3)).astype('i1'), 'w2': rng.integers(-100, 100, (4, 3)).astype('i1'), 's': np.float32(0.01), 's2': np.float32(0.02),
               'b': np.arange(3, dtype='i4'), 'b_s': np.float32(0.001), 'yes': np.array(True), 'one': np.float32(1), 'two': np.float32(2)}
    read = {i for n in nodes for i in n.input} | {i for n in nodes for a in n.attribute for k in a.g.node for i in k.input} | {o for o, _ in outputs}
    init = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items() if n in read]
    return h.make_model(h.make_graph(nodes, 'g', [v('x', 'N', 4)], [v(n, *s) for n, s in outputs], init), opset_imports=[h.make_opsetid('', 17)], ir_version=8)


both = [h.make_node('Add', ['p', 'q'], ['y'])]
# name: the model, and the scales that follow
CASES = {
    'its own': (graph(layer('x', 'w', 'y')), {'s'}),
    'with a bias': (graph(layer('x', 'w', 'y', bias='b')), {'s', 'b_s'}),
    'two weights': (graph(layer('x', 'w', 'p') + layer('x', 'w2', 'q', 's2') + both), {'s', 's2'}),
    'two weights, one scale': (graph(layer('x', 'w', 'p') + layer('x', 'w2', 'q') + both), set()),
    'two weights, one bias': (graph(layer('x', 'w', 'p', bias='b') + [h.make_node('DequantizeLinear', ['w2', 's2'], ['w2_f']), h.make_node('Gemm', ['x', 'w2_f', 'p_b'], ['q'])] + both),
                              {'s', 'b_s'}),
    'another node': (graph(layer('x', 'w', 'z') + [h.make_node('Mul', ['z', 's'], ['y'])]), set()),
    'the body of an If': (graph(layer('x', 'w', 'z') + [branches('s')]), set()),
    'an output': (graph(layer('x', 'w', 'y'), (('y', ('N', 3)), ('s', ()))), set()),
}

with tempfile.TemporaryDirectory() as d:
    np.savez(d + '/d.npz', x=f4(64, 4), target_y=f4(64, 3))
    for name, (m, follow) in CASES.items():
        onnx.checker.check_model(m, full_check=True)
        onnx.save(m, d + '/m.onnx')
        r = subprocess.run([program, 'train', d + '/m.onnx', '--data', d + '/d.npz', '--loss', 'y=mse', '--device', 'cpu', '--steps', '4', '--lr', '0.3', '--optimizer', 'sgd',
                            '--quantized-scales', 'recompute', '--run-dir', 'none', '-o', d + '/o.onnx'], capture_output=True, text=True)
        scales = lambda m: {t.name: float(numpy_helper.to_array(t)) for t in m.graph.initializer if t.name in ('s', 's2', 'b_s')}
        was, now = scales(m), scales(onnx.load(d + '/o.onnx')) if not r.returncode else {}
        moved = {k for k in was if was[k] != now.get(k)}
        kept = 'these weights keep their scale' in r.stderr
        if r.returncode or moved != follow or kept != (name == 'two weights, one bias' or not follow):
            failed += 1
            print(f'{name}: {sorted(moved)} follow, should be {sorted(follow)}: {r.stderr[-600:]}')
        os.path.exists(d + '/o.onnx') and os.remove(d + '/o.onnx')
print('scales:', 'ok' if not failed else f'{failed} failed')
sys.exit(failed > 0)
