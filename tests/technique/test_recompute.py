"""--memory-limit: a training whose values are computed again in the backward pass writes the same bytes within the limit.

usage: test_recompute.py PROGRAM [OPTION ...]     options for every training, such as --device cuda
"""
import json
import re
import sys
import tempfile

from scripts import call, check, finish, np

OPTIONS = sys.argv[2:]
CUDA = 'cuda' in OPTIONS  # emulated there, which is slow: smaller networks, fewer limits
SCALE, TOKENS = ('0.0625', '32') if CUDA else ('0.25', '32')
PERCENT = {'resnet18': [95, 70], 'mobilenet': [95, 60], 'gpt2': [90, 65, 55]}  # of the activations that are left
LINE = re.compile(r'memory: (\S+) MiB planned, limit (\S+) MiB: (\d+) values? (?:is|are) recomputed in the backward pass \(about \d+ % more computation\)')
rng = np.random.default_rng(3)


def train(d, net, *more, limit=None, code=0, steps='3'):
    """What the training said, the start of its log, its losses and the bytes of its file."""
    given = ['--memory-limit', str(limit)] if limit else []
    r = call('train', f'{d}/{net}.onnx', '--data', f'{d}/{net}.npz', '--steps', steps, '--threads', '1', '--run-dir', 'none', '-o', d + '/o.onnx', '--log', d + '/l.jsonl',
             *OPTIONS, *more, *given, code=code)
    if r.returncode:
        return r.stderr, {}, [], b''
    events = [json.loads(line) for line in open(d + '/l.jsonl')]
    return r.stderr, events[0], [e['loss'] for e in events if e['event'] == 'step'], open(d + '/o.onnx', 'rb').read()


def plan(d, net, *more, limit=None, code=0):
    r = call('plan', f'{d}/{net}.onnx', '--data', f'{d}/{net}.npz', '--threads', '1', '--json', *OPTIONS, *more, *(['--memory-limit', str(limit)] if limit else []), code=code)
    return {} if r.returncode else json.loads(r.stdout)


def held_by(p, percent, net=None):
    """A limit that leaves this part of the activations: of everything that is planned, or of the GPU's memory, where the set lies too."""
    most = p['planned_bytes']
    if CUDA:
        most = sum(p[k] for k in ('state_bytes', 'scratch_bytes', 'const_bytes')) + sum(a.nbytes for a in np.load(net).values()) + 2048
    return most - p['scratch_bytes'] * (100 - percent) // 100


