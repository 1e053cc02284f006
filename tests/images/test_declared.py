"""What other tools write into a model's metadata: scaling, order of colours, size, names of classes; what is unclear is not used."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

program = sys.argv[1]
rng = np.random.default_rng(8)
N, SIDE, CLASSES = 12, 12, 3
NAMES = ["zebra", "it's \"a\" cat", "ant"]


def model(path, props, side=SIDE, on_graph=None, channels=3):
    w = {"k": np.random.default_rng(1).normal(0, 0.3, (4, channels, 3, 3)).astype("f4")}
    w["w"] = np.random.default_rng(2).normal(0, 0.3, (4, CLASSES)).astype("f4")
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", channels, side, side])],
        [helper.make_tensor_value_info("y", 1, ["n", CLASSES])],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    helper.set_model_props(m, props)
    for key, value in (on_graph or {}).items():
        m.graph.metadata_props.add(key=key, value=value)
    onnx.save(m, path)


def run(*words, expect=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == expect, (words, done.returncode, done.stderr)
    return done.stdout + done.stderr


def train(data, *more):
    said = run("m.onnx", "--data", data, "-o", "o.onnx", "--epochs", 1, "--batch-size", 4, "--run-dir", "none", *more)
    return b"".join(numpy_helper.to_array(t).tobytes() for t in onnx.load("o.onnx").graph.initializer), said


def scaling():
    inet = "[0.485, 0.456, 0.406],[0.229, 0.224, 0.225]".replace(" ", "")
    timm = "{'input_size': (3, 12, 12), 'crop_pct': 0.9, 'mean': (0.485, 0.456, 0.406), 'std': (0.229, 0.224, 0.225)}"
    hf = '{"do_normalize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25], "rescale_factor": 0.0039}'
    from_bytes = ",".join("[" + ",".join(repr(v / 255) for v in row) + "]" for row in ((123, 116, 103), (58, 57, 56)))
    used = (
        ({"pretrained_cfg": timm}, inet, "those of pretrained_cfg"),
        ({"default_cfg": timm.replace("'", '"').replace("(", "[").replace(")", "]")}, inet, "those of default_cfg"),
        ({"pretrained_cfg": "{'mean': (0.0, 0.0, 0.0), 'std': (1.0, 1.0, 1.0)}"}, "1/255", "those of pretrained_cfg"),
        ({"preprocessor_config": hf}, "[0.5,0.5,0.5],[0.25,0.25,0.25]", "those of preprocessor_config"),
        ({"mean": "0.485 0.456 0.406", "std": "0.229 0.224 0.225"}, inet, "those of mean and std"),
        ({"mean": "[123, 116, 103]", "std": "[58,57,56]"}, from_bytes, "those of mean and std"),
        ({"standardization_mean": "[0.5]", "standardization_std": "[0.25]"}, "0.5,0.25", "standardization_mean and"),
        ({"IMAGE.nominalPixelRange": "normalized_1_1"}, "0.5,0.5", "NominalPixelRange Normalized_1_1"),
        ({"Image.NominalPixelRange": "NominalRange_0_255", "mean": "[0.5]", "std": "[0.5]"}, "none", "NominalRange_0_255"),
        ({"Image.NominalPixelRange": "NominalRange_16_235"}, f"{-16 / 219!r},{1 / 219!r}", "NominalRange_16_235"),
    )
    unclear = (
        ({"mean": "[0,0,0]", "std": "[1,1,1]"}, "may be of pixels from 0 to 1 or to 255"),
        ({"mean": "[0.5,0.5]", "std": "[0.5,0.5]"}, "not numbers, one for each channel"),
        ({"mean": "[0.5,0.5,0.5]", "std": "[0.5,0.5,0]"}, "a deviation is not positive, or too small"),
        ({"image_mean": "[0,0,0]", "image_std": "[0.5,1e-45,0.5]"}, "a deviation is not positive, or too small"),
        ({"image_mean": "[0.5,0.5,0.5]", "image_std": "[0.5,1e-38,0.5]"}, "a deviation is not positive, or too small"),
        ({"mean": "(see paper)", "std": "1"}, "not numbers, one for each channel"),
        ({"mean": "[0.5,0.5,0.5]", "std": "[0.5,20,0.5]"}, "may be of pixels"),
    )
    for props, option, says in used:
        model("m.onnx", props)
        mine, said = train("set")
        assert says in said and "change with --normalize" in said, (props, said)
        given, said = train("set", "--normalize", option)
        assert mine == given and says not in said, props
        other, _ = train("set", "--normalize", "0.3,0.2")
        assert other != mine
    model("m.onnx", {})
    plain, _ = train("set")
    for props, says in unclear:
        model("m.onnx", props)
        mine, said = train("set")
        assert says in said and "are not used" in said and mine == plain, (props, said)
    model("m.onnx", {}, on_graph={"Image.NominalPixelRange": "NominalRange_0_255"})
    mine, said = train("set")
    assert "NominalRange_0_255" in said and mine == train("set", "--normalize", "none")[0] != plain


def colours(images, labels):
    np.savez("rgb.npz", x=images.transpose(0, 3, 1, 2), target=labels)
    np.savez("bgr.npz", x=images[..., ::-1].transpose(0, 3, 1, 2), target=labels)
    model("m.onnx", {"Image.BitmapPixelFormat": "Rgb8"})
    rgb, said = train("set")
    assert "blue" not in said and rgb == train("rgb.npz", "--normalize", "1/255")[0]
    model("m.onnx", {"Image.BitmapPixelFormat": "bgr8"})
    for steps in ((), ("--augment", "flip", "--augment", "crop:padding=2")):
        bgr, said = train("set", *steps)
        assert "blue comes first" in said and bgr == train("bgr.npz", "--normalize", "1/255", *steps)[0], steps
    assert bgr != rgb
    turned = "[0.406,0.456,0.485],[0.225,0.224,0.229]"
    assert train("set", "--normalize", "imagenet")[0] == train("bgr.npz", "--normalize", turned)[0]
    x = (images[..., ::-1].transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")
    train("set")
    (y,) = onnxruntime.InferenceSession("o.onnx").run(None, {"x": x})
    run("run", "o.onnx", "--data", "set", "-o", "r.npz")
    assert np.allclose(np.load("r.npz")["y"], y, atol=1e-5)
    assert '"color":"BGR"' in next(p.value for p in onnx.load("o.onnx").metadata_props if p.key == "onnxtrain.preprocess")


def sizes():
    """--image-size: before the metadata, recorded in the trained model, and refused where the model's size is fixed."""
    model("m.onnx", {"imgsz": "[12, 12]"}, side=None)
    assert "decoded to 12x12x3" in train("set")[1]
    said = train("set", "--image-size", "8x16")[1]
    assert "decoded to 8x16x3" in said and "as --image-size says" in said, said
    for command in "eval", "predict":
        assert "decoded to 8x16x3" in run(command, "o.onnx", "--data", "set")
        assert "decoded to 9x9x3" in run(command, "o.onnx", "--data", "set", "--image-size", 9)
    for text in "0", "8x", "x8", "8x9x3", "-8", "8.5", " 8":
        assert "expected N or HxW" in run("m.onnx", "--data", "set", "--image-size", text, expect=2), text
    model("m.onnx", {})
    assert f"input 'x' is [?,3,{SIDE},{SIDE}], whose size is fixed" in run("m.onnx", "--data", "set", "--image-size", 8, expect=2)
    train("set", "--image-size", SIDE)
    model("m.onnx", {}, channels=4)
    assert f"input 'x' is [?,4,{SIDE},{SIDE}], but images in files have 1 or 3 channels" in run("m.onnx", "--data", "set", expect=4)
    model("m.onnx", {})
    assert "applies to images in files" in run("m.onnx", "--data", "rgb.npz", "--image-size", SIDE, expect=2)


