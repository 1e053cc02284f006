"""The programs under test: how they are called, for how long, and with which libraries and caches."""
import glob
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import site
import subprocess
import sysconfig
import tarfile
import tempfile
import time

from record import Late

MIB = 1 << 20
STACKS = 4  # crashes whose stack is shown; each costs another run
LARGEST_FILE = 15 * MIB  # of the record's folder: a rented machine may send no more back


def library_folders(own):
    """NVIDIA's where they came as wheels, then ours: where both have a library, NVIDIA's are of one release."""
    roots = set(site.getsitepackages() + [sysconfig.get_paths()['purelib']])
    found = sorted(d for r in roots for d in glob.glob(f'{r}/nvidia/*/lib'))
    return found + glob.glob('/usr/local/cuda/lib64') + ([own] if own else [])


def hash_of(paths):
    h = hashlib.sha256()
    for path in paths:
        with open(path, 'rb') as f:
            h.update(f.read())
    return h.hexdigest()[:16]


class Machine:
    def __init__(self, a):
        self.root, self.device, self.full, self.small, self.patience = a.root, a.device, a.full, a.small, a.patience
        self.workers = a.workers
        self.end = None if a.full else time.monotonic() + a.budget
        self.stage_end, self.ended, self.running = None, False, set()
        self.work = tempfile.mkdtemp(prefix='onnxtrain-gpu-')
        module = os.environ.get('ONNXTRAIN_CUDA_MODULE') or f'{a.bin}/libonnxtrain-cuda.so'
        real = {'onnxtrain': f'{a.bin}/onnxtrain', 'test_ops': a.ops or f'{a.bin}/test_ops'}
        self.key = hash_of([*real.values(), module])
        self.cache = os.environ.get('XDG_CACHE_HOME') or f'{self.work}/cache'
        env = {'ONNXTRAIN_CUDA_MODULE': module, 'ONNXTRAIN_DATA': f'{a.root}/models/data', 'XDG_CACHE_HOME': self.cache}
        # Our libraries are for our programs alone: the checker's Python keeps its own.
        if library_folders(a.lib):
            env['LD_LIBRARY_PATH'] = ':'.join(library_folders(a.lib) + [os.environ.get('LD_LIBRARY_PATH', '')]).strip(':')
        self.stacks, self.real = 0, {f'{self.work}/bin/{name}': path for name, path in real.items()}
        self.env = env
        os.makedirs(f'{self.work}/bin')
        for name, path in real.items():
            with open(f'{self.work}/bin/{name}', 'w') as f:
                sets = ' '.join(f'{k}="${{OTHER_{k}:-{v}}}"' for k, v in env.items())
                f.write(f'#!/bin/sh\nexport {sets}\nexec {shlex.quote(path)} "$@"\n')
            os.chmod(f'{self.work}/bin/{name}', 0o755)
        self.program, self.ops = f'{self.work}/bin/onnxtrain', f'{self.work}/bin/test_ops'

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    # ---- time ----

    def left(self):
        ends = [e for e in (self.end, self.stage_end) if e is not None]
        return min(ends) - time.monotonic() if ends else float('inf')

    def need(self, seconds):
        if self.left() < seconds:
            raise Late()

    def call(self, *command, timeout=None, env=None):
        """(exit code, output).  A program that is not done in `timeout` seconds has failed: code 124; one that the clock of the
        whole ends has not been run: Late.  Its children end with it."""
        own = min(timeout or self.patience, self.patience)
        left = self.left()
        if left <= 0 or self.ended:
            raise Late()
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                             errors='replace', env={**os.environ, **(env or {})}, start_new_session=True)
        self.running.add(p)
        try:
            text, _ = p.communicate(timeout=min(own, left))
            if self.ended:
                raise Late()
            return p.returncode, text + (self.stack(*command, env=env) if p.returncode < 0 else '')
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            text, _ = p.communicate()
            if left <= own:
                raise Late() from None
            return 124, text + f'\nnot done after {own:.0f} s'
        except BaseException:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            raise
        finally:
            self.running.discard(p)

    def stack(self, program, *arguments, env=None):
        """Where our program ends by a signal, by a second run in CUDA's debugger; nothing where there is none, or after STACKS of them."""
        debugger = shutil.which('cuda-gdb', path=os.environ.get('PATH', '') + ':/usr/local/cuda/bin')
        if program not in self.real or not debugger or self.stacks >= STACKS or self.left() < 60:
            return ''
        self.stacks += 1
        sets = [word for k, v in {**self.env, **(env or {})}.items() for word in ('-ex', f'set environment {k} {v}')]  # not the debugger's own
        command = [debugger, '-batch', *sets, '-ex', 'run', '-ex', 'bt 16', '--args', self.real[program], *arguments]
        try:
            seen = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors='replace',
                                  timeout=40).stdout
        except (OSError, subprocess.TimeoutExpired):
            return '\nstack: none after 40 s in the debugger'
        frames = [line for line in seen.splitlines() if line.startswith(('#', 'CUDA Exception', 'Thread', 'Program')) or 'received signal' in line]
        return '\nstack: ' + '\nstack: '.join(frames[:20])

    def end_now(self):
        """Everything that runs is ended, and was not run."""
        self.ended = True
        for p in list(self.running):
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)

    # ---- the program ----

    def train(self, folder, model, data, *options, timeout=None, env=None):
        """Trains; (code, output, log, path of the model)."""
        out, log = f'{folder}/out.onnx', f'{folder}/log.jsonl'
        for old in (out, log):
            if os.path.exists(old):
                os.remove(old)
        given = () if '--device' in options else ('--device', self.device)
        code, text = self.call(self.program, 'train', model, '--data', data, '-o', out, '--run-dir', f'{folder}/run', '--log', log,
                               *given, *options, timeout=timeout, env=env)
        events = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
        return code, text, events, out

    # ---- caches ----

    def unpack(self, path):
        """Compiled kernels, plans and measured choices of an earlier call, or of a machine without a GPU."""
        if not os.path.exists(path):
            return
        with tarfile.open(path) as archive:
            for m in archive.getmembers():
                at = os.path.join('onnxtrain', os.path.normpath(m.name))
                if not m.isfile() or os.path.isabs(m.name) or '..' in at:
                    continue
                os.makedirs(os.path.dirname(f'{self.cache}/{at}'), exist_ok=True)
                with open(f'{self.cache}/{at}', 'wb') as f:
                    f.write(archive.extractfile(m).read())

    def pack(self, path):
        """The caches for the next call: what libraries planned and what was timed first, kernels as far as they fit."""
        files = [os.path.join(d, n) for d, _, names in os.walk(f'{self.cache}/onnxtrain') for n in names]
        files.sort(key=lambda p: ('-cudnn' not in p, os.path.getsize(p)))
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode='w:gz', compresslevel=1) as archive:
            for p in files:
                if whole.tell() + os.path.getsize(p) > LARGEST_FILE:
                    break
                archive.add(p, os.path.relpath(p, f'{self.cache}/onnxtrain'))
        with open(f'{path}.part', 'wb') as f:
            f.write(whole.getvalue())
        os.replace(f'{path}.part', path)
        return whole.tell()
