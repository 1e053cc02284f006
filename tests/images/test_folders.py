"""Training from images in files: the same weights as from the same images in an array, whatever the number of workers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import cv2
import numpy as np
import onnx
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(3)
N, SIDE, CLASSES = 60, 16, 3


def model(path):
    w = {
        "k": rng.normal(0, 0.3, (4, 3, 3, 3)).astype("f4"),
        "w": rng.normal(0, 0.3, (4, CLASSES)).astype("f4"),
        "b": np.zeros(CLASSES, "f4"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", 1, ["n", CLASSES])],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stderr


def weights(path):
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def train(out, data, *more, expect=0):
    words = ["--epochs", 2, "--batch-size", 8, "--run-dir", "none", *more]
    return run("m.onnx", "--data", data, "-o", out, *words, expect=expect)


def beside(files, labels):
    """Labels in files of their own, as webdataset has them: numbers, names, JSON."""
    pathlib.Path("web").mkdir()
    forms = {
        "number": lambda y: (".cls", str(y)),
        "name": lambda y: (".cls", f"class{y}\n"),
        "json": lambda y: (".json", json.dumps({"caption": "a, b", "label": int(y)})),
        "chosen": lambda y: (".json", json.dumps({"label": "no", "kind": f"class{y}"})),
    }
    for form, make in forms.items():
        with zipfile.ZipFile("web.zip", "w") as z:
            for i, (path, y) in enumerate(zip(files, labels)):
                end, text = make(y)
                z.write(path, f"{i:06}.png")
                z.writestr(f"{i:06}{end}", text)
                pathlib.Path("web", f"{i:06}{end}").write_text(text)
                pathlib.Path("web", f"{i:06}.png").write_bytes(path.read_bytes())
        subprocess.run(["tar", "cf", "../web.tar", *sorted(os.listdir("web"))], check=True, cwd="web")
        for data in ("web.zip", "web.tar", "web"):
            said = train("b.onnx", data, *(["--target", "kind"] if form == "chosen" else []))
            assert weights("b.onnx") == weights("f.onnx"), (form, data)
            assert ("class0" in said) == (form in ("name", "chosen")) and "other file" not in said, said
        for path in pathlib.Path("web").iterdir():
            path.unlink()
    for name, text, error in (
        ("1.json", "{", "is not valid JSON"),
        ("1.json", '{"label": [1]}', "label, cls, class or target"),
        ("1.cls", " ", "the label is empty"),
        ("1.cls", "\0", "contains a zero byte"),
        ("0.cls", "1", "1.png: has no label"),
        ("1.cls", "7", "has class 7"),
    ):
        for k in (0, 1):
            pathlib.Path("web", f"{k}.png").write_bytes(files[k].read_bytes())
        pathlib.Path("web/0.cls").write_text("0")
        pathlib.Path("web", name).write_text(text)
        assert error in train("x.onnx", "web", expect=4), error
        for path in pathlib.Path("web").iterdir():
            path.unlink()


def main():
    model("m.onnx")
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.sort(rng.integers(0, CLASSES, N))
    for i, (image, label) in enumerate(zip(images, labels)):
        folder = pathlib.Path("set") / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(folder / f"{i:03}.png"), image[:, :, ::-1])
    np.savez("a.npz", x=images.transpose(0, 3, 1, 2), target=labels.astype("i8"))

    train("a.onnx", "a.npz", "--normalize", "1/255")
    said = train("f.onnx", "set")
    assert "3 classes: class0" in said, said
    assert weights("a.onnx") == weights("f.onnx")
    assert any(p.key == "onnxtrain.classes" and "class1" in p.value for p in onnx.load("f.onnx").metadata_props)
    for workers in (0, 1, 5):
        train("w.onnx", "set", "--workers", workers)
        assert weights("w.onnx") == weights("f.onnx"), workers
        train(f"g{workers}.onnx", "set", "--workers", workers, "--augment", "flip", "--augment", "crop:padding=2")
    assert weights("g0.onnx") == weights("g5.onnx") == weights("g1.onnx") != weights("f.onnx")
    subprocess.run(["tar", "cf", "set.tar", "set"], check=True)
    train("t.onnx", "set.tar")
    assert weights("t.onnx") == weights("f.onnx")
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile("set.zip", "w", how) as z:
            for path in sorted(pathlib.Path("set").rglob("*")):
                z.write(path)
        train("t.onnx", "set.zip", "--workers", 3)
        assert weights("t.onnx") == weights("f.onnx"), how
    beside(sorted(pathlib.Path("set").rglob("*.png")), labels)
    run("run", "f.onnx", "--data", "set", "-o", "y.npz")
    assert np.load("y.npz")["y"].shape == (N, CLASSES)
    said = train("n.onnx", "set", "--normalize", "mean,std")
    kept = {p.key: p.value for p in onnx.load("n.onnx").metadata_props}
    how = json.loads(kept["onnxtrain.preprocess"])["inputs"]["x"]
    mean = images.reshape(-1, 3).mean(0) / 255
    assert np.allclose(how["mean"], mean) and how["layout"] == "NCHW" and how["height"] == SIDE, how
    # the scaling that it was trained with is that of an evaluation, and of the next training
    assert "metadata" in run("eval", "n.onnx", "--data", "set")
    again = run("n.onnx", "--data", "set", "-o", "n2.onnx", "--lr", 0, "--epochs", 1, "--run-dir", "none")
    assert "metadata" in again, again
    assert {p.key: p.value for p in onnx.load("n2.onnx").metadata_props} == kept

    # the validation part of a folder is what --monitor watches
    with zipfile.ZipFile("parts.zip", "w") as z:
        for i, path in enumerate(sorted(pathlib.Path("set").rglob("*.png"))):
            z.write(path, f"{'train' if i % 4 else 'val'}/{path.parent.name}/{path.name}")
    train("m1.onnx", "parts.zip", "--monitor", "f1", "--run-dir", "watched")
    end = json.loads(pathlib.Path("watched/log.jsonl").read_text().splitlines()[-1])
    assert end["best_metric"] == "val f1", end
    assert "--monitor f1 needs validation samples" in train("m1.onnx", "set", "--monitor", "f1", expect=2)

    # and what decides in a sweep, whose trainings keep the last weights
    said = run("sweep", "m.onnx", "--data", "parts.zip", "--epochs", 1, "--grid", "lr=1e-2", "--run-dir", "grid")
    assert "no validation samples" not in said, said
    assert json.loads(pathlib.Path("grid/run-1/log.jsonl").read_text().splitlines()[-1])["selected"] == "last"
    assert "no validation samples" in run("sweep", "m.onnx", "--data", "set", "--epochs", 1, "--grid", "lr=1e-2", "--run-dir", "grid2")

    # a resumed run: the same bits
    run("m.onnx", "--data", "set", "--epochs", 2, "--batch-size", 8, "--run-dir", "whole", "-o", "r1.onnx")
    run("m.onnx", "--data", "set", "--epochs", 2, "--batch-size", 8, "--run-dir", "r", "-o", "r2.onnx", "--steps", 5)
    run("resume", "r", "--steps", 16)
    assert weights("r1.onnx") == weights("r2.onnx")

    pathlib.Path("one").mkdir()
    pathlib.Path("one/a").symlink_to(pathlib.Path("set/class1").absolute())
    assert "leads out" in train("x.onnx", "one", expect=4)
    pathlib.Path("one/a").unlink()
    pathlib.Path("set/class1").rename("one/a")
    assert "at least two classes" in train("x.onnx", "one", expect=4)
    pathlib.Path("one/a").rename("set/class1")
    # fewer classes than the model has
    pathlib.Path("two").mkdir()
    for name in ("class0", "class1"):
        pathlib.Path("two", name).symlink_to(f"../set/{name}")
    assert "leads out" in train("x.onnx", "two", expect=4)
    for name in ("class0", "class1"):
        pathlib.Path("two", name).unlink()
        pathlib.Path("set", name).rename(pathlib.Path("two", name))
    assert "--classes 3 keeps it" in train("x.onnx", "two", expect=4)
    train("x.onnx", "two", "--classes", 3)
    train("x.onnx", "two", "--classes", "auto")
    for name in ("class0", "class1"):
        pathlib.Path("two", name).rename(pathlib.Path("set", name))

    # an autoencoder: the images are the target, with and without classes; the model is the identity, and the right loss 0
    itself = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
                               [helper.make_tensor_value_info("y", 1, ["n", 3, SIDE, SIDE])], [numpy_helper.from_array(np.eye(3, dtype="f4").reshape(3, 3, 1, 1), "w")])
    onnx.save(helper.make_model(itself, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "itself.onnx")
    shutil.copytree("set/class1", "single/only")
    assert "all images are in one class folder, 'only'" in train("x.onnx", "single", expect=4)
    for data in "set", "set/class1", "single":
        for target in "image", "x":
            same = ["itself.onnx", "--data", data, "--target", target, "--loss", "mse", "--lr", 0, "--epochs", 1, "-o", "x.onnx", "--run-dir", "none", "--augment", "flip"]
            said = run(*same)
            assert "input 'x' as it is fed, scaled alike" in said and "(train: loss 0," in said, said
    assert "no array 'y' for the target" in run("itself.onnx", "--data", "set", "--target", "y", "-o", "x.onnx", expect=4)

    # several archives, and a folder of them, are one set
    import tarfile
    files = sorted(p for p in pathlib.Path("set").rglob("*") if p.is_file())
    pathlib.Path("shards").mkdir()
    for name, part in (("whole.tar", files), ("shards/0.tar", files[::2]), ("shards/1.tar", files[1::2])):
        with tarfile.open(name, "w") as t:
            for p in part:
                t.add(p, p.relative_to("set"))
    train("w.onnx", "whole.tar")
    for data in ("shards",), ("shards/0.tar", "--data", "shards/1.tar"):
        said = train("v.onnx", *data)
        assert f"{len(files)} images" in said and weights("v.onnx") == weights("w.onnx"), said
    assert "twice" in train("x.onnx", "shards/0.tar", "--data", "shards/0.tar", expect=4)
    assert "several .tar files can be given together" in train("x.onnx", "shards/0.tar", "--data", "set/labels.npz", expect=4)

    # a table beside the images; recordings in another format
    pathlib.Path("hub").mkdir()
    assert cv2.imwrite("hub/1.png", np.zeros((SIDE, SIDE, 3), np.uint8))
    pathlib.Path("hub/metadata.jsonl").write_text('{"file_name": "1.png", "label": "a"}\n')
    assert "--data 'hub/metadata.jsonl'" in train("x.onnx", "hub", expect=4)
    pathlib.Path("songs/a").mkdir(parents=True)
    pathlib.Path("songs/a/1.mp3").write_bytes(b"ID3" + bytes(100))
    assert "supported recordings: .wav, .flac" in train("x.onnx", "songs", expect=4)

    # 16 bits: it is said, and how much of the range the images use
    for most, what in ((1700, "1700 of 65535 and becomes 6 of 255"), (65535, "16 bits, of which the upper 8 are used")):
        for c in range(2):
            pathlib.Path(f"deep/c{c}").mkdir(parents=True, exist_ok=True)
            wide = rng.integers(0, most, (SIDE, SIDE), dtype=np.uint16)
            wide[0, c] = most
            assert cv2.imwrite(f"deep/c{c}/1.png", wide)
        said = subprocess.run([program, "data", "deep"], capture_output=True, text=True, check=True).stdout
        assert what in said, said
        assert ("the largest value" in said) == (most < 65535), said

    # damaged files: an error with the name, or skipped and listed
    bad = pathlib.Path("set/class1") / sorted(p.name for p in pathlib.Path("set/class1").iterdir())[3]
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    for workers in (0, 3):
        assert str(bad) in train("x.onnx", "set", "--workers", workers, expect=4)
        said = train(f"s{workers}.onnx", "set", "--workers", workers, "--skip-bad", 1)
        assert said.count(str(bad)) == 1 and "another sample is used" in said, said
    assert weights("s0.onnx") == weights("s3.onnx")
    os.mkfifo("set/class1/zz.wav")
    os.mkfifo("set/class2/zz.png")
    assert "2 pipes or devices are ignored, such as class" in train("x.onnx", "set", "--skip-bad", 1)
    os.remove("set/class1/zz.wav")
    assert "1 pipe or device is ignored, such as class2/zz.png" in train("x.onnx", "set", "--skip-bad", 1)
    os.remove("set/class2/zz.png")
    pathlib.Path("set/class2/zz.png").write_bytes(b"no image")
    assert "--skip-bad" in train("x.onnx", "set", "--skip-bad", 1, expect=4)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("images in files train as arrays do")
