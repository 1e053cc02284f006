"""predict -o FOLDER/: the class of each pixel as a PNG for each image, or the image that the output is.

usage: test_predict_masks.py PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import cv2
from scripts import h as helper, np, numpy_helper, onnx, onnxruntime

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
        assert f"out: masks of {N} images, each named as its image and of its size" in said, said
        for name, mask in zip(names, want):
            assert (written(f"out/{name}") == mask).all(), (name, classes, more)
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
    pathlib.Path("some.csv").write_text(f"image\nset/{names[1]}\nset/{names[2]}\n")
    for data, to in ("set", "set/"), (f"set/{names[1]}", "set/b/"), ("some.csv", "./"), ("set", "way/../set/"):  # a folder, a file, a table, by way of a folder to come
        assert "which is read; choose another folder" in run("predict", "m.onnx", data, "-o", to, expect=2)
        assert pathlib.Path("set", names[1]).read_bytes() == before
    for data in "set", "some.csv":
        assert "is data that is being read" in run("data", data, "--preview", f"set/{names[1]}", expect=2)
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


def resized(y, h, w):
    """Scores at another size, as ONNX Runtime's Resize has them: linear, pixel centres aligned."""
    node = helper.make_node("Resize", ["y", "", "", "s"], ["z"], mode="linear", coordinate_transformation_mode="half_pixel")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("y", 1, None)], [helper.make_tensor_value_info("z", 1, None)],
                              [numpy_helper.from_array(np.array([*y.shape[:2], h, w]), "s")])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"y": y})[0]


def pooled(step, number=False):
    """A model of SIDE x SIDE whose output is smaller by `step`."""
    model("m.onnx", 4)
    m = onnx.load("m.onnx")
    m.graph.node[0].output[0] = "z"
    m.graph.node.append(helper.make_node("AveragePool", ["z"], ["p" if number else "y"], kernel_shape=[step, step], strides=[step, step]))
    if number:
        m.graph.node.append(helper.make_node("ArgMax", ["p"], ["y"], axis=1, keepdims=0))
        m.graph.output[0].type.tensor_type.elem_type = 7
    at = m.graph.output[0].type.tensor_type.shape.dim
    at[-2].dim_value = at[-1].dim_value = SIDE // step
    if number:
        del at[1]
    onnx.save(m, "m.onnx")


