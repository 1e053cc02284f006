"""Reads TensorBoard event files without TensorBoard: frames and their masked CRC-32C, then protobuf's wire format."""
import glob
import struct

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def masked(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


assert masked(b'123456789') == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frames(path):
    data, at = open(path, 'rb').read(), 0
    while at < len(data):
        n, head = struct.unpack_from('<QI', data, at)
        body = data[at + 12:at + 12 + n]
        tail, = struct.unpack_from('<I', data, at + 12 + n)
        if head != masked(data[at:at + 8]) or tail != masked(body):
            raise ValueError(f'{path}: a checksum at {at} is wrong')
        yield body
        at += 16 + n


def fields(message):
    """Number -> list of values: ints, bytes, floats."""
    at, found = 0, {}

    def varint():
        nonlocal at
        v = shift = 0
        while True:
            b = message[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            v = varint()
        elif kind == 2:
            n = varint()
            v = message[at:at + n]
            assert len(v) == n
            at += n
        else:
            form, n = {1: ('<d', 8), 5: ('<f', 4)}[kind]
            v, = struct.unpack_from(form, message, at)
            at += n
        found.setdefault(key >> 3, []).append(v)
    return found


def read(folder):
    """Every event of every file in order of the names: (step, wall time, fields)."""
    for path in sorted(glob.glob(folder + '/*tfevents*')):
        for body in frames(path):
            e = fields(body)
            yield e.get(2, [0])[0], e[1][0], e


def scalars(folder):
    """tag -> [(step, value)], and tag -> fields of the values that are texts."""
    numbers, texts = {}, {}
    for step, _, e in read(folder):
        for summary in e.get(5, []):
            for v in fields(summary).get(1, []):
                v = fields(v)
                tag = v[1][0].decode()
                if 2 in v:
                    numbers.setdefault(tag, []).append((step, v[2][0]))
                else:
                    texts[tag] = v
    return numbers, texts
