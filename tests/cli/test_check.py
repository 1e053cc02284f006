"""What `check` says: once each, the same in text and JSON, and true: memory as `plan` has it, the step as a training has it.

usage: test_check.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

from scripts import np

program = os.path.abspath(sys.argv[1])
lenet = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../models/lenet.onnx')
failed = []


def check(ok, what):
    if not ok:
        failed.append(what)
        print('FAILED', what)


def call(*arguments, code=0, **environment):
    r = subprocess.run([program, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    check(r.returncode == code, f'{" ".join(arguments)}: exit {r.returncode}: {r.stderr.strip()[-400:]}')
    return r


def told(d, model, *options, **environment):
    """The JSON; every line of the text stands there once, and trial runs leave nothing."""
    os.makedirs(f'{d}/empty', exist_ok=True)
    j = json.loads(call('check', model, '--json', *options, TMPDIR=f'{d}/empty', **environment).stdout)
    lines = call('check', model, *options, TMPDIR=f'{d}/empty', **environment).stdout.splitlines()
    check(len(lines) == len(set(lines)) and not any('\\n' in line for line in lines), f'a line twice, or broken: {lines}')
    check(lines[1].startswith(f"trainable: {j['trained']} parameters in {j['initializers']} initializer"), lines[1])
    check(not os.listdir(f'{d}/empty'), f"a trial left {os.listdir(f'{d}/empty')}")
    check(set(j) == {'model', 'trainable', 'findings', 'notes', 'trained', 'initializers', 'batch_size', 'memory', 'slow', 'tried'}, sorted(j))
    return j, lines


with tempfile.TemporaryDirectory() as d:
    rng = np.random.default_rng(0)
    np.savez(f'{d}/data.npz', input=rng.standard_normal((40, 1, 28, 28)).astype('f4'), target=rng.integers(0, 10, 40))
    for data in ((), ('--data', f'{d}/data.npz')):
        j, lines = told(d, lenet, '--batch-size', '8', *data)
        check([m['batch_size'] for m in j['memory']] == [1, 8, 32] and j['batch_size'] == 8, j['memory'])
        for m in j['memory'] if not data else []:
            plan = json.loads(call('plan', lenet, '--json', '--batch-size', str(m['batch_size'])).stdout)
            check(plan['planned_bytes'] == m['planned_bytes'], f"{m} and plan's {plan['planned_bytes']}")
        check(j['tried']['step'] and j['tried']['export'] and j['tried']['why_not'] == '', j['tried'])
        check('MiB with batches of 8' in lines[-2] and 'tested: one training step' in lines[-1] and 'an export' in lines[-1], lines[-2:])
    call('train', lenet, '--data', f'{d}/data.npz', '--batch-size', '8', '--no-shuffle', '--steps', '1', '--run-dir', 'none', '-o', f'{d}/t.onnx', '--log', f'{d}/log', '--device', 'cpu')
    step = [json.loads(line) for line in open(f'{d}/log')][1]
    check(abs(step['loss'] - j['tried']['loss']) < 1e-6, f"the tried step's loss {j['tried']['loss']}, a training's {step['loss']}")

    # plan and check have every option that changes the plan of a training, whose memory they tell
    mlp, teacher = f'{d}/mlp.onnx', f'{d}/teacher.onnx'
    call('new', 'mlp', '-o', mlp, '--input', '1x28x28', '--hidden', '16', '-q')
    call('new', 'mlp', '-o', teacher, '--input', '1x28x28', '--hidden', '64', '-q')
    np.savez(f'{d}/flat.npz', input=rng.standard_normal((40, 784)).astype('f4'), target=rng.integers(0, 10, 40))
    plain = {}
    for options in ((), ('--teacher', teacher + ':weight=0.5'), ('--swa', '2'), ('--swa', '0.5:per=update'), ('--ema', '0.9'), ('--lookahead', '3'),
                    ('--unfreeze', '*bias@2'), ('--on-nonfinite', 'skip'), ('--add-dropout', '0.5'), ('--drop-last',), ('--val-split', '0.25'),
                    ('--val', f'{d}/flat.npz'), ('--folds', '2/4'), ('--overfit-batch',), ('--tensorboard', '--tensorboard-histograms', '1epoch')):
        data = ('--data', f'{d}/flat.npz', '--batch-size', '8', '--device', 'cpu', '--threads', '1')
        call('train', mlp, *data, *options, '--epochs', '2', '--run-dir', f'{d}/run', '-o', f'{d}/t.onnx', '--log', f'{d}/log', '-q')
        start = json.loads(open(f'{d}/log').readline())
        with_data = json.loads(call('plan', mlp, '--json', *data, *options, '--epochs', '2').stdout)
        without = json.loads(call('plan', mlp, '--json', '--batch-size', '8', '--device', 'cpu', '--threads', '1', *options, '--epochs', '2').stdout)
        plain.setdefault('with', with_data)
        plain.setdefault('without', without)
        check(with_data['planned_bytes'] == start['planned_bytes'], f"{options}: plan {with_data['planned_bytes']}, train {start['planned_bytes']}")
        if options and options[0] in ('--teacher', '--swa', '--ema', '--lookahead'):
            check(without['planned_bytes'] > plain['without']['planned_bytes'], f'{options}: {without["planned_bytes"]} without data')
        tried = json.loads(call('check', mlp, '--json', *data, *options, '--epochs', '2', TMPDIR=d).stdout)['tried']
        check(tried['step'] and tried['export'], f'{options}: {tried}')
    for command in 'plan', 'check':
        check('--folds 1/4' in call(command, mlp, '--data', f'{d}/flat.npz', '--folds', '4', code=2).stderr, f'{command} --folds 4')
        check('needs --data' in call(command, mlp, '--training-info', code=2).stderr, f'{command} --training-info')
        check(call(command, mlp, '--data', f'{d}/flat.npz', '--training-info').stdout, f'{command} --training-info')

    # find-lr takes every option of model, data, loss and optimizer
    for options in (('--drop-last',), ('--lookahead', '3'), ('--untie', 'auto'), ('--add-dropout', '0.1'), ('--initialize', 'never'),
                    ('--unfreeze', '*bias@2'), ('--teacher', teacher)):
        said = call('find-lr', mlp, '--data', f'{d}/flat.npz', '--steps', '12', '--csv', *options).stderr
        check('--val-split' not in said, f'find-lr does not have what it recommends: {said}')

    # what cannot be written on trial is said, and is no failure; a step that fails is one
    j = json.loads(call('check', lenet, '--json', TMPDIR=f'{d}/nowhere').stdout)
    check(j['tried']['step'] and not j['tried']['export'] and 'TMPDIR' in j['tried']['why_not'], j['tried'])
    np.savez(f'{d}/bad.npz', input=np.full((40, 1, 28, 28), 3e38, 'f4'), target=rng.integers(0, 10, 40))
    r = call('check', lenet, '--data', f'{d}/bad.npz', code=6)
    check('step 1: the' in r.stderr, r.stderr)

    # why a model cannot be trained is said once, as the error
    np.savez(f'{d}/nan.npz', input=np.full((40, 1, 28, 28), np.nan, 'f4'), target=rng.integers(0, 10, 40))
    r = call('check', lenet, '--data', f'{d}/nan.npz', code=4)
    check('NaN' in r.stderr and 'NaN' not in r.stdout and 'cannot be trained' in r.stdout, (r.stdout, r.stderr))

    # a file that says itself how it trains: it is said that this is not read, and the bytes stay
    try:
        import onnx
    except ImportError:
        onnx = None
    if onnx:
        m = onnx.load(lenet)
        check('TrainingInfoProto' not in call('check', lenet).stdout, 'training information where there is none')
        m.training_info.add().algorithm.name = 'update'
        onnx.save(m, f'{d}/own.onnx')
        check('TrainingInfoProto' in call('check', f'{d}/own.onnx').stdout, 'training information is passed over in silence')
        call('train', f'{d}/own.onnx', '--data', f'{d}/data.npz', '--steps', '1', '--run-dir', 'none', '-o', f'{d}/t.onnx', '--device', 'cpu')
        check(onnx.load(f'{d}/t.onnx').training_info == m.training_info, 'the training information is lost')

    # reference kernels that do much of the work are named
    call('new', 'resnet50', '-o', f'{d}/large.onnx', '--input', '3x224x224', '-q')
    j, _ = told(d, f'{d}/large.onnx', '--batch-size', '64')
    check(not j['tried']['step'] and 'seconds' in j['tried']['why_not'], j['tried'])
    check(j['slow']['percent'] == 0 and j['slow']['operators'] == '', j['slow'])

    # the work of attention is that of its products
    call('new', 'gpt2', '-o', f'{d}/small.onnx', '--layers', '1', '--input', '64', '--classes', '50', '--scale', '0.25', '-q')
    j, _ = told(d, f'{d}/small.onnx', '--batch-size', '32')
    check(j['tried']['step'], j['tried'])
print(f'{len(failed)} failed')
sys.exit(1 if failed else 0)
