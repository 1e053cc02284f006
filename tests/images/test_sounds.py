"""Recordings: a folder of WAV files trains as its arrays do, tables too, predictions are ONNX Runtime's, what is damaged is skipped."""

import csv
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(7)
RATE, LENGTH = 8000, 400


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stderr + done.stdout


def model(path, shape):
    """Convolution over time, mean, matrix."""
    w = {
        "k": rng.normal(0, 0.2, (8, 1, 32)).astype("f4"),
        "w": rng.normal(0, 0.5, (8, 2)).astype("f4"),
        "b": np.zeros(2, "f4"),
        "planes": np.array([0, 1, -1]),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "planes"], ["p"]),
        helper.make_node("Conv", ["p", "k"], ["c"], strides=[4]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", 1, shape)
    y = helper.make_tensor_value_info("y", 1, ["n", 2])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def put(path, x, rate=RATE):
    """16 bits; x: (frames,) or (frames, channels)."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = 1 if x.ndim == 1 else x.shape[1]
    data = np.clip(np.round(x * 32768), -32768, 32767).astype("<i2").tobytes()
    head = struct.pack("<HHIIHH", 1, channels, rate, 2 * channels * rate, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def tone(frequency, n):
    t = np.arange(n) / RATE
    return 0.4 * np.sin(2 * np.pi * frequency * rng.uniform(0.9, 1.1) * t + rng.uniform(0, 6)) + 0.1 * rng.standard_normal(n)


def as_fed(path, length):
    """The middle of a longer one, zeros behind a shorter one."""
    raw = pathlib.Path(path).read_bytes()
    channels = raw[22]
    x = (np.frombuffer(raw[44:], "<i2").astype("f4") / 32768).reshape(-1, channels)
    x = (x.sum(1, dtype="f4") / np.float32(channels)).astype("f4")
    if len(x) > length:
        x = x[(len(x) - length) // 2 :][:length]
    return np.pad(x, (0, length - len(x)))


def weights(path):
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


def train(out, data, *words, net="net.onnx", expect=0):
    return run("train", net, "--data", data, "--epochs", 12, "--batch-size", 10, "--lr", 0.01, "--threads", 1, "--run-dir", "none", "-o", out, *words, expect=expect)


def main():
    model("net.onnx", ["n", LENGTH])
    for part, count in (("train", 30), ("val", 10)):
        for name, frequency in (("high", 1200), ("low", 300)):
            for i in range(count):
                x = tone(frequency, int(rng.integers(300, 520)))
                put(f"set/{part}/{name}/{i:02}.wav", np.stack([x, x * 0.5], 1) if i % 5 == 4 else x)
    files = sorted(pathlib.Path("set/train").glob("*/*.wav"))
    np.savez("set.npz", x=np.stack([as_fed(f, LENGTH) for f in files]), target=np.array([f.parent.name == "low" for f in files], "i8"))

    # the same weights as from arrays; the same for any number of threads
    said = train("files.onnx", "set")
    assert "kept in memory" not in said, said  # images alone are
    assert "60 recordings" in said and "8000 Hz" in said and "accuracy 100.00 %" in said, said
    train("arrays.onnx", "set.npz")
    assert weights("files.onnx") == weights("arrays.onnx")
    for k, option in enumerate(([], ["--augment", "crop", "--augment", "noise:std=0.02"])):
        net = "open.onnx" if k else "net.onnx"
        if k:
            model(net, ["n", "t"])
        for workers in (0, 3):
            train(f"w{workers}.onnx", "set", "--workers", workers, *option, *(["--length", 250] if k else []), net=net)
        assert weights("w0.onnx") == weights("w3.onnx")
    assert weights("w0.onnx") != weights("files.onnx")
    train("middle.onnx", "set", "--length", 250, net="open.onnx")
    assert weights("middle.onnx") != weights("w0.onnx"), "crop takes the middle"
    assert "does not apply to recordings" in train("x.onnx", "set", "--augment", "flip", expect=2)
    assert "its length is fixed" in train("x.onnx", "set", "--length", 9, expect=2)

    # predictions: ONNX Runtime's, from a folder, one file and a table
    session = onnxruntime.InferenceSession("files.onnx")
    run("predict", "files.onnx", "--data", "set/val", "-o", "p.csv")
    rows = list(csv.DictReader(open("p.csv")))
    assert len(rows) == 20
    for row in rows:
        y = session.run(None, {"x": as_fed(f"set/val/{row['file']}", LENGTH)[None]})[0][0]
        p = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
        assert row["class_name"] == ("high", "low")[int(p.argmax())] == row["file"].split("/")[0], row
        assert abs(float(row["probability"]) - p.max()) < 2e-5, (row, p)
    run("predict", "files.onnx", "--data", "set/val/low/03.wav", "-o", "one.csv")
    one = list(csv.DictReader(open("one.csv")))
    assert len(one) == 1 and one[0]["class_name"] == "low", one
    assert cv2.imwrite("one.png", np.zeros((20, 20, 3), np.uint8))
    assert "trained on recordings" in run("predict", "files.onnx", "one.png", expect=4)

    # an open length: that of the longest, recorded, also for a shorter set
    model("open.onnx", ["n", 1, "t"])
    longest = max(len(f.read_bytes()) - 44 for f in files if f.read_bytes()[22] == 1) // 2
    train("open-out.onnx", "set", net="open.onnx")
    kept = {p.key: json.loads(p.value) for p in onnx.load("open-out.onnx").metadata_props if p.key.startswith("onnxtrain.")}
    about = kept["onnxtrain.preprocess"]["inputs"]["x"]
    assert about["kind"] == "audio" and about["rate"] == RATE and about["layout"] == "NCT" and about["length"] >= longest, about
    assert kept["onnxtrain.classes"]
    session = onnxruntime.InferenceSession("open-out.onnx")
    run("predict", "open-out.onnx", "--data", "set/val/low/03.wav", "-o", "one.csv")
    y = session.run(None, {"x": as_fed("set/val/low/03.wav", about["length"])[None, None]})[0][0]
    p = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
    assert abs(float(list(csv.DictReader(open("one.csv")))[0]["probability"]) - p.max()) < 2e-5

    # a table
    with open("list.csv", "w") as f:
        f.write("file,label\n" + "".join(f"{p},{p.parent.name}\n" for p in files))
    train("table.onnx", "list.csv")
    assert weights("table.onnx") == weights("files.onnx")
    run("eval", "table.onnx", "--data", "list.csv")
    said = run("data", "list.csv")  # without a model
    assert "recordings in files" in said, said
    with open("lost.csv", "w") as f:
        f.write(open("list.csv").read() + "set/none.mp3,low\n")
    said = run("data", "lost.csv", expect=4)
    assert "the recording 'set/none.mp3' cannot be opened" in said, said

    # channels last, two channels
    model("last.onnx", ["n", LENGTH, 1])
    train("last-out.onnx", "set", net="last.onnx")

    # what does not fit
    model("x.onnx", ["n", 64, 100])
    assert "recordings are waveforms" in train("y.onnx", "set", net="x.onnx", expect=4)
    put("other/a/1.wav", tone(300, 400), rate=16000)
    put("other/b/1.wav", tone(300, 400), rate=16000)
    assert "16000 Hz" in run("predict", "files.onnx", "--data", "other", expect=4)
    shutil.copytree("other/a", "set/train/zz")
    said = train("x.onnx", "set", expect=4)
    assert "zz/1.wav" in said and "high/00.wav" in said and "16000" in said and "8000" in said, said
    shutil.rmtree("set/train/zz")

    put("huge/a/1.wav", np.zeros((1 << 22) + 1))
    put("huge/b/1.wav", tone(300, 400))
    assert "--length N" in train("x.onnx", "huge", net="open.onnx", expect=4)
    train("x.onnx", "huge", "--length", 500, net="open.onnx")
    shutil.rmtree("huge")

    # a resumed run: the same bits
    words = ("train", "open.onnx", "--data", "set", "--length", 250, "--augment", "crop", "--augment", "noise:std=0.02", "--batch-size", 10, "--threads", 1)
    run(*words, "--steps", 16, "-o", "whole.onnx", "--run-dir", "none")
    run(*words, "--steps", 9, "-o", "part.onnx", "--run-dir", "r")
    run("resume", "r", "--steps", 16)
    assert weights("part.onnx") == weights("whole.onnx")

    # damaged files: an error with the name, or skipped and listed
    bad = files[3]
    whole = bad.read_bytes()
    for broken in (b"", whole[:30], whole[: len(whole) // 2], b"no recording at all, but text"):
        bad.write_bytes(broken)
        for workers in (0, 3):
            assert str(bad) in train("x.onnx", "set", "--workers", workers, expect=4)
            said = train(f"s{workers}.onnx", "set", "--workers", workers, "--skip-bad", 1)
            assert said.count(str(bad)) == 1 and "another sample is used" in said, said
        assert weights("s0.onnx") == weights("s3.onnx")


if json.loads(run("env", "--json")).get("sound") != ["wav", "flac"]:
    print("built without libsndfile")
    sys.exit(0)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("recordings in files train as arrays do")
