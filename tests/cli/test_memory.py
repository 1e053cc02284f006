"""Memory of a whole run: what was planned, and while the written file is read back its largest tensor once more.

usage: test_memory.py PROGRAM
"""
import json
import os
import sys
import tempfile

from scripts import call, check, finish, np, program

if b'__asan_init' in open(program, 'rb').read():
    print('skipped: the address sanitizer has memory of its own')
    sys.exit(77)
os.chdir(tempfile.mkdtemp())
MIB = 1 << 20


def peak(*arguments):
    """Largest resident memory of a call, in bytes."""
    pid = os.spawnv(os.P_NOWAIT, program, [program, *arguments])
    _, status, used = os.wait4(pid, 0)
    check(status == 0, f'{arguments}: ended with {status}')
    return used.ru_maxrss * 1024


def train(model, optimizer, *more):
    """The peak of a training and its export, and what was planned."""
    most = peak(model, '--data', 'd.npz', '--optimizer', optimizer, '--batch-size', '8', '--steps', '2', '--threads', '2', '--device', 'cpu', '--run-dir', 'none', '--log', 'l.jsonl', '-o', 'o.onnx', '--quiet', *more)
    with open('l.jsonl') as f:
        return most, json.loads(f.readline())['planned_bytes']


np.savez('d.npz', input=np.ones((8, 1024), np.float32), target=np.arange(8, dtype=np.int64))
call('new', 'mlp', '--input', '1x32x32', '--hidden', '8', '-o', 'small.onnx')
call('new', 'mlp', '--input', '1x32x32', '--hidden', '3072,3072,3072', '-o', 'large.onnx')
file = os.path.getsize('large.onnx')
largest = 4 * 3072 * 3072
check(file > 2 * largest, file)
for optimizer in ('sgd', 'adamw'):
    program_alone, (most, planned) = train('small.onnx', optimizer)[0], train('large.onnx', optimizer)
    bound = planned + largest + program_alone + 8 * MIB  # while the file is checked, it is where the activations were
    print(f'{optimizer}: {most / MIB:.0f} MiB, planned {planned / MIB:.0f}, file {file / MIB:.0f}, the program {program_alone / MIB:.0f}')
    check(most < bound, f'{optimizer}: {most} bytes, more than {bound}')
most = peak('large.onnx', '--data', 'd.npz', '--overfit-batch', '--batch-size', '8', '--steps', '2', '--threads', '2', '--device', 'cpu', '--run-dir', 'r', '--log', 'l.jsonl', '--quiet')
with open('l.jsonl') as f:
    planned = json.loads(f.readline())['planned_bytes']
print(f'with a checkpoint and no export: {most / MIB:.0f} MiB, planned {planned / MIB:.0f}')
check(any(name.startswith('checkpoint') for name in os.listdir('r')), 'there is a checkpoint')
check(most < planned + program_alone + 8 * MIB, f'a checkpoint: {most} bytes of {planned} planned')
planned = {select: train('large.onnx', 'adamw', '--val', 'd.npz', '--select', select)[1] for select in ('last', 'best')}
check(planned['best'] - planned['last'] > 2.9 * file, f'the states of the best epoch are not planned: {planned}')
most = peak('eval', 'large.onnx', '--data', 'd.npz', '--batch-size', '8', '--threads', '2', '--device', 'cpu')
print(f'eval: {most / MIB:.0f} MiB')
check(most < program_alone + 1.5 * file, 'evaluation holds the weights twice')
finish('checks')
