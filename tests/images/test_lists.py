"""Tables whose cells name image files: the same weights as from class folders and arrays, several labels, values, predictions."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import onnx
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(5)
N, SIDE, CLASSES = 48, 16, 3
NAMES = ["apple", "bear", "cat"]


def model(path, outputs=CLASSES, tail=None, extra=0):
    """Convolution, mean, matrix; extra: so many numbers of a second input are added to the means."""
    w = {
        "k": rng.normal(0, 0.3, (4, 3, 3, 3)).astype("f4"),
        "w": rng.normal(0, 0.3, (4 + extra, outputs)).astype("f4"),
        "b": np.zeros(outputs, "f4"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])]
    if extra:
        inputs.append(helper.make_tensor_value_info("numbers", 1, ["n", extra]))
        nodes.append(helper.make_node("Concat", ["f", "numbers"], ["g"], axis=1))
    nodes.append(helper.make_node("Gemm", ["g" if extra else "f", "w", "b"], ["y" if not tail else "z"]))
    if tail:
        nodes.append(helper.make_node(tail, ["z"], ["y"]))
    out = helper.make_tensor_value_info("y", 1, ["n", outputs])
    graph = helper.make_graph(nodes, "g", inputs, [out], [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stderr + done.stdout


def weights(path):
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def kept(path):
    return {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props if p.key.startswith("onnxtrain.")}


def train(out, data, *more, net="m.onnx", expect=0):
    words = ["--epochs", 2, "--batch-size", 8, "--run-dir", "none", *more]
    return run(net, "--data", data, "-o", out, *words, expect=expect)


def write(path, rows):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows(rows)


def classes(images, labels, files):
    rows = list(zip(files, [NAMES[y] for y in labels]))
    write("set/labels.csv", [("file", "label"), *rows])
    write("set/plain.csv", rows)
    write("set/more.csv", [("id", "path", "split", "label")] + [(i, f, "train", c) for i, (f, c) in enumerate(rows)])
    pathlib.Path("set/labels.tsv").write_text("".join(f"{f}\t{c}\n" for f, c in [("file", "label"), *rows]))
    np.savez("a.npz", x=images.transpose(0, 3, 1, 2), target=labels.astype("i8"))
    train("a.onnx", "a.npz", "--normalize", "1/255")
    said = train("f.onnx", "set/labels.csv")
    assert "column 'file' names 48 images for input 'x'" in said and "apple 0, bear 1, cat 2" in said, said
    assert weights("f.onnx") == weights("a.onnx")
    how = kept("f.onnx")
    assert how["onnxtrain.classes"] == NAMES, how
    assert how["onnxtrain.preprocess"]["target"] == "label", how
    image = how["onnxtrain.preprocess"]["inputs"]["x"]
    assert image["kind"] == "image" and image["column"] == "file" and image["scale"] == 1 / 255, how
    for other in ("set/plain.csv", "set/labels.tsv"):
        train("o.onnx", other)
        assert weights("o.onnx") == weights("a.onnx"), other
    train("o.onnx", "set/more.csv")
    assert weights("o.onnx") == weights("a.onnx")
    for workers in (0, 3):
        train(f"w{workers}.onnx", "set/labels.csv", "--workers", workers, "--val-split", 0.25, "--augment", "flip")
    assert weights("w0.onnx") == weights("w3.onnx") != weights("f.onnx")
    train("v.onnx", "set/labels.csv", "--val", "set/labels.csv", "--test", "set/more.csv")
    assert weights("v.onnx") == weights("f.onnx")
    # the model says what the table is: evaluation, predictions, another training
    assert "accuracy" in run("eval", "f.onnx", "--data", "set/more.csv")
    write("set/new.csv", [(f,) for f in files])
    write("set/named.csv", [("file",), *[(f,) for f in files]])
    answers = run("predict", "f.onnx", "a.npz", "--normalize", "1/255").splitlines()
    for table in ("set/new.csv", "set/named.csv", "set/labels.csv"):
        lines = [x.split(",") for x in run("predict", "f.onnx", table).splitlines() if x[:1].isdigit()]
        assert [x[1] for x in lines] == files, table
        assert [x[:1] + x[2:] for x in lines] == [x.split(",") for x in answers if x[:1].isdigit()], table
    run("f.onnx", "--data", "set/labels.csv", "-o", "f2.onnx", "--lr", 0, "--epochs", 1, "--run-dir", "none")
    assert kept("f2.onnx") == how, (kept("f2.onnx"), how)
    run("m.onnx", "--data", "set/labels.csv", "--epochs", 2, "--batch-size", 8, "--run-dir", "r", "-o", "r.onnx", "--steps", 5)
    run("resume", "r", "--steps", 12)
    assert weights("r.onnx") == weights("f.onnx")
    assert "48 samples" in run("data", "set/labels.csv")
    # too few classes for the model
    assert "--classes auto" in train("x.onnx", "set/labels.csv", net="five.onnx", expect=4)


def numbers(images, files):
    several = rng.integers(0, 2, (N, 4))
    write("set/several.csv", [("file", "a", "b", "c", "d"), *[(f, *y) for f, y in zip(files, several)]])
    np.savez("s.npz", x=images.transpose(0, 3, 1, 2), target=several.astype("i8"))
    train("s.onnx", "s.npz", "--normalize", "1/255", net="several.onnx")
    said = train("t.onnx", "set/several.csv", net="several.onnx")
    assert weights("s.onnx") == weights("t.onnx"), said
    assert kept("t.onnx")["onnxtrain.preprocess"]["target"] == "a,b,c,d"
    run("eval", "t.onnx", "--data", "set/several.csv")
    one = train("t1.onnx", "set/several.csv", "--target", "c", net="one.onnx")
    assert "columns 'a', 'b', 'd' are not used" in one, one

    value = rng.normal(0, 1, N).astype("f4")
    write("set/value.csv", [("score", "file"), *zip(map(repr, value.tolist()), files)])
    np.savez("v.npz", x=images.transpose(0, 3, 1, 2), target=value)
    train("s.onnx", "v.npz", "--normalize", "1/255", "--loss", "mse", net="value.onnx")
    train("t.onnx", "set/value.csv", "--loss", "mse", "--normalize-target", "none", net="value.onnx")
    assert weights("s.onnx") == weights("t.onnx")

    # values beside images are standardised, as numbers of a table are
    far = (300 + 40 * value).astype("f4")
    write("set/far.csv", [("score", "file"), *zip(map(repr, far.tolist()), files)])
    np.savez("v.npz", x=images.transpose(0, 3, 1, 2), target=far)
    said = train("s.onnx", "v.npz", "--normalize", "1/255", "--loss", "mse", net="value.onnx")
    assert "trains faster with --normalize-target mean,std" in said, said
    train("s.onnx", "v.npz", "--normalize", "1/255", "--loss", "mse", "--normalize-target", "mean,std", net="value.onnx")
    said = train("t.onnx", "set/far.csv", "--loss", "mse", net="value.onnx")
    assert "values are standardised" in said and weights("s.onnx") == weights("t.onnx"), said
    (target,) = kept("t.onnx")["onnxtrain.preprocess"]["targets"].values()
    assert abs(target["mean"][0] - far.mean()) < 0.01, target
    rows = [x.split(",") for x in run("predict", "t.onnx", "set/far.csv").splitlines() if x[:1].isdigit()]
    assert abs(np.mean([float(x[-1]) for x in rows]) - far.mean()) < 200, "in the unit of the data"

    # an image and numbers of the same row
    rest = rng.normal(0, 1, (N, 2)).astype("f4")
    y = rng.integers(0, CLASSES, N)
    rows = [(f, *map(repr, r.tolist()), NAMES[c]) for f, r, c in zip(files, rest, y)]
    write("set/both.csv", [("file", "u", "v", "label"), *rows])
    np.savez("b.npz", x=images.transpose(0, 3, 1, 2), numbers=rest, target=y.astype("i8"))
    train("s.onnx", "b.npz", "--normalize", "1/255", net="both.onnx")
    train("t.onnx", "set/both.csv", "--normalize", "1/255", net="both.onnx")
    inputs = kept("t.onnx")["onnxtrain.preprocess"]["inputs"]
    assert inputs["x"]["kind"] == "image" and [c["name"] for c in inputs["numbers"]["columns"]] == ["u", "v"], inputs
    run("eval", "t.onnx", "--data", "set/both.csv")


def wrong(files):
    def table(*rows):
        write("set/bad.csv", [("file", "label"), *rows])
        return train("x.onnx", "set/bad.csv", expect=table.code)

    table.code = 4
    good = [(files[0], "apple"), (files[1], "bear"), (files[2], "cat")]
    assert "line 5, column 'file'" in table(*good, ("none.png", "cat")) and "none.png" in table(*good, ("none.png", "cat"))
    assert "leads out of the folder" in table(*good, ("../outside.png", "cat"))
    assert "leads out of the folder" in table(*good, (pathlib.Path("outside.png").absolute(), "cat"))
    pathlib.Path("set/link.png").symlink_to("../outside.png")
    assert "leads out of the folder" in table(*good, ("link.png", "cat"))
    assert "directory" in table(*good, ("pictures", "cat"))
    assert "name of a file is missing" in table(*good, ("", "cat"))
    assert "cannot be opened" in table(("none.png", "cat"), ("nor.png", "bear"))
    assert "is masks of images of 16x16, but output" in table_of_images(files)
    table.code = 0
    inside = pathlib.Path("set", files[5]).absolute()
    table(*good, (inside, "cat"), ("./" + files[6], "cat"))
    bad = pathlib.Path("set", files[2])
    whole = bad.read_bytes()
    bad.write_bytes(whole[:50])
    table.code = 4
    assert str(bad) in table(*good)
    assert "another sample is used" in train("x.onnx", "set/bad.csv", "--skip-bad", 1)
    run("f.onnx", "--data", "set/labels.csv", "-o", "p.onnx", "--lr", 0, "--steps", 1, "--run-dir", "none", "--skip-bad", 1)
    assert str(bad) in run("predict", "p.onnx", "set/bad.csv", expect=4)
    for how in ("--workers=0", "--workers=3"):
        run("predict", "p.onnx", "set/bad.csv", "--skip-bad", 1, how, "-o", "p.json")
        left = [x["file"] for x in json.load(open("p.json"))]
        assert left == [f for f, _ in good if f != files[2]], left
    assert "row for every sample" in run("predict", "p.onnx", "set/bad.csv", "--skip-bad", 1, "-o", "p.npz", expect=2)
    bad.rename("away.png")  # missing, where it was damaged before
    said = run("predict", "p.onnx", "set/bad.csv", "--skip-bad", 1, "-o", "p.json")
    assert [x["file"] for x in json.load(open("p.json"))] == left and f"{bad}: cannot be opened" in said, said
    assert "another sample is used" in train("x.onnx", "set/bad.csv", "--skip-bad", 1)
    assert f"'{files[2]}' cannot be opened" in run("predict", "p.onnx", "set/bad.csv", expect=4)
    pathlib.Path("away.png").rename(bad)
    bad.write_bytes(whole)


def table_of_images(files):
    write("set/images.csv", [("file", "again")] + [(f, f) for f in files])
    return train("x.onnx", "set/images.csv", expect=4)


def to_images(files, images):
    """An image from an image: the target is the second column, fed as the first is; it moves with it."""
    def net(path, scale=1, kernel=None):
        k = rng.normal(0, 0.3, (3, 3, 1, 1)).astype("f4") if kernel is None else kernel
        nodes = [helper.make_node("Conv", ["x", "k"], ["y" if scale == 1 else "z"])]
        w = [numpy_helper.from_array(k, "k")]
        if scale > 1:
            w.append(numpy_helper.from_array(np.array([1, 1, scale, scale], "f4"), "s"))
            nodes.append(helper.make_node("Resize", ["z", "", "s"], ["y"], mode="nearest"))
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
                                  [helper.make_tensor_value_info("y", 1, ["n", 3, SIDE * scale, SIDE * scale])], w)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    unit = (images.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")
    pathlib.Path("set/clean").mkdir()
    for k, file in enumerate(files):
        assert cv2.imwrite(f"set/clean/{k}.png", images[(k + 1) % N][:, :, ::-1])
        assert cv2.imwrite(f"set/clean/{k}_x2.png", images[k].repeat(2, 0).repeat(2, 1)[:, :, ::-1])
    write("set/pairs.csv", [("noisy", "clean"), *[(f, f"clean/{k}.png") for k, f in enumerate(files)]])
    np.savez("p.npz", x=unit, target=np.roll(unit, -1, 0))
    net("to.onnx")
    for loss in "mse", "huber":
        train("s.onnx", "p.npz", "--loss", loss, net="to.onnx")
        said = train("t.onnx", "set/pairs.csv", "--loss", loss, net="to.onnx")
        got, want = (numpy_helper.to_array(onnx.load(p).graph.initializer[0]) for p in ("t.onnx", "s.onnx"))
        assert np.allclose(got, want, atol=1e-5) and "scaled as those of the input" in said, (got, want, said)
    assert kept("t.onnx")["onnxtrain.preprocess"]["images"] == ["y"]
    a, b = (run("eval", "t.onnx", "--data", d, "--loss", "huber").split("loss ")[-1].split()[0] for d in ("p.npz", "set/pairs.csv"))
    assert abs(float(a) - float(b)) < 1e-6, (a, b)
    run("predict", "t.onnx", "set/pictures", "-o", "made/")
    assert cv2.imread("made/000.png").shape == (SIDE, SIDE, 3)
    assert "are images need a table and a loss such as mse" in train("x.onnx", "set/pairs.csv", net="to.onnx", expect=4)

    # the identity: moved alike, the target is the input
    write("set/same.csv", [("noisy", "clean"), *[(f, f) for f in files]])
    net("one.onnx", kernel=np.eye(3, dtype="f4")[:, :, None, None])
    for more in ((), ("--augment", "flip", "--augment", "crop"), ("--augment", "rotate:degrees=30")):
        said = train("t.onnx", "set/same.csv", "--loss", "mse", "--lr", 0, *more, net="one.onnx")
        assert "(train: loss 0," in said, said
    said = train("t.onnx", "set/same.csv", "--loss", "mse", "--lr", 0, "--augment", "erase:p=1", net="one.onnx")
    assert "(train: loss 0," not in said, "what changes values is of the input alone"

    # of another size
    write("set/larger.csv", [("low", "high"), *[(f, f"clean/{k}_x2.png") for k, f in enumerate(files)]])
    net("two.onnx", scale=2, kernel=np.eye(3, dtype="f4")[:, :, None, None])
    said = train("t.onnx", "set/larger.csv", "--loss", "l1", "--lr", 0, net="two.onnx")
    assert f"decoded to {2 * SIDE}x{2 * SIDE}x3" in said and "loss 0" in said, said
    said = train("t.onnx", "set/larger.csv", "--loss", "l1", "--augment", "flip", net="two.onnx", expect=2)
    assert "cannot follow" in said, said

    # without a model the last column tells what the target is
    write("set/two.csv", [("left", "right", "same"), *[(f, f, i % 2) for i, f in enumerate(files)]])
    assert "the target is column 'same'" in run("data", "set/two.csv")
    assert "the target is column 'clean'" in run("data", "set/pairs.csv")


def main():
    model("m.onnx")
    model("five.onnx", 5)
    model("several.onnx", 4, "Sigmoid")
    model("one.onnx", 1, "Sigmoid")
    model("value.onnx", 1)
    model("both.onnx", CLASSES, None, 2)
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, N)
    files = [f"pictures/{i:03}.png" for i in rng.permutation(N)]
    pathlib.Path("set/pictures").mkdir(parents=True)
    for image, file in zip(images, files):
        assert cv2.imwrite("set/" + file, image[:, :, ::-1])
    assert cv2.imwrite("outside.png", images[0])
    classes(images, labels, files)
    numbers(images, files)
    to_images(files, images)
    wrong(files)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("tables of images train as arrays do")