def scores(images):
    x = (images.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")
    return onnxruntime.InferenceSession("m.onnx").run(None, {"x": x})[0]


def sizes():
    """Masks have the size of their images: smaller outputs, larger images, images that the model takes in parts."""
    smooth = [cv2.resize(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8), (w, h)) for h, w in ((SIDE, SIDE), (40, 40), (9, 9), (SIDE, 40), (40, SIDE))]
    pathlib.Path("sizes").mkdir()
    for i, image in enumerate(smooth):
        assert cv2.imwrite(f"sizes/{i}.png", image[:, :, ::-1])
    for step in 1, 2, 4:
        pooled(step)
        said = run("predict", "m.onnx", "sizes", "-o", "sized/")
        assert "5 images have 9 parts" in said and "sized: masks of 5 images" in said, said
        for i in range(3):  # squares: what the model answers, enlarged or reduced
            run("predict", "m.onnx", f"sizes/{i}.png", "-o", "y.npz")
            y = np.load("y.npz")["y"]
            want = resized(y, *smooth[i].shape[:2]).argmax(1)[0]
            assert (written(f"sized/{i}.png") != want).mean() < 0.005, (step, i)
        for i in 3, 4:  # parts that are not resized: 0 to 15, 12 to 27, 24 to 39; the mean where two overlap
            image = smooth[i] if i == 3 else smooth[i].transpose(1, 0, 2)
            parts = np.stack([image[:, at:at + SIDE] for at in (0, 12, 24)])
            y = resized(scores(parts if i == 3 else parts.transpose(0, 2, 1, 3)), SIDE, SIDE)
            y = y if i == 3 else y.transpose(0, 1, 3, 2)
            all, n = np.zeros((4, SIDE, 40)), np.zeros(40)
            for part, at in zip(y, (0, 12, 24)):
                all[:, :, at:at + SIDE] += part
                n[at:at + SIDE] += 1
            want = (all / n).argmax(0)
            assert (written(f"sized/{i}.png") != (want if i == 3 else want.T)).mean() < 0.005, (step, i)
    pooled(2, number=True)  # class numbers: those of the nearest pixel
    run("predict", "m.onnx", "sizes", "-o", "sized/")
    want = scores(smooth[0][None])[0].repeat(2, 0).repeat(2, 1)
    assert (written("sized/0.png") == want).all()
    assert written("sized/3.png").shape == (SIDE, 40)

    np.savez("arrays.npz", x=np.stack([smooth[0]] * 3))  # arrays: the output's size
    pooled(4)
    run("predict", "m.onnx", "arrays.npz", "--normalize", "1/255", "-o", "arrays/")
    assert (written("arrays/000001.png") == scores(smooth[0][None]).argmax(1)[0]).all()

    pathlib.Path("sizes/5.png").write_bytes(pathlib.Path("sizes/3.png").read_bytes()[:-30])  # its header is right
    assert "sizes/5.png" in run("predict", "m.onnx", "sizes", "-o", "sized/", expect=4)
    assert "masks of 5 images" in run("predict", "m.onnx", "sizes", "-o", "sized/", "--skip-bad", "1")
    assert cv2.imwrite("sizes/5.png", np.zeros((1, 9000, 3), np.uint8))
    assert "sizes/5.png: has 1x9000 pixels" in run("predict", "m.onnx", "sizes", "-o", "sized/", expect=4)
    os.remove("sizes/5.png")

    # what was written trains as masks of these images
    for name in "images", "masks":
        pathlib.Path("whole", name).mkdir(parents=True)
    for i in range(5):
        os.rename(f"sizes/{i}.png", f"whole/images/{i}.png")
        os.rename(f"sized/{i}.png", f"whole/masks/{i}.png")
    model("m.onnx", 4)
    run("m.onnx", "--data", "whole", "--steps", 1, "--run-dir", "sized-run", "-o", "t.onnx")


