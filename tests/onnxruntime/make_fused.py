"""Makes the cases of this folder with operators of com.microsoft: networks that ONNX Runtime's optimizers fused, and single operators.

usage: make_fused.py FOLDER [NAME...]     (with torch, onnx, onnxruntime)

NAME.onnx and NAME.npz, as make_quantised.py has them.  Single operators have, in place of `losses`, `target` for a mean squared error
and its gradients by central differences in ONNX Runtime, `grad_INITIALIZER`.
"""
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from networks import H, T, V, Bert, Convs, D, Gpt, Llama
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer

FOLDER, NAMES = sys.argv[1], sys.argv[2:]
RATE, STEPS, N = 0.05, 5, 3


def session(model, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, **how):
    o = ort.SessionOptions()
    o.graph_optimization_level = level
    for k, v in how.items():
        setattr(o, k, v)
    return ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), o, providers=['CPUExecutionProvider'])


# ---- networks -------------------------------------------------------------------------------

def fresh(make):
    torch.manual_seed(5)
    net = make().eval()
    with torch.no_grad():
        for p in net.parameters():
            p += .1 * torch.randn_like(p)  # equal tensors would be shared
    return net


def exported(net, x, path):
    torch.onnx.export(net, tuple(torch.tensor(v) for v in x.values()), path, dynamo=False, opset_version=17, input_names=list(x),
                      output_names=['output'], dynamic_axes={k: {0: 'N'} for k in [*x, 'output']})


def tokens():
    return {'input_ids': np.random.default_rng(2).integers(0, V, (N, T))}


def sentences():
    mask = np.ones((N, T), 'i8')
    mask[1, 4:] = mask[2, 2:] = 0
    return tokens() | {'attention_mask': mask, 'token_type_ids': np.random.default_rng(3).integers(0, 2, (N, T))}


def pictures():
    return {'x': np.random.default_rng(4).normal(size=(N, 3, 8, 8)).astype('f4')}


def by_script(kind):
    return lambda path, out: optimizer.optimize_model(path, kind, num_heads=H, hidden_size=D, opt_level=0).save_model_to_file(out)


def dynamic(path, out):
    quantize_dynamic(path, out, weight_type=QuantType.QInt8, extra_options={'DefaultTensorType': TensorProto.FLOAT})


def both(path, out):
    by_script('bert')(path, path)
    dynamic(path, out)


def by_session(path, out):
    session(path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, optimized_model_filepath=out)


NETWORKS = {
    'bert-script': (Bert, sentences, by_script('bert')), 'bert-session': (Bert, sentences, by_session),
    'gpt-script': (Gpt, tokens, by_script('gpt2')), 'gpt-session': (Gpt, tokens, by_session),
    'llama-script': (Llama, tokens, by_script('gpt2')), 'llama-session': (Llama, tokens, by_session),
    'convs-session': (Convs, pictures, by_session),
    'bert-dynamic': (Bert, sentences, dynamic), 'gpt-dynamic': (Gpt, tokens, dynamic), 'bert-script-dynamic': (Bert, sentences, both),
}


def network(name):
    make, data, optimise = NETWORKS[name]
    net, x = fresh(make), data()
    with tempfile.TemporaryDirectory() as d:
        exported(net, x, f'{d}/m.onnx')
        optimise(f'{d}/m.onnx', f'{FOLDER}/{name}.onnx')
    want = session(f'{FOLDER}/{name}.onnx').run(None, x)[0]
    classes = want.shape[-1]
    target = np.random.default_rng(6).integers(0, classes, want.shape[:-1])
    if optimise in (dynamic, both):  # of the floats; make_quantised.py judges the training of such
        return x | {'target': target, 'want_output': want}
    losses = []
    for _ in range(STEPS):
        y = net(*(torch.tensor(v) for v in x.values()))
        loss = F.cross_entropy(y.reshape(-1, classes), torch.tensor(target).reshape(-1))
        losses.append(loss.item())
        for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters()))):
            with torch.no_grad():
                p -= RATE * g
    return x | {'target': target, 'want_output': want, 'losses': np.array(losses)}


# ---- single operators --------------------------------------------------------------------------

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.normal(size=shape).astype('f4')


def node(op, inputs, outputs=('output',), domain='com.microsoft', **attrs):
    return helper.make_node(op, list(inputs), list(outputs), domain=domain, **attrs)


def rope(places, width):
    a = np.outer(np.arange(places), 1 / 100 ** (np.arange(0, width, 2) / width))
    return {'cos': np.cos(a).astype('f4'), 'sin': np.sin(a).astype('f4')}


