"""Operators on strings against the standard's own cases, and what gives a model no tensor of numbers.

usage: test_strings.py PROGRAM
"""
import subprocess
import tempfile

from onnx.reference import ReferenceEvaluator
from scripts import T, arrays, finish, h, np, numpy_helper, program, verdict

KINDS = {'U': T.STRING, 'f': T.FLOAT, 'i': T.INT64, 'b': T.BOOL}


def model(nodes, feeds, outputs, constants=(), domains=()):
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info(k, KINDS[v.dtype.kind], [None] + list(v.shape[1:])) for k, v in feeds.items()],
                     [h.make_tensor_value_info(n, t, None) for n, t in outputs], list(constants))
    return h.make_model(g, opset_imports=[h.make_opsetid('', 21), h.make_opsetid('ai.onnx.ml', 3)] + [h.make_opsetid(d, 1) for d in domains], ir_version=10)


def run(what, op, feeds, outputs, want=None, **attrs):
    names = 'yz'[:len(outputs)]
    m = model([h.make_node(op, list(feeds), list(names), **attrs)], feeds, list(zip(names, outputs)))
    right = want if want else ReferenceEvaluator(m).run(None, {k: v.astype(object) if v.dtype.kind == 'U' else v for k, v in feeds.items()})
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'run', m, feeds)
        bad = [n for n, w in zip(names, right) if n not in got or got[n].shape != np.shape(w) or got[n].tolist() != np.asarray(w).tolist()]
        verdict(what, r.stderr.strip() if r.returncode else ', '.join(f'{n} is {got[n].tolist()}, {w.tolist()} is right' for n, w in zip(names, right) if n in bad))


words = np.array([['Ein', 'über', 'x y  z'], ['', ' to be ', 'naïve 😀']])
run('joined', 'StringConcat', {'a': words, 'b': np.array(['!', '', 'ß'])}, [T.STRING])
for attrs in ({}, {'delimiter': ' '}, {'maxsplit': 1}, {'delimiter': 'b', 'maxsplit': 1}):
    run(f'split {attrs}', 'StringSplit', {'a': words}, [T.STRING, T.INT64], **attrs)
list_of = np.array(['Monday', 'tuesday', 'WEDNESDAY', 'monday'])
run('lower case', 'StringNormalizer', {'a': list_of}, [T.STRING], want=[np.array(['tuesday', 'wednesday', 'monday'])], case_change_action='LOWER', is_case_sensitive=1, stopwords=['Monday'])
run('upper case', 'StringNormalizer', {'a': list_of}, [T.STRING], want=[np.array(['TUESDAY', 'WEDNESDAY'])], case_change_action='UPPER', stopwords=['monday'])
run('nothing is left', 'StringNormalizer', {'a': list_of[:1]}, [T.STRING], want=[np.array([''])], stopwords=['monday'])
mails = np.array(['www.google.com', 'a@b.com', 'account@gmail.com', 'x-1@yahoo.com', '007', ''])
for pattern in (r'www\\.[\\w.-]+\\.\\bcom\\b', r'(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)', r'\\d+', r'[^\\d@]*?', r'(?:a|x)[\\]\\-\\w]*@.*', ''):
    pattern = pattern.replace('\\\\', '\\')
    run('pattern ' + pattern, 'RegexFullMatch', {'a': mails}, [T.BOOL], pattern=pattern)
run('labels of strings', 'LabelEncoder', {'a': words}, [T.INT64], want=[np.array([[7, 5, -1], [-1, -1, -1]])], domain='ai.onnx.ml', keys_strings=['über', 'Ein'], values_int64s=[5, 7])
run('categories of strings', 'OneHotEncoder', {'a': list_of}, [T.FLOAT], want=[np.array([[0, 1], [0, 0], [0, 0], [1, 0]])], domain='ai.onnx.ml', cats_strings=['monday', 'Monday'])
run('words counted', 'TfIdfVectorizer', {'a': np.array([['a', 'b', 'c', 'a'], ['b', 'c', 'b', 'c']])}, [T.FLOAT], min_gram_length=1, max_gram_length=2, max_skip_count=1, mode='TF',
    ngram_counts=[0, 2], ngram_indexes=[2, 0, 1], pool_strings=['a', 'b', 'b', 'c'])

# ---- what leads only to outputs that nobody asked for ------------------------------------------
rng = np.random.default_rng(2)
x, w = rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal((3, 2)).astype(np.float32)
NAMES = numpy_helper.from_array(np.array(['no', 'yes'], object), 'names')
W = numpy_helper.from_array(w, 'w')
head = [h.make_node('MatMul', ['x', 'w'], ['scores'], name='mm'), h.make_node('ArgMax', ['scores'], ['best'], axis=1, keepdims=0)]
PARTS = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, None))


