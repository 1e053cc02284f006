"""The networks that the check measures, planned for a described device: their kernels and the libraries' plans come into the cache.

usage: plan_networks.py PROGRAM DESCRIPTION
"""
import os
import subprocess
import sys
import tempfile
import types

import speed


def main():
    program, description = map(os.path.abspath, sys.argv[1:3])
    m = types.SimpleNamespace(program=program, call=lambda *command: run(*command))
    for w in speed.workloads(False).values():
        with tempfile.TemporaryDirectory() as folder:
            speed.prepare(m, folder, w)
            for precision in w['precisions']:
                code, text = run(program, 'plan', f'{folder}/m.onnx', '--data', f'{folder}/d.npz', '--device-description', description, '-q',
                                 *speed.options(w, precision))
                if code:
                    print(f"{w['kind']} {precision}: exit {code}: {text.strip()[-400:]}")
                    return 1
    return 0


def run(*command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    return r.returncode, r.stdout


if __name__ == '__main__':
    sys.exit(main())
