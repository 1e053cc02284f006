"""What arithmetic right at an input reads: the means and deviations of that input stay constant; centres that distances are measured from,
gates and layers train.  Tables of Fourier transforms, and weights of integers in the body of an If.

usage: test_inputs.py PROGRAM
"""
import json
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx

rng = np.random.default_rng(0)
some = lambda *shape: rng.standard_normal(shape).astype('f4')
angle = 2 * np.pi * np.outer(np.arange(6), np.arange(6)) / 6
cosines, sines = (f(angle).astype('f4') / np.float32(6 ** 0.5) for f in (np.cos, np.sin))
AXIS = {'axis_1': np.int64([1]), 'axis_2': np.int64([2]), 'axis_0': np.int64([0]), 'last': np.int64([-1])}
PICTURE = ['n', 3, 6, 6]

# name, shape of x, nodes (operator, inputs, output), tensors of which {name: whether it trains}
CASES = [
    ('centres', ['n', 4], 'Unsqueeze x,axis_1 u; Sub u,c d; Mul d,d s; Mul s,width y', {'c': (some(7, 4), True), 'width': (some(7, 4), True)}),
    ('centres, reshaped', ['n', 4], 'Unsqueeze x,axis_1 u; Unsqueeze c,axis_0 v; Sub u,v y', {'c': (some(7, 4), True)}),
    ('centres in three axes', ['n', 4], 'Sub x,c y', {'c': (some(7, 1, 4), True)}),
    ('centres of a batch of one', [1, 4], 'Unsqueeze x,axis_1 u; Sub u,c y', {'c': (some(7, 4), True)}),
    ('centres of steps', ['n', 't', 4], 'Unsqueeze x,axis_2 u; Sub u,c y', {'c': (some(7, 4), True)}),
    ('centres of numbers', ['n', 4], 'Unsqueeze x,last u; Sub u,c y', {'c': (some(5), True)}),
    ('an even grid', ['n', 4], 'Unsqueeze x,last u; Sub u,c y', {'c': (np.linspace(-1, 1, 5, dtype='f4'), False)}),
    ('prototypes after a mean', ['n', 4], 'Sub x,m a; Unsqueeze a,axis_1 u; Sub u,c y', {'m': (some(4), False), 'c': (some(3, 4), True)}),
    ('mean and deviation', ['n', 4], 'Sub x,m a; Div a,s y', {'m': (some(4), False), 's': (some(4), False)}),
    ('a row of means', ['n', 4], 'Sub x,m a; Div a,s y', {'m': (some(1, 4), False), 's': (some(1, 4), False)}),
    ('colours', PICTURE, 'Sub x,m a; Div a,s y', {'m': (some(3, 1, 1), False), 's': (some(1, 3, 1, 1), False)}),
    ('colours of open sizes', ['n', 'c', 'h', 'w'], 'Sub x,m a; Div a,s y', {'m': (some(3, 1, 1), False), 's': (some(1, 3, 1, 1), False)}),
    ('colours of one picture', [3, 6, 6], 'Sub x,m a; Div a,s y', {'m': (some(1, 3, 1, 1), False), 's': (some(3, 1, 1), False)}),
    ('a view of colours', PICTURE, 'Unsqueeze m,axis_0 a; Unsqueeze s,axis_0 b; Sub x,a c; Div c,b y', {'m': (some(3, 1, 1), False), 's': (some(3, 1, 1), False)}),
    ('a mean picture', PICTURE, 'Sub x,m y', {'m': (some(3, 6, 6), False)}),
    ('a mean of each frame', ['n', 5, 4], 'Sub x,m y', {'m': (some(5, 4), False)}),
    ('colours of a grey picture', ['n', 1, 6, 6], 'Sub x,m a; Div a,s y', {'m': (some(3, 1, 1), False), 's': (some(1, 3, 1, 1), False)}),
    ('centres of a series', ['n', 1, 6], 'Sub x,c y', {'c': (some(5, 6), True)}),
    ('a range', ['n', 4], 'Sub x,lo a; Sub hi,lo r; Div a,r y', {'lo': (some(4), False), 'hi': (some(4), False)}),
    ('a variance and one', ['n', 4], 'Sub x,m a; Add v,one e; Sqrt e s; Div a,s y', {'m': (some(4), False), 'v': (some(4) ** 2, False)}),
    ('a sum and a gate', ['n', 4], 'Sigmoid g s; Add s,w t; Mul x,t y', {'g': (some(4), True), 'w': (some(4), True)}),
    ('a gate', ['n', 4], 'Sigmoid g s; Mul x,s y', {'g': (some(4), True)}),
    ('a share', ['n', 4], 'Softmax g s; Mul x,s y', {'g': (some(4), True)}),
    ('one and a gate', ['n', 4], 'Tanh g t; Add one,t s; Mul x,s y', {'g': (some(4), True)}),
    ('a deviation from a variance', ['n', 4], 'Sub x,m a; Sqrt v s; Div a,s y', {'m': (some(4), False), 'v': (some(4) ** 2, False)}),
    ('a layer', ['n', 4], 'Mul x,norm.weight a; Add a,norm.bias y', {'norm.weight': (some(4), True), 'norm.bias': (some(4), True)}),
    ('a scaler', ['n', 4], 'Mul x,scaler_scale a; Add a,scaler_bias y', {'scaler_scale': (some(4), False), 'scaler_bias': (some(4), False)}),
    ('the factor of a skip', ['n', 4], 'Mul x,d a; MatMul x,w b; Tanh b c; Add a,c y', {'d': (some(4), True), 'w': (some(4, 4), True)}),
    ('a skip of normalised data', ['n', 4], 'Sub x,m a; Div a,s b; MatMul b,w c; Tanh c e; Add b,e y', {'m': (some(4), False), 's': (some(4), False), 'w': (some(4, 4), True)}),
    ('the factor of a skip of normalised data', ['n', 4], 'Sub x,m a; MatMul a,w c; Tanh c e; Mul a,d f; Add f,e y', {'m': (some(4), False), 'd': (some(4), True), 'w': (some(4, 4), True)}),
    ('a mask of scores', ['n', 4], 'Sub o,mask a; Mul a,w b; MatMul x,k c; Add c,b e; Softmax e y', {'o': (np.float32(1), False), 'w': (some(4), False), 'k': (some(4, 4), True)}),
    ('weights of a loss', ['n', 4], 'Mul mask,w a; MatMul x,k c; Sigmoid c e; Mul a,e y', {'w': (some(4), False), 'k': (some(4, 4), True)}),
    ('scaled targets', ['n', 4], 'Mul x,w a; MatMul x,k c; Sub a,c e; Mul e,e y', {'w': (some(4), False), 'k': (some(4, 4), True)}),
    ('a Fourier transform', ['n', 6, 4], 'MatMul re,x a; MatMul im,x b; Mul a,w c; Sub c,b y', {'re': (cosines, False), 'im': (sines, False), 'w': (some(6, 4), True)}),
    ('signs beside zeros', ['n', 6, 4], 'MatMul re,x a; MatMul im,x b; Mul a,w c; Sub c,b y', {'re': (np.sign(cosines + np.float32(.01)), True), 'im': (np.zeros((6, 6), 'f4'), True), 'w': (some(6, 4), True)}),
    ('no Fourier transform', ['n', 6, 4], 'MatMul re,x a; MatMul im,x b; Mul a,w c; Sub c,b y', {'re': (cosines, True), 'im': (some(6, 6), True), 'w': (some(6, 4), True)}),
    ('a Fourier transform in one tensor', ['n', 6], 'Transpose x t; MatMul f,t y', {'f': (np.stack([cosines, sines]), False)}),
    ('signs and zeros in one tensor', ['n', 6], 'Transpose x t; MatMul f,t y', {'f': (np.stack([np.sign(cosines + np.float32(.01)), np.zeros((6, 6), 'f4')]), True)}),
    ('cosines and weights in one tensor', ['n', 6], 'Transpose x t; MatMul f,t y', {'f': (np.stack([cosines, some(6, 6)]), True)}),
]


