#!/usr/bin/env python3
"""make_fixtures.py - makes fixtures/: small pictures of every kind, and Pillow's pixels beside them.

    python tests/picture/make_fixtures.py          needs numpy and Pillow (13.0 made what is here)

Each NAME.EXT has NAME.EXT.ppm: Pillow's RGB, upright. `list` has a row for each:
file format width height channels bits orientation tolerance. All of it is made here, from arithmetic: no rights of others."""
import io
import os
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
rows = []


def scene(h, w, seed=1):
    """Slopes, an edge and some noise, in RGB."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 // w, y * 255 // h, (x * 5 + y * 11) % 256], -1).astype(np.int64)
    a[h // 3:h // 2, w // 4:w // 2] = [250, 20, 30]
    a += np.random.default_rng(seed).integers(-8, 9, a.shape)
    return np.clip(a, 0, 255).astype(np.uint8)


def keep(name, data, form, channels, bits=8, orientation=1, tolerance=0, pixels=None):
    """Writes the file, and Pillow's pixels unless others are given."""
    with open(os.path.join(here, name), "wb") as f:
        f.write(data)
    with Image.open(io.BytesIO(data)) if pixels is None else Image.fromarray(pixels) as p:
        size = p.size
        p = ImageOps.exif_transpose(p) if form != "TIFF" else p
        p.load()
        if p.mode.startswith("I"):
            p = Image.fromarray((np.asarray(p).astype(np.int64) >> 8).astype(np.uint8))
        rgb = np.asarray(p.convert("RGBA").convert("RGB") if p.mode == "P" else p.convert("RGB"))
    with open(os.path.join(here, name + ".ppm"), "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % (rgb.shape[1], rgb.shape[0]) + rgb.tobytes())
    rows.append((name, form.replace(" ", "_"), *size, channels, bits, orientation, tolerance))


def save(name, image, form, channels, bits=8, orientation=1, tolerance=0, **options):
    b = io.BytesIO()
    image.save(b, {"JPEG 2000": "JPEG2000", "PNM": "PPM"}.get(form, form), **options)
    keep(name, b.getvalue(), form, channels, bits, orientation, tolerance)


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e


rgb = scene(14, 21)
small = scene(6, 9, 2)
grey = rgb[..., 1].copy()
alpha = (np.mgrid[0:14, 0:21].sum(0) * 9 % 256).astype(np.uint8)
wide = grey.astype(np.uint16) // 2 * 257 + np.arange(21, dtype=np.uint16) * 3
RGB, L = Image.fromarray(rgb), Image.fromarray(grey)
RGBA = Image.fromarray(np.dstack([rgb, alpha]))
LA = Image.merge("LA", [L, Image.fromarray(alpha)])
P = RGB.quantize(13)
CMYK = Image.fromarray(np.dstack([255 - rgb, alpha // 3]), "CMYK")
I16 = Image.fromarray(wide)
BIT = L.convert("1")


def jpeg():
    save("420.jpg", RGB, "JPEG", 3, tolerance=1, quality=90)
    save("422.jpg", RGB, "JPEG", 3, tolerance=1, subsampling=1)
    save("444.jpg", RGB, "JPEG", 3, tolerance=1, subsampling=0, quality=95)
    save("grey.jpg", L, "JPEG", 1, tolerance=1)
    save("progressive.jpg", RGB, "JPEG", 3, tolerance=1, progressive=True)
    save("cmyk.jpg", CMYK, "JPEG", 3, tolerance=1, quality=95)
    save("kept_rgb.jpg", RGB, "JPEG", 3, tolerance=1, keep_rgb=True)
    save("restarts.jpg", RGB, "JPEG", 3, tolerance=1, restart_marker_rows=1)
    save("turned6.jpg", RGB, "JPEG", 3, orientation=6, tolerance=1, exif=exif(6))


# ---- PNG by hand: what Pillow does not write -------------------------------------


def png(width, height, depth, colour, data, interlaced=0, extra=b""):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def plain_rows(a):
    return b"".join(b"\0" + r.tobytes() for r in a)


def adam7(a):
    out = b""
    for y, x, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        part = a[y::dy, x::dx]
        if part.size:
            out += plain_rows(part)
    return out


def pngs():
    save("rgb.png", RGB, "PNG", 3)
    save("rgba.png", RGBA, "PNG", 4)
    save("grey.png", L, "PNG", 1)
    save("grey_alpha.png", LA, "PNG", 2)
    save("palette.png", P, "PNG", 3)
    save("palette4.png", RGB.quantize(16), "PNG", 3, bits=8)
    save("palette2.png", RGB.quantize(4), "PNG", 3, bits=8)
    save("palette_alpha.png", P, "PNG", 4, transparency=bytes([0, 99, 200]))
    save("bit.png", BIT, "PNG", 1)
    save("grey16.png", I16, "PNG", 1, 16)
    deep = (rgb.astype(">u2") * 257 - 5).astype(">u2")
    keep("rgb16.png", png(21, 14, 16, 2, plain_rows(deep)), "PNG", 3, 16, pixels=(deep >> 8).astype(np.uint8))
    both = np.dstack([wide, alpha.astype(np.uint16) * 257]).astype(">u2")
    keep("grey_alpha16.png", png(21, 14, 16, 4, plain_rows(both)), "PNG", 2, 16, pixels=(wide >> 8).astype(np.uint8))
    keep("interlaced.png", png(21, 14, 8, 2, adam7(rgb), 1), "PNG", 3)
    four = (grey >> 4)
    four = np.pad(four, ((0, 0), (0, 1)))
    packed = (four[:, ::2] << 4 | four[:, 1::2]).astype(np.uint8)
    keep("grey4.png", png(21, 14, 4, 0, plain_rows(packed)), "PNG", 1)
    keyed(packed, deep)
    for o in range(2, 9):
        save(f"turned{o}.png", Image.fromarray(small), "PNG", 3, orientation=o, exif=exif(o))


def keyed(packed, deep):
    """One transparent colour (tRNS), that of the first pixel."""
    def key(*samples):
        body = b"tRNS" + struct.pack(f">{len(samples)}H", *(int(v) for v in samples))
        return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))

    keep("grey_key.png", png(21, 14, 8, 0, plain_rows(grey), extra=key(grey[0, 0])), "PNG", 2)
    keep("grey4_key.png", png(21, 14, 4, 0, plain_rows(packed), extra=key(grey[0, 0] >> 4)), "PNG", 2)
    keep("grey16_key.png", png(21, 14, 16, 0, plain_rows(wide.astype(">u2")), extra=key(wide[0, 0])), "PNG", 2, 16, pixels=(wide >> 8).astype(np.uint8))
    keep("rgb_key.png", png(21, 14, 8, 2, plain_rows(rgb), extra=key(*rgb[0, 0])), "PNG", 4)
    keep("rgb16_key.png", png(21, 14, 16, 2, plain_rows(deep), extra=key(*deep[0, 0])), "PNG", 4, 16, pixels=(deep >> 8).astype(np.uint8))


def webp():
    save("lossy.webp", RGB, "WebP", 3, tolerance=1, quality=80)
    save("lossless.webp", RGB, "WebP", 3, lossless=True)
    save("alpha.webp", RGBA, "WebP", 4, lossless=True, exact=True)
    save("lossy_alpha.webp", RGBA, "WebP", 4, tolerance=1, quality=70)
    save("turned3.webp", RGB, "WebP", 3, orientation=3, lossless=True, exif=exif(3))


def bmp_file(width, height, bits, how, data, palette=b"", masks=b"", core=False, down=False):
    if core:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", 40, width, -height if down else height, 1, bits, how, len(data), 2835, 2835, len(palette) // 4, 0)
    at = 14 + len(head) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) + head + masks + palette + data


def word_rows(a):
    return b"".join(r.tobytes() + b"\0" * (-len(r.tobytes()) % 4) for r in a)


def bmps():
    save("rgb.bmp", RGB, "BMP", 3)
    save("grey.bmp", L, "BMP", 3)
    save("bit.bmp", BIT, "BMP", 3)
    save("palette.bmp", P, "BMP", 3)
    bgr = rgb[..., ::-1]
    keep("down.bmp", bmp_file(21, 14, 24, 0, word_rows(bgr), down=True), "BMP", 3)
    palette = np.random.default_rng(3).integers(0, 256, (16, 4), dtype=np.uint8)
    palette[:, 3] = 0
    index = (grey >> 4)
    runs = b"".join(b"".join(bytes([1, v]) for v in r[:5]) + b"\0\x10" + r[5:].tobytes() + b"\0\0" for r in index[::-1])
    keep("rle8.bmp", bmp_file(21, 14, 8, 1, runs + b"\0\1", palette.tobytes()), "BMP", 3)
    runs = b"".join(b"\x08" + bytes([(y * 7 % 16) << 4 | 3]) + b"\0\x05\x12\x34\x50\0" + b"\x08\x5a\0\0" for y in range(14))
    keep("rle4.bmp", bmp_file(21, 14, 4, 2, runs + b"\0\1", palette.tobytes()), "BMP", 3)
    wide565 = ((rgb[..., 0].astype(np.uint16) >> 3) << 11 | (rgb[..., 1].astype(np.uint16) >> 2) << 5 | rgb[..., 2] >> 3).astype("<u2")[::-1]
    keep("565.bmp", bmp_file(21, 14, 16, 3, word_rows(wide565), masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)), "BMP", 3, tolerance=1)
    wide555 = ((rgb[..., 0].astype(np.uint16) >> 3) << 10 | (rgb[..., 1].astype(np.uint16) >> 3) << 5 | rgb[..., 2] >> 3).astype("<u2")[::-1]
    keep("555.bmp", bmp_file(21, 14, 16, 0, word_rows(wide555)), "BMP", 3, tolerance=1)
    keep("32.bmp", bmp_file(21, 14, 32, 0, word_rows(np.dstack([bgr, alpha])[::-1])), "BMP", 3)
    index = np.pad(index, ((0, 0), (0, 1)))
    packed = (index[:, ::2] << 4 | index[:, 1::2]).astype(np.uint8)[::-1]
    keep("os2.bmp", bmp_file(21, 14, 4, 0, word_rows(packed), palette[:, :3].tobytes(), core=True), "BMP", 3)


