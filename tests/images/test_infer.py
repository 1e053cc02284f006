"""eval, predict and run on images in files scale them as the model's metadata say: folders, tables, archives, one file."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(5)
N, SIDE, CLASSES = 18, 16, 3
MEAN, STD = np.array([0.485, 0.456, 0.406], "f4"), np.array([0.229, 0.224, 0.225], "f4")


def model(path, height=SIDE, width=SIDE):
    w = {"k": rng.normal(0, 0.3, (4, 3, 3, 3)).astype("f4"), "w": rng.normal(0, 0.3, (4, CLASSES)).astype("f4")}
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    out = [("y", ["n", CLASSES]), ("features", ["n", 4, height, width])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, height, width])],
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in out],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stdout + done.stderr


def arrays(path):
    with np.load(path) as z:
        return {k: z[k] for k in z.files}


def near(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4)


def number(text, name):
    return next(float(row.split()[1]) for row in text.splitlines() if row.startswith(name))


def main():
    model("m.onnx")
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.arange(N) // (N // CLASSES)
    names = []
    for i, image in enumerate(images):
        name = f"set/class{labels[i]}/{i:02}.png"
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path("flat").mkdir(exist_ok=True)
        for to in (name, f"flat/{i:02}.png"):
            assert cv2.imwrite(to, image[:, :, ::-1])
        names.append(name)
    with open("list.csv", "w", newline="") as f:
        csv.writer(f).writerows([("image", "label")] + [(n, f"class{c}") for n, c in zip(names, labels)])
    with open("new.csv", "w", newline="") as f:
        csv.writer(f).writerows([["image"]] + [[n] for n in names])
    with zipfile.ZipFile("set.zip", "w") as z:
        for name in names:
            z.write(name)
    subprocess.run(["tar", "cf", "set.tar", "set"], check=True)
    x = ((images / np.float32(255) - MEAN) / STD).transpose(0, 3, 1, 2).astype("f4")

    for trained_on in ("set", "list.csv"):
        train = ("--epochs", 2, "--batch-size", 6, "--run-dir", "none", "--normalize", "imagenet", "--output", "y")
        run("m.onnx", "--data", trained_on, "-o", "t.onnx", *train)
        y, features = onnxruntime.InferenceSession("t.onnx").run(None, {"x": x})
        right = 100 * np.mean(y.argmax(1) == labels)
        sources = ["set", "flat", "set.zip", "set.tar", "list.csv", "new.csv"]
        for data in sources:
            said = run("run", "t.onnx", "--data", data, "-o", "r.npz", "--batch-size", 7)
            got = arrays("r.npz")
            assert near(got["y"], y) and near(got["features"], features), (trained_on, data)
            assert "as the model's metadata say" in said, said
            run("predict", "t.onnx", data, "-o", "p.npz", "--batch-size", 7)
            assert near(arrays("p.npz")["y"], y), (trained_on, data)
            run("predict", "t.onnx", data, "-o", "p.json")
            assert [a["y"][0]["class"] for a in json.load(open("p.json"))] == list(y.argmax(1)), data
            if data in ("flat", "new.csv"):
                continue
            assert abs(number(run("eval", "t.onnx", "--data", data), "accuracy") - right) < 0.01, data
    run("m.onnx", "--data", "set", "-o", "t.onnx", *train)
    y, features = onnxruntime.InferenceSession("t.onnx").run(None, {"x": x})

    # one file; a link to it; without its scaling it would be another answer
    os.symlink(names[7], "link.png")
    for one in (names[7], "link.png", pathlib.Path(names[7]).resolve()):
        run("run", "t.onnx", "--data", one, "-o", "r.npz")
        assert near(arrays("r.npz")["y"], y[7:8])
        said = run("predict", "t.onnx", one)
        assert "07.png" in said and f"class{y[7].argmax()}" in said, said
    run("run", "t.onnx", "--data", names[7], "-o", "r.npz", "--normalize", "1/255")
    assert not near(arrays("r.npz")["y"], y[7:8])
    assert "one image has no label" in run("eval", "t.onnx", "--data", names[7], expect=4)
    assert "one image has no label" in run("m.onnx", "--data", names[7], "-o", "x.onnx", expect=4)
    pathlib.Path("bad.png").write_bytes(pathlib.Path(names[7]).read_bytes()[:90])
    assert "bad.png" in run("run", "t.onnx", "--data", "bad.png", "-o", "x.npz", expect=4)
    assert "none.png" in run("run", "t.onnx", "--data", "none.png", "-o", "x.npz", expect=7)
    assert not pathlib.Path("x.npz").exists()
    said = run("m.onnx", "--data", "set", "--augment", "noise:std=0.1", "--steps", 1, "--run-dir", "none", "-o", "x.onnx")
    assert "training images are augmented: noise:std=0.1" in said, said
    pathlib.Path("x.onnx").unlink()

    # an open size: that of the training, whatever other images there are
    model("open.onnx", "h", "w")
    for i, image in enumerate(images):
        name = pathlib.Path(f"parts/{'val' if i % 3 == 2 else 'train'}/class{labels[i]}/{i:02}.png")
        name.parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(name), np.tile(image, (1 + (i % 3 == 1), 1, 1))[:, :, ::-1])
    said = run("open.onnx", "--data", "parts", "--epochs", 1, "--output", "y", "--run-dir", "none", "-o", "o.onnx")
    assert "images are decoded to 224x224x3" in said, said
    seen = next(row for row in said.splitlines() if row.startswith("epoch 1: val"))
    run("predict", "o.onnx", "parts/val", "-o", "p.npz")
    together = arrays("p.npz")["y"]
    run("predict", "o.onnx", "parts/val/class0/02.png", "-o", "p.npz")
    assert near(arrays("p.npz")["y"], together[:1])

    # a folder with parts is evaluated on the one that did not train
    said = run("eval", "o.onnx", "--data", "parts")
    assert f"parts/val: {len(together)} images" in said, said
    assert abs(float(seen.split("loss ")[1].split(",")[0]) - number(said, "loss")) < 1e-3, (seen, said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("images in files are scaled as they were for the training")
