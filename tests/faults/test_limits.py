"""Training under limits of address space (ulimit -v), from hardly enough to start the program to plenty: it ends well, or
with 5 and a message; the file that was there is kept or the new one is whole; nothing else is left.  oneDNN and OpenMP end
the process where memory ends within them, so this says that room is looked for before they are asked.

usage: test_limits.py PROGRAM [LIMITS] [THREADS]     how many limits (12), how many threads (2)
"""
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
CASES = os.path.join(HERE, '..', 'trajectories', 'cases.tar.xz')


def call(limit, *command):
    """limit: bytes of address space; 0: none."""
    def set_limit():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    r = subprocess.run(command, capture_output=True, preexec_fn=set_limit, timeout=600)
    return r.returncode, r.stderr.decode(errors='replace')


def start(program):
    """The least limit, to a MiB, at which the program comes as far as its own code."""
    low, high = 0, 4096
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if call(middle * MIB, program, 'ops')[0] == 0 else (middle, high)
    return high * MIB


def sweep(program, what, model, options, first, span, limits):
    """Limits from `first` on, evenly, over a span at whose beginning none suffices and at whose end all do."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'out.onnx')
        command = [program, model, *options, '-o', out, '--run-dir', os.path.join(folder, 'run'), '-q']
        code, said = call(0, *command)
        if code:
            sys.exit(f'FAILED: {what} without a limit: exit {code}: {said}')
        old, new = open(model, 'rb').read(), open(out, 'rb').read()
        seen, bad = {0: 0, 5: 0}, 0
        for i in range(limits):
            limit = first + i * span // limits
            shutil.copyfile(model, out)
            code, said = call(limit, *command)
            is_now = open(out, 'rb').read()
            others = [f for f in os.listdir(folder) if f != 'out.onnx' and not f.startswith('run')]
            right = code == 0 and is_now == new or code == 5 and is_now == old and 'onnxtrain: ' in said
            if not right or others:
                bad += 1
                print(f'FAILED: {what}, {limit >> 10} KiB: exit {code}, {"kept" if is_now == old else "new" if is_now == new else "LOST"}, '
                      f'{others}: {said.strip()[-300:]}')
            else:
                seen[code] += 1
        print(f'{what}: {limits - bad} of {limits} limits end as they should: {seen[0]} train, {seen[5]} say that memory is out')
        return bad or not seen[0] or not seen[5]


def main():
    program, limits, threads = (sys.argv[1:] + ['12', '2'][len(sys.argv) - 2:])[:3]
    limits, span = int(limits), (144 + 24 * int(threads)) * MIB
    if b'__asan_init' in open(program, 'rb').read():
        print('skipped: the address sanitizer takes all address space')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(CASES) as tar:
            for name in ('model.onnx', 'data.npz'):
                tar.extract('gpt_tied_ts14/' + name, folder)
        case, root = os.path.join(folder, 'gpt_tied_ts14'), os.path.join(HERE, '..', '..')
        first, common = start(program), ['--steps', '2', '--threads', threads]
        bad = sweep(program, 'transformer', os.path.join(case, 'model.onnx'),
                    ['--data', os.path.join(case, 'data.npz'), '--loss', 'cross_entropy:class_axis=-1', '--batch-size', '4', *common], first, span, limits)
        bad |= sweep(program, 'LeNet', os.path.join(root, 'models', 'lenet.onnx'), ['--data', 'mnist', '--batch-size', '8', *common], first, span, limits)
    return int(bad)


if __name__ == '__main__':
    sys.exit(main())
