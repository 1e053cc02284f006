"""data fetch: what is downloaded has the known size and hash, or it does not get its name.

usage: test_fetch.py PROGRAM

The files of MNIST in models/data are the mirror (file://, and http from this machine to itself): the test needs no network.
"""
import http.server
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import threading

program = os.path.abspath(sys.argv[1])
root = pathlib.Path(__file__).resolve().parents[2]
FILES = [f'{part}-{kind}-ubyte.gz' for part in ('train', 't10k') for kind in ('images-idx3', 'labels-idx1')]
bad = []


def fetch(*words, home, **more):
    env = {k: v for k, v in os.environ.items() if k not in ('ONNXTRAIN_DATA', 'XDG_DATA_HOME')} | {'HOME': home} | more
    r = subprocess.run([program, *words], capture_output=True, text=True, env=env, cwd=home)
    return r.returncode, r.stdout + r.stderr


def check(what, got, code, *texts):
    if got[0] != code or any(t not in got[1] for t in texts):
        bad.append(f'{what}: exit {got[0]}, expected {code} and {texts}\n{got[1]}')


def present(folder):
    return sorted(p.name for p in pathlib.Path(folder).iterdir()) if os.path.isdir(folder) else []


def same(folder):
    return all((pathlib.Path(folder) / f).read_bytes() == (root / 'models/data/mnist' / f).read_bytes() for f in FILES)


def test_right(home, mirror):
    got = fetch('data', 'fetch', 'mnist', '--mirror', mirror, home=home)
    folder = f'{home}/.local/share/onnxtrain/mnist'
    check('right files', got, 0, f'{folder}/{FILES[0]} downloaded', '--data mnist')
    if not same(folder):
        bad.append('right files: they differ')
    check('once more, without the mirror', fetch('data', 'fetch', 'mnist', '--mirror', 'file:///nowhere', home=home), 0,
          f'{FILES[3]} is already there, its hash matches')
    check('found', fetch('data', 'mnist', home=home), 0, '60000 samples')
    check('--to', fetch('data', 'fetch', 'mnist', '--mirror', mirror + '/', '--to', f'{home}/a/b', home=home), 0, f'--data {home}/a/b/mnist')
    check('ONNXTRAIN_DATA', fetch('data', 'fetch', 'mnist', '--mirror', mirror, home=home, ONNXTRAIN_DATA=f'{home}/d'), 0, '--data mnist')
    if not same(f'{home}/a/b/mnist') or not same(f'{home}/d/mnist'):
        bad.append('--to, ONNXTRAIN_DATA: the files are not there')


def test_wrong(home):
    for name, change, text in (('flipped', lambda b: b[:100] + bytes([b[100] ^ 1]) + b[101:], 'found    28881 bytes'),
                               ('cut', lambda b: b[:-1], 'found    28880 bytes'),
                               ('longer', lambda b: b + b'x', 'not computed, too long'),
                               ('empty', lambda b: b'', 'found    0 bytes')):
        folder = f'{home}/{name}'
        shutil.copytree(root / 'models/data/mnist', folder)
        os.chmod(f'{folder}/{FILES[1]}', 0o644)
        pathlib.Path(folder, FILES[1]).write_bytes(change((root / 'models/data/mnist' / FILES[1]).read_bytes()))
        got = fetch('data', 'fetch', 'mnist', '--mirror', f'file://{folder}', '--to', f'{home}/to-{name}', home=home)
        check(name, got, 7, f'{FILES[1]}: is not the published file', 'expected 28881 bytes, SHA-256 3552534a0a55', text)
        if present(f'{home}/to-{name}/mnist') != [FILES[0]]:
            bad.append(f'{name}: {present(f"{home}/to-{name}/mnist")}')
    os.remove(f'{home}/flipped/{FILES[1]}')
    got = fetch('data', 'fetch', 'mnist', '--mirror', f'file://{home}/flipped', '--to', f'{home}/to-missing', home=home)
    check('missing', got, 7, f'flipped/{FILES[1]}', '--mirror')
    os.makedirs(f'{home}/own/mnist')
    pathlib.Path(f'{home}/own/mnist', FILES[0]).write_text('mine')
    got = fetch('data', 'fetch', 'mnist', '--mirror', f'file://{root}/models/data/mnist', '--to', f'{home}/own', home=home)
    check('own file', got, 7, 'found    4 bytes', 'move it away')
    if pathlib.Path(f'{home}/own/mnist', FILES[0]).read_text() != 'mine':
        bad.append('own file: it was replaced')


