#!/usr/bin/env python3
"""test_weights.py PROGRAM: class_weights=auto and pos_weight=auto are scikit-learn's and PyTorch's balance of the samples that train, the
same at resume and at evaluation; and a weighted loss does not depend on the batch size of the evaluation.  --overfit-batch reports its verdict."""
import json
import pathlib
import shlex
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runs import call, expect, finish

try:
    from sklearn.utils.class_weight import compute_class_weight
except ImportError:
    compute_class_weight = None

N, CLASSES = 203, 4


def balanced(y):
    classes, count = np.unique(y, return_counts=True)
    w = len(y) / (len(classes) * count)
    if compute_class_weight:
        assert np.allclose(w, compute_class_weight("balanced", classes=classes, y=y))
    return dict(zip(classes.tolist(), w.tolist()))


def said(r, key):
    line = [line for line in r.stderr.splitlines() if f"{key}=auto: [" in line]
    return json.loads(line[0].split(f"{key}=auto: ")[1]) if line else None


def identity(name, width):
    return helper.make_tensor(name, TensorProto.FLOAT, [width, width], np.eye(width).ravel())


def model(path, width):
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", width])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", width])],
                          [identity("w", width)])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def loss_of(x, y, w, ignored):
    keep = y != ignored
    weight = np.array([w.get(int(c), 1.0) for c in y])[keep]
    each = -log_softmax(x)[np.arange(len(y)), np.where(keep, y, 0)][keep]
    return float((each * weight).sum() / weight.sum())


def evaluate(folder, *arguments):
    return json.loads(call(folder, "eval", *arguments, "--json").stdout)


def of_classes(folder):
    r = np.random.default_rng(3)
    x = r.standard_normal((N, CLASSES)).astype(np.float32)
    y = r.choice(CLASSES, N, p=[0.6, 0.25, 0.1, 0.05]).astype(np.int64)
    y[::17] = -100
    np.savez(folder / "d.npz", x=x, target=y)
    model(folder / "m.onnx", CLASSES)
    train = "train", "m.onnx", "--data", "d.npz", "--steps", "3", "--checkpoint-every", "1steps"
    loss = "--loss", "cross_entropy:class_weights=auto,label_smoothing=0"

    run = call(folder, *train, *loss, "--run-dir", "r", "-o", "r.onnx")
    want = balanced(y[y != -100])
    expect("class weights are scikit-learn's", np.allclose(said(run, "class_weights"), list(want.values()), rtol=1e-5))

    run = call(folder, *train, *loss, "--run-dir", "v", "-o", "v.onnx", "--val-split", "0.3", "--seed", "2")
    ev = evaluate(folder, "v")
    part = said(run, "class_weights")
    expect("of the samples that train alone", not np.allclose(part, list(want.values()), rtol=1e-4) and ev["samples"] == 61)
    last = [json.loads(line) for line in (folder / "v/log.jsonl").read_text().splitlines() if '"eval"' in line][-1]
    expect("the run's evaluation has the same weights", ev["loss"] == last["loss"])
    given = call(folder, "resume", "v", "--steps", "5")
    whole = call(folder, *train, *loss, "--run-dir", "w", "-o", "w.onnx", "--val-split", "0.3", "--seed", "2", "--steps", "5")
    expect("resume has the same weights", given and whole and (folder / "v.onnx").read_bytes() == (folder / "w.onnx").read_bytes())
    other = call(folder, "eval", "v", "--select", "best", "--data", "d.npz")
    expect("numbers are stored", "auto" not in other.stderr)

    numbers = "[" + ",".join(repr(want[c]) for c in range(CLASSES)) + "]"
    exact = loss_of(x, y, want, -100)
    for loss in "cross_entropy", "y=cross_entropy":
        got = [evaluate(folder, "m.onnx", "--data", "d.npz", "--loss", f"{loss}:class_weights={numbers}", "--batch-size", b)["loss"]
               for b in (1, 7, 32, N)]
        expect(f"{loss}: any evaluation batch size gives the weighted mean {exact:.6f}: {got}", np.allclose(got, exact, rtol=2e-6))
    z = np.where(y == -100, 1, y)
    np.savez(folder / "i.npz", x=x, target=z)
    got = [evaluate(folder, "m.onnx", "--data", "i.npz", "--loss", f"cross_entropy:ignore_index=1,class_weights={numbers}", "--batch-size", b)
           ["loss"] for b in (7, 32, N)]
    expect("a class that is ignored has no weight", np.allclose(got, loss_of(x, z, want, 1), rtol=2e-6))
    r = call(folder, "eval", "m.onnx", "--data", "d.npz", "--loss", "cross_entropy:class_weights=auto", code=2)
    expect("auto without a training set", "eval RUN" in r.stderr)


