#!/usr/bin/env python3
"""Makes the hand-made files of regressions/: the same bytes each time.  Needs numpy and onnx.

    tests/python tests/fuzz/make_regressions.py

`<digit>-…` says the status that the file is to be answered with; what a fuzzer found keeps the name it was given.
"""
import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib

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


def grey(value):
    """A PNG of 4x4 pixels."""
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = zlib.compress(b"".join(b"\0" + bytes([value]) * 4 for _ in range(4)), 9)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def tar(files, links=()):
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            t.addfile(member, io.BytesIO(data))
        for name, to in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, to
            t.addfile(member)
    return f.getvalue()


def zipped(files, how):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", how) as z:
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.compress_type = how
            z.writestr(info, data)
    return f.getvalue()


def archives():
    classes = [("train/a/1.png", grey(1)), ("train/b/\u00e9.png", grey(2)), ("test/a/" + "long/" * 30 + "3.png", grey(3))]
    web = [("1.png", grey(1)), ("1.cls", b"0"), ("2.png", grey(2)), ("2.json", b'{"label": 1}')]
    masks = [("images/1.png", grey(1)), ("masks/1.png", grey(2))]
    for name, files in (("classes", classes), ("web", web), ("masks", masks)):
        write("archive", f"0-{name}-tar", tar(files))
        write("archive", f"0-{name}-stored", zipped(files, zipfile.ZIP_STORED))
        write("archive", f"0-{name}-deflated", zipped(files, zipfile.ZIP_DEFLATED))
    write("archive", "4-damaged-image", zipped(classes, zipfile.ZIP_STORED).replace(grey(1)[40:], grey(9)[40:]))
    write("archive", "4-link", tar(classes, [("train/b/4.png", "/etc/passwd")]))
    write("archive", "4-cut-tar", tar(classes)[:1500])
    write("archive", "4-cut-zip", zipped(classes, zipfile.ZIP_STORED)[:-9])
    write("archive", "4-empty-class", zipped([("a/1.png", grey(1)), ("b/", b"")], zipfile.ZIP_STORED))
    write("archive", "4-no-label", tar(web[:3]))
    write("archive", "4-no-mask", tar(masks + [("images/2.png", grey(1))]))


def wav(data, rate=8000, channels=1, bits=16, tag=1, chunks=b"", size=None):
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(fmt)) + fmt + chunks
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def recordings():
    tone = bytes(range(200))
    write("audio", "0-mono", wav(tone))
    write("audio", "0-stereo", wav(tone, channels=2))
    write("audio", "0-float", wav(np.linspace(-1, 1, 50, dtype="<f4").tobytes(), bits=32, tag=3))
    write("audio", "0-alaw", wav(tone, bits=8, tag=6))
    write("audio", "0-long-header", wav(tone, chunks=b"LIST" + struct.pack("<I", 20000) + bytes(20000)))
    write("audio", "0-unknown-size", wav(tone, size=0xFFFFFFFF))
    write("audio", "4-cut", wav(tone)[:-9])
    write("audio", "4-claims-more", wav(tone, size=1 << 30))
    write("audio", "4-chunk-beyond-file", wav(tone, chunks=b"LIST" + struct.pack("<I", 1 << 31)))
    write("audio", "4-adpcm", wav(tone, tag=2))
    write("audio", "4-channels", wav(tone, channels=1000))
    write("audio", "4-rate-zero", wav(tone, rate=0))
    write("audio", "4-empty", wav(b""))
    write("audio", "4-no-file", b"")
    info = struct.pack(">HH", 16, 16) + bytes(6) + ((8000 << 44) | (15 << 36) | (1 << 35)).to_bytes(8, "big") + bytes(16)
    write("audio", "4-flac-claims-more", b"fLaC\x80\0\0\x22" + info)


