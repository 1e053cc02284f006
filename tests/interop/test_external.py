"""Models with external data: trained, written, read by onnx.checker and ONNX Runtime.

usage: test_external.py PROGRAM [-v]
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import np, onnx, onnxruntime


def call(program, *arguments):
    r = subprocess.run([program, *arguments], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()}')


def files(folder):
    return {n: open(f'{folder}/{n}', 'rb').read() for n in sorted(os.listdir(folder)) if os.path.isfile(f'{folder}/{n}')}


def locations(path):
    m = onnx.load(path, load_external_data=False)
    return {e.value for t in m.graph.initializer for e in t.external_data if e.key == 'location'}


def outputs(path, x):
    s = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    return s.run(None, {'input': x})[0]


def main():
    program = sys.argv[1]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 784)).astype(np.float32)
    for single in (True, False):  # one data file for all tensors; one for each
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(f'{d}/in')
            os.mkdir(f'{d}/out')
            call(program, 'new', 'mlp', '-o', f'{d}/whole.onnx')
            m = onnx.load(f'{d}/whole.onnx')
            onnx.save_model(m, f'{d}/in/m.onnx', save_as_external_data=True, all_tensors_to_one_file=single,
                            location='m.data' if single else None, size_threshold=0)
            np.savez(f'{d}/x.npz', input=x, target=rng.integers(0, 10, 64))
            before = files(f'{d}/in')
            train = ['train', f'{d}/in/m.onnx', '--data', f'{d}/x.npz', '--epochs', '2', '--device', 'cpu']
            call(program, *train, '--lr', '0', '-o', f'{d}/out/m.onnx', '--run-dir', f'{d}/r0')
            assert files(f'{d}/out') == before, 'a rate of 0 gives the same files'
            call(program, *train, '-o', f'{d}/in/trained.onnx', '--run-dir', f'{d}/r1')
            after = files(f'{d}/in')
            assert all(after[n] == b for n, b in before.items()), 'the input is as it was'
            fresh = sorted(set(after) - set(before))
            assert len(fresh) == (2 if single else 7), fresh
            for n in fresh:
                st = os.lstat(f'{d}/in/{n}')
                assert st.st_nlink == 1 and not os.path.islink(f'{d}/in/{n}')
            onnx.checker.check_model(f'{d}/in/trained.onnx', full_check=True)
            # One run of many improvements, and training again to the same file, leave the files that are named and no others.
            said = subprocess.run([program, *train[:-4], '--epochs', '8', '--val', f'{d}/x.npz', '--lr', '0.01', '--device', 'cpu',
                                   '-o', f'{d}/in/again.onnx', '--run-dir', f'{d}/r3'], capture_output=True, text=True).stderr
            for k in range(3):
                call(program, *train, '--seed', str(k), '-o', f'{d}/in/again.onnx', '--run-dir', f'{d}/r4')
            own = sorted(n for n in files(f'{d}/in') if n.startswith('again'))
            assert own == sorted(['again.onnx', *locations(f'{d}/in/again.onnx')]), own
            assert files(f'{d}/in').keys() == before.keys() | set(fresh) | set(own), 'nothing else came'
            best = sorted(n for n in files(f'{d}/r3') if n.startswith('best'))
            assert best == sorted(['best.onnx', *locations(f'{d}/r3/best.onnx')]), best
            others = [n for n in files(f'{d}/r3') if n not in best and not n.startswith('checkpoint-')]
            assert others == ['epochs.csv', 'evaluation.json', 'log.jsonl', 'options.conf', 'report.html'], others
            epochs = [json.loads(line) for line in open(f'{d}/r3/log.jsonl')]
            assert sum(e['event'] == 'eval' for e in epochs) == 8
            named = next(line for line in said.splitlines() if line.startswith('external data: '))
            assert all(n.endswith('.onnx.data') for n in named.split(': ')[1].split(' (')[0].split(', ')), named
            # The same training of the file that holds its data itself gives the same outputs.
            train[1] = f'{d}/whole.onnx'
            call(program, *train, '-o', f'{d}/whole-trained.onnx', '--run-dir', f'{d}/r2')
            a, b = outputs(f'{d}/in/trained.onnx', x), outputs(f'{d}/whole-trained.onnx', x)
            assert np.array_equal(a, b) and not np.allclose(a, outputs(f'{d}/whole.onnx', x))
    print('2 of 2 ways of keeping external data')


main()
