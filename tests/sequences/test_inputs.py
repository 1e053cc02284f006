"""The standard's node cases whose inputs or outputs are sequences or optional, through `onnxtrain run`.

usage: test_inputs.py PROGRAM

A sequence x goes in as arrays x/0, x/1 ..., and once more as one array x where its elements have one shape; what comes out is compared
by the same names.  An optional without an element has no array.
"""
import os
import subprocess
import tarfile
import tempfile

from scripts import T, finish, h, np, numpy_helper, onnx, program, verdict

archive = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'onnx', 'node.tar.xz')
fed = 0


def read(path, kind):
    """A list of arrays, an array, or None."""
    with open(path, 'rb') as f:
        data = f.read()
    if kind == 'tensor_type':
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    if kind == 'sequence_type':
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))


def spread(name, value):
    if value is None:
        return {}
    if isinstance(value, list) and not value:
        return {name: np.zeros(0, np.float32)}
    return {f'{name}/{i}': v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}


def run(d, model, arrays):
    np.savez(d + '/x.npz', **arrays)
    if os.path.exists(d + '/y.npz'):
        os.remove(d + '/y.npz')
    r = subprocess.run([program, 'run', model, '--data', d + '/x.npz', '-o', d + '/y.npz', '--device', 'cpu'], capture_output=True, text=True, timeout=60)
    return r, dict(np.load(d + '/y.npz')) if r.returncode == 0 else {}


def compare(what, r, got, want):
    if r.returncode:
        return verdict(what, f'exit {r.returncode}: {r.stderr.strip()}')
    if set(got) != set(want):
        return verdict(what, f'arrays {sorted(got)}; {sorted(want)} are right')
    for k in want:
        if got[k].dtype != want[k].dtype or got[k].shape != want[k].shape or not np.allclose(got[k], want[k], rtol=1e-3, atol=1e-5):
            return verdict(what, f'{k}: other numbers or another shape')
    verdict(what)


def case(d, folder):
    global fed
    m = onnx.load(folder + '/model.onnx')
    name = os.path.basename(folder)
    kinds = [v.type.WhichOneof('value') for v in list(m.graph.input) + list(m.graph.output)]
    if set(kinds) == {'tensor_type'}:
        return
    fed += any(k != 'tensor_type' for k in kinds[:len(m.graph.input)])
    data = folder + '/test_data_set_0'
    inputs = {v.name: read(f'{data}/input_{i}.pb', v.type.WhichOneof('value')) for i, v in enumerate(m.graph.input) if os.path.exists(f'{data}/input_{i}.pb')}
    want = {}
    for i, v in enumerate(m.graph.output):
        want |= spread(v.name, read(f'{data}/output_{i}.pb', v.type.WhichOneof('value')))
    arrays = {}
    for k, v in inputs.items():
        arrays |= spread(k, v)
    compare(name, *run(d, folder + '/model.onnx', arrays), want)
    joined = {k: np.stack(v) if isinstance(v, list) and v and len({e.shape for e in v}) == 1 else None for k, v in inputs.items()}
    if all(v is not None or not isinstance(inputs[k], list) for k, v in joined.items()) and any(isinstance(v, list) for v in inputs.values()):
        compare(name + ', one array', *run(d, folder + '/model.onnx', {k: v if joined[k] is None else joined[k] for k, v in inputs.items() if v is not None}), want)


def refused(d, what, nodes, types, arrays, code, text):
    g = h.make_graph(nodes, 'g', [h.make_value_info(k, t) for k, t in types.items()], [h.make_tensor_value_info('y', T.FLOAT, None)])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 21)], ir_version=10), d + '/m.onnx')
    r, _ = run(d, d + '/m.onnx', arrays)
    verdict(what, f'exit {r.returncode}, {code} is right, with {text!r}: {r.stderr.strip()}' if r.returncode != code or text not in r.stderr else None)
    return d + '/m.onnx'


