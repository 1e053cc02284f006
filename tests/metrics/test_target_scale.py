"""Targets that are values, standardised: what is recorded, what predict, eval and ONNX Runtime give, when it is not done."""

import csv
import json
import os
import pathlib
import re
import tempfile

import numpy as np

from scripts import call, check, finish, h, numpy_helper, onnx, onnxruntime

rng = np.random.default_rng(3)
N, TEST = 600, 200


def net(path, outputs=1, tail=None):
    """A table of two numbers and a colour of three (one-hot) to `outputs` values."""
    w = {k: rng.normal(0, 0.5, s).astype("f4") for k, s in dict(a=(5, 16), b=(16,), c=(16, outputs), d=(outputs,)).items()}
    nodes = [
        h.make_node("Gemm", ["x", "a", "b"], ["h"]),
        h.make_node("Relu", ["h"], ["r"]),
        h.make_node("Gemm", ["r", "c", "d"], ["s" if tail else "y"]),
    ] + ([h.make_node(tail, ["s"], ["y"])] if tail else [])
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", 1, ["n", 5])],
        [h.make_tensor_value_info("y", 1, ["n", outputs])],
        [numpy_helper.from_array(v, k) for k, v in w.items()],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def table(path, rows, y, header="y"):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows([["u", "v", "colour", *header.split(",")]] + [[*r, *t] for r, t in zip(rows, y)])


def record(path):
    text = {p.key: p.value for p in onnx.load(path).metadata_props}.get("onnxtrain.preprocess")
    return json.loads(text) if text else {}


def train(model, data, out, *more, code=0):
    r = call("train", model, "--data", data, "--run-dir", "none", "-o", out, "--batch-size", "32", *more, code=code)
    return r.stdout + r.stderr


def answers(model, data, *more):
    rows = list(csv.reader(call("predict", model, data, *more).stdout.splitlines()))
    return np.array([[float(v) for v in r[1:]] for r in rows[1:]])


def metrics(model, data, *more):
    r = call("eval", model, "--data", data, *more)
    return {m[1]: float(m[2]) for m in re.finditer(r"^(loss|mae|rmse|r2) +(\S+)$", r.stdout, re.M)}, r.stdout + r.stderr


def near(a, b, within=1e-4):
    return np.allclose(a, b, rtol=within, atol=within * np.abs(b).max())


def samples(n):
    u, v, c = rng.normal(3, 2, n), rng.normal(-1, 0.5, n), rng.integers(0, 3, n)
    y = 200_000 + 40_000 * (u - 3) - 90_000 * (v + 1) + 30_000 * (c == 1) + rng.normal(0, 5_000, n)
    return [(f"{a:.4f}", f"{b:.4f}", ["red", "green", "blue"][k]) for a, b, k in zip(u, v, c)], y.round()


