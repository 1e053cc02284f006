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
import zlib

import numpy as np

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


if __name__ == "__main__":
    data_files()