def of_two_outputs(folder):
    r = np.random.default_rng(5)
    a, b = r.standard_normal((N, CLASSES)).astype(np.float32), r.standard_normal((N, 3)).astype(np.float32)
    ya, yb = r.choice(CLASSES, N, p=[0.7, 0.1, 0.1, 0.1]), r.choice(3, N, p=[0.1, 0.1, 0.8])
    np.savez(folder / "two.npz", a=a, b=b, target_y=ya, target_z=yb)
    info = helper.make_tensor_value_info
    g = helper.make_graph([helper.make_node("MatMul", ["a", "v"], ["y"]), helper.make_node("MatMul", ["b", "w"], ["z"])], "g",
                          [info("a", TensorProto.FLOAT, ["N", CLASSES]), info("b", TensorProto.FLOAT, ["N", 3])],
                          [info("y", TensorProto.FLOAT, ["N", CLASSES]), info("z", TensorProto.FLOAT, ["N", 3])],
                          [identity("v", CLASSES), identity("w", 3)])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "two.onnx")
    wa, wb = balanced(ya), balanced(yb)
    exact = loss_of(a, ya, wa, -100) + 0.5 * loss_of(b, yb, wb, -100)
    losses = [f"--loss={n}=cross_entropy:weight={f},class_weights=[{','.join(map(repr, w.values()))}]" for n, f, w in (("y", 1, wa), ("z", 0.5, wb))]
    got = [evaluate(folder, "two.onnx", "--data", "two.npz", *losses, "--batch-size", b)["loss"] for b in (7, 32, N)]
    expect(f"two outputs: the weighted mean of each {exact:.6f}: {got}", np.allclose(got, exact, rtol=2e-6))


def of_ones(folder):
    r = np.random.default_rng(4)
    y = (r.random((N, 3)) < [0.1, 0.5, 0.8]).astype(np.float32)
    model(folder / "b.onnx", 3)
    np.savez(folder / "b.npz", x=r.standard_normal((N, 3)).astype(np.float32), target=y)
    run = call(folder, "train", "b.onnx", "--data", "b.npz", "--steps", "2", "--run-dir", "none", "-o", "o.onnx", "--loss", "bce_with_logits:pos_weight=auto")
    expect("pos_weight", np.allclose(said(run, "pos_weight"), (1 - y).sum(0) / y.sum(0), rtol=1e-5))
    line = [line for line in run.stderr.splitlines() if line.startswith("to evaluate:")][0]
    expect("the command to evaluate with has the numbers", "pos_weight=[" in line and call(folder, *shlex.split(line)[3:]))