def model(shape, nodes, tensors):
    """The nodes, and behind them a layer whose weight has the name of a module's."""
    made = [h.make_node(op, ins.split(','), [out]) for op, ins, out in (n.split() for n in nodes.split('; '))]
    made += [h.make_node('ReduceMean', ['y'], ['all'], keepdims=0), h.make_node('Mul', ['all', 'fc.weight'], ['z'])]
    read = {i for n in made for i in n.input}
    tensors = {**{k: v for k, v in AXIS.items() if k in read}, **({'one': np.float32(1)} if 'one' in read else {}), 'fc.weight': some(3), **tensors}
    fed = [h.make_tensor_value_info(x, T.FLOAT, shape) for x in ('x', 'mask') if x in read]
    return h.make_model(h.make_graph(made, 'g', fed, [h.make_tensor_value_info('z', T.FLOAT, [3])], [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()]),
                        opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch')


def roles(file):
    return {t['name']: t['role'] == 'trains' for t in json.loads(call('inspect', file, '--json').stdout)['initializers']}


def integers_in_a_body(d):
    """An int8 weight that the two branches of an If dequantise alike trains, and is int8 again in the written file."""
    branch = lambda name, k: h.make_graph([h.make_node('DequantizeLinear', ['q', 'scale'], [name + '_w'], axis=1), h.make_node('MatMul', ['x', name + '_w'], [name + '_p']),
                                           h.make_node(k, [name + '_p'], [name])], name, [], [h.make_tensor_value_info(name, T.FLOAT, ['n', 3])])
    nodes = [h.make_node('If', ['positive'], ['h'], then_branch=branch('a', 'Tanh'), else_branch=branch('b', 'Relu')), h.make_node('MatMul', ['h', 'head.weight'], ['y'])]
    tensors = [numpy_helper.from_array(a, n) for n, a in (('q', rng.integers(-90, 90, (4, 3)).astype('i1')), ('scale', np.float32([.01, .02, .015])), ('head.weight', some(3, 2)))]
    ends = [h.make_tensor_value_info('x', T.FLOAT, ['n', 4]), h.make_tensor_value_info('positive', T.BOOL, [1]), h.make_tensor_value_info('y', T.FLOAT, ['n', 2])]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:2], ends[2:], tensors), opset_imports=[h.make_opsetid('', 17)], ir_version=8), f'{d}/if.onnx')
    check(roles(f'{d}/if.onnx')['q'], 'integers that an If dequantises')
    np.savez(f'{d}/if.npz', x=some(8, 4), positive=np.array([True]), target=some(8, 2))
    r = call('train', f'{d}/if.onnx', '--data', f'{d}/if.npz', '-o', f'{d}/t.onnx', '--run-dir', 'none', '--batch-size', '8', '--steps', '9', '--loss', 'mse', '--optimizer', 'sgd:lr=1', '--device', 'cpu')
    check(r.returncode == 0, f'training: exit {r.returncode}: {r.stderr}')
    if r.returncode:
        return
    was, now = ({t.name: numpy_helper.to_array(t) for t in onnx.load(f).graph.initializer} for f in (f'{d}/if.onnx', f'{d}/t.onnx'))
    check(now['q'].dtype == np.int8 and (now['q'] != was['q']).any() and (now['scale'] == was['scale']).all(), f"the written integers: {now['q']}")
    # What the file computes is what was trained.
    for f in ('if', 't'):
        check(call('run', f'{d}/{f}.onnx', '--data', f'{d}/if.npz', '-o', f'{d}/{f}-y.npz').returncode == 0, f'run {f}')
    loss = lambda f: float(((np.load(f'{d}/{f}-y.npz')['y'] - np.load(f'{d}/if.npz')['target']) ** 2).mean())
    check(loss('t') < loss('if'), f"loss {loss('if')} to {loss('t')}")


