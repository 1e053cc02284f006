#!/usr/bin/env python3
"""make_fixtures.py - makes fixtures/: what Pillow and torchvision make of pictures of noise, as checksums and as bytes.

    python tests/augment/make_fixtures.py          needs numpy, Pillow (13.0), torch and torchvision (0.29 made what is here)

A row of resize: height width channels, height width of the result, mode, filter, shorter, CRC-32 of the bytes. The picture is noise() below, which
tests/augment/resize.c makes too."""
import os
import zlib

import numpy as np
import torch
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


# ---- changes: rows of fixtures/changes, and the bytes of all results one after the other in fixtures/changes.bin -----------
# height width channels name parameters; the names are those of tests/augment/changes.c

def torch_image(x):
    return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))


CORNERS = [[2, 1], [19, 3], [17, 20], [1, 18]]  # of an image of 22 x 22
CHANGES = [
    ("brightness", (0.4,), F.adjust_brightness), ("brightness", (1.7,), F.adjust_brightness), ("contrast", (0.3,), F.adjust_contrast),
    ("contrast", (1.9,), F.adjust_contrast), ("saturation", (0.2,), F.adjust_saturation), ("saturation", (1.8,), F.adjust_saturation),
    ("hue", (0.21,), F.adjust_hue), ("hue", (-0.4,), F.adjust_hue), ("sharpness", (0.1,), F.adjust_sharpness),
    ("sharpness", (1.9,), F.adjust_sharpness), ("posterize", (3,), lambda t, b: F.posterize(t, int(b))), ("solarize", (99.5,), F.solarize),
    ("invert", (), F.invert), ("autocontrast", (), F.autocontrast), ("equalize", (), F.equalize),
    ("grey", (), lambda t: F.rgb_to_grayscale(t, t.shape[0])), ("blur", (5, 1.3), lambda t, k, s: F.gaussian_blur(t, [int(k)] * 2, [s, s])),
    ("blur", (3, 0.3), lambda t, k, s: F.gaussian_blur(t, [int(k)] * 2, [s, s])),
] + [("affine", p + (i,), lambda t, a, x, y, s, u, v, i: F.affine(t, a, [x, y], s, [u, v], MODES[int(i)], fill=None if i else [7] * t.shape[0]))
     for i in (0, 2) for p in ((31., 2, -3, 0.8, 12., -7.), (-100., 0, 0, 1.3, 0., 0.), (0., 4, 1, 1., 0., 20.))] + [
    ("rotate", (a, i), lambda t, a, i: F.rotate(t, a, MODES[int(i)])) for i in (0, 2) for a in (17., -130.)] + [
    ("perspective", (*sum(CORNERS, []), i), lambda t, *p: F.perspective(t, [[0, 0], [21, 0], [21, 21], [0, 21]], CORNERS, MODES[int(p[-1])])) for i in (0, 2)]


def soft(h, w, c):
    """Noise on slopes: noise alone hides what a filter does."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 200 // w, y * 200 // h, (x * 5 + y * 11) % 200], -1)[..., :c]
    return (a + (noise(h * w * c).reshape(h, w, c) >> 3)).astype(np.uint8)


with open(os.path.join(here, "changes"), "w") as rows, open(os.path.join(here, "changes.bin"), "wb") as results:
    for name, parameters, f in CHANGES:
        for h, w, c in ((22, 22, 3), (13, 27, 3), (16, 11, 1)):
            if (name == "perspective" and h != 22) or (name == "grey" and c == 1):
                continue
            y = f(torch_image(soft(h, w, c)), *parameters).numpy().transpose(1, 2, 0)
            rows.write(f"{h} {w} {c} {name} {len(parameters)} {' '.join(map(str, parameters))}\n")
            results.write(np.ascontiguousarray(y).tobytes())
