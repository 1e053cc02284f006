"""--cache: the same weights with all, some or none of the decoded images kept in memory; files are not read again."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np
import onnx
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(11)
N, SIDE, CLASSES = 30, 64, 3
KEPT = "images are kept in memory for later epochs"


def model(path, masks):
    w = {"k": rng.normal(0, 0.3, (4, 3, 3, 3)).astype("f4")}
    w["w"] = rng.normal(0, 0.3, (CLASSES, 4, 1, 1)).astype("f4")
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y" if masks else "z"]),
    ]
    if not masks:
        nodes += [helper.make_node("GlobalAveragePool", ["z"], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", 1, ["n", CLASSES] + masks * [SIDE, SIDE])],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def train(net, data, *more, expect=0):
    words = [net, "--data", data, "-o", "o.onnx", "--epochs", 3, "--batch-size", 8, "--run-dir", "none", *more]
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    weights = b"".join(numpy_helper.to_array(t).tobytes() for t in onnx.load("o.onnx").graph.initializer)
    return weights, done.stderr


def put(path, image):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(path, image)


def sets():
    """Images of several sizes in classes, and with masks."""
    for i in range(N):
        h, w = rng.integers(SIDE // 2, 2 * SIDE, 2)
        image = cv2.resize(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8), (int(w), int(h)))
        put(f"set/class{i % CLASSES}/{i:02}.png", image)
        put(f"scans/images/{i:02}.png", image)
        mask = rng.integers(0, CLASSES, (8, 8), dtype=np.uint8)
        put(f"scans/masks/{i:02}.png", cv2.resize(mask, (int(w), int(h)), interpolation=cv2.INTER_NEAREST))


def same_weights():
    ways = (
        ("flip", "crop:padding=5", "jitter", "rotate:degrees=20"),
        ("resized_crop", "flip"),
        (),
    )
    for net, data in (("m.onnx", "set"), ("s.onnx", "scans")):
        for way in ways:
            steps = [word for step in way for word in ("--augment", step)]
            split = ("--val-split", 0.2) if way else ()
            none, said = train(net, data, *steps, *split, "--cache", "none")
            assert KEPT not in said, said
            for workers in (0, 1, 3):
                every, said = train(net, data, *steps, *split, "--workers", workers)
                assert KEPT in said and ("half of the free memory" in said) == (way[:1] == ("resized_crop",)), said
                assert every == none, (data, way, workers)


def targets():
    """Images that are also targets are counted once, as images with masks are."""
    subprocess.run([program, "new", "autoencoder", "--input", f"3x{SIDE}x{SIDE}", "-o", "a.onnx"], check=True)
    for net, data, *more in ("a.onnx", "scans/images", "--target", "image"), ("s.onnx", "scans"):
        _, said = train(net, data, *more)
        assert f"{KEPT}: all {N}, " in said, said


def part_of_a_set():
    """A limit that some of the images fit into."""
    none, said = train("m.onnx", "set", "--cache", "none")
    planned = float(said.split("memory: ")[1].split(" MiB")[0])
    some, said = train("m.onnx", "set", "--memory-limit", f"{planned + 0.2:.1f}MiB")
    line = next(row for row in said.splitlines() if KEPT in row)
    assert "--memory-limit" in line and "the rest is decoded again in each epoch" in line, line
    assert 0 < float(line.split("epochs: ")[1].split(" MiB")[0]) <= 0.3 and some == none, line
    _, said = train("m.onnx", "set", "--epochs", 1)
    assert KEPT not in said, said


def files_that_go(cache):
    """The exit status of a training whose files are removed after its first epoch."""
    shutil.copytree("set", "gone")
    words = [program, "m.onnx", "--data", "gone", "-o", "g.onnx", "--epochs", 400, "--batch-size", 8, "--run-dir", "r"]
    words += ["--cache", cache]
    p = subprocess.Popen([*map(str, words)], stderr=subprocess.PIPE, text=True)
    epochs = pathlib.Path("r/epochs.csv")
    until = time.monotonic() + 60
    while p.poll() is None and (not epochs.exists() or len(epochs.read_text().splitlines()) < 2):
        assert time.monotonic() < until
        time.sleep(0.01)
    shutil.rmtree("gone")
    said = p.communicate()[1]
    shutil.rmtree("r")
    return p.returncode, said


def main():
    model("m.onnx", False)
    model("s.onnx", True)
    sets()
    same_weights()
    targets()
    part_of_a_set()
    code, said = files_that_go("memory")
    assert code == 0, said
    code, said = files_that_go("none")
    assert code in (4, 7) and ".png" in said, (code, said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("images that are kept train as images that are read again")