def transparency():
    """Images with alpha are those of an array of four channels for a model that takes four; others are opaque."""
    images = rng.integers(0, 256, (N, SIDE, SIDE, 4), dtype=np.uint8)
    images[1, :, :, 3] = 255
    labels = np.arange(N) // (N // CLASSES)
    for i, image in enumerate(images):
        pathlib.Path(f"clear/{labels[i]}").mkdir(parents=True, exist_ok=True)
        pathlib.Path("opaque").mkdir(exist_ok=True)
        pathlib.Path(f"solid/{labels[i]}").mkdir(parents=True, exist_ok=True)
        bgra = image[:, :, [2, 1, 0, 3]]
        assert cv2.imwrite(f"clear/{labels[i]}/{i:02}.png", bgra if i != 1 else bgra[:, :, :3])
        for name in f"opaque/{i:02}.png", f"solid/{labels[i]}/{i:02}.png":
            assert cv2.imwrite(name, bgra[:, :, :3])
    np.savez("rgba.npz", x=images.transpose(0, 3, 1, 2), target=labels)
    np.savez("rgb4.npz", x=images[..., :3].transpose(0, 3, 1, 2), target=labels)
    model("m.onnx", {}, channels=4)
    for steps in ((), ("--augment", "flip", "--augment", "crop:padding=2"), ("--normalize", "mean,std")):
        rgba, said = train("clear", *steps)
        assert f"decoded to {SIDE}x{SIDE}x4 (the fourth channel is alpha)" in said, said
        assert rgba == train("rgba.npz", *(steps if "--normalize" in steps else ("--normalize", "1/255", *steps)))[0], steps
    train("clear", "--val", "solid")
    images[..., 3] = 255
    (y,) = onnxruntime.InferenceSession("o.onnx").run(None, {"x": (images.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")})
    run("run", "o.onnx", "--data", "opaque", "-o", "r.npz")  # as the record says
    assert np.allclose(np.load("r.npz")["y"], y, atol=1e-5)
    model("m.onnx", {})
    assert train("clear")[0] == train("rgb4.npz", "--normalize", "1/255")[0]


def classes(images):
    for form in (str(dict(enumerate(NAMES))), '{"0": "zebra", "1": "it\'s \\"a\\" cat", "2": "ant"}'):
        model("m.onnx", {"names": form, "task": "classify", "imgsz": "[12, 12]", "stride": "1"}, side=None)
        assert f"{SIDE}x{SIDE}x3" in run("predict", "m.onnx", "many")
        (y,) = onnxruntime.InferenceSession("m.onnx").run(None, {"x": x_of(images)})
        said = run("predict", "m.onnx", "set")
        best = [NAMES[i] for i in y.argmax(1)]
        for name in set(best):
            shown = '"' + name.replace('"', '""') + '"' if '"' in name else name
            assert said.count(shown) == best.count(name), (name, said)
        number = np.array([NAMES.index(n) for n in sorted(NAMES)])  # folders are read in the order of their names
        right = 100 * np.mean(y.argmax(1) == np.repeat(number, N // CLASSES))
        said = run("eval", "m.onnx", "--data", "set")
        got = next(float(row.split()[1]) for row in said.splitlines() if row.startswith("accuracy"))
        assert abs(got - right) < 0.01, (got, right)
    for wrong in ("{0: 'a', 2: 'b', 3: 'c'}", "{0: 'a', 1: 'b', 2: 'c\\x'}", "{0: 'a'", "names", "{0:", "{'0' 'a'}", "{}"):
        model("m.onnx", {"names": wrong, "task": "classify"})
        assert "class_name" not in run("predict", "m.onnx", "many"), wrong
    model("m.onnx", {"names": str(dict(enumerate(NAMES))), "task": "detect"})
    assert "class_name" not in run("predict", "m.onnx", "many")
    model("m.onnx", {"pretrained_cfg": "{'input_size': (3, 12, 12)}"}, side=None)
    assert "its metadata say this one" in run("predict", "m.onnx", "many")


def invalid_record():
    """A record of the program's own that cannot be used is said, not silently passed over."""
    good = dict(kind="image", height=SIDE, width=SIDE, channels=3, layout="NCHW", resize="cover", interpolation="bilinear",
                scale=1 / 255, mean=[0, 0, 0], std=[1, 1, 1])
    for change in ({}, {"height": -1}, {"std": [1, 0, 1]}, {"mean": "x"}, {"kind": "picture"}, {"kind": None}):
        model("m.onnx", {"onnxtrain.preprocess": json.dumps({"inputs": {"x": {**good, **change}}})})
        said = run("predict", "m.onnx", "many")
        assert ("are invalid and ignored" in said) == bool(change), (change, said)
    for text in ("", "{", "[]", '{"inputs": 3}', '{"inputs": {"x": 3}}'):
        model("m.onnx", {"onnxtrain.preprocess": text})
        assert ("are invalid and ignored" in run("predict", "m.onnx", "many")) == (text != '{"inputs": 3}'), text


def x_of(images):
    return (images.transpose(0, 3, 1, 2) / np.float32(255)).astype("f4")


def main():
    images = rng.integers(0, 256, (N, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.arange(N) // (N // CLASSES)
    for i, image in enumerate(images):
        folder = pathlib.Path("set", sorted(NAMES)[labels[i]])
        folder.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(folder / f"{i:02}.png"), image[:, :, ::-1])
    pathlib.Path("many").mkdir()
    for side in (9, 20):
        assert cv2.imwrite(f"many/{side}.png", np.zeros((side, side, 3), np.uint8))
    scaling()
    colours(images, labels)
    sizes()
    transparency()
    classes(images)
    invalid_record()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
print("metadata of other tools are used where they are clear")
