"""The check itself, with programs that only act as if: what crashes, hangs, says nothing, is wrong or is missing is reported, and the
exit code is not 0; what the clock ended is run by the next call; findings of another build count for nothing.

usage: test_check.py PROGRAM [CHECK]     CHECK: another check.py
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = sys.argv[2] if len(sys.argv) > 2 else f'{HERE}/check.py'
failed = []

# Acts as onnxtrain and as test_ops: what an operator or command does stands in acts.json beside it.
ACTOR = '''#!%s
import json, os, signal, sys, time
here = os.path.dirname(os.path.abspath(__file__))
acts = json.load(open(here + '/acts.json'))
me, words = os.path.basename(__file__), sys.argv[1:]

def act(how, good):
    if how == 'crash': os.kill(os.getpid(), signal.SIGSEGV)
    if how == 'hang': time.sleep(60)
    if how == 'slow': time.sleep(1.5)
    if how == 'silent': return
    if how == 'once':
        if not os.path.exists(here + '/tried'):
            open(here + '/tried', 'w').close()
            sys.exit(3)
    print(good)

if me == 'test_ops':
    name = words[-1][:-1]
    how = acts['operators'].get(name, 'unknown')
    if name + '.' != words[-1] or '--cuda' not in words: sys.exit('bad arguments')
    with open(here + '/ran', 'a') as f: f.write(name + '\\n')
    if how == 'unknown': print('no row begins with it\\n0 rows, 0 failed; 0 kernel runs against the reference, 0 gradients'); sys.exit(1)
    if how == 'empty': print('0 rows, 0 failed; 0 kernel runs against the reference, 0 gradients'); sys.exit(0)
    if how == 'wrong': print('FAIL %%s.row\\n3 rows, 1 failed; 9 kernel runs against the reference, 1 gradients' %% name); sys.exit(1)
    if how == 'hidden': print('FAIL %%s.row\\n3 rows, 1 failed; 9 kernel runs against the reference, 1 gradients' %% name); sys.exit(0)
    libraries = 'cuda 9' if how == 'own' else 'cuda 5 cudnn 4'
    act(how, 'kernels: ' + libraries + '\\n3 rows, 0 failed; 9 kernel runs against the reference, 1 gradients')
elif words[0] == 'env':
    act(acts.get('env'), 'devices     cpu\\n            cuda:0 Pretended GPU, 1 GiB')
elif words[0] == 'ops':
    names = acts.get('listed') or list(acts['operators'])
    listed = [{'name': n, 'internal': False, 'gradient': 'lowered'} for n in [*names, names[0]]]  # one of two domains
    listed += [{'name': 'Kernel', 'internal': True, 'gradient': 'yes'}, {'name': 'Old', 'internal': False, 'gradient': 'rewritten'}]
    act(acts.get('ops'), json.dumps({'operators': listed}) if '--json' in words else ''.join(n + ' 1 lowered -\\n' for n in names))
elif words[0] == 'new':
    open(words[words.index('-o') + 1], 'w').close()
elif words[0] == 'bench':
    row = {'operator': 'Convolve', 'kernel': acts.get('kernel', 'cudnn'), 'how': '', 'values': '', 'node': 'n', 'stage': 'forward', 'count': 2,
           'flops': 1e9, 'bytes': 1e6, 'us': 50.0, 'floor_us': 20.0, 'share_of_ceiling': 0.4}
    rows = [dict(row, operator=o) for o in ('Convolve', 'ConvolveDx', 'ConvolveDw', 'BatchNorm', 'BatchNormDx', 'FusedAttention', 'FusedAttentionDx')]
    kernels = {'runs': 20, 'kernels_ms': 0.1, 'eager_ms': 0.2, 'graph_ms': acts.get('graph', 0.1), 'rows': rows}
    act(acts.get('bench'), json.dumps({'measurements': [dict(batch_size=4, samples_per_second=100.0, p50_ms=1, p99_ms=1, kernels=kernels)]}))
elif words[0] == 'train':
    if acts.get('train') == 'noise': open(words[words.index('-o') + 1], 'wb').write(os.urandom(8))
    elif acts.get('train') == 'crash': act('crash', '')
    else: open(words[words.index('-o') + 1], 'wb').write(b'same')
    with open(words[words.index('--log') + 1], 'w') as f: f.write('{"event": "end"}\\n')
    sys.exit(acts.get('code', 0))
'''


def check(good, what):
    if not good:
        failed.append(what)
        print(f'FAIL {what}')


class Fake:
    """A folder with programs and a record."""

    def __init__(self, **acts):
        self.folder = tempfile.mkdtemp()
        for name in ('onnxtrain', 'test_ops'):
            with open(f'{self.folder}/{name}', 'w') as f:
                f.write(ACTOR % sys.executable)
            os.chmod(f'{self.folder}/{name}', 0o755)
        open(f'{self.folder}/libonnxtrain-cuda.so', 'w').close()
        self.act(**acts)

    def act(self, **acts):
        self.acts = acts
        with open(f'{self.folder}/acts.json', 'w') as f:
            json.dump(acts, f)

    def build(self):
        """Another build."""
        with open(f'{self.folder}/libonnxtrain-cuda.so', 'a') as f:
            f.write('x')

    def command(self, *more, out='record'):
        root = os.path.dirname(os.path.dirname(HERE))
        return [sys.executable, CHECK, '--bin', self.folder, '--root', root, '--out', f'{self.folder}/{out}', *more]

    def run(self, *more, out='record'):
        env = {k: v for k, v in os.environ.items() if k not in ('ONNXTRAIN_CUDA_MODULE', 'XDG_CACHE_HOME')}
        open(f'{self.folder}/ran', 'w').close()
        r = subprocess.run(self.command(*more, out=out), capture_output=True, text=True, env=env, timeout=100)
        self.code, self.text = r.returncode, r.stdout + r.stderr
        path = f'{self.folder}/{out}/record.json'
        self.record = json.load(open(path)) if os.path.exists(path) else {}
        self.ran = open(f'{self.folder}/ran').read().split()
        return self

    def stage(self, name):
        return self.record.get(name, {})


GOOD = {'MatMul': 'own', 'Relu': 'good', 'Add': 'good'}
OPERATORS = ('--only', 'operators', '--budget', '60', '--patience', '3')


def bad_operator(how, word):
    f = Fake(operators={**GOOD, 'Sigmoid': how}).run(*OPERATORS)
    failures = f.stage('operators').get('failed', {})
    check(f.code == 1 and not f.stage('operators').get('ok', True), f'{how}: exit {f.code}: {f.text[-300:]}')
    check(list(failures) == ['Sigmoid'] and word in failures['Sigmoid'].get('why', ''), f'{how}: reported as {failures}')
    check('Sigmoid' in f.text and 'Sigmoid' in open(f'{f.folder}/record/record.md').read(), f'{how}: not in the texts')


def operators():
    f = Fake(operators={**GOOD, 'MatMul': 'good'}).run(*OPERATORS)
    check(f.code == 1 and 'no kernel of cublaslt' in json.dumps(f.stage('operators')), f'no cuBLASLt goes unnoticed: {f.text[-300:]}')
    f = Fake(operators={'Relu': 'good', 'Add': 'good'}).run(*OPERATORS)
    check(f.code == 0 and f.stage('operators')['run'] == 2 and f.stage('operators')['rows'] == 6, f'all good: exit {f.code}: {f.text[-300:]}')
    check(f.stage('operators')['libraries'] == {'cuda': 10, 'cudnn': 8}, f.stage('operators'))
    GOOD.pop('MatMul')
    for how, word in [('crash', 'SIGSEGV'), ('hang', '124'), ('silent', 'no summary'), ('wrong', 'exit 1'), ('hidden', '1 rows failed'),
                      ('empty', 'no rows'), ('unknown', 'exit 1')]:
        bad_operator(how, word)
    f = Fake(operators=GOOD, listed=[*GOOD, 'Conv']).run(*OPERATORS)  # the program has one that the rows lack
    check(f.code == 1 and f.stage('operators')['expected'] == 3 and 'Conv' in f.stage('operators')['failed'], f'fewer: {f.text[-300:]}')
    for how in ('crash', 'silent'):
        f = Fake(operators=GOOD, ops=how).run(*OPERATORS)
        check(f.code == 1 and not f.stage('operators')['ok'], f'no list of operators ({how}): {f.text[-300:]}')


def builds():
    f = Fake(operators={**GOOD, 'Tan': 'crash'}).run(*OPERATORS)
    f.act(operators={**GOOD, 'Tan': 'good'})
    f.run(*OPERATORS)
    check(f.code == 1 and not f.ran, f'a failure is remembered for its build: ran {f.ran}')
    f.build()
    f.run(*OPERATORS)
    check(f.code == 0 and sorted(f.ran) == ['Add', 'Relu', 'Tan'], f'a mended build is checked: ran {f.ran}, exit {f.code}')
    f.act(operators={**GOOD, 'Tan': 'crash'})
    f.build()
    f.run(*OPERATORS)
    check(f.code == 1 and 'Tan' in f.ran, 'a build that is broken again passes by the findings of a stale one')
    f.act(operators={**GOOD, 'Tan': 'good'})
    f.run(*OPERATORS, '--again', 'failed')
    check(f.code == 0 and f.ran == ['Tan'], f'--again failed: ran {f.ran}, exit {f.code}')
    g = f.run(*OPERATORS, '--state', f'{f.folder}/record', out='second')
    check(g.code == 0 and not g.ran and g.stage('operators')['run'] == 3, f'--state: ran {g.ran}, exit {g.code}')
    with open(f'{f.folder}/record/state.jsonl', 'a') as s:
        s.write('{"piece": "operators/Relu", "found": {"ok"')
    f.run(*OPERATORS)
    check(f.code == 0, f'a line that is cut: {f.text[-300:]}')


def clock():
    slow = {f'Slow{i}': 'slow' for i in range(12)}
    f = Fake(operators=slow).run('--only', 'operators', '--budget', '4', '--workers', '2')
    stage = f.stage('operators')
    check(f.code == 1 and stage['not_run'] and not stage['failed'], f"the clock: {stage.get('failed')}, exit {f.code}")
    first = stage['run']
    f.run('--only', 'operators', '--budget', '80', '--workers', '6')
    check(f.code == 0 and f.stage('operators')['run'] == len(slow), f'after the clock: {f.text[-300:]}')
    check(len(f.ran) == len(slow) - first, f'after the clock: {len(f.ran)} ran, {first} of {len(slow)} were done')
    f = Fake(operators={**GOOD, 'Tan': 'hang'}).run('--only', 'operators', '--budget', '6')
    check(f.code == 1 and 'Tan' in f.stage('operators')['not_run'] and not f.stage('operators')['failed'], f"ended by the clock: {f.stage('operators')}")


def interrupted():
    f = Fake(operators={**GOOD, 'Tan': 'hang'}, train='crash')
    env = {k: v for k, v in os.environ.items() if k not in ('ONNXTRAIN_CUDA_MODULE', 'XDG_CACHE_HOME')}
    p = subprocess.Popen(f.command('--only', 'same_bytes', 'operators'), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    path, end = f'{f.folder}/record/record.json', time.monotonic() + 40
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.1)
    p.send_signal(signal.SIGTERM)
    code = p.wait(timeout=60)
    found = json.load(open(path))
    check(code == 1 and 'same_bytes' in found, f'after a signal: exit {code}, {list(found)}')
    names = sorted(os.listdir(f'{f.folder}/record'))
    check(set(names) <= {'record.json', 'record.md', 'state.jsonl', 'cache.tar.gz'}, f'files of the record: {names}')


def sanitizer():
    """A tool that is missing, finds something, or says nothing."""
    for tool, word in [(None, 'not on the PATH'), ('echo "========= ERROR SUMMARY: 0 errors"; echo "========= RACECHECK SUMMARY: 0 hazards displayed"', None),
                       ('echo "========= Invalid __global__ write of size 4 bytes"; exit 86', 'exit 86'), ('', 'no summary of the tool')]:
        f = Fake(operators={n: 'good' for n in ('Attention', 'MatMul', 'Conv', 'ConvTranspose', 'BatchNormalization', 'LayerNormalization',
                                                'SoftmaxCrossEntropyLoss', 'Gather', 'ScatterND', 'ReduceSum', 'TopK', 'CumSum')})
        if tool is not None:
            with open(f'{f.folder}/compute-sanitizer', 'w') as s:
                s.write(f'#!/bin/sh\nshift 6\n"$@" || exit\n{tool}\n')
            os.chmod(f'{f.folder}/compute-sanitizer', 0o755)
        path = os.environ['PATH']
        if tool is None and any(os.path.exists(f'/usr/local/cuda/{d}/compute-sanitizer') for d in ('bin', 'compute-sanitizer')):
            continue  # it is there, whatever the PATH
        os.environ['PATH'] = f'{f.folder}:{path}' if tool is not None else '/usr/bin:/bin'
        f.run('--only', 'sanitizer', '--budget', '60')
        os.environ['PATH'] = path
        stage = json.dumps(f.stage('sanitizer'))
        check(f.code == (1 if word else 0) and (not word or word in stage), f'sanitizer, {tool}: exit {f.code}: {stage[:300]}')


def others():
    f = Fake(operators=GOOD).run('--only', 'networks', 'same_bytes', '--budget', '60')
    stage = f.stage('networks')
    check(f.code == 0 and stage['run'] == 6 and len(stage['table']) == 6, f'good networks: exit {f.code}: {f.text[-600:]}')
    check('cudnn Convolve forward' in open(f'{f.folder}/record/record.md').read(), 'no table of kernels')
    for acts, word in [(dict(bench='crash'), 'exit -11'), (dict(bench='silent'), 'ValueError'), (dict(kernel='cuda'), 'cuDNN computes 0 of 2 Convolve'),
                       (dict(graph=None), 'not captured')]:
        f = Fake(operators=GOOD, **acts).run('--only', 'networks', '--budget', '60')
        check(f.code == 1 and word in json.dumps(f.stage('networks')['failed']), f"networks, {acts}: {json.dumps(f.stage('networks'))[:400]}")
    for acts, word in [(dict(train='noise'), 'different weights'), (dict(train='crash'), 'SIGSEGV'), (dict(code=9), 'exit 9')]:
        f = Fake(operators=GOOD, **acts).run('--only', 'same_bytes', '--budget', '60')
        check(f.code == 1 and word in json.dumps(f.stage('same_bytes')['failed']), f"same bytes, {acts}: {json.dumps(f.stage('same_bytes'))[:400]}")
    f = Fake(operators=GOOD, train='crash').run('--only', 'failures', 'mnist', '--budget', '60')
    check(f.code == 1 and len(f.stage('failures')['failed']) == f.stage('failures')['expected'] and f.stage('mnist')['failed'], 'a crash where 9 is expected')
    f = Fake(operators=GOOD).run('--only', 'joined', '--budget', '60')
    stage = f.stage('joined')
    check(f.code == 1 and stage['expected'] > 20 and len(stage['failed']) == stage['expected'], f'joined operators: {json.dumps(stage)[:400]}')
    f = Fake(operators=GOOD, env='silent').run('--only', 'failures')
    check(f.code == 77 and 'skipped' in f.text, f'no GPU: exit {f.code}')
    f = Fake(operators=GOOD, env='crash').run('--only', 'failures')
    check(f.code == 1, f"'env' crashes: exit {f.code}")
    f = Fake(operators=GOOD)
    os.remove(f'{f.folder}/test_ops')
    check(f.run('--only', 'operators').code == 1, 'test_ops is missing')


for part in (operators, builds, clock, interrupted, sanitizer, others):
    part()
print(f'the check of the GPU: {len(failed)} failures' if failed else 'the check of the GPU reports what fails')
sys.exit(bool(failed))
