#!/usr/bin/env python3
"""Makes the hand-made files of regressions/: the same bytes each time.  Needs numpy and onnx.

    tests/python tests/fuzz/make_regressions.py

`<digit>-…` says the status that the file is to be answered with; what a fuzzer found keeps the name it was given.
"""
import gzip
import io
import os
import struct
import zipfile

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "regressions")


def write(target, name, data):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def packed(data):
    return gzip.compress(data, 9, mtime=0)


def pair(a, b):
    """Two files as one input: fuzz_split."""
    return a + b + struct.pack(">H", len(b))


# ---- data ------------------------------------------------------------------------------------------------------


def npy(array=None, header=None, data=None):
    f = io.BytesIO()
    if header is None:
        np.save(f, array)
        return f.getvalue()
    text = header.encode() + b" " * ((-(len(header) + 11)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + (data or b"")


def npz(arrays, raw=()):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as z:
        for name, value in list(arrays.items()) + list(raw):
            z.writestr(zipfile.ZipInfo(name + ".npy"), npy(value) if isinstance(value, np.ndarray) else value)
    return f.getvalue()


def idx(code, dims, data):
    return bytes([0, 0, code, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + data


def header(shape, descr="<f4", order="False"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


def data_files():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    write("npy", "0-plain", npy(x))
    write("npy", "0-packed", packed(npy(x)))
    write("npy", "4-shape-beyond-file", npy(header=header("(1000000000, 1000000000)"), data=b"\0" * 16))
    write("npy", "4-shape-wraps", npy(header=header("(4611686018427387904, 4)"), data=b"\0" * 16))
    write("npy", "4-shape-negative", npy(header=header("(-1, 3)"), data=b"\0" * 12))
    write("npy", "4-object", npy(header=header("(1,)", "|O"), data=b"\0" * 8))
    write("npy", "4-header-longer-than-file", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'")
    write("npy", "4-packed-claims-more", packed(npy(header=header("(1000000, 1000)"), data=b"\0" * 100000)))

    both = {"x": x, "target": np.arange(4, dtype=np.int64)}
    write("npz", "0-two-arrays", npz(both))
    write("npz", "0-empty", npz({}))
    write("npz", "4-member-is-no-array", npz(both, [("note", b"no array")]))
    write("npz", "4-cut", npz(both)[:-30])
    write("npz", "4-checksum", npz(both).replace(npy(x), npy(x + 1)))

    pictures, labels = idx(8, [4, 2, 2], bytes(range(16))), idx(8, [4], bytes([0, 1, 2, 0]))
    write("idx", "0-pictures-and-labels", pair(pictures, labels))
    write("idx", "0-packed", pair(packed(pictures), labels))
    write("idx", "0-no-labels", pictures)
    write("idx", "4-labels-of-others", pair(pictures, idx(8, [3], b"\0\0\0")))
    write("idx", "4-sizes-wrap", idx(8, [0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF], b"\0" * 16))
    write("idx", "4-rank-9", idx(8, [1] * 9, b"\0"))
    # 48 MiB of pictures in 48 kB, and the labels of another set: the labels say no before anything is unpacked.
    write("idx", "4-bomb", pair(packed(idx(8, [12288, 64, 64], b"\0" * (12288 * 4096))), idx(8, [12], b"\0" * 12)))

    write("csv", "0-plain", b"x,y,target\n1,2.5,0\n-3,4e2,1\n")
    write("csv", "0-packed", packed(b"x,y,target\n1,2.5,0\n-3,4e2,1\n"))
    write("csv", "0-quoted-crlf", b'"x ""1""",target\r\n1,0\r\n2,1\r\n')
    write("csv", "4-ragged", b"x,y,target\n1,2\n")
    write("csv", "4-quote-without-end", b'x,"y\n1,2\n')

    record = bytes([3]) + bytes(range(256)) * 12
    fine = bytes([1, 99]) + bytes(range(256)) * 12
    for which, name in enumerate(["batch-1", "batch-2", "batch-3", "batch-5", "test"]):
        write("cifar", "0-" + name, record * 2 + bytes([which]))
    write("cifar", "0-cifar100", fine * 2 + bytes([5]))
    write("cifar", "4-part-of-a-record", record[:-1] + bytes([0]))
    write("cifar", "4-label-10", bytes([10]) + record[1:] + bytes([0]))


# ---- models ----------------------------------------------------------------------------------------------------


def value(name, dtype=T.FLOAT, shape=None):
    return h.make_tensor_value_info(name, dtype, shape)


def const(name, array, dtype=None):
    """An initializer; dtype: taken for the bytes of the array."""
    array = np.asarray(array)
    dtype = dtype or h.np_dtype_to_tensor_dtype(array.dtype)
    return h.make_tensor(name, dtype, array.shape, array.tobytes(), raw=True)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir=8):
    graph = h.make_graph(nodes, "g", inputs, outputs, list(initializers))
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], producer_name="make_regressions")
    m.ir_version = ir
    return m


def save(name, m, targets=("model", "execute")):
    for t in targets:
        write(t, name, m.SerializeToString(deterministic=True))


def body(nodes, inputs, outputs, initializers=()):
    return h.make_graph(nodes, "body", inputs, outputs, list(initializers))


def good_models():
    """Where the search begins: small, and most of what a model can have."""
    r = np.random.RandomState(0)
    f = lambda *shape: r.randn(*shape).astype(np.float32)
    x, y = value("x", T.FLOAT, ["N", 4]), value("y", T.FLOAT, ["N", 3])
    save("0-mlp", model([h.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), h.make_node("Relu", ["h"], ["y"])],
                        [x], [y], [const("w", f(3, 4)), const("b", f(3))]))
    save("0-conv", model([h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
                          h.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
                          h.make_node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                          h.make_node("Flatten", ["p"], ["f"]), h.make_node("Gemm", ["f", "k"], ["y"])],
                         [value("x", T.FLOAT, ["N", 1, 4, 4])], [y],
                         [const("w", f(2, 1, 3, 3)), const("s", f(2)), const("b", f(2)), const("m", f(2)),
                          const("v", np.ones(2, np.float32)), const("k", f(8, 3))]))
    # Opset 21: attention-like pieces, shape arithmetic, a Constant, an If.
    yes = body([h.make_node("Softmax", ["z"], ["t"], axis=-1)], [], [value("t")])
    no = body([h.make_node("Tanh", ["z"], ["e"])], [], [value("e")])
    save("0-branches", model([h.make_node("MatMul", ["x", "w"], ["z"]), h.make_node("Shape", ["z"], ["s"]),
                              h.make_node("Gather", ["s", "one"], ["n"]), h.make_node("Greater", ["n", "two"], ["c"]),
                              h.make_node("If", ["c"], ["i"], then_branch=yes, else_branch=no),
                              h.make_node("LayerNormalization", ["i", "g"], ["l"]), h.make_node("Reshape", ["l", "shape"], ["y"])],
                             [x], [y], [const("w", f(4, 3)), const("one", np.int64(1)), const("two", np.int64(2)), const("g", f(3)),
                                        const("shape", np.array([-1, 3], np.int64))], opset=21, ir=10))
    # A loss in the file, a Loop that carries, a Scan.
    loop = body([h.make_node("Mul", ["a", "w"], ["a1"]), h.make_node("Identity", ["c"], ["c1"]), h.make_node("Identity", ["a1"], ["o"])],
                [value("i", T.INT64, []), value("c", T.BOOL, []), value("a", T.FLOAT, [2])],
                [value("c1", T.BOOL, []), value("a1", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
    save("0-loop", model([h.make_node("Loop", ["n", "yes", "x"], ["z", "all"], body=loop), h.make_node("ReduceMean", ["all"], ["y"], keepdims=0)],
                         [value("x", T.FLOAT, [2])], [value("y", T.FLOAT, [])],
                         [const("n", np.int64(3)), const("yes", np.bool_(True)), const("w", f(2))]))
    scan = body([h.make_node("Add", ["s", "e"], ["s1"]), h.make_node("Mul", ["s1", "w"], ["o"])],
                [value("s", T.FLOAT, [2]), value("e", T.FLOAT, [2])], [value("s1", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
    save("0-scan", model([h.make_node("Scan", ["s0", "x"], ["last", "y"], body=scan, num_scan_inputs=1)],
                         [value("x", T.FLOAT, [3, 2])], [value("y", T.FLOAT, [3, 2])], [const("s0", f(2)), const("w", f(2))]))
    save("3-quantised", model([h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                               h.make_node("DequantizeLinear", ["wq", "ws"], ["w"]), h.make_node("MatMul", ["d", "w"], ["y"])],
                              [x], [y], [const("s", np.float32(0.1)), const("z", np.uint8(128)),
                                         const("wq", r.randint(-9, 9, (4, 3)).astype(np.int8)), const("ws", np.float32(0.05))]))
    save("0-lstm", model([h.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=2)],
                         [value("x", T.FLOAT, [3, 1, 2])], [value("y", T.FLOAT, [3, 1, 1, 2])], [const("w", f(1, 8, 2)), const("r", f(1, 8, 2))]))
    save("0-embedding-loss", model([h.make_node("Gather", ["w", "i"], ["e"]), h.make_node("SoftmaxCrossEntropyLoss", ["e", "t"], ["y"])],
                                   [value("i", T.INT64, ["N"]), value("t", T.INT64, ["N"])], [value("y", T.FLOAT, [])], [const("w", f(5, 3))]))
    m = model([h.make_node("Twice", ["x"], ["h"], domain="own"), h.make_node("MatMul", ["h", "w"], ["y"])], [x], [y], [const("w", f(4, 3))])
    m.opset_import.append(h.make_opsetid("own", 1))
    m.functions.append(h.make_function("own", "Twice", ["a"], ["b"], [h.make_node("Add", ["a", "a"], ["b"])], [h.make_opsetid("", 17)]))
    save("0-function", m)


def option_files():
    lines = lambda *text: "".join(t + "\n" for t in text).encode()
    write("options", "0-some", lines("# a comment", "lr = 0.01", "optimizer = sgd:momentum=0.9,nesterov=true", "schedule = cosine:T_max=4,warmup=1",
                                     "batch-size = 4", "loss = cross_entropy:label_smoothing=0.1", "clip-norm = 1", "bn = frozen"))
    write("options", "0-more", lines("optimizer = adamw:beta1=0.8,eps=1e-6", "schedule = multistep:milestones=[1,2],gamma=0.5", "accumulate = 2",
                                     "loss = y=cross_entropy:class_weights=[1,2,1]", "freeze = b", "lr-scale = w*=0.5", "no-decay = biases",
                                     "drop-last = true", "val = x", "log = x", "precision = bf16", "seed = 3"))
    for opt in ["adam", "adagrad", "adadelta", "rmsprop", "adamax", "nadam", "radam", "lion", "lamb", "lars", "muon"]:
        write("options", "0-" + opt, lines("optimizer = " + opt, "freeze = b", "weight-decay = 0.1", "on-nonfinite = skip", "run-dir = x"))
    for sched in ["step:step_size=1", "exponential:gamma=0.9", "cosine-restarts:T_0=2", "linear", "polynomial:power=2", "onecycle:max_lr=0.1", "plateau"]:
        write("options", "0-" + sched.split(":")[0], lines("schedule = " + sched, "no-shuffle = true"))
    # Parameters are checked by kind.
    for name, text in [("reduction", "loss = mse:reduction=median"), ("delta", "loss = huber:delta=0"), ("beta", "loss = smooth_l1:beta=-1"),
                       ("smoothing-2", "loss = cross_entropy:label_smoothing=2"), ("smoothing-negative", "loss = cross_entropy:label_smoothing=-1"),
                       ("class-axis", "loss = cross_entropy:class_axis=x"), ("ignore-index", "loss = cross_entropy:ignore_index=x"),
                       ("class-weights", "loss = cross_entropy:class_weights=[1,2]"), ("class-weight-nan", "loss = cross_entropy:class_weights=[1,nan,1]"),
                       ("milestones", "schedule = multistep:milestones=[-1]"), ("nothing-after-colon", "optimizer = sgd:"),
                       ("hex", "batch-size = 0x10"), ("section", "[section]\nlr = 1"), ("no-pair", "lr"), ("unknown", "learning = 1"),
                       ("config-in-config", "config = x")]:
        write("options", "2-" + name, lines(text))


def training_sets():
    r = np.random.RandomState(1)
    x = r.randn(8, 4).astype(np.float32)
    write("train", "0-mlp", npz({"x": x, "target": np.arange(8) % 3}))
    write("train", "0-mlp-mse", npz({"x": x, "target": r.randn(8, 3).astype(np.float32)}))
    write("train", "0-pictures", npz({"x": r.randint(0, 255, (8, 1, 4, 4)).astype(np.uint8), "target": (np.arange(8) % 3).astype(np.uint8)}))
    write("train", "0-indices", npz({"i": np.arange(8) % 5, "t": np.arange(8) % 3}))
    write("train", "0-doubles", npz({"x": x.astype(np.float64), "target_y": np.arange(8).astype(np.int32) % 3}))
    write("train", "4-label-3", npz({"x": x, "target": np.arange(8) % 4}))
    write("train", "4-nan", npz({"x": x * np.nan, "target": np.arange(8) % 3}))
    write("train", "4-no-such-output", npz({"x": x, "target_nope": np.arange(8) % 3}))
    write("train", "4-two-counts", npz({"x": x, "target": np.arange(7) % 3}))


def external_models():
    def at(**entries):
        t = T()
        t.name, t.data_type, t.data_location = "w", T.FLOAT, T.EXTERNAL
        t.dims.extend([4, 3])
        for k, v in entries.items():
            t.external_data.add(key=k, value=str(v))
        m = model([h.make_node("MatMul", ["x", "w"], ["z"]), h.make_node("ReduceMean", ["z"], ["y"], keepdims=0)],
                  [value("x", T.FLOAT, [2, 4])], [value("y", T.FLOAT, [])])
        m.graph.initializer.append(t)
        return m

    def put(name, **entries):
        save(name, at(**entries), ["external"])

    put("0-beside", location="weights.bin")
    put("0-part", location="weights.bin", offset=64, length=48)
    put("0-below", location="sub/weights.bin", offset=0)
    put("0-link-that-stays", location="link_in", length=48)
    for name, where in [("up", "../secret"), ("link-out", "link_out"), ("folder-link-out", "up/secret"), ("through-sub", "sub/../../secret"),
                        ("absolute", "/etc/passwd"), ("folder", "sub"), ("empty", ""), ("nowhere", "none.bin")]:
        write("external", "%d-%s" % (7 if name == "nowhere" else 3, name), at(location=where).SerializeToString(deterministic=True))
    put("3-beyond-end", location="weights.bin", offset=480, length=48)
    put("3-offset-negative", location="weights.bin", offset=-1, length=48)
    put("3-offset-wraps", location="weights.bin", offset=9223372036854775800, length=48)
    put("3-length-other", location="weights.bin", length=44)
    put("3-no-location", offset=0)


if __name__ == "__main__":
    data_files()
    good_models()
    external_models()
    option_files()
    training_sets()
