"""Models whose tensors lie in large data files: what is read of them, the memory that takes, and files that change meanwhile.

usage: test_external_pages.py PROGRAM
"""
import json
import os
import subprocess
import tempfile
import time

from scripts import call, check, finish, h, np, numpy_helper, onnx, program, T

MIB = 1 << 20
WIDTH, LAYERS = 1536, 4
sanitized = b'__asan_init' in open(program, 'rb').read()  # which has memory of its own
os.chdir(tempfile.mkdtemp())


def network(width):
    rng = np.random.default_rng(0)
    tensors, nodes, last = [], [], 'x'
    for i in range(LAYERS):
        n = width if i < LAYERS - 1 else 10
        tensors += [numpy_helper.from_array((rng.standard_normal((n, width)) * width**-0.5).astype(np.float32), f'w{i}'),
                    numpy_helper.from_array(np.zeros(n, np.float32), f'b{i}')]
        nodes += [h.make_node('Gemm', [last, f'w{i}', f'b{i}'], [f'z{i}'], transB=1), h.make_node('Tanh', [f'z{i}'], [f'y{i}'])]
        last = f'y{i}'
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['N', width])], [h.make_tensor_value_info(last, T.FLOAT, ['N', 10])], tensors)
    return h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8)


def save(width, name, shift):
    """All weights at offsets that are `shift` bytes past a multiple of 64."""
    m = network(width)
    with open(name + '.data', 'wb') as f:
        for t in m.graph.initializer:
            f.write(bytes(-f.tell() % 64 + shift))
            offset = f.tell()
            f.write(t.raw_data)
            onnx.external_data_helper.set_external_data(t, name + '.data', offset, len(t.raw_data))
            t.ClearField('raw_data')
    with open(name, 'wb') as f:
        f.write(m.SerializeToString())
    return os.path.getsize(name + '.data')


def train(model, out):
    return (model, '--data', 'd.npz', '--batch-size', '8', '--steps', '2', '--optimizer', 'sgd:lr=0.1', '--threads', '2', '--device', 'cpu',
            '--run-dir', 'none', '--log', 'l.jsonl', '-o', out, '--quiet')


def weights(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


rng = np.random.default_rng(1)
np.savez('d.npz', x=rng.standard_normal((8, WIDTH)).astype(np.float32), target=rng.integers(0, 10, 8))
np.savez('few.npz', x=rng.standard_normal((8, 16)).astype(np.float32), target=rng.integers(0, 10, 8))

# In the model file, in aligned pages, in pages aligned to elements alone, and at odd offsets: the same training.
onnx.save(network(WIDTH), 'whole.onnx')
call(*train('whole.onnx', 'whole-trained.onnx'))
want = weights('whole-trained.onnx')
check(any((want[k] != v).any() for k, v in weights('whole.onnx').items()), 'weights train')
for shift in (0, 4, 1):
    save(WIDTH, f'm{shift}.onnx', shift)
    call(*train(f'm{shift}.onnx', f'trained{shift}.onnx'))
    got = weights(f'trained{shift}.onnx')
    check(all((got[k] == want[k]).all() for k in want), f'offsets of 64 n + {shift}: other weights')
    for command in (('run', '-o', 'y.npz'), ('grad', '-o', 'y.npz'), ('eval',)):
        call(command[0], f'm{shift}.onnx', '--data', 'd.npz', *command[1:])

if not sanitized:
    def held():
        """What the last training held at its peak, beyond the program alone."""
        with open('l.jsonl') as f:
            end = [json.loads(line) for line in f][-1]
        return end['rss_peak'] - end['rss_before_model']

    save(16, 'few.onnx', 0)
    few = list(train('few.onnx', 'o.onnx'))
    few[2] = 'few.npz'
    call(*few, '--run-dir', 'run')
    small = held()
    for shift in (0, 4):
        size = save(WIDTH, f'm{shift}.onnx', shift)
        call(*train(f'm{shift}.onnx', 'o.onnx'), '--run-dir', 'run')
        print(f'training: {held() / MIB:.1f} MiB for a data file of {size / MIB:.1f}, {small / MIB:.1f} for a small one')
        check(held() < small + 2.1 * size + 4 * WIDTH**2, 'more than weights, gradients, a tenth, and a tensor for the checkpoint')

# `inspect` does not look for NaN in data files; `check` does.
save(WIDTH, 'nan.onnx', 0)
with open('nan.onnx.data', 'r+b') as f:
    f.seek(4 * WIDTH)
    f.write(np.float32(np.nan).tobytes())
check('NaN' in call('check', 'nan.onnx', code=3).stderr, 'check: NaN is not told')
call('inspect', 'nan.onnx')

# More than any machine can read: `inspect` looks at none of it.
m = network(16)
w = m.graph.initializer[0]
w.dims[:] = [16, 1 << 32]
onnx.external_data_helper.set_external_data(w, 'endless.data', 0, 1 << 38)
w.ClearField('raw_data')
m.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 32
with open('endless.onnx', 'wb') as f:
    f.write(m.SerializeToString())
with open('endless.data', 'wb') as f:
    f.write(rng.standard_normal(1024).astype(np.float32).tobytes())
    f.truncate(1 << 38)
check(f'[16,{1 << 32}]' in call('inspect', 'endless.onnx').stdout, 'inspect tells the shape')

# A data file that is changed while it trains: nothing is written.
os.remove('l.jsonl')
p = subprocess.Popen([program, 'm0.onnx', '--data', 'd.npz', '--epochs', '1000000', '--time-limit', '3s', '--run-dir', 'none', '--log', 'l.jsonl', '-o', 'changed.onnx',
                      '--quiet', '--device', 'cpu', '--batch-size', '8'], stderr=subprocess.PIPE, text=True)
deadline = time.time() + 120
while time.time() < deadline and p.poll() is None:
    try:
        with open('l.jsonl') as f:
            if any(json.loads(line)['event'] == 'step' for line in f if line.endswith('\n')):
                break
    except FileNotFoundError:
        pass
    time.sleep(0.05)
os.utime('m0.onnx.data', (1, 1))
_, said = p.communicate(timeout=240)
check(p.returncode == 7 and "external data 'm0.onnx.data' was changed while it was in use" in said, f'changed data: exit {p.returncode}: {said[-300:]}')
check(not [n for n in os.listdir('.') if n.startswith('changed')], 'changed data: something is written')

# The same while it predicts and evaluates: halfway through, as long as it took undisturbed.
many = 1200  # a second at least: all weights are read for each sample
np.savez('many.npz', x=np.tile(np.load('d.npz')['x'], (many // 8, 1)), target=np.zeros(many, np.int64))
for command in (('predict', 'm4.onnx', 'many.npz', '-o', 'p.npz'), ('eval', 'm4.onnx', '--data', 'many.npz')):
    command += ('--batch-size', '1', '--device', 'cpu', '--threads', '1', '--quiet')
    began = time.monotonic()
    call(*command)
    took = time.monotonic() - began
    if os.path.exists('p.npz'):
        os.remove('p.npz')
    p = subprocess.Popen([program, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(took / 2)
    os.utime('m4.onnx.data', (2, 2) if command[0] == 'eval' else (1, 1))
    _, said = p.communicate(timeout=240)
    check(p.returncode == 7 and "external data 'm4.onnx.data' was changed while it was in use" in said, f'{command[0]}, changed data ({took:.1f} s): exit {p.returncode}: {said[-300:]}')
    check(not os.path.exists('p.npz'), f'{command[0]}, changed data: something is written')
finish('checks')