class Server(http.server.BaseHTTPRequestHandler):
    """/there/NAME: a file; /once/NAME, /forever/NAME, /file/NAME: redirects."""

    def do_GET(self):
        _, how, name = self.path.split('/')
        to = {'once': f'/there/{name}', 'forever': self.path, 'file': f'file://{root}/models/data/mnist/{name}'}.get(how)
        body = (root / 'models/data/mnist' / name).read_bytes() if how == 'there' else b''
        self.send_response(302 if to else 200 if body else 404)
        if to:
            self.send_header('Location', to)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *ignored):
        pass


def test_http(home):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f'http://127.0.0.1:{server.server_port}'
    for how, code, text in (('once', 0, 'downloaded'), ('forever', 7, f'{at}/forever/{FILES[0]}'), ('file', 7, f'{at}/file/{FILES[0]}'), ('none', 7, '404')):
        got = fetch('data', 'fetch', 'mnist', '--mirror', f'{at}/{how}', '--to', f'{home}/http-{how}', home=home, no_proxy='127.0.0.1')
        check(f'http, {how}', got, code, text)
        if present(f'{home}/http-{how}/mnist') != (sorted(FILES) if code == 0 else []):
            bad.append(f'http, {how}: {present(f"{home}/http-{how}/mnist")}')
    server.shutdown()


def test_refused(home, mirror):
    for url in ('ftp://h/x', 'scp://h/x', '/tmp', 'dict://h'):
        check(url, fetch('data', 'fetch', 'mnist', '--mirror', url, home=home), 2, 'https://, http:// or file://')
    check('name', fetch('data', 'fetch', 'imagenet', home=home), 2, "'imagenet'", 'mnist, fashion-mnist, kmnist')
    check('no name', fetch('data', 'fetch', home=home), 2, 'the name of a data set is missing', 'mnist, fashion-mnist, kmnist')
    check('--to elsewhere', fetch('data', 'mnist', '--to', 'x', home=home), 2, 'data fetch NAME')
    pathlib.Path(home, 'file').write_text('')
    check('no folder', fetch('data', 'fetch', 'mnist', '--mirror', mirror, '--to', f'{home}/file', home=home), 7, f'{home}/file/mnist')
    os.makedirs(f'{home}/closed/mnist')
    os.chmod(f'{home}/closed/mnist', stat.S_IRUSR | stat.S_IXUSR)
    if os.geteuid():
        check('unwritable', fetch('data', 'fetch', 'mnist', '--mirror', mirror, '--to', f'{home}/closed', home=home), 7, f'{home}/closed/mnist')
    os.chmod(f'{home}/closed/mnist', stat.S_IRWXU)
    check('hint', fetch('data', 'kmnist', home=home), 4, 'onnxtrain data fetch kmnist')


with tempfile.TemporaryDirectory() as t:
    home = os.path.realpath(t)
    if 'built without' in fetch('env', home=home)[1].split('download')[-1]:
        print('skipped: built without libcurl or libcrypto')
        sys.exit(77)
    mirror = f'file://{root}/models/data/mnist'
    test_right(home, mirror)
    test_wrong(home)
    test_http(home)
    test_refused(home, mirror)
print('\n'.join(bad) or 'data fetch: files, hashes, errors')
sys.exit(bool(bad))