def follow(d, net, *more):
    """Trainings within limits write what one without writes."""
    said, start, losses, file = train(d, net, *more)
    check('recomputed' not in said and len(losses) == 3, said)
    p = plan(d, net, *more)
    free = p['scratch_bytes']
    for percent in [75] if CUDA else PERCENT[net]:
        limit = held_by(p, percent, f'{d}/{net}.npz')
        said, start, also, same = train(d, net, *more, limit=limit)
        line = LINE.search(said)
        check(line and int(line[3]) > 0, f'{net} {more} {percent} %: {said}')
        check(same == file and also == losses, f'{net} {more} {percent} %: other bytes, losses {losses} and {also}')
        within = plan(d, net, *more, limit=limit)
        if not within:
            continue
        check((CUDA or within['planned_bytes'] <= limit) and within['scratch_bytes'] <= free * percent // 100 + 2048 * CUDA, f"{net} {more} {percent} %: {within['planned_bytes']} bytes of {limit}")
        added = sum(x['recomputed'] for x in within['steps'])
        check(added and len(within['steps']) == len(p['steps']) + added and not any(x['recomputed'] for x in p['steps']), f'{net} {more} {percent} %: {added} steps are added')
        check(CUDA or start['planned_bytes'] == within['planned_bytes'], 'the training plans what plan says')
    check(train(d, net, *more, limit=p['planned_bytes'])[0].count('recomputed') == 0, 'a limit that holds changes nothing')


def too_small(d, net):
    """What is said to be needed at least is enough, and less is not."""
    said = train(d, net, limit='1KiB', code=5)[0]
    least = re.search(r'needs at least (\S+) MiB, with values recomputed in the backward pass, but --memory-limit is', said)
    check(least, said)
    if least:
        mib = float(least[1])
        check(LINE.search(train(d, net, limit=int(mib * 2**20) + 1)[0]), f'{mib} MiB is not enough')
        train(d, net, limit=int(mib * .95 * 2**20), code=5)
    plan(d, net, limit='1KiB', code=5)
    call('check', f'{d}/{net}.onnx', '--memory-limit', '1KiB', *OPTIONS, code=5)


def without_data(d, net):
    p = json.loads(call('plan', f'{d}/{net}.onnx', '--json', *OPTIONS).stdout)
    limit = held_by(p, 70)
    within = json.loads(call('plan', f'{d}/{net}.onnx', '--json', '--memory-limit', str(limit), *OPTIONS).stdout)
    check(within['planned_bytes'] <= limit < p['planned_bytes'], f"{within['planned_bytes']} bytes of {limit}")
    for command in 'plan', 'check':
        said = call(command, f'{d}/{net}.onnx', '--memory-limit', str(limit), *OPTIONS).stdout
        check(LINE.search(said), said)


def resumed(d, net):
    """A run that stops and continues, within another limit too, is one that did not stop and had none."""
    common = ['train', f'{d}/{net}.onnx', '--data', f'{d}/{net}.npz', '--threads', '1', '--batch-size', '8']
    call(*common, '--steps', '6', '--run-dir', d + '/whole', '-o', d + '/whole.onnx')
    p = plan(d, net, '--batch-size', '8')
    limits = [str(held_by(p, k)) for k in (80, 72)]
    call(*common, '--steps', '3', '--run-dir', d + '/run', '-o', d + '/part.onnx', '--memory-limit', limits[0])
    r = call('resume', d + '/run', '--steps', '5')
    check(LINE.search(r.stderr), r.stderr)
    r = call('resume', d + '/run', '--steps', '6', '--memory-limit', limits[1])
    check(LINE.search(r.stderr), r.stderr)
    check(open(d + '/whole.onnx', 'rb').read() == open(d + '/part.onnx', 'rb').read(), 'a continued run differs')


def cheap(d, net):
    """A large training computes what costs little again without a limit, with the same result; one with a limit keeps what fits."""
    options, most = ['--batch-size', '96', '--dropout', 'off'], '100GiB'
    saves, keeps = plan(d, net, *options), plan(d, net, *options, limit=most)
    again = [x for x in saves['steps'] if x['recomputed']]
    check(again and not any(x['recomputed'] for x in keeps['steps']), f'{len(again)} steps are added')
    check(keeps['scratch_bytes'] > 512 << 20 and saves['planned_bytes'] < .98 * keeps['planned_bytes'], f"{saves['planned_bytes']} bytes of {keeps['planned_bytes']}")
    a, b = train(d, net, *options, steps='2'), train(d, net, *options, limit=most, steps='2')
    check('recomputed' not in a[0] and a[1]['planned_bytes'] == saves['planned_bytes'] < b[1]['planned_bytes'], 'the training plans what plan says')
    check(a[2] == b[2] and a[3] == b[3], f'losses {a[2]} and {b[2]}')


with tempfile.TemporaryDirectory() as d:
    for net, more in ('resnet18', ['--scale', SCALE]), ('mobilenet', ['--scale', SCALE]), ('gpt2', ['--layers', '4', '--classes', '64', '--input', TOKENS, '--scale', '0.0834']):
        call('new', net, '-o', f'{d}/{net}.onnx', '--seed', '1', *more)
        image = net != 'gpt2'
        x = rng.normal(0, 1, (24, 3, 32, 32)).astype(np.float32) if image else rng.integers(0, 64, (24, int(TOKENS)))
        np.savez(f'{d}/{net}.npz', input=x, target=rng.integers(0, 10, 24) if image else rng.integers(0, 64, x.shape))
    small = ['--batch-size', '8']
    follow(d, 'resnet18', *(['--batch-size', '2'] if CUDA else small))
    follow(d, 'gpt2', '--batch-size', '4', '--add-dropout', '0.3', '--clip-norm', '1')
    if not CUDA:
        follow(d, 'mobilenet', *small, '--optimizer', 'sgd:momentum=0.9', '--lr', '0.01')
        follow(d, 'resnet18', '--batch-size', '16', '--accumulate', '2', '--ema', '0.9')
        follow(d, 'gpt2', *small, '--precision', 'bf16')
        call('new', 'gpt2', '-o', d + '/wide.onnx', '--seed', '1', '--layers', '3', '--classes', '64', '--input', '256', '--scale', '0.25')
        np.savez(d + '/wide.npz', input=rng.integers(0, 64, (96, 256)), target=rng.integers(0, 64, (96, 256)))
        cheap(d, 'wide')
        too_small(d, 'resnet18')
        too_small(d, 'gpt2')
        without_data(d, 'mobilenet')
        resumed(d, 'resnet18')
finish('recomputations')