def images():
    """Outputs that are images are written as images: by --task, by what the training recorded, by a Sigmoid of three channels."""
    x = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    pathlib.Path("pictures").mkdir()
    for i, image in enumerate(x):
        assert cv2.imwrite(f"pictures/{i}.png", image[:, :, ::-1])
    unit = (x.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")

    def compare(m, fed, scale, shift=0.0, more=(), to="pictures-out/"):
        (y,) = onnxruntime.InferenceSession(m).run(None, {"x": fed})
        said = run("predict", m, "pictures", "-o", to, *more)
        assert f"{N} images, each named as its input image" in said, said
        want = np.clip(np.floor(y * scale + shift + 0.5), 0, 255).transpose(0, 2, 3, 1)[..., ::-1]
        for i in range(N):
            got = cv2.imread(f"{to}{i}.png", cv2.IMREAD_UNCHANGED)
            got = got[..., None] if got.ndim == 2 else got
            assert got.shape == want[i].shape and np.abs(got - want[i]).max() <= 1, (m, got.shape, want[i].shape)
        return said

    # without a record: a Sigmoid of three channels; else by --task, and the line names it
    model("m.onnx", 3)
    assert "class of each pixel; for an image use --task values" in run("predict", "m.onnx", "pictures", "-o", "pictures-out/")
    compare("m.onnx", unit, 255, more=("--task", "values"))
    model("m.onnx", 1)
    compare("m.onnx", unit, 255, more=("--task", "values"))
    model("m.onnx", 3, tail="Sigmoid")
    assert "an image; for classes use --task classes" in compare("m.onnx", unit, 255)
    run("predict", "m.onnx", "pictures", "-o", "pictures-out/", "--task", "classes")
    written("pictures-out/0.png")  # a palette
    model("m.onnx", 5)
    assert "has 1 or 3 channels" in run("predict", "m.onnx", "pictures", "-o", "pictures-out/", "--task", "values", expect=2)

    # what trained with a loss of distances is no classes; a file without metadata stays without, so --loss says it
    np.savez("pairs.npz", x=unit, target=unit[:, ::-1])
    model("m.onnx", 3)
    run("m.onnx", "--data", "pairs.npz", "--loss", "mse", "--steps", 2, "--run-dir", "none", "-o", "t.onnx")
    compare("t.onnx", unit, 255, more=("--loss", "mse"))
    assert not onnx.load("t.onnx").metadata_props, "metadata in a file that had none"
    np.savez("bytes.npz", x=unit, target=(255 * unit[:, ::-1]).astype("f4"))
    run("m.onnx", "--data", "bytes.npz", "--loss", "l1", "--steps", 200, "--lr", 1, "--run-dir", "none", "-o", "t.onnx")
    assert "0..255 are written as they are" in compare("t.onnx", unit, 1, more=("--loss", "l1"))

    # an autoencoder: in the scaling of its input, also with a loss of classes
    run("m.onnx", "--data", "pictures", "--target", "image", "--normalize", "imagenet", "--steps", 2, "--run-dir", "none", "-o", "t.onnx")
    mean, std = (np.array(v, "f4")[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    assert "scaling of the input" in compare("t.onnx", (unit - mean) / std, 255 * std, 255 * mean)
    model("m.onnx", 3, tail="Sigmoid")
    run("m.onnx", "--data", "pictures", "--target", "image", "--loss", "bce", "--steps", 2, "--run-dir", "none", "-o", "t.onnx")
    compare("t.onnx", unit, 255)

    # an output of twice the size makes images of twice the size
    model("m.onnx", 3)
    m = onnx.load("m.onnx")
    m.graph.node[0].output[0] = "z"
    m.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], "f4"), "s"))
    m.graph.node.append(helper.make_node("Resize", ["z", "", "s"], ["y"], mode="nearest"))
    for d in m.graph.output[0].type.tensor_type.shape.dim[2:]:
        d.dim_value = 2 * SIDE
    onnx.save(m, "m.onnx")
    compare("m.onnx", unit, 255, more=("--task", "values"))
    assert cv2.imwrite("wide.png", cv2.resize(x[0], (3 * SIDE, SIDE)))  # in parts
    run("predict", "m.onnx", "wide.png", "-o", "pictures-out/", "--task", "values")
    assert cv2.imread("pictures-out/wide.png").shape == (2 * SIDE, 6 * SIDE, 3)


def written(name):
    """The class numbers in a PNG with a palette."""
    raw = pathlib.Path(name).with_suffix(".png").read_bytes()
    assert raw[25] == 3, "a palette"
    return unfilter(__import__("zlib").decompress(b"".join(chunks(raw, b"IDAT"))), int.from_bytes(raw[16:20], "big"))


def chunks(raw, kind):
    at = 8
    while at < len(raw):
        n = int.from_bytes(raw[at:at + 4], "big")
        if raw[at + 4:at + 8] == kind:
            yield raw[at + 8:at + 8 + n]
        at += 12 + n


def unfilter(bits, width):
    """Rows of bytes of a PNG without interlacing, one byte for each pixel."""
    rows, before = [], np.zeros(width + 1, int)
    for r in range(len(bits) // (width + 1)):
        kind, line = bits[r * (width + 1)], np.zeros(width + 1, int)
        for i, v in enumerate(bits[r * (width + 1) + 1:(r + 1) * (width + 1)], 1):
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
    sizes()
    images()
print("masks of images are written as PNG")
