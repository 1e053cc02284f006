"""The shared library's ot_runner, called as another language would: graphs of which one run says nothing about the next.

usage: test_runner.py PROGRAM    (the library is beside it)
"""
import ctypes as c
import os
import tempfile

from scripts import check, finish, np, onnx, onnxruntime, program

try:
    lib = c.CDLL(os.path.join(os.path.dirname(program), 'libonnxtrain.so'))
except OSError as e:
    print(f'skipped: {e}')
    raise SystemExit(77)

types = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}


class Error(c.Structure):
    _fields_ = [('status', c.c_int), ('text', c.c_char * 4096)]


class Tensor(c.Structure):
    _fields_ = [('name', c.c_char_p), ('dtype', c.c_int), ('rank', c.c_int), ('dim', c.c_int64 * 8), ('data', c.c_void_p)]


class Tensors(c.Structure):
    _fields_ = [('n', c.c_int), ('t', c.POINTER(Tensor)), ('owner', c.c_void_p)]


lib.ot_version.restype = c.c_char_p
header = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'runtime', 'onnxtrain.h')).read()
check('#define OT_VERSION "%s"' % lib.ot_version().decode() in header, lib.ot_version())
lib.ot_options_new.restype = c.c_void_p


def tensor(name, x):
    code = {np.dtype(v): k for k, v in types.items()}.get(x.dtype, 8)
    t = Tensor(name.encode(), code, x.ndim, (c.c_int64 * 8)(*x.shape))
    if code == 8:
        held = (c.c_char_p * x.size)(*[s.encode() for s in x.ravel()])
        t.data = c.cast(held, c.c_void_p)
    else:
        held = np.ascontiguousarray(x)
        t.data = held.ctypes.data
    return t, held


def array(t):
    shape = tuple(t.dim[:t.rank])
    n = int(np.prod(shape))
    if t.dtype == 8:
        return np.array([s.decode() for s in c.cast(t.data, c.POINTER(c.c_char_p))[:n]], object).reshape(shape)
    bytes_ = c.string_at(t.data, n * np.dtype(types[t.dtype]).itemsize)
    return np.frombuffer(bytes_, types[t.dtype]).reshape(shape)


class Runner:
    def __init__(self, path):
        self.err = Error()
        self.o, self.m, self.r = c.c_void_p(lib.ot_options_new()), c.c_void_p(), c.c_void_p()
        assert not lib.ot_model_load(path.encode(), c.byref(self.m), c.byref(self.err)), self.err.text
        assert not lib.ot_runner_new(self.m, self.o, c.byref(self.r), c.byref(self.err)), self.err.text

    def __call__(self, feeds):
        made = [tensor(k, v) for k, v in feeds.items()]
        out, self.err = Tensors(), Error()
        status = lib.ot_runner_run(self.r, (Tensor * len(made))(*[t for t, _ in made]), len(made), c.byref(out), c.byref(self.err))
        got = {out.t[i].name.decode(): array(out.t[i]) for i in range(out.n)}
        lib.ot_tensors_free(c.byref(out))
        return status, got

    def close(self):
        lib.ot_runner_free(self.r)
        lib.ot_model_free(self.m)
        lib.ot_options_free(self.o)


f, i = np.float32, np.int64
text = np.array(['b', 'a', 'b'], object)
CASES = {
    'sizes come from values': ('(float[n] x, int64[r] s) => (float[a, b] y) { y = Expand(x, s) }',
                               [dict(x=np.arange(3, dtype=f), s=np.array(s, i)) for s in ([2, 3], [4, 3], [2, 3], [1, 3])]),
    'a loop as long as its input says': ('(int64 n, float[k] x) => (float[k] y) { c = Constant<value = bool {1}>() '
                                         'y = Loop(n, c, x) <body = b (int64 i, bool go, float[k] v) => (bool more, float[k] w) '
                                         '{ more = Identity(go) w = Add(v, v) }> }',
                                         [dict(n=np.array(n, i), x=np.ones(2, f)) for n in (1, 5, 2)]),
    'a branch': ('(bool b, float[k] x) => (float[k] y) { y = If(b) <then_branch = t () => (float[k] u) { u = Neg(x) }, '
                 'else_branch = e () => (float[k] v) { v = Abs(x) }> }',
                 [dict(b=np.array(b), x=np.array([-1, 2], f)) for b in (True, False, True)]),
    'nonzero elements': ('(float[n] x) => (int64[a, b] y) { y = NonZero(x) }',
                         [dict(x=np.array(x, f)) for x in ([0, 1, 2], [0, 0, 2], [1, 1, 1])]),
    'text': ('(string[n] s) => (string[n] y) { y = Identity(s) }', [dict(s=text), dict(s=text[::-1]), dict(s=text)]),
    'an index beyond the table, once': ('(float[n, d] t, int64[k] at) => (float[k, d] y) { y = Gather(t, at) }',
                                        [dict(t=np.arange(6, dtype=f).reshape(3, 2), at=np.array(a, i))
                                         for a in ([0, 2], [1, 9], [2, 1])]),
}

with tempfile.TemporaryDirectory() as d:
    for what, (graph, calls) in CASES.items():
        path = os.path.join(d, 'm.onnx')
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}'), path)
        judge, runner = onnxruntime.InferenceSession(path), Runner(path)
        for k, feeds in enumerate(calls):
            status, got = runner(feeds)
            try:
                want = dict(zip([o.name for o in judge.get_outputs()], judge.run(None, feeds)))
            except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
                check(status == 4, f'{what}, call {k}: ONNX Runtime refuses it; status {status}')
                continue
            check(not status, f'{what}, call {k}: {runner.err.text.decode()}')
            same = got.keys() == want.keys() and all(np.array_equal(got[n], want[n]) for n in want)
            check(same, f'{what}, call {k}: {got} is not {want}')
        runner.close()
finish('calls')
