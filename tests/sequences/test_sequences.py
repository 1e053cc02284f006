"""Models with sequences and optionals against the same models without them.

usage: test_sequences.py PROGRAM
"""
import json
import subprocess
import tempfile
import time

from scripts import T, arrays, finish, h, np, numpy_helper, onnx, program, verdict

rng = np.random.default_rng(1)
x = rng.standard_normal((2, 7)).astype(np.float32)
w = rng.standard_normal((7, 7)).astype(np.float32)
SEQ = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, None))


def node(op, inputs, outputs='y', **attrs):
    return h.make_node(op, [i if i != '-' else '' for i in inputs.split()], outputs.split(), name=f'{op}_{outputs.split()[0]}', **attrs)


def info(name, dtype=T.FLOAT, shape=None):
    return h.make_tensor_value_info(name, dtype, shape)


def body(nodes, inputs=(), outputs=(), name='body'):
    return h.make_graph(nodes, name, [i if not isinstance(i, str) else info(i) for i in inputs],
                        [o if not isinstance(o, str) else info(o) for o in outputs])


def ints(name, value):
    return numpy_helper.from_array(np.asarray(value, np.int64), name)


CONSTANTS = [ints('i0', 0), ints('i1', 1), ints('i2', 2), ints('i3', 3), ints('im1', -1), ints('sizes', [1, 4, 2]), ints('l0', [0]), ints('l1', [1]),
             ints('parts', [3, 3, 1]), numpy_helper.from_array(np.float32(0.5), 'half'), ints('s2', [1, 1]), ints('fs', [4, 3])]


def model(nodes, functions=(), result='y'):
    """h = x w goes in as h; the loss is the sum of the squares of what comes out."""
    tail = [node('ReduceSumSquare', result, 'loss', keepdims=0)]
    all_nodes = [node('MatMul', 'x w', 'h')] + nodes + tail
    out = [info(result, T.FLOAT), info('loss', T.FLOAT, [])]
    g = h.make_graph(all_nodes, 'g', [info('x', T.FLOAT, [2, 7]), info('flag', T.BOOL, [])], out, CONSTANTS + [numpy_helper.from_array(w, 'w')])
    opset = [h.make_opsetid('', 21)] + ([h.make_opsetid('own', 1)] if functions else [])
    return h.make_model(g, opset_imports=opset, ir_version=10, functions=list(functions))


def answer(d, m, command, *extra):
    return arrays(d, command, m, {'x': x, 'flag': np.array(True)}, *extra)


used = set()


def same(what, nodes, plain, functions=()):
    used.update(n.op_type for n in nodes if not n.domain)
    with tempfile.TemporaryDirectory() as d:
        for command, extra in (('run', ()), ('grad', ('--loss', 'loss=output'))):
            (a, got), (b, want) = answer(d, model(nodes, functions), command, *extra), answer(d, model(plain), command, *extra)
            problem = None
            if a.returncode or b.returncode:
                problem = a.stderr.strip() or b.stderr.strip()
            elif got.keys() != want.keys() or 'w' not in want and command == 'grad':
                problem = f'arrays {sorted(got)}, {sorted(want)} are right'
            elif any(got[k].shape != want[k].shape or not np.array_equal(got[k], want[k]) for k in want):
                problem = 'other numbers: ' + ', '.join(k for k in want if got[k].shape != want[k].shape or not np.array_equal(got[k], want[k]))
            if problem:
                return verdict(f'{what}, {command}', problem)
    verdict(what)


def refused(what, nodes, text, command='run', seconds=None):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as d:
        r, _ = answer(d, nodes if isinstance(nodes, onnx.ModelProto) else model(nodes), command, *(('--loss', 'loss=output') if command == 'grad' else ()))
    took = time.monotonic() - began
    wrong = r.returncode != 3 or text not in r.stderr
    verdict(what, f'exit {r.returncode}, 3 is right, with {text!r}: {r.stderr.strip()}' if wrong else f'{took:.1f} seconds' if seconds and took > seconds else None)


def spread(what, m, name):
    """Its elements are given as NAME/0, NAME/1, ...; the other outputs as ever, and training goes on without it."""
    with tempfile.TemporaryDirectory() as d:
        (r, got), (g, grads) = answer(d, m, 'run'), answer(d, m, 'grad', '--loss', 'loss=output')
        parts = [got.get(f'{name}/{i}') for i in range(3)]
        right = np.split(x @ w, [3, 6], axis=1)
        wrong = r.returncode or g.returncode or name in got or f'{name}/3' in got or 'w' not in grads or any(p is None or not np.allclose(p, q) for p, q in zip(parts, right))
        verdict(what, f'exit {r.returncode} and {g.returncode}, arrays {sorted(got)}: {r.stderr.strip()} {g.stderr.strip()}' if wrong else None)