def beside(what, nodes, outputs, constants=(), domains=(), said='', never=None, given=None):
    """`scores` trains and is given though other outputs lie beside it."""
    m = model(head + nodes, {'x': x}, [('scores', T.FLOAT)], [W] + list(constants), domains)
    m.graph.output.extend(outputs)
    with tempfile.TemporaryDirectory() as d:
        r, got = arrays(d, 'run', m, {'x': x})
        problem = r.stderr.strip() if r.returncode or said not in r.stderr or (never and never in r.stderr) else None
        if not problem and not np.allclose(got['scores'], x @ w, atol=1e-6):
            problem = f'scores are {got["scores"]}'
        for k, v in (given or {}).items():
            if not problem and (k not in got or got[k].tolist() != v.tolist()):
                problem = f'{k} is {got.get(k)}, {v} is right'
        verdict(what + ', run', problem)
        g, got = arrays(d, 'grad', m, {'x': x, 'target_scores': np.array([0, 1, 1, 0])})
        p = np.exp(x @ w) / np.exp(x @ w).sum(1, keepdims=True)
        right = x.T @ (p - np.eye(2)[[0, 1, 1, 0]]) / 4
        verdict(what + ', grad', g.stderr.strip() if g.returncode else None if np.allclose(got['w'], right, atol=1e-5) else f'w {got["w"]}')
        c = subprocess.run([program, 'check', d + '/m.onnx', '--loss', 'scores=cross_entropy'], capture_output=True, text=True, timeout=120)
        verdict(what + ', check', c.stdout + c.stderr if c.returncode else None)


best = (x @ w).argmax(1)
beside('labels that are strings', [h.make_node('Gather', ['names', 'best'], ['label'])], [h.make_tensor_value_info('label', T.STRING, [None])], [NAMES],
       given={'label': np.array(['no', 'yes'])[best]})
beside('strings joined to what data decides', [h.make_node('Gather', ['names', 'best'], ['l0']), h.make_node('StringConcat', ['l0', 'l0'], ['label'])],
       [h.make_tensor_value_info('label', T.STRING, [None])], [NAMES], said="output 'label' is omitted")
beside('an operator that nobody knows', [h.make_node('Efficient', ['scores'], ['boxes'], domain='some.one')], [h.make_tensor_value_info('boxes', T.FLOAT, None)], domains=['some.one'],
       said="output 'boxes' is omitted")
beside('a map', [h.make_node('ZipMap', ['scores'], ['map'], domain='ai.onnx.ml', classlabels_strings=['no', 'yes'])], [h.make_tensor_value_info('map', T.FLOAT, None)])
beside('a sequence', [h.make_node('SplitToSequence', ['scores'], ['parts'], axis=1)], [h.make_value_info('parts', PARTS)], never='is left out')
# Probabilities in a sequence only, as scikit-learn writes several targets: its elements train by their names.
m = model(head + [h.make_node('SequenceConstruct', ['scores', 'scores'], ['all']), h.make_node('Add', ['best', 'best'], ['twice'])], {'x': x}, [('twice', T.INT64)], [W])
m.graph.output.append(h.make_value_info('all', PARTS))
with tempfile.TemporaryDirectory() as d:
    for options in [], ['--loss', 'twice=mse']:
        g, _ = arrays(d, 'grad', m, {'x': x, 'target': np.array([0, 1, 1, 0])}, *options)
        verdict(f'a sequence alone {options}', g.stderr if g.returncode != 3 or "it is a sequence; --output 'scores' trains an element of it" not in g.stderr else None)
    c = subprocess.run([program, 'check', d + '/m.onnx'], capture_output=True, text=True, timeout=120)
    verdict('a sequence alone, check', c.stderr if c.returncode != 3 or "--output 'scores' trains an element" not in c.stderr else None)
    g, got = arrays(d, 'grad', m, {'x': x, 'target': np.array([0, 1, 1, 0])}, '--output', 'scores')
    verdict('an element of a sequence', g.stderr if g.returncode or not np.abs(got['w']).max() > 0 else None)
boxes = [numpy_helper.from_array(np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [5, 5, 6, 6]]], np.float32), 'boxes'), numpy_helper.from_array(np.array([9]), 'most'),
         numpy_helper.from_array(np.array([0.5], np.float32), 'iou'), numpy_helper.from_array(np.array([1, 0]), 'turn'), numpy_helper.from_array(np.array([0]), 'ax0')]
beside('boxes', [h.make_node('Transpose', ['scores'], ['s0'], perm=[1, 0]), h.make_node('Unsqueeze', ['s0', 'ax0'], ['s1']), h.make_node('NonMaxSuppression', ['boxes', 's1', 'most', 'iou'], ['kept'])],
       [h.make_tensor_value_info('kept', T.INT64, None)], boxes)
finish('cases')