def idx(code, dims, data):
    return bytes([0, 0, code, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + data


def header(shape, descr="<f4", order="False"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


def png(width, height, depth, colour, data):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def picture_files():
    write("picture", "0-ppm", b"P6 2 1 255\n\xff\0\0\0\0\xff")
    write("picture", "0-png", png(2, 2, 8, 0, b"\0\1\2\0\3\4"))
    write("picture", "4-png-cut", png(2, 2, 8, 0, b"\0\1\2\0\3\4")[:-9])
    write("picture", "4-png-claims-more", png(50000, 50000, 8, 6, b"\0" * 1000))
    write("picture", "4-ppm-claims-more", b"P6 2147483647 2147483647 65535\n1234")
    bmp = struct.pack("<IiiHHIIiiII", 40, 3, 2, 1, 8, 1, 0, 0, 0, 2, 0) + b"\1\2\3\0\4\5\6\0"
    head = b"BM" + struct.pack("<IHHI", 0, 0, 0, 14 + len(bmp))
    write("picture", "0-bmp-runs", head + bmp + b"\3\1\0\0\0\2\1\0\2\1\0\1")
    write("picture", "4-bmp-run-beyond-row", head + bmp + b"\4\1\0\1")


def data_files():
    picture_files()
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
    archives()
    recordings()
    write("npz", "0-two-arrays", npz(both))
    write("npz", "0-empty", npz({}))
    write("npz", "4-member-is-no-array", npz(both, [("note", b"no array")]))
    write("npz", "4-cut", npz(both)[:-30])
    write("npz", "4-checksum", npz(both).replace(npy(x), npy(x + 1)))

    def tensors(header, data):
        return struct.pack("<Q", len(header)) + header + data

    pair_of = b'{"x":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},"target":{"dtype":"I64","shape":[4],"data_offsets":[48,80]}}'
    write("safetensors", "0-two", tensors(pair_of, x.tobytes() + both["target"].tobytes()))
    write("safetensors", "0-packed", packed(tensors(pair_of, x.tobytes() + both["target"].tobytes())))
    write("safetensors", "0-none", tensors(b"{}", b""))
    write("safetensors", "4-gap", tensors(pair_of.replace(b"[48,80]", b"[49,81]"), b"\0" * 81))
    write("safetensors", "4-header-beyond-file", struct.pack("<Q", 1 << 20) + b"{}")
    write("safetensors", "4-packed-claims-more", packed(tensors(b'{"x":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}}', b"\0" * 9999)))

    fixtures = os.path.join(os.path.dirname(HERE), "..", "data", "fixtures")
    with open(os.path.join(fixtures, "four.tfrecord"), "rb") as file:
        four = file.read()
    write("tfrecord", "0-four", four)
    write("tfrecord", "0-packed", packed(four))
    with open(os.path.join(fixtures, "images.tfrecord"), "rb") as file:
        write("tfrecord", "0-images", file.read())
    write("tfrecord", "4-cut", four[:-1])
    write("tfrecord", "4-checksum", four[:20] + b"?" + four[21:])

    write("labelled", "4-json", b'{"text": "thou \xc3\xa9", "label": "x"}\n{"label": "y", "text": "b"}\n')
    write("labelled", "4-csv", b'text,label\n"a, b",1\nc,0\n')
    write("labelled", "4-short", b"ab")
    write("labelled", "4-no-utf8", b"text,label\n\xff,1\n\xfe,0\n")

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
    """name: "3-what", or "35-what" for a model that `check` answers with 3 and `run` with 5."""
    status, what = name.split("-", 1)
    for t in targets:
        write(t, "%s-%s" % (status[-1] if t == "execute" else status[0], what), m.SerializeToString(deterministic=True))


def body(nodes, inputs, outputs, initializers=()):
    return h.make_graph(nodes, "body", inputs, outputs, list(initializers))


def good_models():
    """Where the search begins: small, and most of what a model can have."""
    r = np.random.RandomState(0)
    f = lambda *shape: r.randn(*shape).astype(np.float32)
    good = lambda name, m: save(name, m, ("model", "execute", "deploy"))
    x, y = value("x", T.FLOAT, ["N", 4]), value("y", T.FLOAT, ["N", 3])
    good("0-mlp", model([h.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), h.make_node("Relu", ["h"], ["y"])],
                        [x], [y], [const("w", f(3, 4)), const("b", f(3))]))
    good("0-conv", model([h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
                          h.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
                          h.make_node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                          h.make_node("Flatten", ["p"], ["f"]), h.make_node("Gemm", ["f", "k"], ["y"])],
                         [value("x", T.FLOAT, ["N", 1, 4, 4])], [y],
                         [const("w", f(2, 1, 3, 3)), const("s", f(2)), const("b", f(2)), const("m", f(2)),
                          const("v", np.ones(2, np.float32)), const("k", f(8, 3))]))
    # Opset 21: attention-like pieces, shape arithmetic, a Constant, an If.
    yes = body([h.make_node("Softmax", ["z"], ["t"], axis=-1)], [], [value("t")])
    no = body([h.make_node("Tanh", ["z"], ["e"])], [], [value("e")])
    good("0-branches", model([h.make_node("MatMul", ["x", "w"], ["z"]), h.make_node("Shape", ["z"], ["s"]),
                              h.make_node("Gather", ["s", "one"], ["n"]), h.make_node("Greater", ["n", "two"], ["c"]),
                              h.make_node("If", ["c"], ["i"], then_branch=yes, else_branch=no),
                              h.make_node("LayerNormalization", ["i", "g"], ["l"]), h.make_node("Reshape", ["l", "shape"], ["y"])],
                             [x], [y], [const("w", f(4, 3)), const("one", np.int64(1)), const("two", np.int64(2)), const("g", f(3)),
                                        const("shape", np.array([-1, 3], np.int64))], opset=21, ir=10))
    # A loss in the file, a Loop that carries, a Scan.
    loop = body([h.make_node("Mul", ["a", "w"], ["a1"]), h.make_node("Identity", ["c"], ["c1"]), h.make_node("Identity", ["a1"], ["o"])],
                [value("i", T.INT64, []), value("c", T.BOOL, []), value("a", T.FLOAT, [2])],
                [value("c1", T.BOOL, []), value("a1", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
    good("0-loop", model([h.make_node("Loop", ["n", "yes", "x"], ["z", "all"], body=loop), h.make_node("ReduceMean", ["all"], ["y"], keepdims=0)],
                         [value("x", T.FLOAT, [2])], [value("y", T.FLOAT, [])],
                         [const("n", np.int64(3)), const("yes", np.bool_(True)), const("w", f(2))]))
    scan = body([h.make_node("Add", ["s", "e"], ["s1"]), h.make_node("Mul", ["s1", "w"], ["o"])],
                [value("s", T.FLOAT, [2]), value("e", T.FLOAT, [2])], [value("s1", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
    good("0-scan", model([h.make_node("Scan", ["s0", "x"], ["last", "y"], body=scan, num_scan_inputs=1)],
                         [value("x", T.FLOAT, [3, 2])], [value("y", T.FLOAT, [3, 2])], [const("s0", f(2)), const("w", f(2))]))
    good("0-quantised", model([h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                               h.make_node("DequantizeLinear", ["wq", "ws"], ["w"]), h.make_node("MatMul", ["d", "w"], ["y"])],
                              [x], [y], [const("s", np.float32(0.1)), const("z", np.uint8(128)),
                                         const("wq", r.randint(-9, 9, (4, 3)).astype(np.int8)), const("ws", np.float32(0.05))]))
    good("0-lstm", model([h.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=2)],
                         [value("x", T.FLOAT, [3, 1, 2])], [value("y", T.FLOAT, [3, 1, 1, 2])], [const("w", f(1, 8, 2)), const("r", f(1, 8, 2))]))
    good("0-embedding-loss", model([h.make_node("Gather", ["w", "i"], ["e"]), h.make_node("SoftmaxCrossEntropyLoss", ["e", "t"], ["y"])],
                                   [value("i", T.INT64, ["N"]), value("t", T.INT64, ["N"])], [value("y", T.FLOAT, [])], [const("w", f(5, 3))]))
    m = model([h.make_node("Twice", ["x"], ["h"], domain="own"), h.make_node("MatMul", ["h", "w"], ["y"])], [x], [y], [const("w", f(4, 3))])
    m.opset_import.append(h.make_opsetid("own", 1))
    m.functions.append(h.make_function("own", "Twice", ["a"], ["b"], [h.make_node("Add", ["a", "a"], ["b"])], [h.make_opsetid("", 17)]))
    good("0-function", m)


def hostile(name, m, targets=("model", "execute")):
    """What follows could be trained, so that nothing else is wrong with the model: a weight, and a scalar for a loss."""
    y = m.graph.output[0].name
    m.graph.node.extend([h.make_node("Cast", [y], ["as_float"], to=T.FLOAT), h.make_node("Mul", ["as_float", "weight"], ["product"]),
                         h.make_node("ReduceMean", ["product"], ["loss"], keepdims=0)])
    m.graph.initializer.append(const("weight", np.ones(1, np.float32)))
    del m.graph.output[:]
    m.graph.output.append(value("loss", T.FLOAT, []))
    save(name, m, targets)


def one(op, ins, outs, known=(), fed=(), opset=17, **attrs):
    """A model of one node: known and fed are (name, array) and (name, type, shape)."""
    return model([h.make_node(op, ins, outs, **attrs)], [value(*f) for f in fed], [value(o, T.FLOAT, None) for o in outs if o],
                 [const(*k) for k in known], opset=opset)


def mixed_types():
    """Two element types in one product: what kernels read is the first's."""
    half, bytes_ = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.int8)
    x = ("x", T.FLOAT, [64, 64])
    hostile("0-matmul-one-type", one("MatMul", ["x", "w"], ["y"], [("w", half.astype(np.float32))], [x]))
    hostile("3-matmul-f16-weight", one("MatMul", ["x", "w"], ["y"], [("w", half)], [x]))
    hostile("3-matmul-int8-weight", one("MatMul", ["x", "w"], ["y"], [("w", bytes_)], [x]))
    hostile("3-matmul-f64-data", one("MatMul", ["x", "w"], ["y"], [("w", half.astype(np.float32))], [("x", T.DOUBLE, [64, 64])]))
    hostile("3-gemm-f16-weight", one("Gemm", ["x", "w"], ["y"], [("w", half)], [x]))
    hostile("3-gemm-bool-bias", one("Gemm", ["x", "w", "b"], ["y"], [("w", half.astype(np.float32)), ("b", np.zeros(64, bool))], [x]))
    hostile("3-gemm-integers", one("Gemm", ["x", "w"], ["y"], [("w", half.astype(np.float32))], [("x", T.INT64, [64, 64])]))
    picture, kernel = ("x", T.FLOAT, [1, 2, 8, 8]), np.zeros((4, 2, 3, 3), np.float16)
    hostile("3-conv-f16-weight", one("Conv", ["x", "w"], ["y"], [("w", kernel)], [picture]))
    hostile("3-conv-int8-bias", one("Conv", ["x", "w", "b"], ["y"], [("w", kernel.astype(np.float32)), ("b", np.zeros(4, np.int8))], [picture]))
    hostile("3-convtranspose-f16-weight", one("ConvTranspose", ["x", "w"], ["y"], [("w", np.zeros((2, 4, 3, 3), np.float16))], [picture]))
    hostile("3-string-into-matmul", one("MatMul", ["x", "w"], ["y"], [("w", half.astype(np.float32))], [("x", T.STRING, [64, 64])]), ["model"])


def loops():
    f = [value("i", T.INT64, []), value("c", T.BOOL, []), value("a", T.FLOAT, [1])]
    yes, trips = const("yes", np.bool_(True)), lambda n: const("n", np.int64(n))

    def turn(nodes, outs, name="body"):
        return h.make_graph(nodes, name, f, outs)

    add = [h.make_node("Identity", ["c"], ["c1"]), h.make_node("Add", ["a", "a"], ["a1"])]
    carried = [value("c1", T.BOOL, []), value("a1", T.FLOAT, [1])]
    x, y = [value("x", T.FLOAT, [1])], [value("y", T.FLOAT, [1])]

    def put(status, name, n, body_, extra=(), outs=("y",), known=(), targets=("model", "execute")):
        known = list(known) + [trips(n), yes]
        hostile("%d-%s" % (status, name), model([h.make_node("Loop", ["n", "yes", "x"], list(outs), body=body_)] + list(extra), x, y, known), targets)

    # A loop in a loop in a loop, 20000 turns each; one with a scan output.
    inner = turn(add, carried, "inner")
    for level in range(2):
        again = [h.make_node("Identity", ["c"], ["c1"]), h.make_node("Loop", ["n", "yes", "a"], ["a1"], body=inner)]
        inner = turn(again, carried, "level%d" % level)
        inner.node[1].output[0] = "a1"
    put(3, "nested-loops", 20000, inner)
    scanned = turn(add + [h.make_node("Identity", ["a"], ["o"])], carried + [value("o", T.FLOAT, [1])])
    put(3, "loop-scan-output-endless", 1 << 40, scanned, outs=("y", "all"))
    put(0, "loop-10", 10, turn(add, carried))
    put(3, "loop-endless", (1 << 63) - 1, turn(add, carried))
    put(3, "loop-carried-type-changes", 3, turn([h.make_node("Identity", ["c"], ["c1"]), h.make_node("Cast", ["a"], ["a1"], to=T.INT32)], carried))
    put(3, "loop-body-output-missing", 3, turn(add, carried[:1]))

    # Without a trip count: what while-loops are.
    small = turn([h.make_node("Add", ["a", "a"], ["a1"]), h.make_node("ReduceMax", ["a1"], ["m"], keepdims=0),
                  h.make_node("Less", ["m", "ten"], ["c1"])], carried)
    hostile("3-loop-without-end-known", model([h.make_node("Loop", ["", "yes", "x"], ["y"], body=small)], x, y, [yes, const("ten", np.float32(10))]))
    save("0-loop-without-trips", model([h.make_node("Loop", ["", "yes", "s"], ["z"], body=small), h.make_node("Mul", ["x", "z"], ["t"]),
                                        h.make_node("Mul", ["t", "w"], ["y"])],
                                       x, y, [yes, const("ten", np.float32(10)), const("s", np.ones(1, np.float32)), const("w", np.ones((1, 1), np.float32))]))
    for name, n, c in [("float-trips", np.float32(3), np.bool_(True)), ("no-trips", np.zeros(0, np.int64), np.bool_(True)),
                       ("two-trips", np.ones(2, np.int64), np.bool_(True)), ("float-condition", np.int64(3), np.float32(1)),
                       ("no-condition", np.int64(3), np.zeros(0, bool)), ("two-conditions", np.int64(3), np.ones(2, bool))]:
        hostile("3-loop-" + name, model([h.make_node("Loop", ["n", "yes", "x"], ["y"], body=turn(add, carried))], x, y, [const("n", n), const("yes", c)]))


def branches():
    x, y = [value("x", T.FLOAT, [2])], [value("y", T.FLOAT, [2])]
    give = lambda name, to=T.FLOAT: h.make_graph([h.make_node("Cast", ["x"], [name], to=to)], name, [], [value(name, to, [2])])

    def put(name, cond, yes, no, outs=("y",), status=3):
        hostile("%d-if-%s" % (status, name), model([h.make_node("If", ["c"], list(outs), then_branch=yes, else_branch=no)], x, y, [const("c", cond)]))

    two = h.make_graph([h.make_node("Abs", ["x"], ["p"]), h.make_node("Neg", ["x"], ["q"])], "two", [], [value("p"), value("q")])
    put("good", np.bool_(True), give("a"), give("b"), status=0)
    put("branch-types", np.bool_(True), give("a"), give("b", T.INT32))
    put("branch-counts", np.bool_(True), give("a"), two)
    put("float-condition", np.float32(1), give("a"), give("b"))
    put("no-condition", np.zeros(0, bool), give("a"), give("b"))
    put("two-conditions", np.ones(2, bool), give("a"), give("b"))
    put("outputs", np.bool_(True), give("a"), give("b"), ("y", "z"))

    e = [value("s", T.FLOAT, [2]), value("e", T.FLOAT, [2])]
    step = h.make_graph([h.make_node("Add", ["s", "e"], ["s1"]), h.make_node("Neg", ["s1"], ["o"])], "step", e, [value("s1", T.FLOAT, [2]), value("o", T.FLOAT, [2])])
    for name, attrs in [("good", {"num_scan_inputs": 1}), ("num-wraps", {"num_scan_inputs": (1 << 32) + 1}), ("num-large", {"num_scan_inputs": 1 << 40}), ("num-negative", {"num_scan_inputs": -1}),
                        ("four-axes", {"num_scan_inputs": 1, "scan_input_axes": [0, 0, 0, 0]}), ("axis-7", {"num_scan_inputs": 1, "scan_input_axes": [7]}),
                        ("direction-5", {"num_scan_inputs": 1, "scan_input_directions": [5]})]:
        hostile("%d-scan-%s" % (0 if name == "good" else 3, name), model([h.make_node("Scan", ["s0", "q"], ["last", "y"], body=step, **attrs)],
                                     [value("q", T.FLOAT, [3, 2])], [value("y", T.FLOAT, [3, 2])], [const("s0", np.zeros(2, np.float32))]))
    both = h.make_graph([h.make_node("Add", ["p", "q"], ["o"])], "both", [value("p", T.FLOAT, [2]), value("q", T.FLOAT, [2])], [value("o", T.FLOAT, [2])])
    hostile("3-scan-lengths-6-and-17", model([h.make_node("Scan", ["a", "b"], ["y"], body=both, num_scan_inputs=2)],
                                          [value("a", T.FLOAT, [6, 2]), value("b", T.FLOAT, [17, 2])], [value("y", T.FLOAT, None)]))


def bombs():
    """Little that asks for much: constants that lowering makes, shapes beyond memory.   `check` and `plan` say how much is asked
    for, `run` refuses."""
    big = 2147483647
    shape = lambda *d: np.array(d, np.int64)

    def put(name, op, ins, known=(), fed=(), targets=("model", "execute"), **attrs):
        hostile(name, one(op, ins, ["y"], known, fed, **attrs), targets)

    x = [("x", T.FLOAT, [4])]
    put("5-trilu", "Trilu", ["x"], [], [("x", T.FLOAT, [big, 3])], ["model"])
    put("5-eyelike", "EyeLike", ["x"], [], [("x", T.FLOAT, [100000, 100000])], ["model"])
    put("5-range", "Range", ["p", "q", "r"], [("p", np.float32(0)), ("q", np.float32(4e9)), ("r", np.float32(1))])
    put("5-onehot", "OneHot", ["i", "n", "v"], [("n", np.int64(big)), ("v", np.array([0, 1], np.float32))], [("i", T.INT64, [1000])])
    put("05-constant-of-shape", "ConstantOfShape", ["s"], [("s", shape(100000, 100000))])
    put("05-expand", "Expand", ["x", "s"], [("s", shape(100000, 100000, 4))], x)
    put("05-tile", "Tile", ["x", "s"], [("s", shape(1 << 33))], x)
    put("05-pad", "Pad", ["x", "s"], [("s", shape(0, 1 << 33))], x)
    put("0-reverse-sequence", "ReverseSequence", ["x", "l"], [("l", np.full(2, 100000, np.int64))], [("x", T.FLOAT, [100000, 2, 1000])], ["model"])
    put("05-resize", "Resize", ["x", "", "", "z"], [("z", shape(1, 1, 100000, 100000))], [("x", T.FLOAT, [1, 1, 2, 2])], mode="linear")
    put("0-outer-product", "MatMul", ["x", "q"], [("q", np.ones((1, 8), np.float32))], [("x", T.FLOAT, [1 << 30, 1])], ["model"])


def values():
    """Numbers that shape rules and lowerings meet."""
    picture = ("x", T.FLOAT, [1, 1, 4, 4])
    scales = lambda *v: ("s", np.array(v, np.float32))
    for name, v in [("2", 2), ("inf", np.inf), ("nan", np.nan), ("denormal", 1e-45), ("negative", -1), ("zero", 0), ("huge", 3e38)]:
        hostile("%d-resize-scale-%s" % (0 if name == "2" else 3, name), one("Resize", ["x", "", "s"], ["y"], [scales(1, 1, v, v)], [picture], mode="linear"))
    hostile("3-upsample-half", one("Upsample", ["x", "s"], ["y"], [scales(1, 1, .5, .5)], [picture], opset=9))
    x = ("x", T.FLOAT, [3, 4])
    i64 = lambda *v: np.array(v, np.int64)
    hostile("3-gather-index", one("Gather", ["w", "i"], ["y"], [("i", i64(9)), ("w", np.ones((3, 4), np.float32))]))
    hostile("0-gatherelements", one("GatherElements", ["x", "i"], ["y"], [("i", np.full((3, 4), -3, np.int64))], [x]))
    hostile("3-gatherelements-index", one("GatherElements", ["x", "i"], ["y"], [("i", np.full((3, 4), 9, np.int64))], [x]))
    hostile("3-gathernd-index", one("GatherND", ["x", "i"], ["y"], [("i", i64(9, 9).reshape(1, 2))], [x]))
    hostile("3-scatterelements-index", one("ScatterElements", ["x", "i", "x"], ["y"], [("i", np.full((3, 4), -9, np.int64))], [x]))
    hostile("3-scatternd-index", one("ScatterND", ["x", "i", "u"], ["y"], [("i", i64(9).reshape(1, 1)), ("u", np.ones((1, 4), np.float32))], [x]))
    hostile("3-reverse-sequence-length", one("ReverseSequence", ["x", "l"], ["y"], [("l", i64(1, 2, 14, 1))], [x]))
    hostile("3-loss-label", one("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], [("t", i64(0, 1, 4))], [x]))
    f = lambda *s: np.zeros(s, np.float32)
    for name, n in [("2", 2), ("negative", -1), ("beyond", 7)]:
        hostile("%d-lstm-length-%s" % (0 if n == 2 else 3, name), one("LSTM", ["q", "w", "r", "", "l"], ["y"], [("w", f(1, 8, 2)), ("r", f(1, 8, 2)), ("l", np.full(1, n, np.int32))],
                                          [("q", T.FLOAT, [3, 1, 2])], hidden_size=2))
    hostile("3-concat-no-axis", one("Concat", ["x", "x"], ["y"], [], [x]))
    hostile("3-bitshift-no-direction", one("BitShift", ["i", "i"], ["y"], [], [("i", T.UINT8, [2])]))
    hostile("3-mod-float", one("Mod", ["x", "x"], ["y"], [], [x], fmod=0))
    hostile("3-split-none", one("Split", ["x"], ["y"], [], [x], opset=18, num_outputs=0))
    hostile("3-dropout-mode-float", one("Dropout", ["x", "r", "m"], ["y"], [("r", np.float32(.5)), ("m", np.float32(1))], [x]))
    hostile("3-unknown-operator", one("NoSuchOperator", ["x"], ["y"], [], [x]))
    hostile("3-cycle", model([h.make_node("Add", ["x", "b"], ["a"]), h.make_node("Neg", ["a"], ["b"])], [value(*x)], [value("b")]))


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


def trainings():
    """Gradient, and files that say how they train."""
    r, own = np.random.RandomState(1), "ai.onnx.preview.training"
    f = lambda *shape: r.randn(*shape).astype(np.float32)
    gradient = lambda ins, outs, xs, y: h.make_node("Gradient", ins, outs, domain=own, xs=xs, y=y)
    x, y = value("x", T.FLOAT, ["N", 4]), value("y", T.FLOAT, ["N", 3])

    def put(name, nodes, outputs, training=None, targets=("model", "execute")):
        m = model(nodes, [x], outputs, [const("w", f(4, 3))])
        m.opset_import.append(h.make_opsetid(own, 1))
        m.training_info.extend([training] if training else [])
        save(name, m, targets)

    layer = [h.make_node("MatMul", ["x", "w"], ["m"]), h.make_node("Tanh", ["m"], ["y"])]
    put("0-gradient", layer + [gradient(["x", "w"], ["dx", "dw"], ["x", "w"], "y"), gradient(["x"], ["dxx"], ["x"], "dx")],
        [y, value("dx", T.FLOAT, ["N", 4]), value("dw", T.FLOAT, [4, 3]), value("dxx", T.FLOAT, ["N", 4])])
    put("0-gradient-elsewhere", layer + [h.make_node("Relu", ["m"], ["at"]), gradient(["at"], ["d"], ["m"], "y")], [y, value("d", T.FLOAT, ["N", 3])])
    put("3-gradient-of-itself", layer + [gradient(["x"], ["dx"], ["x"], "dx")], [value("dx", T.FLOAT, ["N", 4])])

    def training(updates=(("w", "w1"), ("v", "v1"), ("t", "t1")), start=(("w", "w0"),), more=()):
        step = [h.make_node("Sub", ["y", "label"], ["d"]), h.make_node("Mul", ["d", "d"], ["dd"]), h.make_node("ReduceMean", ["dd"], ["loss"], keepdims=0),
                gradient(["w"], ["dw"], ["w"], "loss"), h.make_node("Momentum", ["r", "t", "w", "dw", "v"], ["w1", "v1"], domain=own, alpha=.9, beta=1., mode="nesterov", norm_coefficient=0.),
                h.make_node("Add", ["t", "one"], ["t1"])]
        ends = [value("loss", T.FLOAT, []), value("w1", T.FLOAT, [4, 3]), value("v1", T.FLOAT, [4, 3]), value("t1", T.INT64, [])]
        state = [const("r", np.float32(.1)), const("t", np.int64(0)), const("one", np.int64(1)), const("v", np.zeros((4, 3), np.float32))]
        return h.make_training_info(h.make_graph(step + list(more), "step", [value("label", T.FLOAT, ["N", 3])], ends, state), list(updates),
                                    h.make_graph([h.make_node("RandomNormal", [], ["w0"], shape=[4, 3])], "start", [], [value("w0", T.FLOAT, [4, 3])]), list(start))

    put("0-training", layer, [y], training())
    put("3-training-binding", layer, [y], training([("w", "nowhere")]), ["model"])
    put("3-training-twice", layer, [y], training([("w", "w1"), ("w", "w1")]), ["model"])
    put("3-training-shape", layer, [y], training([("w", "loss")]), ["model"])
    put("3-training-cycle", layer, [y], training(more=[h.make_node("Relu", ["c2"], ["c1"]), h.make_node("Relu", ["c1"], ["c2"])]), ["model"])
    put("3-training-start", layer, [y], training(start=[("t", "w0")]), ["model"])


def checkpoints():
    """The checkpoint `good` (see checkpoint.c) with numbers that no run can have."""
    with np.load(os.path.join(HERE, "checkpoint", "good")) as good:
        arrays = {name: good[name] for name in good.files}
    for name, array, number in (("rate", "schedule_rate", -1), ("time", "seconds", np.nan)):
        write("checkpoint", f"7-{name}", npz({**arrays, array: np.full_like(arrays[array], number)}))


if __name__ == "__main__":
    data_files()
    good_models()
    external_models()
    mixed_types()
    loops()
    branches()
    bombs()
    values()
    option_files()
    training_sets()
    trainings()
    checkpoints()