def at(k, name, seq='s'):
    return node('SequenceAt', f'{seq} {k}', name)


PARTS = node('Split', 'h parts', 'a b c', axis=1)
CHUNK = node('SplitToSequence', 'h i3', 's', axis=-1)

# ---- what exporters write: chunks, of activations and of weights ------------------------------
same('chunks, the last one smaller', [CHUNK, at('i0', 'a'), at('im1', 'c'), node('Mul', 'a c')], [PARTS, node('Mul', 'a c')])
same('a list of sizes', [node('SplitToSequence', 'h sizes', 's', axis=1), at('i1', 'b'), node('Tanh', 'b')],
     [node('Split', 'h sizes', 'a b c', axis=1), node('Tanh', 'b')])
same('a weight in chunks', [node('SplitToSequence', 'w i3', 's', axis=1), at('i0', 'a'), at('i1', 'b'), node('MatMul', 'x a', 'p'), node('MatMul', 'x b', 'q'), node('Mul', 'p q')],
     [node('Split', 'w parts', 'a b c', axis=1), node('MatMul', 'x a', 'p'), node('MatMul', 'x b', 'q'), node('Mul', 'p q')])
same('one by one', [node('SplitToSequence', 'h', 's', axis=0), at('i1', 'y')], [node('Split', 'h s2', 'a y', axis=0)])
same('one by one without the axis', [node('SplitToSequence', 'h', 's', axis=0, keepdims=0), at('i1', 'y')],
     [node('Split', 'h s2', 'a b', axis=0), node('Squeeze', 'b l0')])
same('keepdims means nothing beside sizes', [node('SplitToSequence', 'h s2', 's', axis=0, keepdims=0), at('i1', 'y')], [node('Split', 'h s2', 'a y', axis=0)])

# ---- lists ------------------------------------------------------------------------------------
LIST = [node('Tanh', 'h', 't'), node('Neg', 'h', 'n'), node('Exp', 'h', 'e')]
JOIN = node('ConcatFromSequence', 's3', 'y', axis=-1)
same('constructed and joined', LIST + [node('SequenceConstruct', 't n e', 's3'), JOIN], LIST + [node('Concat', 't n e', axis=-1)])
same('joined along a new axis', LIST + [node('SequenceConstruct', 't n e', 's'), node('ConcatFromSequence', 's', axis=1, new_axis=1)],
     LIST + [node('Unsqueeze', 't l1', 'u'), node('Unsqueeze', 'n l1', 'v'), node('Unsqueeze', 'e l1', 'z'), node('Concat', 'u v z', axis=1)])
for where, k, order in (('at the end', '', 't n e'), ('at the front', ' i0', 'e t n'), ('in the middle', ' i1', 't e n'), ('before the last', ' im1', 't e n')):
    same('inserted ' + where, LIST + [node('SequenceConstruct', 't n', 's'), node('SequenceInsert', 's e' + k, 's3'), JOIN], LIST + [node('Concat', order, axis=-1)])
for what, k, order in (('the last', '', 't n'), ('the first', ' i0', 'n e'), ('by a negative position', ' im1', 't n')):
    same('erased ' + what, LIST + [node('SequenceConstruct', 't n e', 's'), node('SequenceErase', 's' + k, 's3'), JOIN], LIST + [node('Concat', order, axis=-1)])
same('grown from none', LIST + [node('SequenceEmpty', '', 's'), node('SequenceInsert', 's e', 's2_'), node('SequenceInsert', 's2_ t', 's3'), JOIN],
     LIST + [node('Concat', 'e t', axis=-1)])
same('its length', [CHUNK, node('SequenceLength', 's', 'n'), node('Cast', 'n', 'f', to=T.FLOAT), node('Mul', 'h f')],
     [node('Cast', 'i3', 'f', to=T.FLOAT), node('Mul', 'h f')])
same('through Identity', [CHUNK, node('Identity', 's', 's_'), at('i1', 'y', 's_')], [PARTS, node('Identity', 'b')])