def what_the_program_says(d):
    """A tensor that torch.export lists as an attribute of a module is a constant, wherever it is used.  One that is constant because it touches the input is
    named, also beside weights that the exporter named."""
    nodes = [h.make_node('MatMul', ['x', 'fc'], ['a']), h.make_node('Mul', ['a', 'c'], ['b']), h.make_node('Tanh', ['b'], ['y'])]
    ends = [h.make_tensor_value_info('x', T.FLOAT, ['n', 4]), h.make_tensor_value_info('y', T.FLOAT, ['n', 4])]
    m = h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], [numpy_helper.from_array(some(4, 4), 'fc'), numpy_helper.from_array(some(4), 'c')]), opset_imports=[h.make_opsetid('', 17)], ir_version=8)
    key = 'pkg.torch.export.ExportedProgram.graph_signature'
    m.graph.metadata_props.add(key=key, value="p_fc: PARAMETER target='fc'\nc_c: CONSTANT_TENSOR target='c'")
    onnx.save(m, f'{d}/attribute.onnx')
    got = roles(f'{d}/attribute.onnx')
    check(got['fc'] and not got['c'], f'an attribute of a module: {got}')
    nodes = [h.make_node('Mul', ['x', 'scale'], ['s']), h.make_node('MatMul', ['s', 'onnx::MatMul_9'], ['y'])]
    onnx.save(h.make_model(h.make_graph(nodes, 'g', ends[:1], ends[1:], [numpy_helper.from_array(some(4, 4), 'onnx::MatMul_9'), numpy_helper.from_array(some(4), 'scale')]),
                           opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch'), f'{d}/named.onnx')
    notes = [l for l in call('inspect', f'{d}/named.onnx').stdout.splitlines() if 'if it is a parameter, use --train' in l]
    check(len(notes) == 1 and 'scale' in notes[0], f'a scale beside weights that the exporter named: {notes}')


with tempfile.TemporaryDirectory() as d:
    what_the_program_says(d)
    for name, shape, nodes, tensors in CASES:
        onnx.save(model(shape, nodes, {k: v[0] for k, v in tensors.items()}), f'{d}/m.onnx')
        got = roles(f'{d}/m.onnx')
        for tensor, (_, trains) in tensors.items():
            check(got[tensor] == trains, f'{name}: {tensor} {"does not train" if trains else "trains"}')
        check(got['fc.weight'], f'{name}: fc.weight')
    integers_in_a_body(d)
finish('checks')
