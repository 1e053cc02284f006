"""Writes tests/data/fixtures: small files as numpy and gzip write them.

    python3 tests/data/make_fixtures.py        needs numpy 2

Element i (row-major) of every array is i*3 - 10 in signed types, half of that in floats, i*3 in unsigned
ones and i % 3 == 0 in bool: tests/data/formats.c knows the rule.
"""
import gzip
import io
import json
import pathlib
import struct
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent / "fixtures"


def values(shape, t):
    t = np.dtype(t)
    i = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    if t.kind == "b":
        return i % 3 == 0
    if t.kind == "u":
        return (i * 3).astype(t)
    v = i * 3 - 10
    return (v / 2 if t.kind == "f" else v).astype(t)


def npy(name, a, version=None):
    with open(HERE / name, "wb") as f:
        np.lib.format.write_array(f, a, version=version)


def idx(a):
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[a.dtype.str[1:]]
    head = struct.pack(">BBBB", 0, 0, code, a.ndim) + struct.pack(">%dI" % a.ndim, *a.shape)
    return head + a.astype(a.dtype.newbyteorder(">")).tobytes()


def put(name, data, packed=False):
    (HERE / name).write_bytes(gzip.compress(data, 9, mtime=0) if packed else data)


def zipped(name, members, method=zipfile.ZIP_STORED, stream=False):
    """Members with a fixed date; a stream has its sizes behind the data."""
    raw = io.BytesIO()
    out = raw
    if stream:
        class Forward(io.RawIOBase):
            def writable(self): return True
            def write(self, b): return raw.write(b)
        out = Forward()
    with zipfile.ZipFile(out, "w", method) as z:
        for key, a in members:
            data = io.BytesIO()
            if isinstance(a, bytes):
                data.write(a)
            else:
                np.lib.format.write_array(data, a)
            info = zipfile.ZipInfo(key, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            z.writestr(info, data.getvalue())
    (HERE / name).write_bytes(raw.getvalue())


HERE.mkdir(exist_ok=True)
for t in ("<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "<i2", ">i2", "<i4", ">i4", "<i8", ">i8", "<u2", ">u2",
          "<u4", ">u4", "<u8", ">u8", "|i1", "|u1", "|b1"):
    npy({"<": "little", ">": "big", "|": "byte"}[t[0]] + "-" + t[1:] + ".npy", values((3, 4), t))
npy("fortran.npy", np.asfortranarray(values((2, 3, 4), "<f4")))
npy("fortran-big.npy", np.asfortranarray(values((3, 4), ">i4")))
npy("version2.npy", values((3, 4), "<f4"), (2, 0))
npy("version3.npy", values((3, 4), "<f4"), (3, 0))
npy("scalar.npy", values((), "<f8"))
npy("empty.npy", values((0, 5), "<f4"))
npy("vector.npy", values((5,), "<i8"))
put("packed.npy.gz", (HERE / "little-f4.npy").read_bytes(), True)

put("plain-images-idx3-ubyte", idx(values((4, 2, 3), "u1")))
put("plain-labels-idx1-ubyte", idx(values((4,), "u1")))
put("packed-images-idx3-ubyte.gz", idx(values((4, 2, 3), "u1")), True)
put("packed-labels-idx1-ubyte.gz", idx(values((4,), "u1")), True)
put("short-images-idx3-ubyte", idx(values((4, 2, 3), "u1")))
put("short-labels-idx1-ubyte", idx(values((3,), "u1")))
for t in ("i1", "i2", "i4", "f4", "f8"):
    put("vector-%s.idx" % t, idx(values((6,), t)))

members = [("x.npy", values((4, 3), "<f4")), ("target.npy", values((4,), "<i8")),
           ("/conv/gew\u00efcht.npy", values((2, 2), ">f8")), ("rate.npy", values((), "<f4"))]
zipped("stored.npz", members)
zipped("deflated.npz", members, zipfile.ZIP_DEFLATED)
zipped("streamed.npz", members, zipfile.ZIP_DEFLATED, stream=True)
np.savez(HERE / "savez.npz", x=values((4, 3), "<f4"), target=values((4,), "<i8"))
zipped("none.npz", [])


def grey(value):
    """A PNG of 4x4 pixels."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes([value]) * 4 for _ in range(4)), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


images = [("a/", b""), ("a/1.png", grey(10)), ("b/2.png", grey(20)), ("b/deep/3.png", grey(30))]
zipped("images-stored.zip", images)
zipped("images-deflated.zip", images, zipfile.ZIP_DEFLATED)
zipped("images-streamed.zip", images, zipfile.ZIP_DEFLATED, stream=True)
zipped("bad-lzma.npz", members[:1], zipfile.ZIP_LZMA)
zipped("bad-text.npz", [("readme.txt", b"hello")])
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    zipped("bad-twice.npz", members[:1] * 2)


def safetensors(tensors, metadata=None):
    """The format of github.com/huggingface/safetensors, written by hand."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for key, (code, shape, raw) in tensors.items():
        header[key] = {"dtype": code, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def tensor(code, shape):
    if code == "BF16":
        return code, shape, (values(shape, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    t = {"F": "<f%d", "I": "<i%d", "U": "<u%d"}.get(code[0], "|b%d") % (int(code[1:]) // 8 if code != "BOOL" else 1)
    return code, shape, values(shape, t).tobytes()


put("every.safetensors", safetensors({c: tensor(c, (3, 4)) for c in (
    "F64", "I64", "U64", "F32", "I32", "U32", "F16", "BF16", "I16", "U16", "I8", "U8", "BOOL")}, {"format": "np"}))
put("odd.safetensors", safetensors({"label\u00e9": tensor("U8", (3,)), "target": tensor("I64", (4,)), "x": tensor("F32", (4, 3)),
                                    "none": tensor("F32", (0, 5)), "scalar": tensor("F16", ())}))
put("packed.safetensors.gz", (HERE / "odd.safetensors").read_bytes(), True)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ 0x82F63B78 * (c & 1)
    c ^= 0xFFFFFFFF
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(message):
    """A record of a TFRecord file, written by hand."""
    n = struct.pack("<Q", len(message))
    return n + crc32c(n) + message + crc32c(message)


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(packed=True, **features):
    """tf.train.Example: bytes, lists of floats and of integers."""
    entries = b""
    for name, v in features.items():
        v = v if isinstance(v, list) else [v]
        if isinstance(v[0], bytes):
            feature = field(1, b"".join(field(1, b) for b in v))
        elif isinstance(v[0], float):
            feature = field(2, field(1, struct.pack("<%df" % len(v), *v)) if packed else b"".join(b"\x0d" + struct.pack("<f", x) for x in v))
        else:
            feature = field(3, field(1, b"".join(map(varint, v))) if packed else b"".join(b"\x08" + varint(x) for x in v))
        entries += field(1, field(1, name.replace("__", "/").encode()) + field(2, feature))
    return field(1, entries)


def png(h, w, rgb):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    rows = b"".join(b"\0" + bytes(rgb) * w for _ in range(h))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def numbers(i):
    return dict(x=[float(v) for v in values((4, 3), "<f4")[i]], target=int(values((4,), "<i8")[i]), raw=values((4, 2), "u1")[i].tobytes() + b"\0")


one = dict(numbers(0), many=[-1, 2 ** 62, -2 ** 63])
put("one.tfrecord", record(example(**one)))
put("one.tfrecord.gz", record(example(**one)), True)
# Packed and not, in another order; a list of changing length, one that is missing once, text.
more = [dict(numbers(i), word=["a", "ü", "", "long"][i].encode(), ragged=[1] * (i + 1)) for i in range(4)]
more[2].pop("ragged")
more[3] = dict(reversed(more[3].items()))
put("four.tfrecord", b"".join(record(example(i % 2, **m)) for i, m in enumerate(more)))
images = [record(example(image__encoded=png(2 + i % 2, 3, [40 * i, 10, 200]), image__class__label=i % 3, image__height=2 + i % 2)) for i in range(6)]
put("images.tfrecord", b"".join(images))
put("images.tfrecord.gz", b"".join(images), True)
put("images.tfrecord-00000-of-00002", b"".join(images[:4]))
put("images.tfrecord-00001-of-00002", b"".join(images[4:]))


def crc(data, polynomial, bits):
    value = 0
    for byte in data:
        value ^= byte << bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> bits - 1 else 0)
            value &= (1 << bits) - 1
    return value.to_bytes(bits // 8, "big")


def flac(samples, rate=8000, block=256):
    """16 bits, one channel, frames without prediction."""
    info = struct.pack(">HH", block, block) + bytes(6) + ((rate << 44) | (15 << 36) | len(samples)).to_bytes(8, "big") + bytes(16)
    out = b"fLaC" + b"\x80" + len(info).to_bytes(3, "big") + info
    for number, at in enumerate(range(0, len(samples), block)):
        part = samples[at : at + block]
        head = b"\xff\xf8\x70\x08" + bytes([number]) + struct.pack(">H", len(part) - 1)
        head += crc(head, 0x107 & 0xFF, 8)
        frame = head + b"\x02" + part.astype(">i2").tobytes()
        out += frame + crc(frame, 0x8005, 16)
    return out


put("tone.flac", flac((8000 * np.sin(np.arange(600) * 2 * np.pi / 20)).round().astype(np.int64)))
