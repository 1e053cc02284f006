"""What `predict --prompt` writes, against plain loops with ONNX Runtime: windows of fixed and open length, kinds of tokens, draws.

usage: test_generate.py PROGRAM
"""
import json
import os
import subprocess
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, onnxruntime, program

FIXTURES = os.path.join(os.path.dirname(__file__), '..', 'text', 'fixtures')
rng = np.random.default_rng(5)


def model(path, vocabulary, length, record, flat=False, tail=None):
    """Scores from the sum of what came before: causal, of any length; flat: [samples*length, vocabulary]."""
    e = (rng.standard_normal((vocabulary, 16)) * .7).astype('f4')
    w = (rng.standard_normal((16, vocabulary))).astype('f4')
    nodes = [h.make_node('Gather', ['e', 'input_ids'], ['x']), h.make_node('CumSum', ['x', 'axis'], ['c']),
             h.make_node('Sin', ['c'], ['s']), h.make_node('MatMul', ['s', 'w'], ['m'])]
    if flat:
        nodes.append(h.make_node('Reshape', ['m', 'shape'], ['f']))
    last = 'f' if flat else 'm'
    nodes.append(h.make_node(tail or 'Identity', [last], ['logits'], **({'axis': -1} if tail else {})))
    weights = [numpy_helper.from_array(v, n) for v, n in
               ((e, 'e'), (w, 'w'), (np.array(1, 'i8'), 'axis'), (np.array([-1, vocabulary], 'i8'), 'shape'))]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('input_ids', T.INT64, ['n', length or 't'])],
                     [h.make_tensor_value_info('logits', T.FLOAT, None)], weights)
    m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=9)
    if record:
        m.metadata_props.add(key='onnxtrain.preprocess', value=json.dumps(dict(kind='text', **record)))
    onnx.save(m, path)
    s = onnxruntime.InferenceSession(path)

    def scores(ids, most):
        """Of what follows ids: the last ones as far as the window reaches, filled up behind where its length is fixed."""
        some = ids[-most:]
        row = some + [0] * (length - len(some)) if length else some
        return s.run(None, {'input_ids': np.array([row], 'i8')})[0].reshape(-1, vocabulary)[len(some) - 1]
    return scores


def greedy(scores, ids, n, most):
    ids = list(ids)
    for _ in range(n):
        ids.append(int(np.argmax(scores(ids, most))))
    return ids


def text(path, prompt, *options):
    return call('predict', path, '--prompt', prompt, *options).stdout[:-1]


def expect_greedy(d):
    characters = dict(unit='characters', vocabulary=[ord(c) for c in 'abcdefghijklmnopqrstuvwxyz é€'], length=24)
    letters = [chr(c) for c in characters['vocabulary']]
    for length, flat, tail, most in ((8, False, None, 8), (8, True, 'LogSoftmax', 8), (None, False, 'Softmax', 24),
                                     (None, True, None, 24)):
        scores = model(f'{d}/m.onnx', len(letters), length, characters, flat, tail)
        want = ''.join(letters[i] for i in greedy(scores, [letters.index(c) for c in 'to be é'], 40, most))
        got = text(f'{d}/m.onnx', 'to be é', '--tokens', '40', '--temperature', '0')
        check(got == want, f'length {length}, flat {flat}, {tail}: {got!r}, expected {want!r}')
        one = text(f'{d}/m.onnx', 'to be é', '--tokens', '40', '--top-k', '1')
        check(one == want, f'--top-k 1: {one!r}, expected {want!r}')


def expect_draws(d):
    letters = 'abcdefgh'
    scores = model(f'{d}/m.onnx', 8, None, dict(unit='characters', vocabulary=[ord(c) for c in letters], length=12))
    a = text(f'{d}/m.onnx', 'a', '--tokens', '300', '--seed', '3')
    check(a == text(f'{d}/m.onnx', 'a', '--tokens', '300', '--seed', '3', '--threads', '1'), 'the same seed, another text')
    check(a != text(f'{d}/m.onnx', 'a', '--tokens', '300', '--seed', '4'), 'another seed, the same text')
    check(len(a) == 301, f'{len(a)} characters')
    second = 0
    for options, keep in ((['--top-k', '2'], None), (['--top-p', '0.6'], .6), (['--top-p', '0.6', '--temperature', '3'], .6)):
        heat = 3 if '3' in options else 1
        ids = [letters.index(c) for c in text(f'{d}/m.onnx', 'ab', '--tokens', '200', *options)]
        for i in range(2, len(ids)):
            v = scores(ids[:i], 12).astype('f8') / heat
            p = np.exp(v - v.max())
            p /= p.sum()
            order = list(np.argsort(-p, kind='stable'))
            n = 2 if keep is None else int(np.searchsorted(np.cumsum(p[order]), keep - 1e-7)) + 1
            check(ids[i] in order[:n], f'{options}: token {i} is number {order.index(ids[i])} of {n}')
            second += ids[i] != order[0]
    check(second > 50, f'only {second} draws are not the most probable')
    # Frequencies are the probabilities: one step, many seeds.
    p = np.exp(scores([0], 12).astype('f8'))
    p /= p.sum()
    n = 400
    seen = np.zeros(8)
    for seed in range(n):
        seen[letters.index(text(f'{d}/m.onnx', 'a', '--tokens', '1', '--seed', str(seed))[1])] += 1
    chi = ((seen - n * p) ** 2 / (n * p)).sum()
    check(chi < 30, f'chi squared {chi} with 7 degrees of freedom: {seen} {n * p}')


