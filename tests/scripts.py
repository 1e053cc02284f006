"""What the test scripts that call the program share: its path, the packages or exit 77 (skipped), verdicts and their number.

tests/python puts this folder into the path of modules.
"""
import os
import subprocess
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper
except ImportError as e:
    print(f'skipped: {e}')
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
count = {'all': 0, 'failed': 0}


def __getattr__(name):
    """onnxruntime, for the scripts that import it from here: a machine with a GPU need not have it."""
    if name != 'onnxruntime':
        raise AttributeError(name)
    try:
        import onnxruntime
    except ImportError as e:
        print(f'skipped: {e}')
        sys.exit(77)
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime


def verdict(what, problem=None):
    """One case: a problem is what is wrong with it."""
    count['all'] += 1
    if problem:
        count['failed'] += 1
        print(f'FAILED {what}: {problem}')


def check(ok, what):
    count['all'] += 1
    if not ok:
        count['failed'] += 1
        print('FAILED', what)


def call(*arguments, code=0, timeout=None):
    """A call whose exit code is a check."""
    r = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=timeout)
    check(r.returncode == code, f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()[-400:]}')
    return r


def arrays(d, command, model, feeds, *options):
    """onnxtrain run or grad in folder d: what it ended with, and the arrays it wrote, none where it failed."""
    onnx.save(model, d + '/m.onnx')
    np.savez(d + '/x.npz', **feeds)
    out = f'{d}/{command}.npz'
    r = subprocess.run([program, command, d + '/m.onnx', '--data', d + '/x.npz', '-o', out, *options], capture_output=True, text=True, timeout=120)
    if r.returncode:
        return r, {}
    with np.load(out) as z:
        return r, dict(z)


def finish(noun):
    """The last line, and the exit code."""
    print(f"{count['all']} {noun}, {count['failed']} failed")
    sys.exit(count['failed'] != 0)