def of_class_numbers(folder):
    """bce of class numbers: one class of a sample is 1, the others are 0; the last class does not occur in the training set."""
    r = np.random.default_rng(8)
    x, y = r.standard_normal((N, CLASSES)).astype(np.float32), r.choice(CLASSES - 1, N, p=[0.6, 0.3, 0.1])
    hot = np.eye(CLASSES, dtype=np.float32)[y]
    model(folder / "c.onnx", CLASSES)
    np.savez(folder / "c.npz", x=x, target=y)
    np.savez(folder / "h.npz", x=x, target=hot)
    z = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * hot
    e = evaluate(folder, "c.onnx", "--data", "c.npz", "--loss", "bce_with_logits")
    expect(f"binary cross-entropy of class numbers: {e}", np.isclose(e["loss"], z.mean(), rtol=2e-6) and np.isclose(e["accuracy"], (x.argmax(1) == y).mean()))
    run = call(folder, "train", "c.onnx", "--data", "c.npz", "--steps", "3", "--run-dir", "c", "-o", "o.onnx", "--loss", "bce_with_logits:pos_weight=auto")
    w = np.array([(N - (y == c).sum()) / max((y == c).sum(), 1) if (y == c).any() else 1 for c in range(CLASSES)])
    expect("pos_weight of class numbers", np.allclose(said(run, "pos_weight"), w[: CLASSES - 1], rtol=1e-5))
    listed = "bce_with_logits:pos_weight=[" + ",".join(map(repr, w.tolist())) + "]"
    call(folder, "train", "c.onnx", "--data", "h.npz", "--steps", "3", "--run-dir", "none", "-o", "p.onnx", "--loss", listed)
    a, b = (numpy_helper.to_array(onnx.load(folder / f).graph.initializer[0]) for f in ("o.onnx", "p.onnx"))
    expect("trains as one-hot targets do", np.allclose(a, b, rtol=1e-6, atol=1e-7))
    expect("eval of the run", np.isclose(evaluate(folder, "c")["loss"], evaluate(folder, "o.onnx", "--data", "h.npz", "--loss", listed)["loss"], rtol=1e-6))
    n = N // 4  # an output of (n, C, 4): the axis of classes is 1
    np.savez(folder / "s.npz", x=x[: 4 * n].reshape(n, 4 * CLASSES), target=y[: 4 * n].reshape(n, 4))
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["r"]), helper.make_node("Reshape", ["r", "s"], ["q"]),
                           helper.make_node("Transpose", ["q"], ["y"], perm=[0, 2, 1])], "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4 * CLASSES])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES, 4])],
                          [identity("w", 4 * CLASSES), numpy_helper.from_array(np.array([-1, 4, CLASSES]), "s")])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "s.onnx")
    got = evaluate(folder, "s.onnx", "--data", "s.npz", "--loss", listed + ",class_axis=1")["loss"]
    full = ((1 - hot) * x + (1 + (w - 1) * hot) * np.log1p(np.exp(-x.astype(float))))[: 4 * n]
    expect(f"along another axis: {got}, {full.mean()}", np.isclose(got, full.mean(), rtol=2e-6))


def overfit(folder):
    call(folder, "new", "mlp", "--input", "1x4x4", "--hidden", "32", "--classes", "3", "-o", "n.onnx")
    r = np.random.default_rng(6)
    np.savez(folder / "n.npz", input=r.random((99, 16)).astype(np.float32), target=r.integers(0, 3, 99))
    train = "train", "n.onnx", "--data", "n.npz", "--overfit-batch", "--batch-size", "16"
    good = call(folder, *train, "--lr", "0.02", "--run-dir", "good")
    expect("passed", "overfit test passed" in good.stderr and not (folder / "n-trained.onnx").exists())
    steps = [json.loads(line) for line in (folder / "good/log.jsonl").read_text().splitlines()]
    expect("one batch an epoch", [s["epoch"] for s in steps if s["event"] == "step"] == list(range(1, 301)))
    losses = [s["loss"] for s in steps if s["event"] == "step"]
    expect("the same batch: its loss falls", losses[9] < losses[0] and losses[-1] < 0.01 * losses[0])
    poor = call(folder, *train, "--lr", "1e-7", "--run-dir", "none", "-o", "kept.onnx")
    expect("not passed", "not near zero" in poor.stderr and "learning rate" in poor.stderr and (folder / "kept.onnx").exists())
    flat = call(folder, *train[:-3], "--overfit-batch=2", "--batch-size", "16", "--lr", "0", "--no-shuffle", "--steps", "4", "--run-dir", "flat")
    losses = [json.loads(line).get("loss") for line in (folder / "flat/log.jsonl").read_text().splitlines() if '"step",' in line]
    expect("two batches, again and again", flat and len(losses) == 4 and losses[0] == losses[2] and losses[1] == losses[3] != losses[0])
    call(folder, *train, "--val-split", "0.1", code=2)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        for part in of_classes, of_two_outputs, of_ones, of_class_numbers, overfit:
            part(pathlib.Path(temporary))
    finish()


main()
