"""The stages of tests/gpu/check (its --help says what they are for), in the order of what they are worth.

Each stage may use the budget up to where its share ends; what it leaves, the next ones have.  Then the time that is left goes to
what was not run, in the same order.
"""
import argparse
import importlib.util
import os
import re
import signal
import sys
import time

import speed
import stages
from machine import Machine
from record import Late, Record, markdown

# name: its share, in seconds as an H100 needed them the first time
STAGES = {
    'environment': (speed.environment, 15),
    'networks': (speed.networks, 145),
    'operators': (stages.operators, 150),
    'joined': (stages.joined, 40),
    'same_bytes': (stages.same_bytes, 50),
    'trajectories': (stages.trajectories, 35),
    'mnist': (stages.mnist, 10),
    'failures': (stages.failures, 10),
    'sanitizer': (stages.sanitizer, 85),
    'peers': (speed.peers, 160),
    'precisions': (speed.precisions, 120),
    'tuned': (speed.tuned, 60),
}
NEEDS_DEVICE = {'sanitizer': 'no device to watch', 'tuned': 'nothing to time', 'peers': 'nothing to compare'}
ENDING = 8  # seconds for the record and the caches


def run_stage(m, r, name, until):
    """until: seconds of the clock at which it has to stop; None: only the whole budget ends it."""
    begin, m.stage_end = time.monotonic(), until
    emulated = m.small and NEEDS_DEVICE.get(name)
    try:
        found = {'ok': False, 'skipped': f'{emulated} on an emulated GPU'} if emulated else STAGES[name][0](m, r)
    except Late:
        found = {'ok': False, 'not_run': [name]}
    except Exception as e:  # one stage's trouble is not the others'
        found = {'ok': False, 'error': f'{type(e).__name__}: {e}'[:1000]}
    m.stage_end = None
    found['seconds'] = round(r.stages.get(name, {}).get('seconds', 0) + time.monotonic() - begin, 1)
    r.stage(name, found)
    words = 'ok' if found['ok'] else f"does not apply: {found['skipped']}" if found.get('skipped') else 'NOT OK'
    detail = [f"{found['run']} of {found['expected']}" if 'run' in found and 'expected' in found else '',
              f"{len(found['failed'])} failed" if found.get('failed') else '', f"{len(found['not_run'])} not run" if found.get('not_run') else '',
              found.get('error', '')]
    print(f"{name}: {words} ({', '.join(d for d in [*detail, f'{time.monotonic() - begin:.0f} s'] if d)})", flush=True)
    for piece, f in list(found.get('failed', {}).items())[:5]:
        print(f"  {piece}: {f.get('why') or f.get('error') or ''}"[:300], flush=True)


def run_all(m, r, names):
    begin, share = time.monotonic(), 0
    whole = sum(STAGES[n][1] for n in names)
    for name in names:
        share += STAGES[name][1]
        run_stage(m, r, name, None if m.end is None else begin + (m.end - begin) * share / whole)
    for name in names:
        if r.stages[name].get('not_run') and m.left() > 5 and not m.ended:
            run_stage(m, r, name, None)


def parse():
    p = argparse.ArgumentParser(prog='tests/gpu/check')
    for name in ('bin', 'root', 'out'):
        p.add_argument(f'--{name}', required=True)
    for name in ('lib', 'ops', 'state', 'cubins'):
        p.add_argument(f'--{name}')
    p.add_argument('--device', default='cuda')
    p.add_argument('--budget', type=float, default=570)
    p.add_argument('--patience', type=float, default=300)
    p.add_argument('--workers', type=int, default=min(8, os.cpu_count() or 1))
    p.add_argument('--full', action='store_true')
    p.add_argument('--small', action='store_true')
    p.add_argument('--again', choices=['failed', 'all'])
    p.add_argument('--only', nargs='*', choices=list(STAGES), default=list(STAGES))
    a = p.parse_args()
    a.budget -= min(ENDING, a.budget / 10)
    return a


def main():
    a = parse()
    for path in (f'{a.bin}/onnxtrain', a.ops or f'{a.bin}/test_ops'):
        if not os.access(path, os.X_OK):
            print(f'{path} is missing; build it, or give its pack with --with')
            return 1
    for package in ('numpy', 'onnx'):
        if not importlib.util.find_spec(package):
            print(f'{sys.executable} has no {package}, which data and cases need; another Python can stand first on the PATH')
            return 1
    m = Machine(a)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: m.end_now())
    try:
        code, text = m.call(m.program, 'env', timeout=60)
        gpu = re.search(r'cuda:0 +([^,\n]+)', text)
        if code or not gpu:
            print(f'skipped: no GPU:\n{text.strip()}')
            return 77 if not code else 1
        m.small = m.small or gpu[1].strip() == 'emulated GPU'
        r = Record(a.out, m.key, a.state, a.again)
        for path in [a.cubins] * bool(a.cubins) + [f'{a.state}/cache.tar.gz'] * bool(a.state):
            m.unpack(path)
        run_all(m, r, a.only)
        size = m.pack(f'{a.out}/cache.tar.gz') if 'XDG_CACHE_HOME' not in os.environ else 0
        print(f"\n{markdown(r.stages, True)}\nrecord: {a.out}; caches: {size / 2 ** 20:.1f} MiB")
        missing = [n for n in a.only if n not in r.stages]
        return 0 if not missing and all(f['ok'] or f.get('skipped') for f in r.stages.values()) else 1
    finally:
        m.close()


if __name__ == '__main__':
    sys.exit(main())
