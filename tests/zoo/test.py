"""Trains what make.py made, as PyTorch does.

usage: test.py PROGRAM FOLDER [--only TEXT] [--json FILE] [-v]

Per graph, up to the first failure: (run) `onnxtrain run` equals ONNX Runtime at the file's batch; (batch) four samples together equal
the module; (trained) the tensors that train are the module's parameters; (steps) five updates of SGD with momentum in batches
of four give PyTorch's losses; (export) the trained file gives ONNX Runtime what the trained module gives.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

STEPS, BATCH = 5, 4
ort.set_default_logger_severity(4)


class Failed(Exception):
    pass


def call(program, what, *arguments):
    try:
        r = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        raise Failed(f'{what}: over 600 s') from None
    if r.returncode:
        lines = [l for l in r.stderr.strip().splitlines() if l.strip()]
        raise Failed(f"{what}: exit {r.returncode}: {' / '.join(lines[-3:])[:400]}")
    return r


def near(got, want, tolerance, what):
    got, want = np.asarray(got, 'f8'), np.asarray(want, 'f8')
    if got.shape != want.shape:
        raise Failed(f'{what}: {list(got.shape)}, wants {list(want.shape)}')
    off = np.max(np.abs(got - want), initial=0) / max(1e-3, np.max(np.abs(want), initial=0))
    if not off <= tolerance:
        raise Failed(f'{what}: off by {off:.2g}')


def judge(apart, data, got):
    """ONNX Runtime's values; where they are not the module's and ours are, the module's."""
    off = lambda a: np.max(np.abs(a - data['expected_apart'])) / max(1e-3, np.max(np.abs(data['expected_apart'])))
    return data['expected_apart'] if got.shape == apart.shape and off(got) < 2e-5 < off(apart) else apart


def one(program, stem, tmp):
    facts, data, model = json.load(open(stem + '/facts.json')), dict(np.load(stem + '/data.npz')), stem + '/model.onnx'
    out, target = facts['output'], 'target_' + facts['output']
    inputs = {k: v for k, v in data.items() if not k.startswith(('expected', 'target_'))}
    x, y, d, trained, log = (os.path.join(tmp, n) for n in ('x.npz', 'y.npz', 'd.npz', 'trained.onnx', 'log.jsonl'))
    if facts['mixes'] > 1e-4 and facts['export'] not in ('tt', 'dd'):
        facts['note'] = f"the module mixes its batch ({facts['mixes']:.1g})"
        raise Failed('exporter: ' + facts['note'])
    if any(t in facts.get('ort', '') for t in ('No Op registered', 'Required inputs', 'Invalid model')):
        raise Failed('exporter: no runtime reads it: ' + facts['ort'][-120:])
    if data['expected_apart'].shape != data['expected_batch'].shape and facts['export'] not in ('tt', 'dd'):
        raise Failed('exporter: the module compares the samples of a batch with each other, and an export of one sample does not')
    said = ''

    def run(n, file, what):
        np.savez(x, **{k: v[:n] for k, v in inputs.items()})
        r = call(program, what, 'run', file, '--mode', 'eval', '--data', x, '-o', y)
        return np.load(y)[out], r.stderr
    if 'expected_ort' in data and facts['export'] not in ('tt', 'dd'):
        s = ort.InferenceSession(model, providers=['CPUExecutionProvider'])
        apart = np.concatenate([s.run([out], {i.name: inputs[i.name][k:k + 1] for i in s.get_inputs()})[0] for k in range(BATCH)])
        if len(apart) != BATCH:
            raise Failed(f'exporter: gives {len(apart)} rows for {BATCH} samples')
        got = run(BATCH, model, 'batch')[0]
        apart = judge(apart, data, got)
        near(run(1, model, 'run')[0], apart[:1], 2e-5, 'run')
        near(got, apart, 2e-4, 'batch')
        near(apart, data['expected_apart'], 1e-3, 'exporter: ONNX Runtime and the module')
    else:
        near(run(1, model, 'run')[0], data['expected_apart'][:1], 2e-4, 'run (module)')
        near(run(BATCH, model, 'batch')[0], data['expected_batch'], 2e-4, 'batch (module)')
    r = call(program, 'inspect', 'inspect', '--json', model)
    frozen, wrong = [], []
    for t in json.loads(r.stdout)['initializers']:
        kind, trains = facts['tensors'].get(t['name']), t['role'] == 'trains'
        if kind == 'frozen':
            frozen += ['--freeze', t['name']] if trains else []
        elif kind == 'constant' and trains and facts['lost'] and t['shape'] not in ('[]', '[1]'):
            frozen += ['--freeze', t['name']] # computed from parameters that are nowhere else in the file, which PyTorch holds here
        elif kind in ('parameter', 'buffer', 'constant') and trains != (kind == 'parameter'):
            wrong.append(f"{t['name']} {t['shape']} is a {kind}: {t['role']} ({t['why']})")
    np.savez(d, **inputs, **{target: data[target]})
    trouble, steps = None, []
    try:
        r = call(program, 'train', 'train', model, '--data', d, '-o', trained, '--batch-size', str(BATCH), '--steps', str(STEPS), '--no-shuffle', '--dropout', 'off', '--bn', 'frozen',
                 '--loss', f'{out}=mse', '--optimizer', f"sgd:lr={facts['lr']},momentum=0.9", '--run-dir', 'none', '--log', log, '--device', 'cpu', *frozen)
        said = r.stderr
        steps = [e for e in map(json.loads, open(log)) if e['event'] == 'step']
        losses = [e['loss'] for e in steps]
        speed = BATCH / max(1e-9, float(np.median(np.diff([e['seconds'] for e in steps])))) # samples per second
        off = max(abs(a - b) / abs(b) for a, b in zip(losses, facts['losses']))
        if not off <= 1e-4 + 4 * facts.get('rounding', 0):
            trouble = f"steps: loss off by {off:.2g}: {', '.join(f'{v:.6g}' for v in losses)}; wants {', '.join(f'{v:.6g}' for v in facts['losses'])}"
    except Failed as e:
        trouble = str(e)
    how = 'micro-batches' if 'cannot be adapted' in said or 'batches apart' in said else 'rules' if 'fixed batch size' in said else 'open'
    if wrong:
        raise Failed(f"trained: {len(wrong)} of {len(facts['tensors'])}: {'; '.join(wrong[:3])}" + (f' | {trouble}' if trouble else ' | steps pass'))
    if trouble:
        raise Failed(trouble + (f"; not in the file: {facts['lost'][:4]}" if facts['lost'] else ''))
    if facts['export'] not in ('tt', 'dd') and facts.get('ort_off', 0) < 1e-4:
        try:
            s = ort.InferenceSession(trained, providers=['CPUExecutionProvider'])
            got = s.run([out], {i.name: inputs[i.name][:1] for i in s.get_inputs()})[0]
        except Exception as e:
            raise Failed(f'export: {str(e)[:200]}') if 'expected_ort' in data else Failed('')
        near(got, data['expected_after'], 1e-3, 'export')
    else:
        near(run(1, trained, 'export')[0], data['expected_after'], 1e-3, 'export')
    return how, said, losses, speed