with tempfile.TemporaryDirectory() as d:
    with tarfile.open(archive) as t:
        for member in t:
            if member.isfile() and any(w in member.name for w in ('_seq', '_opt', 'sequence')):
                os.makedirs(os.path.join(d, os.path.dirname(member.name)), exist_ok=True)
                with open(os.path.join(d, member.name), 'wb') as f:
                    f.write(t.extractfile(member).read())
    for root, _, files in sorted(os.walk(d)):
        if 'model.onnx' in files:
            case(d, root)
    if fed < 24:
        verdict('the archive', f'{fed} cases with sequences or optionals as inputs; 24 at least are known')
    one = np.ones((2, 3), np.float32)
    tensor = h.make_tensor_type_proto(T.FLOAT, [None, 3])
    JOIN, SEQ = [h.make_node('ConcatFromSequence', ['s'], ['y'], axis=0)], {'s': h.make_sequence_type_proto(tensor)}
    refused(d, 'no array', JOIN, SEQ, {'z': one}, 4, "input 's' is a sequence without data: provide 's/0'")
    refused(d, 'a gap', JOIN, SEQ, {'s/0': one, 's/2': one}, 4, "array 's/2': array 's/1' is missing")
    refused(d, 'given twice', JOIN, SEQ, {'s/0': one, 's': one}, 4, 'given twice')
    refused(d, 'one number', JOIN, SEQ, {'s': np.float32(1)}, 4, "array 's' is a scalar")
    refused(d, 'more elements than memory', JOIN, SEQ, {'s': np.ones((1 << 60, 0), np.float32)}, 4, 'sequence of 1152921504606846976 elements')
    refused(d, 'too many elements', JOIN, SEQ, {'s': np.ones((10001, 1, 3), np.float32)}, 4, 'at most 10000 are supported')
    refused(d, 'another type', JOIN, SEQ, {'s/0': one, 's/1': np.array(['a'])}, 4, "input 's/1' is float32")
    refused(d, 'another shape', JOIN, SEQ, {'s/0': one, 's/1': np.ones((2, 4), np.float32)}, 4, "input 's/1' is [?,3]")
    refused(d, 'none to join', JOIN, SEQ, {'s': np.ones((0, 2, 3), np.float32)}, 3, 'the sequence is empty')
    refused(d, 'an empty optional', [h.make_node('OptionalGetElement', ['s'], ['y'])], {'s': h.make_optional_type_proto(tensor)}, {'z': one}, 3, "optional 's' is empty")
    refused(d, 'a map', [h.make_node('Identity', ['s'], ['y'])], {'s': h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, tensor))} if hasattr(h, 'make_map_type_proto') else
            {'s': onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=T.INT64, value_type=tensor))}, {'s': one}, 3, "input 's' is ")
    # shapes differ: only NAME/0 ... can say so
    path = refused(d, 'made again', JOIN, SEQ, {'s/0': one}, 0, '')
    r, got = run(d, path, {'s/0': one, 's/1': np.full((1, 3), 2, np.float32)})
    said = run(d, path, {'s': np.stack([one, one])})[0]
    verdict('one array is used', said.stderr if 'is not used' in said.stderr + said.stdout else None)
    compare('two shapes', r, got, {'y': np.concatenate([one, np.full((1, 3), 2, np.float32)])})
    r = subprocess.run([program, 'check', path], capture_output=True, text=True, timeout=60)
    if r.returncode != 3 or "input 's' is a sequence: only 'onnxtrain run' accepts it, as arrays 's/0', '/1' ..." not in r.stdout + r.stderr:
        verdict('check', f'exit {r.returncode}: {r.stdout} {r.stderr}')
    r = subprocess.run([program, 'inspect', path], capture_output=True, text=True, timeout=60)
    if r.returncode or 'sequence of float32' not in r.stdout:
        verdict('inspect', f'exit {r.returncode}: {r.stdout} {r.stderr}')
print(f'{fed} of the standard fed so')
finish('cases')
