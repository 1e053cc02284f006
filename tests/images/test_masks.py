"""Masks in image files: the same weights as from arrays, with augmentation; classes, void pixels, sizes; every PNG that holds numbers."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import onnx
from onnx import helper, numpy_helper
import struct
import zlib

program = sys.argv[1]
rng = np.random.default_rng(7)
N, SIDE, CLASSES = 24, 16, 3


def model(path, classes, tail=None, stride=1, last=False):
    w = {"k": rng.normal(0, 0.3, (4, 3, 3, 3)).astype("f4"), "w": rng.normal(0, 0.3, (classes, 4, 1, 1)).astype("f4")}
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], strides=[stride] * 2),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["z" if tail or last else "y"]),
    ]
    if tail:
        nodes.append(helper.make_node(tail, ["z"], ["y"]))
    if last:
        nodes.append(helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]))
    side = SIDE // stride
    shape = ["n", side, side, classes] if last else ["n", classes, side, side]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", 1, shape)],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stderr + done.stdout


def weights(path):
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def train(net, out, data, *more, expect=0):
    words = ["--epochs", 2, "--batch-size", 8, "--run-dir", "none", *more]
    return run(net, "--data", data, "-o", out, *words, expect=expect)


def png(path, numbers, bits, palette):
    """A PNG whose pixels are numbers of so many bits, grey or indices of a palette."""
    h, w = numbers.shape
    rows = b""
    for row in numbers:
        text = "".join(format(int(v), f"0{bits}b") for v in row)
        text += "0" * (-len(text) % 8)
        rows += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    colours = bytes((i * 37 % 256) for i in range(3 * 2**bits))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, 3 if palette else 0, 0, 0, 0))
    data += chunk(b"PLTE", colours) if palette else b""
    pathlib.Path(path).write_bytes(data + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def put(folder, images, masks, bits=8, palette=True, masks_in="masks", images_in="images"):
    for kind in (images_in, masks_in):
        pathlib.Path(folder, kind).mkdir(parents=True, exist_ok=True)
    for i, (image, mask) in enumerate(zip(images, masks)):
        assert cv2.imwrite(f"{folder}/{images_in}/{i:02}.png", image[:, :, ::-1])
        png(f"{folder}/{masks_in}/{i:02}.png", mask, bits, palette)


def balance(images, masks):
    """Class weights and numbers of classes, counted in files."""
    planes, labels = images.transpose(0, 3, 1, 2), np.where(masks == 255, -100, masks)
    scale = ("--normalize", "1/255")
    auto = ("--loss", "cross_entropy:class_weights=auto")
    for flag in (1, 3):
        arrays = train("m.onnx", "a.onnx", "a.npz", *scale, *auto, "--threads", flag)
        files = train("m.onnx", "g.onnx", "set", *auto, "--threads", flag)
        assert "24 masks are counted, 16x16 pixels each" in files, files
        line = lambda text: [row for row in text.splitlines() if "class_weights=auto: [" in row]
        assert line(arrays) == line(files) != [] and weights("a.onnx") == weights("g.onnx"), (arrays, files)
    each = np.bincount(labels[labels >= 0], minlength=CLASSES)
    shown = [float(v) for v in line(files)[0].split("[")[1].split("]")[0].split(",")]
    assert np.allclose(shown, each.sum() / (CLASSES * each), rtol=1e-5), (shown, each)

    yes = np.random.default_rng(3).integers(0, 5, masks.shape) == 0
    put("few", images, yes * 255, palette=False)
    np.savez("few.npz", x=planes, target=yes[:, None].astype("i8"))
    auto = ("--loss", "bce:pos_weight=auto")
    arrays, files = train("yes.onnx", "a.onnx", "few.npz", *scale, *auto), train("yes.onnx", "g.onnx", "few", *auto)
    assert f"pos_weight=auto: [{(~yes).sum() / yes.sum():.6g}]" in files and weights("a.onnx") == weights("g.onnx"), files

    model("five.onnx", 5)
    for data, n in (("set", CLASSES), ("few", 2)):
        train("five.onnx", "a.onnx", data, "--classes", n)
        train("five.onnx", "g.onnx", data, "--classes", "auto")
        assert weights("a.onnx") == weights("g.onnx") and len(weights("g.onnx")["w"]) == n * 4 * 4, data
    whole = pathlib.Path("set/masks/05.png").read_bytes()
    pathlib.Path("set/masks/05.png").write_bytes(whole[:-20])
    for words in (auto[:1] + ("cross_entropy:class_weights=auto",), ("--classes", "auto")):
        assert "05.png" in train("five.onnx", "g.onnx", "set", *words, expect=4)
    pathlib.Path("set/masks/05.png").write_bytes(whole)


def nothing_counts(images, masks):
    """A batch whose pixels are all ignored has the loss 0 and no gradient."""
    blank = masks.copy()
    blank[:8] = 255
    put("blank", images, blank)
    put("rest", images[8:], masks[8:])
    plain = ("--optimizer", "sgd", "--lr", 0.1, "--no-shuffle", "--epochs", 1)
    said = train("m.onnx", "x.onnx", "blank")
    assert f"{100 * np.mean(blank == 255):.3g} % of the pixels of all 24 masks are ignored (255)" in said, said
    put("none", images, blank * 0 + 255)
    said = train("m.onnx", "x.onnx", "none", expect=4)
    assert "all pixels of all 24 masks are ignored" in said and "classes are the numbers from 0 to 2" in said, said
    for loss in ("cross_entropy", "cross_entropy:ignore_index=255", "cross_entropy:class_weights=[0,1,2]"):
        a = train("m.onnx", "a.onnx", "blank", *plain, "--loss", loss)
        train("m.onnx", "b.onnx", "rest", *plain, "--loss", loss)
        assert weights("a.onnx") == weights("b.onnx") != weights("m.onnx") and "nan" not in a.lower(), (loss, a)
    train("m.onnx", "a.onnx", "blank", *plain, "--accumulate", 3)
    before, after = (np.frombuffer(weights(f)["w"], "f4") for f in ("m.onnx", "a.onnx"))
    train("m.onnx", "b.onnx", "rest", *plain, "--accumulate", 2)
    other = np.frombuffer(weights("b.onnx")["w"], "f4")
    assert np.allclose(after - before, (other - before) * 2 / 3, rtol=1e-3, atol=1e-6)
    said = [run("eval", "m.onnx", "--data", name, "--batch-size", 8) for name in ("blank", "rest")]
    number = [[row for row in text.splitlines() if row[:4] in ("iou ", "accu", "loss")] for text in said]
    assert number[0] == number[1] and number[0], said


def main():
    model("m.onnx", CLASSES)
    model("last.onnx", CLASSES, last=True)
    model("half.onnx", CLASSES, stride=2)
    model("yes.onnx", 1, "Sigmoid")
    model("two.onnx", 2)
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    masks = rng.integers(0, CLASSES, (N, SIDE, SIDE))
    masks[1, :3] = 255
    planes = images.transpose(0, 3, 1, 2)
    labels = np.where(masks == 255, -100, masks)
    np.savez("a.npz", x=planes, target=labels)
    put("set", images, masks)
    scale = ("--normalize", "1/255")
    train("m.onnx", "a.onnx", "a.npz", *scale)
    said = train("m.onnx", "f.onnx", "set")
    assert "24 images with masks" in said and "masks of 16x16, classes 0 to 2; pixels of 255 are ignored" in said, said
    assert weights("a.onnx") == weights("f.onnx")
    dice = ("--loss", "dice:smooth=1")  # ignored pixels are in none of its sums
    train("m.onnx", "a.onnx", "a.npz", *scale, *dice)
    train("m.onnx", "f.onnx", "set", *dice)
    assert weights("a.onnx") == weights("f.onnx")
    train("m.onnx", "a.onnx", "a.npz", *scale)
    train("m.onnx", "f.onnx", "set")
    geometry = ("--augment", "flip", "--augment", "crop:padding=3", "--augment", "rotate:degrees=30", "--augment", "jitter")
    train("m.onnx", "a.onnx", "a.npz", *scale, *geometry)
    for workers in (0, 3):
        train("m.onnx", "g.onnx", "set", *geometry, "--workers", workers)
        assert weights("a.onnx") == weights("g.onnx"), workers
    train("m.onnx", "a.onnx", "a.npz", *scale, "--augment", "resized_crop")
    train("m.onnx", "g.onnx", "set", "--augment", "resized_crop")
    assert weights("a.onnx") == weights("g.onnx") != weights("f.onnx")
    assert "cannot be mixed" in train("m.onnx", "x.onnx", "set", "--augment", "mixup", expect=2)

    balance(images, masks)
    nothing_counts(images, masks)

    # a contact sheet with the masks drawn over the images
    for more in ((), geometry):
        for data in ("a.npz", "set"):
            run("data", data, "--preview", data[:3] + ".png", *more)
        sheets = [cv2.imread(name) for name in ("a.n.png", "set.png")]
        assert np.array_equal(*sheets)
    tile = cv2.resize(sheets[0][:64, :64], (16, 16), interpolation=cv2.INTER_NEAREST)[:, :, ::-1].astype(int)
    colours = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0]])[masks[0]]
    assert np.array_equal(tile, np.where(masks[0][:, :, None] > 0, (images[0] + colours) // 2, images[0]))

    # other layouts: channels last, a smaller output, folders of parts, a table
    train("last.onnx", "a.onnx", "a.npz", *scale)
    train("last.onnx", "g.onnx", "set")
    assert weights("a.onnx") == weights("g.onnx")
    np.savez("h.npz", x=planes, target=labels[:, 1::2, 1::2])
    train("half.onnx", "a.onnx", "h.npz", *scale)
    train("half.onnx", "g.onnx", "set")
    assert weights("a.onnx") == weights("g.onnx")
    put("parts/train", images, masks, masks_in="SegmentationClass", images_in="JPEGImages")
    put("parts/val", images[:5], masks[:5], masks_in="SegmentationClass", images_in="JPEGImages")
    said = train("m.onnx", "g.onnx", "parts")
    assert weights("g.onnx") == weights("f.onnx") and "val" in said, said
    put("turned", images, masks, masks_in="masks/train", images_in="images/train")
    put("turned", images[:5], masks[:5], masks_in="masks/test", images_in="images/test")
    train("m.onnx", "g.onnx", "turned")
    assert weights("g.onnx") == weights("f.onnx")
    with open("set/list.csv", "w", newline="") as f:
        csv.writer(f).writerows([("image", "mask")] + [(f"images/{i:02}.png", f"masks/{i:02}.png") for i in range(N)])
    train("m.onnx", "g.onnx", "set/list.csv")
    assert weights("g.onnx") == weights("f.onnx")
    assert "iou" in run("eval", "f.onnx", "--data", "set/list.csv")
    arrays = run("eval", "f.onnx", "--data", "a.npz", *scale)
    files = run("eval", "f.onnx", "--data", "set")
    number = lambda text: [line for line in text.splitlines() if line[:4] in ("iou ", "accu", "loss")]
    assert number(arrays) == number(files) and number(files), (arrays, files)
    run("predict", "f.onnx", "set", "-o", "p.npz")
    assert np.load("p.npz")["y"].shape == (N, CLASSES, SIDE, SIDE)

    # numbers in every form of PNG
    yes = rng.integers(0, 2, (N, SIDE, SIDE))
    np.savez("y.npz", x=planes, target=yes[:, None])
    train("yes.onnx", "a.onnx", "y.npz", *scale)
    for bits in (1, 2, 4, 8):
        for palette in (True, False):
            put(f"yes{bits}{palette}", images, yes, bits, palette)
            train("yes.onnx", "g.onnx", f"yes{bits}{palette}")
            assert weights("a.onnx") == weights("g.onnx"), (bits, palette)
    put("white", images, yes * 255, palette=False)
    said = train("yes.onnx", "g.onnx", "white")
    assert weights("a.onnx") == weights("g.onnx") and "255 is class 1" in said, said
    np.savez("y.npz", x=planes, target=yes)
    train("two.onnx", "a.onnx", "y.npz", *scale)
    train("two.onnx", "g.onnx", "white")
    assert weights("a.onnx") == weights("g.onnx")
    for i in range(N):
        assert cv2.imwrite(f"white/masks/{i:02}.png", np.repeat(yes[i, :, :, None].astype("u1") * 255, 3, 2))
    train("two.onnx", "g.onnx", "white")
    assert weights("a.onnx") == weights("g.onnx")

    # what is wrong
    assert "contains 2, but classes are 0 to 1" in train("yes.onnx", "x.onnx", "set", expect=4)
    png("white/masks/03.png", np.array([[1, 255] * 8] * 16), 8, False)
    assert "03.png: the mask contains 1 and 255" in train("two.onnx", "x.onnx", "white", expect=4)
    png("white/masks/03.png", np.zeros((16, 8), int), 8, False)
    assert "03.png: the mask has 16x8 pixels, but its image 16x16" in train("two.onnx", "x.onnx", "white", expect=4)
    assert "another sample is used" in train("two.onnx", "x.onnx", "white", "--skip-bad", 1)
    assert cv2.imwrite("white/masks/03.png", images[0])
    assert "contains the colour" in train("two.onnx", "x.onnx", "white", expect=4)
    pathlib.Path("white/masks/03.png").unlink()
    assert "03.png: has no mask" in train("two.onnx", "x.onnx", "white", expect=4)
    assert cv2.imwrite("white/masks/03.jpg", images[0])
    assert "03.jpg: is JPEG; a mask of class numbers must be a PNG" in train("two.onnx", "x.onnx", "white", expect=4)
    pathlib.Path("white/masks/03.jpg").rename("white/masks/03_mask.png")
    png("white/masks/03_mask.png", yes[3] * 255, 8, False)
    train("two.onnx", "x.onnx", "white")
    png("white/masks/03.bmp", yes[3], 8, False)
    png("white/masks/03.png", yes[3], 8, False)
    assert "have the same name without the ending" in train("two.onnx", "x.onnx", "white", expect=4)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("masks in files train as arrays do")
