"""Networks that detach values or look up padding, as PyTorch's exporter writes them: four updates against PyTorch's (make.py).

usage: test_traced.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from scripts import np

program = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
failed = total = 0
with tempfile.TemporaryDirectory() as d:
    with tarfile.open(here + '/graphs.tar.xz') as t:
        t.extractall(d)
    for name, want in json.load(open(d + '/losses.json')).items():
        for form in ('', '-plain'):
            total += 1
            out = subprocess.run([program, 'inspect', '--json', f'{d}/{name}{form}.onnx'], capture_output=True, text=True)
            first = json.loads(out.stdout)['outputs'][0]['name'] if out.returncode == 0 else ''
            np.savez(d + '/d.npz', **{k if k == 'x' else f'target_{first}': v for k, v in np.load(f'{d}/{name}.npz').items()})
            r = subprocess.run([program, 'train', f'{d}/{name}{form}.onnx', '--data', d + '/d.npz', '-o', d + '/o.onnx', '--batch-size', '4', '--steps', '4', '--no-shuffle', '--loss', f'{first}=mse',
                                '--run-dir', 'none', '--optimizer', 'sgd:lr=0.1,momentum=0.9', '--log', d + '/log', '--device', 'cpu'], capture_output=True, text=True)
            got = [e['loss'] for e in map(json.loads, open(d + '/log')) if e['event'] == 'step'] if r.returncode == 0 else []
            said = 'without gradient, because the program detached them' in r.stderr or 'padding index (padding_idx)' in r.stderr
            if not said or len(got) != 4 or not np.allclose(got, want, rtol=1e-4):
                failed += 1
                print(f'FAILED {name}{form}: losses {got}; PyTorch has {want}{"" if said else "; and nothing was said"}\n{r.stderr[-300:] if r.returncode else ""}')
print(f'{total - failed} of {total} as PyTorch')
sys.exit(1 if failed or total < 20 else 0)