def expect_tokens(d):
    with open(f'{FIXTURES}/gpt2.json') as f:
        tokenizer = json.load(f)
    names = {i: t for t, i in tokenizer['model']['vocab'].items()}
    size = max(names) + 1
    scores = model(f'{d}/m.onnx', size, 16, dict(unit='tokens', tokenizer=tokenizer, length=16))
    r = subprocess.run([program, 'predict', f'{d}/m.onnx', '--prompt', 'and', '--tokens', '30', '--temperature', '0'],
                       capture_output=True, text=True)
    if 'libutf8proc-dev' in r.stderr:
        return
    first = [tokenizer['model']['vocab'][t] for t in ('and',) if t in tokenizer['model']['vocab']]
    check(first, 'the fixture has no token and')
    check(r.stdout.startswith('and'), f'tokens: {r.stdout!r} {r.stderr!r}')
    if first:
        special = {t['id']: t['content'] for t in tokenizer['added_tokens']}
        ids = greedy(scores, first, 30, 16)
        ends = [i for i, t in enumerate(ids) if special.get(t) in ('<|endoftext|>', '</s>')]
        ids = ids[:ends[0]] if ends else ids
        table = {chr(c): b for b, c in byte_table().items()}
        want = b''.join(special[i].encode() if i in special else bytes(table[c] for c in names[i]) for i in ids)
        check(r.stdout[:-1] == want.decode('utf-8', 'replace'), f'tokens: {r.stdout!r}, expected {want!r}')
    # Bytes that are no UTF-8 are replaced.
    model(f'{d}/b.onnx', 256, 16, dict(unit='bytes'))
    raw = subprocess.run([program, 'predict', f'{d}/b.onnx', '--prompt', 'x', '--tokens', '300', '--quiet'],
                         capture_output=True, check=True).stdout
    check(raw.decode('utf-8').count('\ufffd') > 50, 'bytes that are no character')


def byte_table():
    """GPT-2's characters for bytes."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: b for b in keep}
    for n, b in enumerate(b for b in range(256) if b not in keep):
        table[b] = 256 + n
    return table


def expect_errors(d):
    model(f'{d}/m.onnx', 30, 8, None)
    for options, rc, words in (([], 2, '--tokenizer FILE or --text bytes'), (['--text', 'chars'], 2, 'does not record'),
                               (['--text', 'bytes', '--tokenizer', 'x'], 2, 'use one of them'),
                               (['--text', 'bytes', '--top-p', '2'], 2, 'top-p')):
        r = call('predict', f'{d}/m.onnx', '--prompt', 'a', *options, code=rc)
        check(words in r.stderr, f'{options}: {r.returncode} {r.stderr}')
    call('predict', f'{d}/m.onnx', '--prompt', '', '--text', 'bytes', code=2)
    r = call('predict', f'{d}/m.onnx', '--prompt', 'a', '--text', 'bytes', '-o', f'{d}/t.txt', code=2)
    check('> ' in r.stderr and not os.path.exists(f'{d}/t.txt'), f'-o: {r.stderr}')
    model(f'{d}/m.onnx', 3, 8, dict(unit='characters', vocabulary=[97, 98, 99]))
    r = call('predict', f'{d}/m.onnx', '--prompt', 'abz', code=4)
    check("'z' (U+007A)" in r.stderr, f'unknown character: {r.returncode} {r.stderr}')


with tempfile.TemporaryDirectory() as d:
    expect_greedy(d)
    expect_draws(d)
    expect_tokens(d)
    expect_errors(d)
finish('generated texts are those of the loops')
