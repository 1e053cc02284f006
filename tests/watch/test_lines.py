"""What a run says of itself besides its numbers: options without effect, the last evaluation of a stopped run, a resumed run
and where its model goes, a missing best.onnx, checkpoints that could not be written.

usage: test_lines.py PROGRAM
"""
import json
import os
import re
import subprocess
import tempfile

from scripts import T, call, check, finish, h, np, numpy_helper, onnx, program


def make():
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array((rng.standard_normal(s) / 8).astype(np.float32), n)
               for n, s in (('v', (64, 256)), ('w', (256, 3)), ('b', (3,)))]
    g = h.make_graph([h.make_node('MatMul', ['x', 'v'], ['h']), h.make_node('Relu', ['h'], ['r']), h.make_node('Gemm', ['r', 'w', 'b'], ['y'])], 'g',
                     [h.make_tensor_value_info('x', T.FLOAT, ['N', 64])], [h.make_tensor_value_info('y', T.FLOAT, ['N', 3])], weights)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
    np.savez('d.npz', x=rng.standard_normal((2000, 64)).astype(np.float32), target=rng.integers(0, 3, 2000))


def shell(limit, *arguments):
    return subprocess.run(['sh', '-c', f'ulimit -f {limit}; exec "$@"', 'sh', program, *arguments], capture_output=True, text=True)


os.chdir(tempfile.mkdtemp())
make()
data = ['m.onnx', '--data', 'd.npz', '--threads', '1']
one = [*data, '--val', 'd.npz', '--epochs', '1', '--batch-size', '1000']

# Options about a run folder, without one.
r = call(*one, '-o', 'o.onnx', '--run-dir', 'none', '--checkpoint-every', '1min', '--keep', '3')
check('--run-dir none: --checkpoint-every, --keep have no effect' in r.stderr, f'options without effect: {r.stderr}')
r = call(*one, '-o', 'o.onnx', '--run-dir', 'none', '--plots')
check('--run-dir none: --plots has no effect' in r.stderr, f'an option without effect: {r.stderr}')
r = call(*one, '-o', 'o.onnx', '--run-dir', 'none')
check('no effect' not in r.stderr, f'no such option: {r.stderr}')

# Stopped within its third epoch: the numbers are those of the second one's end.
r = call(*data, '--val', 'd.npz', '--epochs', '2', '--batch-size', '1000', '-o', 'o.onnx', '--run-dir', 'stopped')
check(re.search(r'^trained model: o.onnx \(val: loss', r.stderr, re.M), f'a finished run: {r.stderr}')
events = [json.loads(line) for line in open('stopped/log.jsonl')]
epoch = {e['step']: e['epoch'] for e in events if e['event'] == 'step'}
kept = [e for e in events if e['event'] == 'checkpoint']
check(kept and all(e['epoch'] == epoch[e['step']] for e in kept), f'epochs of checkpoints: {kept}')
r = call('resume', 'stopped', '--epochs', '100000', '--time-limit', '0.01s')
steps = int(re.search(r'^time limit after (\d+) step', r.stderr, re.M)[1])
said = re.search(r'^trained model: o.onnx \(val( after step (\d+))?: loss', r.stderr, re.M)
check(said and int(said[2] or steps) == steps - steps % 2, f'stopped after {steps} steps: {r.stderr}')
r = call(*data, '--val', 'd.npz', '--epochs', '3', '--steps', '400', '--batch-size', '10', '-o', 'o.onnx', '--run-dir', 'within', '--time-limit', '1s')
check(re.search(r'^trained model: o.onnx \(val: loss', r.stderr, re.M), f'ended within its epoch, evaluated there: {r.stderr}')

# Of epochs with the same accuracy that of the smaller loss is better.
np.savez('zeros.npz', x=np.load('d.npz')['x'], target=np.zeros(2000, np.int64))
r = call('m.onnx', '--data', 'zeros.npz', '--val', 'zeros.npz', '--epochs', '8', '--batch-size', '100', '-o', 'o.onnx', '--run-dir', 'tie', '--patience', '2', '--select', 'best')
evals = [json.loads(line) for line in open('tie/log.jsonl') if '"eval"' in line]
check(len(evals) == 8 and sum(e['accuracy'] == 1 for e in evals) > 3, f'epochs of a tie: {evals}')
check('the written model has the weights of epoch 8, the best' in r.stderr, f'the best of a tie: {r.stderr}')

# A renamed run folder keeps its -o, which is said; a best model that is gone is, too.
os.rename('stopped', 'renamed')
os.remove('renamed/best.onnx')
r = call('resume', 'renamed', '--time-limit', '0.01s')
check(re.search(r'continuing from renamed/checkpoint-\d+.npz: .*; trained model: o.onnx$', r.stderr, re.M), f'where the model goes: {r.stderr}')
check(re.search(r'renamed/best.onnx, the model of epoch \d+, is missing', r.stderr), f'a missing best.onnx: {r.stderr}')
r = call('resume', 'renamed', '-o', 'other.onnx', '--time-limit', '0.01s')
check('; trained model: other.onnx' in r.stderr, f'where the model goes: {r.stderr}')

# No room for a checkpoint: nothing to continue from, and nothing says so; with one from before, its step is said.
r = shell(300, *data, '-o', 'o3.onnx', '--run-dir', 'full', '--batch-size', '2000', '--epochs', '1000000', '--time-limit', '0.2s')
check(r.returncode == 7 and 'trained model: o3.onnx' in r.stderr and 'full/checkpoint-' in r.stderr, f'no room: exit {r.returncode}, {r.stderr}')
check('onnxtrain resume' not in r.stderr, f'no checkpoint to continue from: {r.stderr}')
r = shell(300, 'resume', 'within', '--epochs', '100', '--steps', '10000', '--time-limit', '0.01s')
check(r.returncode == 7 and re.search(r'^to continue:   onnxtrain resume within   \(from step 400\)$', r.stderr, re.M), f'no room: exit {r.returncode}, {r.stderr}')

# What a resumed run does without an option is what the run did, not train's default.
text = call('resume', '--help').stdout
check("without one, the run's own value" in text and '(5min)' not in text and '(2)' not in text and '(10)' not in text, f'resume --help: {text}')
check('--checkpoint-every' in text and '(10)' in call('train', '--help').stdout, f'resume --help: {text}')
finish('checks')