QKV = lambda t=4, s=4, h=8, k=8, v=8: {'q': normal(2, t, h), 'k': normal(2, s, k), 'v': normal(2, s, v)}
BITS = lambda n, k, block, bits=4: RNG.integers(0, 256, (n, -(-k // block), block * bits // 8)).astype('u1')
U8 = lambda *s: RNG.integers(0, 256, s).astype('u1')
I8 = lambda *s: RNG.integers(-128, 128, s).astype('i1')
one = lambda v, t='f4': np.array(v, t)


def proj(**more):
    return {'x': normal(2, 4, 6)}, {'w': normal(6, 24) / 3, 'b': normal(24)} | more


# name: nodes, inputs, weights (gradients are compared of those that are floats), constants
SINGLES = {
    'gelus': lambda: ([node('Gelu', ['p'], ['a']), node('FastGelu', ['a', 'b1'], ['c']), node('QuickGelu', ['c'], ['d'], alpha=1.3),
                       node('BiasGelu', ['d', 'b2'], ['e']), node('FastGelu', ['e'], ['f'])], {'x': normal(3, 5)}, {'w': normal(5, 4), 'b1': normal(4), 'b2': normal(4)},
                      {}, 'f', 'p'),
    'products': lambda: ([node('FusedMatMul', ['x', 'w1'], ['a'], transB=1, alpha=.5), node('FusedMatMul', ['x', 'a'], ['b'], transA=1),
                          node('FusedGemm', ['w2', 'w3', 'c'], ['g'], transB=1, activation='LeakyRelu', activation_alpha=.2), node('FusedMatMul', ['g', 'b'], transA=1)],
                         {'x': normal(2, 3, 4)}, {'w1': normal(2, 5, 4), 'w2': normal(4, 3), 'w3': normal(6, 3), 'c': normal(6)}, {}),
    'skips': lambda: ([node('SkipLayerNormalization', ['p', 'skip', 'g', 'b', 'c'], ['a', '', '', 's'], epsilon=1e-5),
                       node('SkipSimplifiedLayerNormalization', ['a', 's', 'g2', 'c2'], ['d', '', '', 'e'], epsilon=1e-5),
                       node('SimplifiedLayerNormalization', ['e', 'g'], ['f'], domain='', epsilon=1e-5, axis=-1), node('Add', ['d', 'f'], domain='')],
                      {'x': normal(2, 3, 5), 'skip': normal(2, 3, 4)}, {'w': normal(5, 4), 'g': normal(4), 'b': normal(4), 'c': normal(4), 'g2': normal(4), 'c2': normal(4)},
                      {}, 'output', 'p'),
    'embedding': lambda: ([node('EmbedLayerNormalization', ['ids', 'kinds', 'words', 'places', 'kind', 'g', 'b', 'mask'], ['output', 'count', 'sum'], epsilon=1e-5)],
                          {'ids': RNG.integers(0, 7, (2, 3)).astype('i4'), 'kinds': RNG.integers(0, 2, (2, 3)).astype('i4'), 'mask': np.array([[1, 1, 0], [1, 1, 1]], 'i4')},
                          {'words': normal(7, 4), 'places': normal(5, 4), 'kind': normal(2, 4), 'g': normal(4), 'b': normal(4)}, {}),
    'attention': lambda: ([node('Attention', ['x', 'w', 'b', 'mask', '', 'bias'], num_heads=2)], proj()[0] | {'mask': np.array([[1, 1, 1, 0], [1, 1, 1, 1]], 'i4')},
                          proj()[1], {'bias': normal(1, 2, 4, 4)}),
    'attention-lengths': lambda: ([node('Attention', ['x', 'w', 'b', 'mask'], num_heads=4, scale=.4)], proj()[0] | {'mask': np.array([3, 4], 'i4')}, proj()[1], {}),
    'attention-causal': lambda: ([node('Attention', ['x', 'w', 'b', '', 'past'], ['output', 'present'], num_heads=2, unidirectional=1)],
                                 proj()[0] | {'past': normal(2, 2, 2, 3, 4)}, proj()[1], {}),
    'attention-sizes': lambda: ([node('Attention', ['x', 'w', 'b', 'mask'], num_heads=2, qkv_hidden_sizes=[8, 8, 4])], proj()[0] | {'mask': (RNG.random((2, 4, 4)) < .7).astype('i4')},
                                {'w': normal(6, 20) / 3, 'b': normal(20)}, {}),
    'heads': lambda: ([node('MatMul', ['q', 'w'], ['p'], domain=''), node('MultiHeadAttention', ['p', 'k', 'v', 'b', 'mask', 'bias'], num_heads=2)],
                      QKV(4, 5) | {'mask': np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], 'i4')}, {'w': normal(8, 8) / 3, 'b': normal(24), 'bias': normal(1, 2, 4, 5)}, {}),
    'heads-past': lambda: ([node('MatMul', ['q', 'w'], ['p'], domain=''), node('MultiHeadAttention', ['p', 'k', 'v', '', '', '', 'pk', 'pv'], ['output', 'nk', 'nv'], num_heads=2,
                                                                            unidirectional=1, scale=.3)],
                           QKV() | {'pk': normal(2, 2, 3, 4), 'pv': normal(2, 2, 3, 4)}, {'w': normal(8, 8) / 3}, {}),
    'groups': lambda: ([node('MatMul', ['q', 'w'], ['p'], domain=''), node('GroupQueryAttention', ['p', 'k', 'v', '', '', 'n', 'total', 'cos', 'sin'], ['output', 'nk', 'nv'],
                                                                        num_heads=2, kv_num_heads=1, do_rotary=1)],
                       {'q': normal(2, 4, 6), 'k': normal(2, 4, 16), 'v': normal(2, 4, 16)}, {'w': normal(6, 32) / 2}, {'n': np.array([3, 3], 'i4'), 'total': one(4, 'i4')} | rope(9, 16)),
    'groups-packed': lambda: ([node('MatMul', ['q', 'w'], ['p'], domain=''), node('GroupQueryAttention', ['p', '', '', 'pk', 'pv', 'n', 'total', 'cos', 'sin'], ['output', 'nk', 'nv'],
                                                                               num_heads=2, kv_num_heads=1, do_rotary=1, rotary_interleaved=1, softcap=3.0, scale=.2)],
                              {'q': normal(2, 1, 6), 'pk': normal(2, 1, 3, 16), 'pv': normal(2, 1, 3, 16)}, {'w': normal(6, 64) / 2},
                              {'n': np.array([3, 3], 'i4'), 'total': one(4, 'i4')} | rope(9, 16)),
    'groups-window': lambda: ([node('MatMul', ['q', 'w'], ['p'], domain=''), node('GroupQueryAttention', ['p', 'k', 'v', '', '', 'n', 'total'], ['output', 'nk', 'nv'],
                                                                               num_heads=2, kv_num_heads=2, local_window_size=2)],
                              QKV(5, 5, 16, 16, 16), {'w': normal(16, 16) / 4}, {'n': np.array([4, 4], 'i4'), 'total': one(5, 'i4')}),
    'rotary': lambda: ([node('RotaryEmbedding', ['p', 'at', 'cos', 'sin'], ['a']), node('RotaryEmbedding', ['a', 'from', 'cos', 'sin'], ['output'], interleaved=1)],
                       {'x': normal(2, 3, 16), 'at': RNG.integers(0, 9, (2, 3)), 'from': np.array([4])}, {'w': normal(16, 16) / 4}, rope(9, 8), 'output', 'p'),
    'nbits': lambda: ([node('MatMulNBits', ['x', 'w', 's'], ['a'], K=32, N=6, bits=4, block_size=16), node('MatMulNBits', ['a', 'w2', 's2', 'z2', '', 'b2'], K=6, N=3, bits=4, block_size=16)],
                      {'x': normal(2, 3, 32)}, {'b2': normal(3)},
                      {'w': BITS(6, 32, 16), 's': (RNG.random((6, 2)) / 20).astype('f4'), 'w2': BITS(3, 6, 16), 's2': (RNG.random((3, 1)) / 20).astype('f4'), 'z2': U8(3, 1)}),
    'nbits-blocks': lambda: ([node('MatMulNBits', ['x', 'w', 's', 'z'], K=40, N=5, bits=4, block_size=16)], {'x': normal(3, 40)}, {},
                             {'w': BITS(5, 40, 16), 's': (RNG.random(15) / 20).astype('f4'), 'z': U8(10)}),
    'nbits-8': lambda: ([node('MatMulNBits', ['x', 'w', 's'], K=40, N=5, bits=8, block_size=32)], {'x': normal(3, 40)}, {},
                        {'w': BITS(5, 40, 32, 8), 's': (RNG.random(10) / 200).astype('f4')}),
    'table': lambda: ([node('GatherBlockQuantized', ['w', 'ids', 's', 'z'], ['a'], block_size=16, bits=4), node('GatherBlockQuantized', ['w2', 'ids', 's'], ['b'], block_size=16),
                       node('Add', ['a', 'b'], domain='')], {'ids': RNG.integers(0, 7, (2, 3))}, {},
                      {'w': U8(7, 24), 's': (RNG.random((7, 3)) / 20).astype('f4'), 'z': U8(7, 2), 'w2': U8(7, 24)}),
    'dynamic': lambda: ([node('DynamicQuantizeMatMul', ['x', 'w', 's', 'z', 'b'])], {'x': normal(3, 8)}, {}, {'w': I8(8, 5), 's': normal(5) ** 2 / 99, 'z': I8(5), 'b': normal(5)}),
    'to-float': lambda: ([node('MatMulIntegerToFloat', ['x', 'w', 'sx', 's', 'zx', 'z', 'b'])], {'x': U8(3, 8)}, {},
                         {'w': I8(8, 5), 'sx': one(.02), 's': one(.01), 'zx': one(99, 'u1'), 'z': one(3, 'i1'), 'b': normal(5)}),
    'qgemm': lambda: ([node('QGemm', ['x', 's', 'z', 'w', 't', 'y', 'b', 'u', 'v'], ['output'], transB=1), node('QGemm', ['x', 's', 'z', 'w', 't', 'y', 'b'], ['floats'], transB=1)],
                      {'x': U8(3, 8)}, {}, {'s': one(.02), 'z': one(120, 'u1'), 'w': I8(5, 8), 't': normal(5) ** 2 / 99 + np.float32(.001), 'y': np.zeros(5, 'i1'), 'b': RNG.integers(-999, 999, 5).astype('i4'),
                                            'u': one(.05), 'v': one(130, 'u1')}),
    'qlinear': lambda: ([node('QLinearAdd', ['x', 's', 'z', 'w', 't', 'y', 'u', 'v'], ['a']), node('QLinearMul', ['a', 'u', 'v', 'x', 's', 'z', 't', 'zero'], ['b']),
                         node('QLinearSigmoid', ['b', 't', 'zero', 's', 'z'], ['c']), node('QLinearLeakyRelu', ['a', 'u', 'v', 's', 'z'], ['d'], alpha=.2),
                         node('QLinearConcat', ['s', 'z', 'c', 's', 'z', 'd', 's', 'z', 'b', 't', 'zero'], ['e'], axis=1),
                         node('QLinearAveragePool', ['e', 's', 'z', 't', 'y'], ['f'], kernel_shape=[2, 2], strides=[2, 2]),
                         node('QLinearGlobalAveragePool', ['f', 't', 'y', 's', 'z'], ['g'], channels_last=0),
                         node('QLinearSoftmax', ['e', 's', 'z', 'p', 'zero'], ['h'], axis=1, opset=13)],
                        {'x': U8(2, 2, 4, 4)}, {}, {'s': one(.02), 'z': one(120, 'u1'), 'w': U8(2, 1, 1), 't': one(.03), 'y': one(99, 'u1'), 'u': one(.05), 'v': one(130, 'u1'),
                                                 'p': one(1 / 256), 'zero': one(0, 'u1')}, ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')),
}


def single(name):
    nodes, x, weights, constants, *more = SINGLES[name]()
    outputs = [more[0]] if more and isinstance(more[0], str) else list(more[0]) if more else [o for o in nodes[-1].output if o]
    if name == 'qgemm':
        outputs = ['output', 'floats']
    if len(more) > 1:
        nodes = [node('MatMul', [next(iter(x)), 'w'], [more[1]], domain='')] + nodes
    info = lambda n, v: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)

    def model(fed):
        g = helper.make_graph(nodes, name, [info(k, v) for k, v in (x | fed).items()], [helper.make_empty_tensor_value_info(o) for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in (weights | constants).items() if k not in fed])
        return helper.make_model(g, opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('com.microsoft', 1)], ir_version=10)

    m = model({})
    s = session(m)
    want = s.run(None, x)
    for o, v in zip(m.graph.output, want):
        o.CopyFrom(info(o.name, v))
    onnx.save(m, f'{FOLDER}/{name}.onnx')
    arrays = dict(x) | {f'want_{o}': v for o, v in zip(outputs, want)}
    if not weights:
        return arrays
    target = normal(*want[0].shape)
    s = session(model(weights))
    at = lambda w: float(((s.run([outputs[0]], x | w)[0].astype('f8') - target) ** 2).mean())
    for k in weights:
        g = np.zeros(weights[k].shape)
        for i in np.ndindex(g.shape):
            step = np.zeros(g.shape, 'f4')
            step[i] = 1e-2
            g[i] = (at(weights | {k: weights[k] + step}) - at(weights | {k: weights[k] - step})) / 2e-2
        arrays[f'grad_{k}'] = g.astype('f4')
    return arrays | {('target' if len(outputs) == 1 else f'target_{outputs[0]}'): target}


for name in [*NETWORKS, *SINGLES]:
    if NAMES and name not in NAMES:
        continue
    arrays = network(name) if name in NETWORKS else single(name)
    m = onnx.load(f'{FOLDER}/{name}.onnx')
    np.savez_compressed(f'{FOLDER}/{name}.npz', **arrays)
    print(name, len(m.graph.node), 'nodes', {n.op_type for n in m.graph.node if n.domain})
