"""Training steps of whole networks, planned for a described H200: kernels that run, and bytes that they read and write, are those of
steps.txt.  A pass that no longer joins or removes what it did shows as another number.

usage: test_steps.py PROGRAM [--write]
"""
import os
import re
import sys
import tempfile
import types

from scripts import call, check, finish, program

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.path.join(HERE, '..', '..', 'gpu')
sys.path.insert(0, GPU)
import speed  # noqa: E402

CLOSE = .005  # of the bytes: workspaces are not counted, but a library may refuse a node


def counted(d, w):
    m = types.SimpleNamespace(program=program, call=lambda *c: (0, call(*c[1:]).stdout))
    speed.prepare(m, d, w)
    precision = w['precisions'][0]
    text = call('plan', f'{d}/m.onnx', '--data', f'{d}/d.npz', '--device-description', f'{GPU}/h200.json', '-q', *speed.options(w, precision)).stdout
    found = re.search(r'batch size (\d+): (\d+) kernels per batch, (\d+) per update; they read and write ([\d.]+) MiB', text)
    check(found, f"{w['kind']}: {text[-300:]}")
    return precision, found.groups() if found else None


def main():
    wanted = dict(re.findall(r'^(\S+ \S+): (.*)$', open(f'{HERE}/steps.txt').read(), re.M)) if '--write' not in sys.argv else {}
    lines = []
    for kind, w in speed.workloads(False).items():
        with tempfile.TemporaryDirectory() as d:
            precision, n = counted(d, w)
        if not n:
            continue
        lines.append(f'{kind} {precision}: batch {n[0]}, {n[1]} + {n[2]} kernels, {n[3]} MiB')
        if not wanted:
            continue
        was = re.match(r'batch \d+, (\d+) \+ (\d+) kernels, ([\d.]+) MiB', wanted.get(f'{kind} {precision}', ''))
        good = was and was[1] == n[1] and was[2] == n[2] and abs(float(was[3]) - float(n[3])) <= CLOSE * float(was[3])
        check(good, f"{lines[-1]}; steps.txt has: {wanted.get(f'{kind} {precision}')}")
    if '--write' in sys.argv:
        open(f'{HERE}/steps.txt', 'w').write('\n'.join(lines) + '\n')
    print('\n'.join(lines))


main()
finish('training steps have the kernels and bytes of steps.txt')
