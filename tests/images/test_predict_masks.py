"""predict -o FOLDER/: the class of each pixel as a PNG for each image.

usage: test_predict_masks.py PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import cv2
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
rng = np.random.default_rng(0)
SIDE, N = 16, 7


def model(path, classes, tail=None, last=False, number=False):
    w = {"w": rng.normal(0, 1, (classes, 3, 1, 1)).astype("f4"), "b": rng.normal(0, 0.1, classes).astype("f4")}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["z" if tail or last or number else "y"])]
    if tail:
        nodes.append(helper.make_node(tail, ["z"], ["y"]))
    if last:
        nodes.append(helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]))
    if number:
        nodes.append(helper.make_node("ArgMax", ["z"], ["y"], axis=1, keepdims=0))
    shape = ["n", SIDE, SIDE, classes] if last else ["n", SIDE, SIDE] if number else ["n", classes, SIDE, SIDE]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 3, SIDE, SIDE])],
                              [helper.make_tensor_value_info("y", 7 if number else 1, shape)],
                              [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stderr + done.stdout


def main():
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    names = [f"{'ab'[i % 2]}/{i}.{'png' if i else 'bmp'}" for i in range(N)]
    for image, name in zip(images, names):
        pathlib.Path("set", name).parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(f"set/{name}", image[:, :, ::-1])
    x = (images.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")
    for classes, more in ((3, {}), (200, {}), (3, dict(last=True)), (3, dict(number=True)), (1, {}), (1, dict(tail="Sigmoid")), (3, dict(tail="Softmax"))):
        model("m.onnx", classes, **more)
        (y,) = onnxruntime.InferenceSession("m.onnx").run(None, {"x": x})
        want = y if more.get("number") else (y[:, 0] > (0.5 if more else 0)) if classes == 1 else y.argmax(3 if more.get("last") else 1)
        said = run("predict", "m.onnx", "set", "-o", "out/")
        assert f"out: masks of {N} images, {SIDE}x{SIDE} pixels" in said, said
        for name, mask in zip(names, want):
            raw = pathlib.Path("out", name).with_suffix(".png").read_bytes()
            assert raw[25] == 3, "a palette"
            gray = np.zeros((SIDE, SIDE), np.uint8)
            bits = __import__("zlib").decompress(b"".join(chunks(raw, b"IDAT")))
            gray = unfilter(bits)
            assert (gray == mask).all(), (name, classes, more)
    pathlib.Path("plain").mkdir()
    run("predict", "m.onnx", "set", "-o", "plain")  # an existing folder, without the slash
    assert sorted(str(p.relative_to("plain")) for p in pathlib.Path("plain").rglob("*.png")) == sorted(n[:-3] + "png" for n in names)

    # what predict writes trains as masks
    pathlib.Path("again").mkdir()
    os.rename("set", "again/images")
    os.rename("plain", "again/masks")
    model("m.onnx", 3)
    assert f"{N} images with masks" in run("m.onnx", "--data", "again", "--steps", 1, "--run-dir", "none", "-o", "t.onnx")
    os.rename("again/images", "set")

    # refused: an image would be replaced, two masks of one name, no classes for each pixel, a file in the way
    before = pathlib.Path("set", names[1]).read_bytes()
    assert "would replace the image" in run("predict", "m.onnx", "set", "-o", "set/", expect=2)
    assert pathlib.Path("set", names[1]).read_bytes() == before
    assert cv2.imwrite("set/b/1.bmp", images[1])
    assert "b/1.png: their names differ by the ending alone" in run("predict", "m.onnx", "set", "-o", "new/", expect=2)
    assert not os.path.exists("new")
    os.remove("set/b/1.bmp")
    pathlib.Path("file").write_text("")
    assert "cannot be created" in run("predict", "m.onnx", "set", "-o", "file/", expect=7)
    graph = onnx.load("m.onnx").graph
    flat = helper.make_graph([*graph.node, helper.make_node("GlobalAveragePool", ["y"], ["p"]), helper.make_node("Flatten", ["p"], ["q"])], "g",
                             graph.input, [helper.make_tensor_value_info("q", 1, ["n", 3])], graph.initializer)
    onnx.save(helper.make_model(flat, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "flat.onnx")
    assert "no output of the model has classes for each pixel" in run("predict", "flat.onnx", "set", "-o", "new/", expect=2)


def chunks(raw, kind):
    at = 8
    while at < len(raw):
        n = int.from_bytes(raw[at:at + 4], "big")
        if raw[at + 4:at + 8] == kind:
            yield raw[at + 8:at + 8 + n]
        at += 12 + n


def unfilter(bits):
    """Rows of bytes of a PNG without interlacing, one byte for each pixel."""
    rows, before = [], np.zeros(SIDE + 1, int)
    for r in range(SIDE):
        kind, line = bits[r * (SIDE + 1)], np.zeros(SIDE + 1, int)
        for i, v in enumerate(bits[r * (SIDE + 1) + 1:(r + 1) * (SIDE + 1)], 1):
            a, b, c = line[i - 1], before[i], before[i - 1]
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (v + [0, a, b, (a + b) // 2, near][kind]) % 256
        rows.append(line[1:])
        before = line
    return np.array(rows)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("masks of images are written as PNG")