# ---- SequenceMap ----------------------------------------------------------------------------------
same('a body for each', [CHUNK, node('SequenceMap', 's half', 's3', body=body([node('Mul', 'i j', 'o')], 'ij', 'o')), JOIN], [node('Mul', 'h half')])
same('a body for pairs', [CHUNK, node('SequenceMap', 's s', 'r s3', body=body([node('Tanh', 'i', 'o'), node('Mul', 'i j', 'p')], 'ij', 'op')), JOIN], [node('Mul', 'h h')])

# ---- control flow, functions --------------------------------------------------------------------------
sequence_out = h.make_value_info('o', SEQ)
yes = body([node('SplitToSequence', 'h i3', 'o', axis=1)], outputs=[sequence_out])
no = body([node('Neg', 'h', 'm'), node('SplitToSequence', 'm i3', 'o', axis=1)], outputs=[sequence_out])
same('a branch that is known', [node('Shape', 'h', 'd'), node('Size', 'd', 'k'), node('Equal', 'k i2', 'q'), node('If', 'q', 's3', then_branch=yes, else_branch=no), JOIN],
     [node('Identity', 'h')])
same('a branch that data chooses', [node('If', 'flag', 's3', then_branch=yes, else_branch=no), JOIN],
     [PARTS, node('Neg', 'h', 'm'), node('Split', 'm parts', 'd e f', axis=1), node('Where', 'flag a d', 'p'), node('Where', 'flag b e', 'q'),
      node('Where', 'flag c f', 'r'), node('Concat', 'p q r', axis=-1)])
loop = body([node('Identity', 'go', 'more'), node('Cast', 'it', 'f', to=T.FLOAT), node('Mul', 'h f', 'p'), node('SequenceInsert', 's_in p', 's_out')],
            [info('it', T.INT64), info('go', T.BOOL), h.make_value_info('s_in', SEQ)], [info('more', T.BOOL), h.make_value_info('s_out', SEQ)])
same('grown in a loop', [node('SequenceConstruct', 'h', 's'), node('Loop', 'i2 - s', 's3', body=loop), JOIN],
     [node('Cast', 'i0', 'f', to=T.FLOAT), node('Cast', 'i1', 'g', to=T.FLOAT), node('Mul', 'h f', 'p'), node('Mul', 'h g', 'q'), node('Concat', 'h p q', axis=-1)])
call = h.make_function('own', 'Halves', ['a'], ['b', 'c'], [node('Constant', '', 'k', value_int=4), node('SplitToSequence', 'a k', 's', axis=1),
                       node('Constant', '', 'z', value_int=0), node('Constant', '', 'o', value_int=1), at('z', 'b'), at('o', 'c')], [h.make_opsetid('', 21)])
same('in a function', [h.make_node('Halves', ['h'], ['a', 'b'], domain='own'), node('Tanh', 'b')],
     [node('Split', 'h fs', 'a b', axis=1), node('Tanh', 'b')], [call])

# ---- optionals -------------------------------------------------------------------------------------------
same('an optional', [node('Optional', 'h', 'o'), node('OptionalHasElement', 'o', 'q'), node('OptionalGetElement', 'o', 'e'), node('Neg', 'e', 'n'), node('Where', 'q e n')],
     [node('Identity', 'h')])
same('an optional sequence', [CHUNK, node('Optional', 's', 'o'), node('OptionalGetElement', 'o', 'e'), at('i1', 'y', 'e')], [PARTS, node('Identity', 'b')])
same('an empty optional', [node('Optional', '', 'o', type=h.make_tensor_type_proto(T.FLOAT, None)), node('OptionalHasElement', 'o', 'q'), node('Neg', 'h', 'n'), node('Where', 'q h n')],
     [node('Neg', 'h')])

