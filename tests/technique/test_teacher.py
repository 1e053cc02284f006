"""--teacher: what it leaves alone, what is refused, and how a run with one continues; its numbers are test_follow.py's.

usage: test_teacher.py PROGRAM
"""
import os
import shutil
import sys
import tempfile

from scripts import call, check, finish, np, onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from net import SHAPES, onnx_model, read  # noqa: E402

rng = np.random.default_rng(1)


def tensors(scale):
    return {n: np.abs(rng.normal(0, scale, s)) + .5 if n.startswith('norm') else rng.normal(0, scale, s) for n, s in SHAPES.items()}


def refused(d, code, text, *options):
    r = call('train', d + '/net.onnx', '--data', d + '/data.npz', '--steps', '2', '--run-dir', 'none', '-o', d + '/never.onnx', *options, code=code)
    check(text in r.stderr, f'{options}: {text!r} is not in {r.stderr!r}')
    check(not os.path.exists(d + '/never.onnx'), f'{options}: wrote a model')


def gradients(d, *options):
    call('grad', d + '/net.onnx', '--data', d + '/data.npz', '-o', d + '/g.npz', '--threads', '1', '--bn', 'frozen', *options)
    with np.load(d + '/g.npz') as z:
        return dict(z)


def train(d, out, *options, data='data.npz'):
    call('train', d + '/net.onnx', '--data', f'{d}/{data}', '--steps', '4', '--batch-size', '6', '--threads', '1', '-o', f'{d}/{out}', *options)
    return f'{d}/{out}'


