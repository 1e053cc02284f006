"""What weights are called changes nothing: real exports with every tensor renamed to what the program calls its own state
train to the same bits; tensors whose names meet are told apart by every command.

usage: test_names.py PROGRAM [--cases FOLDER] [--only TEXT] [--every] [--steps N] [-v]

Each tensor gets one of the suffixes, in turn, behind the name of the tensor before it: so it is called as that one's
state is.  --every: all tensors get each suffix, one run after the other.  --cases: another folder than cases.tar.xz.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from test_follow import HERE, Off, call, need, train_options

GRAPH_H = f'{HERE}/../../runtime/graph/graph.h'


def suffixes():
    """What the program calls its states: from the table that it names them by."""
    table = re.search(r'#define OT_STATE_KINDS\(X\)(.*?)\n\n', open(GRAPH_H).read(), re.S).group(1)
    found = re.findall(r'X\(\w+, *"([^"]+)"\)', table)
    need('accumulated' in found and 'master' in found and len(found) > 10, f'{GRAPH_H}: no table of states')
    return found


def graphs(g):
    yield g
    for node in g.node:
        for a in node.attribute:
            for sub in [a.g] if a.HasField('g') else a.graphs:
                yield from graphs(sub)


def tensor_names(model):
    names = [t.name for g in graphs(model.graph) for t in g.initializer]
    names += [n.output[0] for g in graphs(model.graph) for n in g.node if n.op_type == 'Constant' and not n.domain]
    outputs = {o.name for g in graphs(model.graph) for o in g.output}
    return [n for n in dict.fromkeys(names) if n not in outputs]


def rename(model, to):
    for g in graphs(model.graph):
        for t in list(g.initializer) + list(g.input) + list(g.value_info):
            t.name = to.get(t.name, t.name)
        for node in g.node:
            node.input[:] = [to.get(n, n) for n in node.input]
            node.output[:] = [to.get(n, n) for n in node.output]


def mapping(names, words, shift):
    """A tensor is called as a state of the one before it; with one word, of itself."""
    to = {}
    for i, name in enumerate(names):
        word = words[(i + shift) % len(words)]
        to[name] = f'{name if len(words) == 1 or not i else to[names[i - 1]][-200:]}/{word}'
    if len(set(to.values())) < len(names):
        to = {n: f'{v[:-len(v.rsplit("/", 1)[1]) - 1]}#{i}/{v.rsplit("/", 1)[1]}' for i, (n, v) in enumerate(to.items())}
    return to


def payloads(path):
    model = onnx.load(path)
    found = {}
    for g in graphs(model.graph):
        for t in g.initializer:
            found[t.name] = t
        for n in g.node:
            for a in n.attribute:
                if n.op_type == 'Constant' and a.name == 'value':
                    found[n.output[0]] = a.t
    return {k: numpy_helper.to_array(t).tobytes() for k, t in found.items()}


def trained(program, case, model, folder, tmp, to, steps):
    """Losses as they are written, and the bytes of every tensor by its old name."""
    case = dict(case, frozen=[to.get(n, n) for n in case['frozen']])
    if steps:
        case['steps'] = min(case['steps'], steps)
    call(program, 'train', model, '--data', f'{folder}/data.npz', '-o', f'{tmp}/out.onnx', '--log', f'{tmp}/log.jsonl',
         '--run-dir', f'{tmp}/run', *train_options(case))
    losses = re.findall(r'"event":"step".*?"loss":([^,}]+)', open(f'{tmp}/log.jsonl').read().replace('": ', '":'))
    need(len(losses) == case['steps'], f"{len(losses)} steps in the log, {case['steps']} were asked for")
    back = {v: k for k, v in to.items()}
    return losses, {back.get(k, k): v for k, v in payloads(f'{tmp}/out.onnx').items()}


def same(program, folder, every, steps):
    case, model, runs = json.load(open(f'{folder}/case.json')), f'{folder}/model.onnx', 0
    words = suffixes()
    with tempfile.TemporaryDirectory() as tmp:
        plain = trained(program, case, model, folder, tmp, {}, steps)
        names = tensor_names(onnx.load(model))
        need(names, 'no tensor to rename')
        for choice in [[w] for w in words] if every else [words]:
            renamed = onnx.load(model)
            to = mapping(names, choice, len(os.path.basename(folder)))
            rename(renamed, to)
            onnx.save(renamed, f'{tmp}/renamed.onnx')
            got = trained(program, case, f'{tmp}/renamed.onnx', folder, tmp, to, steps)
            need(got[0] == plain[0], f'{choice[0]}: losses {got[0][:3]} are not {plain[0][:3]}')
            off = [n for n in plain[1] if got[1].get(n) != plain[1][n]]
            need(not off and len(got[1]) == len(plain[1]), f"{choice[0]}: {len(off)} tensors differ, '{(off or [''])[0]}'")
            runs += 1
    return runs


# ---- names that meet --------------------------------------------------------------------------------------------------

def weight(name, seed):
    return numpy_helper.from_array(np.random.default_rng(seed).normal(size=(2, 2)).astype(np.float32), name)


def save(path, nodes, initializers, functions=()):
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ['N', 2])] for n in 'xy']
    g = helper.make_graph(nodes, 'g', *ends, initializers)
    own = [helper.make_opsetid('own', 1)] if functions else []
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid('', 17), *own], ir_version=8, functions=list(functions)), path)


def in_function(path, name):
    """An initializer, and a constant `w` of the function that node f calls."""
    body = [helper.make_node('Constant', [], ['w'], value=weight('w', 2)), helper.make_node('MatMul', ['h', 'w'], ['y'])]
    f = helper.make_function('own', 'F', ['h'], ['y'], body, [helper.make_opsetid('', 17)])
    save(path, [helper.make_node('MatMul', ['x', name], ['h']), helper.make_node('F', ['h'], ['y'], name='f', domain='own')],
         [weight(name, 1)], [f])


def in_loop(path, inside):
    """Three times tanh(s W), with W in the body or beside the loop."""
    info = helper.make_tensor_value_info
    w = [weight('W', 3)]
    body = helper.make_graph([helper.make_node('MatMul', ['s', 'W'], ['t']), helper.make_node('Tanh', ['t'], ['u']),
                              helper.make_node('Identity', ['c'], ['d'])], 'body',
                             [info('i', TensorProto.INT64, []), info('c', TensorProto.BOOL, []), info('s', TensorProto.FLOAT, None)],
                             [info('d', TensorProto.BOOL, []), info('u', TensorProto.FLOAT, None)], w if inside else [])
    known = [numpy_helper.from_array(np.array(3), 'n'), numpy_helper.from_array(np.array(True), 'go')]
    save(path, [helper.make_node('Loop', ['n', 'go', 'x'], ['y'], name='again', body=body)], known + ([] if inside else w))


def course(program, tmp, model, *options):
    call(program, 'train', f'{tmp}/{model}', '--data', f'{tmp}/d.npz', '--loss', 'mse', '-o', f'{tmp}/out.onnx', '--log',
         f'{tmp}/log.jsonl', '--run-dir', f'{tmp}/run', *options)
    return [json.loads(line).get('loss') for line in open(f'{tmp}/log.jsonl') if '"step"' in line[:20]], payloads(f'{tmp}/out.onnx')


def meeting_names(program):
    with tempfile.TemporaryDirectory() as tmp:
        r = np.random.default_rng(0)
        np.savez(f'{tmp}/d.npz', x=r.normal(size=(7, 2)).astype('f4'), target=r.normal(size=(7, 2)).astype('f4'))

        # a weight that is called as the sum of gradients is
        for name in ('dense/accumulated', 'plain'):
            save(f'{tmp}/{name.split("/")[0]}.onnx', [helper.make_node('MatMul', ['x', name], ['y'])], [weight(name, 1)])
        sgd = ['--optimizer', 'sgd', '--lr', '0.001', '--steps', '3', '--batch-size', '4', '--no-shuffle']
        a, b = (course(program, tmp, f'{m}.onnx', *sgd) for m in ('dense', 'plain'))
        need(len(a[0]) == 3 and a[0] == b[0] and list(a[1].values()) == list(b[1].values()), f'dense/accumulated: {a[0]}, plain: {b[0]}')

        # two weights of one name, and a second plan for the short batch
        in_function(f'{tmp}/meet.onnx', 'f/w')
        in_function(f'{tmp}/apart.onnx', 'g/w')
        adam = ['--optimizer', 'adam', '--lr', '0.05', '--epochs', '3', '--batch-size', '5']
        a, b = (course(program, tmp, f'{m}.onnx', *adam) for m in ('meet', 'apart'))
        need(len(a[0]) == 6 and a[0] == b[0] and list(a[1].values()) == list(b[1].values()), f'f/w twice: {a[0]}, f/w and g/w: {b[0]}')

        # every command tells them apart
        text = subprocess.run([program, 'inspect', '--json', f'{tmp}/meet.onnx'], capture_output=True, text=True).stdout
        names = [t['name'] for t in json.loads(text)['initializers']]
        need(names == ['f/w', 'f/w#2'], f'inspect lists {names}')
        start = [numpy_helper.to_array(weight('', s)).tobytes() for s in (1, 2)]
        for k, frozen in enumerate(names):
            call(program, 'train', f'{tmp}/meet.onnx', '--data', f'{tmp}/d.npz', '--loss', 'mse', '-o', f'{tmp}/out.onnx', '--steps', '2',
                 '--run-dir', f'{tmp}/run', '--freeze', frozen)
            model = onnx.load(f'{tmp}/out.onnx')
            end = [numpy_helper.to_array(t).tobytes() for t in (model.graph.initializer[0], model.functions[0].node[0].attribute[0].t)]
            need([x == y for x, y in zip(start, end)] == [k == 0, k == 1], f'--freeze {frozen} kept another tensor')
        call(program, 'grad', f'{tmp}/meet.onnx', '--data', f'{tmp}/d.npz', '-o', f'{tmp}/g.npz', '--loss', 'mse')
        with np.load(f'{tmp}/g.npz') as g:
            need(sorted(g.files) == ['f/w', 'f/w#2', 'loss'], f'grad writes {g.files}')

        # a weight that is called as the number beside the gradients is
        save(f'{tmp}/loss.onnx', [helper.make_node('MatMul', ['x', 'loss'], ['h']), helper.make_node('MatMul', ['h', 'loss#2'], ['y'])],
             [weight('loss', 1), weight('loss#2', 2)])
        call(program, 'grad', f'{tmp}/loss.onnx', '--data', f'{tmp}/d.npz', '-o', f'{tmp}/g.npz', '--loss', 'mse')
        with np.load(f'{tmp}/g.npz') as g:
            shapes = {n: g[n].shape for n in g.files}
            need(shapes == {'loss': (), 'loss#2': (2, 2), 'loss#3': (2, 2)}, f'grad writes {shapes}')

        # a weight of a body trains as it does beside it, once for all its rounds
        in_loop(f'{tmp}/in.onnx', True)
        in_loop(f'{tmp}/out_of.onnx', False)
        a, b = (course(program, tmp, f'{m}.onnx', *adam) for m in ('in', 'out_of'))
        need(len(a[0]) == 6 and a == b, f'W in the body: {a[0]}, beside the loop: {b[0]}')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--cases')
    parser.add_argument('--only', default='')
    parser.add_argument('--every', action='store_true')
    parser.add_argument('--steps', type=int)
    parser.add_argument('-v', action='store_true')
    a = parser.parse_args()
    kept = total = runs = 0
    try:
        meeting_names(a.program)
    except Off as e:
        print(f'names that meet: FAILED {e}', flush=True)
        total += 1
    with tempfile.TemporaryDirectory() as root:
        if not a.cases:
            with tarfile.open(f'{HERE}/cases.tar.xz') as archive:
                archive.extractall(root)
        for path in sorted(glob.glob(f'{a.cases or root}/*/case.json')):
            folder = os.path.dirname(path)
            if a.only not in os.path.basename(folder) or 'losses' not in json.load(open(path)):
                continue
            total += 1
            try:
                n = same(a.program, folder, a.every, a.steps)
                kept += 1
                runs += n
                if a.v:
                    print(f'{os.path.basename(folder):36} {n} runs, the same bits', flush=True)
            except (Off, subprocess.TimeoutExpired, KeyError) as e:
                print(f'{os.path.basename(folder):36} FAILED {type(e).__name__ if not isinstance(e, Off) else ""} {e}', flush=True)
    print(f'names: {kept} of {total} train to the same bits under other names ({runs} runs)')
    return 0 if kept == total and total else 1


if __name__ == '__main__':
    sys.exit(main())