# ---- what is refused ----------------------------------------------------------------------------------------
refused('a position from data', [node('Cast', 'flag', 'k', to=T.INT64), CHUNK, at('k', 'y')], 'SequenceAt_y', 'grad')
refused('a position beyond the end', [CHUNK, at('i3', 'y')], "SequenceAt_y: SequenceAt: position 3 (input 1, 'i3') is out of range: the sequence 's' has 3 elements, so that it may be -3 to 2")
refused('a position of two numbers', [CHUNK, at('s2', 'y')], "SequenceAt_y: SequenceAt: input 1 ('s2') has 2 elements; a position is one number")
refused('an element of none', [node('SequenceEmpty', '', 's'), at('i0', 'y')], "SequenceAt_y: SequenceAt: position 0 is out of range: the sequence 's' is empty")
refused('one erased beyond the end', [CHUNK, node('SequenceErase', 's i3', 's3'), JOIN], "SequenceErase_s3: SequenceErase: position 3 (input 1, 'i3') is out of range")
refused('sizes from data', [node('Cast', 'flag', 'k', to=T.INT64), node('SplitToSequence', 'h k', 's', axis=1), at('i0', 'y')], 'SplitToSequence_s', 'grad')
refused('parts of no elements', [node('SplitToSequence', 'h i0', 's', axis=1), at('i0', 'y')], 'SplitToSequence_s')
refused('sizes that do not add up', [node('SplitToSequence', 'h s2', 's', axis=1), at('i0', 'y')], 'SplitToSequence_s')
refused('the last of none', [node('SequenceEmpty', '', 's'), node('SequenceErase', 's', 's3'), JOIN], 'SequenceErase_s3: SequenceErase: the sequence is empty')
refused('the sequence is empty', [node('SequenceEmpty', '', 's3'), JOIN], 'ConcatFromSequence_y')
refused('a tensor in place of a sequence', [at('i0', 'y', 'h')], 'SequenceAt_y')
refused('a sequence in place of a tensor', [CHUNK, node('Relu', 's')], 'Relu_y: Relu: input 0 (\'s\') is a sequence')
refused('a sequence whose shape is asked', [CHUNK, node('Shape', 's', 'z'), node('Cast', 'z', to=T.FLOAT)], 'Shape_z')
# a loop that grows a sequence and does not end, by what is seen before it begins, else by its work
def endless(trips, condition):
    grow = body([*condition, node('SequenceInsert', 's_in h', 's_out')], [info('it', T.INT64), info('go', T.BOOL), h.make_value_info('s_in', SEQ)],
                [info('more', T.BOOL), h.make_value_info('s_out', SEQ)])
    return [node('Constant', '', 'yes', value=numpy_helper.from_array(np.array(True))), node('Constant', '', 'many', value_int=2**62), node('SequenceEmpty', '', 's'),
            node('Loop', f'{trips} yes s', 's3', body=grow), JOIN]


always, computed = [node('Identity', 'go', 'more')], [node('Constant', '', 'far', value_int=10**9), node('Less', 'it far', 'more')]
refused('a loop without an end', endless('-', always), 'Loop_s3: Loop: it never ends: it has no trip count, and its condition stays true', seconds=5)
refused('one whose body says true', endless('-', [node('Constant', '', 'more', value=numpy_helper.from_array(np.array(True)))]), 'Loop_s3: Loop: it never ends', seconds=5)
refused('a loop that counts far', endless('many', always), f'Loop_s3: Loop: it has {2**62} iterations', seconds=5)
refused('a condition that holds long', endless('-', computed), 'iterations: the unrolled loops of the model are too large')
m = model([CHUNK, node('Identity', 'h')])
m.graph.output.append(h.make_value_info('s', SEQ))
spread('an output that is a sequence', m, 's')
refused('an element that is not there', [node('Optional', '', 'o', type=h.make_tensor_type_proto(T.FLOAT, None)), node('OptionalGetElement', 'o')], 'OptionalGetElement_y')
refused('two types in one sequence', [node('Cast', 'h', 'k', to=T.DOUBLE), node('SequenceConstruct', 'h k', 's'), at('i0', 'y')], 'SequenceConstruct_s')
shorter = body([node('SequenceConstruct', 'h', 'o')], outputs=[sequence_out])
same('data between two lengths', [node('If', 'flag', 's3', then_branch=yes, else_branch=shorter), JOIN], [node('Identity', 'h')])

# ---- what the list of operators says of their gradients ---------------------------------------
listed = json.loads(subprocess.run([program, 'ops', '--json'], capture_output=True, text=True, timeout=60).stdout)['operators']
says = {q['name']: q['gradient'] for q in listed if not q['domain'] and not q['internal']}
without = [q['name'] for q in listed if q['gradient'] == 'no' and not q['internal']]
verdict('the list of operators', f'{without}: no operator of a file is without a gradient or a reason' if without else None)
for op in sorted(used & {'If', 'Loop', 'SequenceAt', 'SequenceMap', 'SplitToSequence', 'SequenceInsert', 'SequenceErase', 'SequenceConstruct', 'ConcatFromSequence', 'Optional', 'OptionalGetElement'}):
    verdict(f'the gradient of {op}, which passes above', f'onnxtrain ops says {says[op]!r}' if says[op] != 'spelled out' else None)
finish('models')