with tempfile.TemporaryDirectory() as d:
    onnx.save(onnx_model(tensors(.3)), d + '/net.onnx')
    onnx.save(onnx_model(tensors(.8)), d + '/teacher.onnx')
    np.savez(d + '/data.npz', x=rng.normal(0, 1, (12, 2, 4, 4)).astype(np.float32), target=rng.integers(0, 5, 12))
    teacher = ['--teacher', d + '/teacher.onnx']

    # the mean over batches, a share of nothing, and no gradient of the teacher's own
    whole, parts = gradients(d, *teacher, '--batch-size', '12'), gradients(d, *teacher, '--batch-size', '4', '--accumulate', '3')
    check(set(whole) == {*SHAPES, 'loss'} - {'norm.running_mean', 'norm.running_var'}, f'gradients of {sorted(whole)}')
    for n in whole:
        check(np.allclose(whole[n], parts[n], rtol=1e-4, atol=1e-6), f"'{n}' differs with --accumulate")
    plain, none = gradients(d), gradients(d, '--teacher', d + '/teacher.onnx:weight=0')
    check(all(np.array_equal(plain[n], none[n]) for n in plain), 'weight=0 changes the gradient')
    check(not np.allclose(plain['out.weight'], whole['out.weight'], rtol=.1), 'the teacher has no effect')

    # what is written has nothing of the teacher
    same = read(train(d, 'same.onnx', *teacher, '--lr', '0', '--bn', 'frozen', '--run-dir', 'none'))
    start = read(d + '/net.onnx')
    check(same.keys() == start.keys() and all(np.array_equal(same[n], start[n]) for n in start), '--lr 0 changes the model')
    r = call('train', d + '/net.onnx', '--data', d + '/data.npz', '--steps', '4', '--run-dir', 'none', '-o', d + '/o.onnx', '--precision', 'bf16', '--threads', '1', *teacher,
             '--add-dropout', '0.5')
    check('learns from output' in r.stderr and r.stderr.count('Dropout is added') == 1, r.stderr)

    # a run that is stopped and continued, and one whose teacher is another
    train(d, 'whole.onnx', *teacher, '--run-dir', d + '/whole', '--accumulate', '2')
    for name in 'a', 'b':
        os.makedirs(f'{d}/{name}')
        for file in 'net.onnx', 'teacher.onnx', 'data.npz':
            shutil.copy(f'{d}/{file}', f'{d}/{name}')
        train(f'{d}/{name}', 'o.onnx', '--teacher', f'{d}/{name}/teacher.onnx', '--run-dir', f'{d}/{name}/run', '--accumulate', '2', '--steps', '1')
    with np.load(f'{d}/a/run/checkpoint-000000001.npz') as z:
        check(not any('teacher' in n for n in z.files) and len([n for n in z.files if n.endswith('weight')]) == 4, z.files)
    call('resume', f'{d}/a/run', '--steps', '4')
    check(open(d + '/whole.onnx', 'rb').read() == open(d + '/a/o.onnx', 'rb').read(), 'a continued run differs')
    os.remove(f'{d}/a/teacher.onnx')
    call('eval', f'{d}/a/run')  # the loss of an evaluation has no teacher
    onnx.save(onnx_model(tensors(.7)), d + '/b/teacher.onnx')
    r = call('resume', f'{d}/b/run', '--steps', '4', code=3)
    check('not the teacher' in r.stderr, r.stderr)
    call('resume', f'{d}/b/run', '--steps', '4', '--teacher', d + '/teacher.onnx')

    # an image for the teacher that is flat for the model, and channels of which the order is unknown
    call('new', 'mlp', '--input', '1x4x4', '--hidden', '6', '--classes', '5', '-o', d + '/flat.onnx')
    call('new', 'mlp', '--input', '1x4x4', '--hidden', '7', '--classes', '5', '--seed', '4', '-o', d + '/flat-teacher.onnx')
    np.savez(d + '/flat.npz', input=rng.normal(0, 1, (12, 16)).astype(np.float32), target=rng.integers(0, 5, 12))
    found = {}
    for name, shape in ('flat-teacher', None), ('image', (1, 4, 4)), ('last', (4, 4, 1)), ('channels', (2, 2, 4)):
        m = onnx.load(d + '/flat-teacher.onnx')
        if shape:
            was = m.graph.input[0].name
            m.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info('image', 1, ['N', *shape]))
            m.graph.node.insert(0, onnx.helper.make_node('Flatten', ['image'], [was]))
            onnx.save(m, f'{d}/{name}.onnx')
        r = call('grad', d + '/flat.onnx', '--data', d + '/flat.npz', '-o', d + '/g.npz', '--teacher', f'{d}/{name}.onnx', code=3 if name == 'channels' else 0)
        if name == 'channels':
            check("its input 'image'" in r.stderr, r.stderr)
            continue
        with np.load(d + '/g.npz') as z:
            found[name] = dict(z)
    check(all(np.array_equal(found[k][n], v) for k in found for n, v in found['flat-teacher'].items()), 'the gradient differs with a reshaped input')

    # what does not fit
    for name, how in ('wide', {'shape': ('x', [None, 3, 4, 4])}), ('classes', {'classes': 4}):
        m = onnx_model(tensors(.3))
        if 'classes' in how:
            m.graph.output[0].name, m.graph.node[-1].output[0] = 'other', 'other'
            for t in list(m.graph.initializer):
                if t.name in ('out.weight', 'out.bias'):
                    v = onnx.numpy_helper.to_array(t)[:4].copy()
                    t.CopyFrom(onnx.numpy_helper.from_array(v, t.name))
            m.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4
        else:
            m.graph.input[0].name = m.graph.node[0].input[0] = 'image'
            m.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
        onnx.save(m, f'{d}/{name}.onnx')
    open(d + '/no.onnx', 'w').write('nothing')
    refused(d, 7, '--teacher', '--teacher', d + '/missing.onnx')
    refused(d, 3, '--teacher', '--teacher', d + '/no.onnx')
    refused(d, 3, "its input 'image'", '--teacher', d + '/wide.onnx')
    refused(d, 3, "'other' float32[2,4]", '--teacher', d + '/classes.onnx', '--batch-size', '2')
    refused(d, 3, 'is [12,4], but output', '--teacher', d + '/classes.onnx:output=other')
    refused(d, 2, "no output 'logits'", '--teacher', d + '/teacher.onnx:output=logits')
    refused(d, 2, 'temperature', '--teacher', d + '/teacher.onnx:temperature=0')
    refused(d, 2, "no parameter 'alpha'", '--teacher', d + '/teacher.onnx:alpha=1')
    refused(d, 2, '--teacher', *teacher, '--training-info')
    r = call('train', d + '/net.onnx', '--data', d + '/data.npz', '--run-dir', 'none', *teacher, '-o', d + '/teacher.onnx', code=2)
    check('the teacher that is being read' in r.stderr, r.stderr)
finish('figures')
