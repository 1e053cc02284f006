#!/usr/bin/env python3
"""make_fixtures.py - makes fixtures/resize: what Pillow and torchvision make of pictures of noise, as checksums.

    python tests/augment/make_fixtures.py          needs numpy, Pillow (13.0), torch and torchvision (0.29 made what is here)

A row: height width channels, height width of the result, mode, filter, shorter, CRC-32 of the bytes. The picture is noise() below, which
tests/augment/resize.c makes too."""
import os
import zlib

import numpy as np
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
FILTERS = [Image.NEAREST, Image.BOX, Image.BILINEAR, Image.BICUBIC, Image.LANCZOS]
MODES = [InterpolationMode.NEAREST, InterpolationMode.BOX, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS]
FILL = [10, 20, 30, 40]
# stretched: down, up, one axis only, to one pixel, from one; the pass that comes first both ways; sides that no block of 8 or 32 divides
STRETCH = [(37, 53, 3, 16, 16), (53, 37, 3, 16, 16), (9, 7, 3, 40, 41), (64, 64, 4, 64, 20), (64, 64, 2, 20, 64), (30, 30, 1, 30, 30), (25, 33, 3, 1, 1),
           (1, 1, 3, 5, 9), (79, 22, 3, 29, 88), (22, 79, 1, 88, 29), (66, 82, 3, 11, 55), (120, 100, 4, 7, 90), (300, 5, 3, 8, 5), (8, 128, 3, 8, 33)]
CROP = [(37, 53, 3, 16, 16, 20), (53, 37, 3, 16, 16, 20), (37, 53, 3, 16, 16, 16), (40, 61, 1, 33, 33, 37)]
PAD = [(37, 53, 3, 16, 16), (53, 37, 1, 20, 33), (9, 7, 3, 40, 41), (12, 12, 3, 24, 24)]


def noise(n):
    out, s = np.empty(n, np.uint8), 1
    for i in range(n):
        s = (s * 1664525 + 1013904223) & 0xffffffff
        out[i] = s >> 24
    return out


def each(x, f):
    """f of every channel, which is a picture of its own."""
    return np.stack([np.asarray(f(Image.fromarray(np.ascontiguousarray(x[..., c])), c)) for c in range(x.shape[2])], -1)


rows = []
for k, (f, m) in enumerate(zip(FILTERS, MODES)):
    for mode, cases in enumerate((STRETCH, CROP, PAD)):
        for h, w, c, H, W, *rest in cases:
            x = noise(h * w * c).reshape(h, w, c)
            if mode == 0:
                y = each(x, lambda p, i: p.resize((W, H), f))
            elif mode == 1:
                y = each(x, lambda p, i: F.center_crop(F.resize(p, rest[0], m), [H, W]))
            else:
                y = each(x, lambda p, i: ImageOps.pad(p, (W, H), f, color=FILL[i]))
            rows.append(f"{h} {w} {c} {H} {W} {mode} {k} {rest[0] if rest else 0} {zlib.crc32(y.tobytes())}\n")
with open(os.path.join(here, "resize"), "w") as out:
    out.writelines(rows)