def of_a_table(rows, y, test_rows, test_y, integers):
    text = lambda v: [(f"{t:.0f}" if integers else f"{t:.1f}",) for t in v]
    table("train.csv", rows, text(y)), table("test.csv", test_rows, text(test_y))
    said = train("m.onnx", "train.csv", "t.onnx", "--epochs", "20", "--lr", "0.01", "--test", "test.csv")
    check("values are standardised" in said, f"it is said: {said}")
    kept = record("t.onnx")["targets"]["y"]
    check(near(kept["mean"], np.mean(y), 1e-9) and near(kept["std"], np.std(y), 1e-9), f"of the training set: {kept}")
    got, m = answers("t.onnx", "test.csv"), metrics("t.onnx", "test.csv", "--batch-size", "48")[0]
    d = got[:, 0] - test_y
    check(near(m["mae"], np.abs(d).mean()) and near(m["rmse"], np.sqrt((d * d).mean())), f"metrics in the data's unit: {m}")
    check(near(m["loss"], ((d / kept["std"]) ** 2).mean()), f"the loss in the model's: {m}")
    check(m["r2"] > 0.95 and near(m["r2"], 1 - (d * d).sum() / ((test_y - test_y.mean()) ** 2).sum()), f"it learns: {m}")
    call("predict", "t.onnx", "test.csv", "-o", "p.npz")
    raw = np.load("p.npz")["y"]
    check(near(raw * kept["std"] + kept["mean"], got), "an .npz has the outputs themselves")
    check(near(answers("t.onnx", "test.csv", "--normalize-target", "none"), raw), "none: the outputs themselves")
    # the recipe of the documents, in ONNX Runtime
    fields = record("t.onnx")["inputs"]["x"]["columns"]
    x = np.zeros((TEST, 5), "f4")
    for k in range(2):
        x[:, k] = (np.array([float(r[k]) for r in test_rows]) - fields[k]["mean"]) / fields[k]["std"]
    for k, v in enumerate(fields[2]["values"]):
        x[:, 2 + k] = [r[2] == v for r in test_rows]
    ort = onnxruntime.InferenceSession("t.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    check(near(ort * kept["std"] + kept["mean"], got, 1e-5), "ONNX Runtime and the record give what predict gives")


def continued():
    said = train("t.onnx", "train.csv", "u.onnx", "--epochs", "1", "--lr", "0")
    check("as the model's metadata say" in said, f"the record decides: {said}")
    check(pathlib.Path("t.onnx").read_bytes() == pathlib.Path("u.onnx").read_bytes(), "lr 0 leaves the file as it is")
    said = train("t.onnx", "train.csv", "u.onnx", "--steps", "1", "--normalize-target", "none")
    kept = record("u.onnx")
    check("targets" not in kept and "inputs" in kept, f"none: the record loses the target alone: {kept}")
    train("m.onnx", "train.csv", "n.onnx", "--steps", "1", "--normalize", "none")
    check("targets" not in record("n.onnx"), "a table that is not standardised keeps its target")
    said = train("m.onnx", "train.csv", "n.onnx", "--steps", "1", "--normalize-target", "none")
    check("--normalize-target mean,std" in said and "targets" not in record("n.onnx"), f"far values are said: {said}")
    r = call("eval", "n.onnx", "--data", "test.csv", "--normalize-target", "mean,std", code=2)
    check("no record" in r.stderr, r.stderr)
    r = call("train", "m.onnx", "--data", "train.csv", "--run-dir", "none", "-o", "n.onnx", "--normalize-target", "std", code=2)
    check("auto|mean,std|none" in r.stderr or "auto" in r.stderr, r.stderr)


def of_a_run(test_y):
    r = call("train", "m.onnx", "--data", "train.csv", "--val", "test.csv", "--run-dir", "run", "--epochs", "3", "-o", "r.onnx",
             "--metrics", "all", "--monitor", "rmse")
    m = metrics("r.onnx", "test.csv")[0]
    e = json.loads(call("eval", "run", "--json").stdout)
    check(near(e["rmse"], m["rmse"], 1e-5) and near(e["loss"], m["loss"], 1e-5), f"eval of the run: {e} {m}")
    worst = json.loads(pathlib.Path("run/evaluation.json").read_text())["worst"]
    got = answers("r.onnx", "test.csv")[:, 0]
    for s in worst:
        i = s["sample"]
        check(near(s["target"], test_y[i]) and near(s["answer"], got[i], 1e-3), f"a sample of the page: {s} {got[i]}")
    check(len(worst) > 3, r.stderr)


def others(rows, y):
    """Two columns; targets and tails that are no such values."""
    net("two.onnx", 2)
    two = np.stack([y, 3 + y / 1e6], 1)
    table("two.csv", rows, [(f"{a:.0f}", f"{b:.6f}") for a, b in two], "p,q")
    train("two.onnx", "two.csv", "t2.onnx", "--target", "p,q", "--epochs", "10", "--lr", "0.01", "--loss", "huber")
    kept = record("t2.onnx")["targets"]["y"]
    check(near(kept["mean"], two.mean(0), 1e-6) and near(kept["std"], two.std(0), 1e-6), f"of each column: {kept}")
    d = answers("t2.onnx", "two.csv") - two
    m, said = metrics("t2.onnx", "two.csv", "--loss", "huber")
    check(near(m["mae"], np.abs(d).mean()), f"{m} {np.abs(d).mean()}")
    each = json.loads(call("eval", "t2.onnx", "--data", "two.csv", "--loss", "huber", "--json").stdout)["columns"]
    check([c["name"] for c in each] == ["p", "q"] and near(np.array([c["mae"] for c in each]), np.abs(d).mean(0)), f"of each column: {each}")
    said = call("eval", "t2.onnx", "--data", "two.csv", "--loss", "huber").stdout
    check("  0 p " in said and "  1 q " in said, f"of each column: {said}")
    table("yes.csv", rows, [(int(v > 200_000),) for v in y])
    net("tail.onnx", 1, "Sigmoid")
    for model, data, more in [
        ("tail.onnx", "yes.csv", []),
        ("m.onnx", "yes.csv", ["--loss", "bce_with_logits"]),
        ("m.onnx", "yes.csv", ["--loss", "mse"]),
    ]:
        train(model, data, "o.onnx", "--steps", "1", *more)
        check("targets" not in record("o.onnx"), f"{model} {data} {more}: no such values")
    for loss in "poisson_nll", "cosine":  # their best answers depend on the unit
        r = call("train", "m.onnx", "--data", "train.csv", "--run-dir", "none", "-o", "n.onnx", "--normalize-target", "mean,std", "--loss", loss, code=2)
        check(f"loss {loss} needs target" in r.stderr, r.stderr)
        said = train("m.onnx", "train.csv", "n.onnx", "--steps", "1", "--normalize-target", "none", "--loss", loss, "--lr", "0", "--normalize", "none",
                     "--on-nonfinite", "skip")
        check("--normalize-target" not in said, f"what {loss} refuses is no advice: {said}")
    net("relu.onnx", 1, "Relu")
    train("relu.onnx", "train.csv", "o.onnx", "--steps", "1")
    check("targets" not in record("o.onnx"), "an output that cannot be negative is not standardised by itself")


def of_arrays():
    x = rng.normal(0, 1, (N, 5)).astype("f4")
    y = (5000 + 100 * x[:, :1] + 50 * x[:, 1:2]).astype("f4")
    np.savez("a.npz", x=x, target=y)
    train("m.onnx", "a.npz", "a.onnx", "--steps", "1")
    check(record("a.onnx") == {}, "arrays: where it is asked for")
    train("m.onnx", "a.npz", "a.onnx", "--epochs", "20", "--lr", "0.01", "--normalize-target", "mean,std")
    kept = record("a.onnx")
    check(near(kept["targets"]["y"]["mean"], y.mean()) and "inputs" not in kept, f"{kept}")
    m = metrics("a.onnx", "a.npz")[0]
    d = answers("a.onnx", "a.npz") - y
    check(m["r2"] > 0.9 and near(m["mae"], np.abs(d).mean(), 1e-3), f"{m} {np.abs(d).mean()}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    net("m.onnx")
    rows, y = samples(N)
    test_rows, test_y = samples(TEST)
    of_a_table(rows, y, test_rows, test_y, False)
    of_a_table(rows, y, test_rows, test_y, True)
    continued()
    of_a_run(test_y)
    others(rows, y)
    of_arrays()
finish("checks of standardised targets")
