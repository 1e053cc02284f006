"""What was found, by piece, kept after each: state.jsonl; record.json and record.md after every stage.

A piece is done once for a build: its key is a hash of the programs (or what else it depends on), and a finding under
another key counts for nothing.  What the clock ended was not done and leaves no line.
"""
import json
import os
import time


class Late(Exception):
    """No time is left for a piece: it was not run, which is no finding."""


def replace(path, text):
    with open(f'{path}.part', 'w') as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(f'{path}.part', path)


class Record:
    def __init__(self, folder, key, earlier=None, again=None):
        """earlier: a folder with the state of an earlier call; again: 'failed' or 'all': those pieces are done once more."""
        os.makedirs(folder, exist_ok=True)
        self.folder, self.path, self.key = folder, f'{folder}/state.jsonl', key
        self.found, self.stale, self.stages = {}, 0, {}
        lines = []
        for path in dict.fromkeys([f'{earlier}/state.jsonl'] if earlier else []) | dict.fromkeys([self.path]):
            lines += open(path, errors='replace').read().splitlines(True) if os.path.exists(path) else []
        kept = []
        for line in lines:
            try:
                piece = json.loads(line)
                one = {'piece': piece['piece'], 'key': piece['key'], 'found': piece['found']}
                bad = not piece['found']['ok']
            except (ValueError, KeyError, TypeError):  # the line that was being written when the machine went
                continue
            if again != 'all' and not (again == 'failed' and bad):
                kept.append(one)
        self.done = {(p['piece'], p['key']): p['found'] for p in kept}
        self.known = {p for p, _ in self.done}
        replace(self.path, ''.join(json.dumps({'piece': p, 'key': k, 'found': v}) + '\n' for (p, k), v in self.done.items()))

    def get(self, piece, make, key=None):
        """The finding, a dict with 'ok'; made and kept where there is none.  An exception is a finding; Late is none."""
        at = (piece, key or self.key)
        if at not in self.done:
            begin = time.monotonic()
            try:
                found = make()
            except Late:
                raise
            except Exception as e:
                found = {'ok': False, 'error': f'{type(e).__name__}: {e}'[:1000]}
            found['took'] = round(time.monotonic() - begin, 1)  # seconds
            self.done[at] = found
            with open(self.path, 'a') as f:
                f.write(json.dumps({'piece': piece, 'key': at[1], 'found': found}) + '\n')
        return self.done[at]

    def stage(self, name, found):
        self.stages[name] = found
        self.write()

    def write(self):
        replace(f'{self.folder}/record.json', json.dumps(self.stages, indent=1) + '\n')
        replace(f'{self.folder}/record.md', markdown(self.stages))


def pieces(r, stage, names, one, key=None):
    """A stage of pieces, in this order: each found by one(name) -> dict."""
    found, late = {}, []
    for name in names:
        try:
            found[name] = r.get(f'{stage}/{name}', lambda: one(name), key)
        except Late:
            late.append(name)
    return summary(found, late, len(names))


def summary(found, late, expected):
    """Of a stage: good where all that is expected was run, and nothing of it failed."""
    failed = {k: v for k, v in found.items() if not v['ok']}
    return {'ok': bool(found) and not failed and not late and len(found) >= expected, 'expected': expected, 'run': len(found),
            'not_run': late, 'failed': failed}


# ---- record.md ---------------------------------------------------------------------------

def why(found):
    """One line of what a failed piece says."""
    for key in ('why', 'error', 'bad', 'text'):
        text = found.get(key)
        text = text[-1] if isinstance(text, list) and text else text
        if text:
            return f"{str(text).strip().splitlines()[-1] if key == 'text' else ' '.join(str(text).split())}"[:300]
    return json.dumps(found)[:300]


def number(v, digits=3):
    return '' if v is None else f'{v:.{digits}f}'


def network_lines(name, found, brief):
    k = found.get('kernels')
    if not k:
        return []
    lines = ['', f"### {name}", '', f"{number(found['step_ms'])} ms per step in a training, {number(k['graph_ms'])} ms as a graph, "
             f"{number(k['kernels_ms'])} ms in kernels, floor {number(found['floor_ms'])} ms; {found['batch']} samples per step; "
             f"kernels: {', '.join(f'{n} {c}' for n, c in found['libraries'].items())}."]
    if brief:
        return [f'{name}: {lines[-1]}']
    lines += ['', '| us | above the floor | % of ceiling | count | GFLOP/s | GB/s | kernel | of |', '|---|---|---|---|---|---|---|---|']
    for row in k['rows'][:14]:
        us = row['us'] or float('nan')
        lines.append(f"| {row['us']:.1f} | {row['us'] - row['floor_us']:.1f} | {100 * row['share_of_ceiling']:.0f} | {row['count']} | "
                     f"{row['flops'] / us / 1e3:.4g} | {row['bytes'] / us / 1e3:.4g} | {row['kernel']} {row['operator']} {row['stage']} "
                     f"{row['how']} | {row['node']} {row['values'][:120]} |")
    return lines


def peer_lines(table):
    lines = ['', 'Milliseconds per training step; ratio to the fastest PyTorch.', '',
             '| network | precision | onnxtrain | eager | compile + graphs | ratio |', '|---|---|---|---|---|---|']
    for name, row in table.items():
        words = [number(row.get(how)) for how in ('ours', 'eager', 'graphs')]
        lines.append(f"| {name} | {row['precision']} | {' | '.join(words)} | {number(row.get('ratio'), 2)} |")
    return lines


def markdown(stages, brief=False):
    """brief: without the machine and the tables of kernels."""
    e = stages.get('environment', {})
    lines = [f"# {e.get('gpu') or '?'}, {e.get('date', '?')}", '', '```', (e.get('env') or '').strip(), '```', '']
    lines += [f"Build {e.get('build', '?')}. Beside it: {e.get('peer')}. Measured by PyTorch: {json.dumps(e.get('yardsticks'))}.", '']
    if brief:
        lines = []
    lines += ['| stage | result | run | of | seconds | |', '|---|---|---|---|---|---|']
    for stage, f in stages.items():
        result = 'ok' if f['ok'] else 'does not apply: ' + f['skipped'] if f.get('skipped') else '**not ok**'
        words = {k: f[k] for k in ('rows', 'kernels', 'libraries', 'wrong') if f.get(k)}
        missing = f" not run: {', '.join(f['not_run'][:6])}{' ...' if len(f['not_run']) > 6 else ''}" if f.get('not_run') else ''
        lines.append(f"| {stage} | {result} | {f.get('run', '')} | {f.get('expected', '')} | {f.get('seconds', '')} | "
                     f"{json.dumps(words) if words else ''}{missing} |")
    for stage, f in stages.items():
        if f.get('failed'):
            lines += ['', f'Failed in {stage}:', ''] + [f'- {k}: {why(v)}' for k, v in f['failed'].items()]
        elif f.get('error'):
            lines += ['', f"{stage}: {f['error']}"]
    for stage in ('networks', 'precisions', 'tuned'):
        for name, found in stages.get(stage, {}).get('table', {}).items():
            lines += network_lines(f'{stage}/{name}' if brief else f'{name}, {stage}', found, brief)
    if stages.get('peers', {}).get('table'):
        lines += peer_lines(stages['peers']['table'])
    return '\n'.join(lines) + '\n'