def pnms():
    save("rgb.ppm", RGB, "PNM", 3)
    save("grey.pgm", L, "PNM", 1)
    save("bit.pbm", BIT, "PNM", 1)
    save("grey16.pgm", I16, "PNM", 1, 16)

    def text(a):
        return "\n".join(" ".join(str(v) for v in r.reshape(-1)) for r in a) + "\n"

    keep("text.pbm", ("P1 # one bit\n21 14\n" + "\n".join("".join(map(str, r)) for r in (grey < 128) * 1)).encode(), "PNM", 1)
    keep("text.pgm", ("P2\n#c\n21 14\n255\n" + text(grey)).encode(), "PNM", 1)
    keep("text.ppm", ("P3 21 14 255\n" + text(rgb)).encode(), "PNM", 3)
    keep("few.pgm", b"P5 21 14 100\n" + (grey // 3).tobytes(), "PNM", 1, tolerance=1)
    head = "P7\nWIDTH 21\nHEIGHT 14\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n".encode()
    keep("rgba.pam", head + np.dstack([rgb, alpha]).tobytes(), "PNM", 4, pixels=rgb)


def tiff_file(tags, data, order="<"):
    """Uncompressed: `data` are the strips or tiles; tags {number: (type, values)}; their places are filled in."""
    place = 324 if 322 in tags else 273
    head, at, tags = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8), 0, dict(tags)
    tags[place], tags[place + 1 if place == 324 else 279] = (4, [0] * len(data)), (4, [len(d) for d in data])
    for last in (False, True):
        rest, entries = b"", b""
        base = 8 + 2 + 12 * len(tags) + 4
        for t, (kind, values) in sorted(tags.items()):
            body = struct.pack(order + {3: "H", 4: "I"}[kind] * len(values), *values)
            if len(body) > 4:
                entries += struct.pack(order + "HHII", t, kind, len(values), base + len(rest))
                rest += body
            else:
                entries += struct.pack(order + "HHI", t, kind, len(values)) + body.ljust(4, b"\0")
        at = base + len(rest)
        if not last:
            tags[place] = (4, [at + sum(len(d) for d in data[:i]) for i in range(len(data))])
    return head + struct.pack(order + "H", len(tags)) + entries + b"\0\0\0\0" + rest + b"".join(data)


def tiffs():
    save("raw.tif", RGB, "TIFF", 3)
    for c in ("lzw", "adobe_deflate", "packbits"):
        save(f"tiff_{c}.tif", RGB, "TIFF", 3, compression="tiff_" + c)
    save("jpeg.tif", RGB, "TIFF", 3, tolerance=1, compression="jpeg")
    save("grey.tif", L, "TIFF", 1)
    save("fax.tif", BIT, "TIFF", 1, compression="group4")
    save("palette.tif", P, "TIFF", 3)
    save("grey16.tif", I16, "TIFF", 1, 16)
    save("rgba.tif", RGBA, "TIFF", 4)
    save("cmyk.tif", CMYK, "TIFF", 3)
    save("turned6.tif", RGB, "TIFF", 3, orientation=6, tiffinfo={274: 6})
    rows[-1] = rows[-1][:2] + (21, 14) + rows[-1][4:]
    base = {256: (4, [21]), 257: (4, [14]), 258: (3, [8, 8, 8]), 259: (3, [1]), 262: (3, [2]), 277: (3, [3]), 284: (3, [1])}
    padded = np.pad(rgb, ((0, 2), (0, 11), (0, 0)))
    tiles = [padded[:16, x:x + 16].tobytes() for x in (0, 16)]
    keep("tiles.tif", tiff_file({**base, 322: (3, [16]), 323: (3, [16])}, tiles), "TIFF", 3)
    planes = [rgb[y:y + 7, :, c].tobytes() for c in range(3) for y in (0, 7)]
    keep("planes.tif", tiff_file({**base, 278: (3, [7]), 284: (3, [2])}, planes), "TIFF", 3)
    deep = rgb.astype(np.uint16) * 257 - 5
    keep("rgb16.tif", tiff_file({**base, 258: (3, [16] * 3), 278: (3, [14])}, [deep.astype(">u2").tobytes()], ">"), "TIFF", 3, 16,
         pixels=(deep >> 8).astype(np.uint8))
    keep("white.tif", tiff_file({**base, 258: (3, [8]), 262: (3, [0]), 277: (3, [1]), 278: (3, [14])}, [(255 - grey).tobytes()]), "TIFF", 1)
    multiplied = np.dstack([(rgb.astype(np.uint16) * alpha[..., None] // 255).astype(np.uint8), alpha])
    keep("premultiplied.tif", tiff_file({**base, 258: (3, [8] * 4), 277: (3, [4]), 278: (3, [14]), 338: (3, [1])}, [multiplied.tobytes()]), "TIFF", 4)


def jpeg2000():
    save("rgb.jp2", RGB, "JPEG 2000", 3, no_jp2=False)
    save("lossy.j2k", RGB, "JPEG 2000", 3, tolerance=1, no_jp2=True, irreversible=True, quality_mode="dB", quality_layers=[40])
    save("grey.jp2", L, "JPEG 2000", 1)
    save("rgba.jp2", RGBA, "JPEG 2000", 4)
    save("grey16.j2k", I16, "JPEG 2000", 1, 16, no_jp2=True)
    save("tiles.jp2", RGB, "JPEG 2000", 3, tile_size=(16, 16))
    save("precincts.jp2", RGB, "JPEG 2000", 3, precinct_size=(16, 16), codeblock_size=(8, 8))


os.makedirs(here, exist_ok=True)
for old in os.listdir(here):
    if old != "README.md":
        os.remove(os.path.join(here, old))
for kind in (jpeg, pngs, webp, bmps, pnms, tiffs, jpeg2000):
    kind()
with open(os.path.join(here, "list"), "w") as f:
    f.write("# file format width height channels bits orientation tolerance\n")
    for r in rows:
        f.write(" ".join(str(v) for v in r) + "\n")
print(len(rows), "pictures,", sum(os.path.getsize(os.path.join(here, n)) for n in os.listdir(here)), "bytes")