def main():
    p = argparse.ArgumentParser()
    p.add_argument('program')
    p.add_argument('folder')
    p.add_argument('--only', default='')
    p.add_argument('--json')
    p.add_argument('-v', action='store_true')
    a = p.parse_args()
    rows, losses, speed, count = [], {}, {}, collections.defaultdict(collections.Counter)
    for facts in sorted(glob.glob(os.path.join(a.folder, '*', 'facts.json'))):
        stem = os.path.dirname(facts)
        name = os.path.basename(stem)
        if a.only not in name or stem.endswith('.tmp'):
            continue
        f = json.load(open(facts))
        with tempfile.TemporaryDirectory() as tmp:
            try:
                how, said, losses[name], speed[name] = one(a.program, stem, tmp)
                result = 'pass'
                if a.v:
                    print(said)
            except Failed as e:
                how, result = '', str(e)
        print(f'{"ok  " if result == "pass" else "OFF "} {name} {how if result == "pass" else result}', flush=True)
        rows.append({'name': name, 'how': how, 'result': result, 'note': f.get('note', '')})
        c = count[f"{f['family']} {f['export']}"]
        c['other'] += result.startswith('exporter')
        c['all'] += not result.startswith('exporter')
        c['pass'] += result == 'pass'
        c[how] += 1
    for name, c in count.items():
        print(f"{name}: {c['pass']} of {c['all']}; {c['open']} with an open batch, {c['rules']} by rules, {c['micro-batches']} partly in micro-batches")
    both = [n for n in losses if n.endswith('-d1') and n[:-2] + 'dd' in losses]
    apart = {n: max(abs(a - b) / abs(b) for a, b in zip(losses[n], losses[n[:-2] + 'dd'])) for n in both}
    if both:
        print(f"{sum(v <= 1e-5 for v in apart.values())} of {len(both)} baked batches of one train as their export with a dynamic batch to 1e-5" + ''.join(f'; {n} {v:.2g}' for n, v in apart.items() if v > 1e-5) +
              f"; {max(apart.values()):.2g} at most; {sum(speed[n] for n in both):.4g} samples/s in sum, {sum(speed[n[:-2] + 'dd'] for n in both):.4g} with the dynamic batch")
    refused = glob.glob(os.path.join(a.folder, '*.refused'))
    print(f"{sum(c['pass'] for c in count.values())} of {sum(c['all'] for c in count.values())}; {sum(c['other'] for c in count.values())} that the exporter "
          f'turned into another function, {len(refused)} that it refused')
    if a.json:
        json.dump(rows, open(a.json, 'w'), indent=0)
    return any(r['result'] != 'pass' for r in rows)


if __name__ == '__main__':
    sys.exit(main())
