#!/usr/bin/env python3
"""test_metrics.py PROGRAM [--write]: `onnxtrain eval --json` measures what scikit-learn measures of the same outputs.

The models are one Identity: the data's inputs are the outputs to be judged.  With scikit-learn the numbers are computed here, and --write
keeps them; without it they are those of the file beside this test, of the same data.  Every case runs with three batch sizes, which
must give the same numbers.
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

try:
    import sklearn.metrics as sk
except ImportError:
    sk = None

FROZEN = pathlib.Path(__file__).with_name("figures.json")
program = pathlib.Path(sys.argv[1]).resolve()
N = 101


def numbers(shape, seed):
    """The same on every version of numpy: a linear congruential generator, as -1 ... 1."""
    x, out = seed, []
    for _ in range(int(np.prod(shape))):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((x >> 40) / 2**23 - 1)
    return np.array(out, np.float32).reshape(shape)


def labels(shape, classes, seed):
    return np.minimum(((numbers(shape, seed) + 1) / 2 * classes).astype(np.int64), classes - 1)


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def of_words(y, t):
    """A class for each place of a sequence, from (N,T,V): places are samples."""
    out = of_classes(y.reshape(-1, y.shape[-1]), t.reshape(-1))
    del out["auc"]
    return {**out, "perplexity": math.exp(out["log_loss"])}


def of_classes(y, t):
    p = softmax(y, 1)
    if y.ndim > 2:
        p, t = np.moveaxis(p, 1, -1).reshape(-1, y.shape[1]), t.reshape(-1)
    said, all_classes = p.argmax(1), list(range(p.shape[1]))
    out = {"accuracy": sk.accuracy_score(t, said), "log_loss": sk.log_loss(t, p, labels=all_classes)}
    for name, f in ("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score):
        out[name] = f(t, said, average="macro", zero_division=0)
    if y.ndim > 2:
        out["iou"] = sk.jaccard_score(t, said, average="macro", zero_division=0)
        out["dice"] = out["f1"]
    else:
        p = np.round(p, 12)  # what is equal but for rounding is a tie
        out["auc"] = sk.roc_auc_score(t, p[:, 1]) if p.shape[1] == 2 else sk.roc_auc_score(t, p, multi_class="ovr")
    if p.shape[1] > 5:
        out["top5"] = sk.top_k_accuracy_score(t, p, k=5, labels=all_classes)
    return out


def of_binary(y, t):
    labels = y.ndim == 2 and y.shape[1] > 1  # each is a task of its own
    y, average = (y if labels else y.ravel()).astype(np.float64), {"average": "macro", "zero_division": 0} if labels else {}
    said, t = y > 0, t.reshape(y.shape)
    out = {name: f(t, said, **average) for name, f in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score))}
    return {**out, "auc": sk.roc_auc_score(t, y), "accuracy": sk.accuracy_score(t.ravel(), said.ravel()),
            "log_loss": sk.log_loss(t.ravel(), 1 / (1 + np.exp(-y.ravel())))}


def of_hard(y, t):
    """Probabilities without a Sigmoid that says so: the loss bce takes them for some."""
    p = np.clip(0.2 * y.astype(np.float64) + 0.5, 0, 1)
    return {**of_binary(y, t), "log_loss": sk.log_loss(t.ravel(), p.ravel())}


def of_values(y, t):
    return {"mae": sk.mean_absolute_error(t, y), "rmse": float(np.mean(np.sqrt(np.mean((t - y).astype(np.float64) ** 2, 0)))),
            "r2": sk.r2_score(t, y)}


def cases():
    """Name, outputs, targets, --loss, what judges them, and the operator at the end of the model."""
    for case in plain_cases():
        yield *case, None
    c = labels(N, 7, 16)
    y = numbers((N, 7), 17) + (np.arange(7) == c[:, None]).astype(np.float32)
    for tail in "Softmax", "LogSoftmax":
        yield f"{tail} of seven classes", y, c, None, of_classes, tail
    yield "LogSoftmax of masks", numbers((N, 3, 2, 4), 18), labels((N, 2, 4), 3, 19), None, of_classes, "LogSoftmax"
    t = labels((N, 1), 2, 20)
    yield "Sigmoid", numbers((N, 1), 21) + t.astype(np.float32), t.astype(np.float32), None, of_binary, "Sigmoid"
    yield "HardSigmoid", numbers((N, 1), 21) + t.astype(np.float32), t.astype(np.float32), None, of_hard, "HardSigmoid"
    c = labels((N, 5), 11, 22)
    y = numbers((N, 5, 11), 23) + (np.arange(11) == c[..., None]).astype(np.float32)
    for tail in None, "Softmax", "LogSoftmax":
        yield f"{tail or 'logits'} of words", y, c, "cross_entropy:class_axis=-1" if tail != "LogSoftmax" else "nll:class_axis=-1", of_words, tail


def plain_cases():
    c = labels(N, 3, 1)
    yield "three classes", numbers((N, 3), 2) + 2 * (np.arange(3) == c[:, None]).astype(np.float32), c, None, of_classes
    c = labels(N, 2, 3)
    yield "two classes", numbers((N, 2), 4), c, None, of_classes
    c = labels(N, 9, 5)
    yield "nine classes", numbers((N, 9), 6) + (np.arange(9) == c[:, None]).astype(np.float32), c, None, of_classes
    yield "masks", numbers((N, 3, 4, 5), 8), labels((N, 4, 5), 3, 9), None, of_classes
    c = labels(N, 4, 24)
    yield "equal outputs", np.round(numbers((N, 4), 25) + (np.arange(4) == c[:, None])), c, None, of_classes
    yield "equal outputs of masks", np.round(numbers((N, 3, 2, 5), 26)), labels((N, 2, 5), 3, 27), None, of_classes
    t = labels((N, 1), 2, 10)
    yield "binary", numbers((N, 1), 11) + t.astype(np.float32), t.astype(np.float32), "bce_with_logits", of_binary
    t = (numbers((N, 4), 28) > np.float32([0, 0.5, 0.9, -0.7])).astype(np.float32)
    yield "labels", numbers((N, 4), 29) + t - np.float32([0.5, 0.5, 2, 0]), t, "bce_with_logits", of_binary  # one is never predicted
    whole = np.round(3 * numbers((N, 1), 30)) + np.float32(0.25)
    nearly = np.where(numbers((N, 1), 31) > 0, np.nextafter(whole, np.float32(9)), whole)  # as places of a batch may differ
    yield "nearly equal outputs", nearly, labels((N, 1), 2, 32).astype(np.float32), "bce_with_logits", lambda y, t: of_binary(np.round(y, 2), t)
    t = numbers((N, 2), 12)
    yield "values", t + numbers((N, 2), 13) / 3, t * np.float32(1.5), "mse", of_values
    counts = labels((N, 2), 6, 33).astype(np.float32)
    y = numbers((N, 2), 34) + np.float32(0.2) * counts
    yield "logarithms of rates", y, counts, "poisson_nll", lambda y, t: of_values(np.exp(y.astype(np.float64)), t)
    yield "rates", np.exp(y), counts, "poisson_nll:log_input=false", of_values
    yield "one value", numbers((N, 1), 14), numbers((N, 1), 15) + 2, "mse", of_values


def evaluate(folder, y, t, loss, tail, batch):
    np.savez(folder + "/d.npz", x=y, target=t)
    shape = ["N", *y.shape[1:]]
    axis = {"axis": y.ndim - 1 if loss and "class_axis=-1" in loss else 1} if tail and "oftmax" in tail else {}
    nodes = [helper.make_node("Mul", ["x", "w"], ["scores" if tail else "y"])]
    g = helper.make_graph(nodes + ([helper.make_node(tail, ["scores"], ["y"], **axis)] if tail else []), "g",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                          [helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder + "/m.onnx")
    command = [program, "eval", folder + "/m.onnx", "--data", folder + "/d.npz", "--json", "--batch-size", str(batch), "--device", "cpu"]
    r = subprocess.run(command + (["--loss", loss] if loss else []), capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"eval: exit {r.returncode}: {r.stderr.strip()}")
    return json.loads(r.stdout)


def not_a_number():
    """Answers that are NaN are wrong, and in no confusion matrix.  (name, loss, columns, targets, accuracies in %, rows of the confusion)"""
    nan = np.float32([-1, 1, 1, -1, 1, -1])[:, None]  # the square root of x
    c, t = np.int64([0, 1, 2, 3, 0, 1]), np.float32([0, 0, 1, 1, 0, 0])[:, None]
    yield "classes", nan * np.ones((1, 8), np.float32), c, None, {"accuracy": 1 / 6, "top5": 3 / 6}, 1 + 1 + 1
    yield "binary", nan, t, "bce_with_logits", {"accuracy": 1 / 6}, 3
    yield "labels", nan * np.float32([[1, 1, -1]]), np.hstack([t, t, t]), "bce_with_logits", {"accuracy": (1 + 1 + 1) / 18}, None


def evaluate_not_a_number():
    bad = 0
    for name, y, t, loss, want, inside in not_a_number():
        with tempfile.TemporaryDirectory() as folder:
            for batch in 4, 6:
                got = evaluate(folder, y, t, loss, "Sqrt", batch)
                for key, v in want.items():
                    if not math.isclose(got.get(key, math.nan), v, abs_tol=1e-6):
                        print(f"NaN in {name}, batches of {batch}: {key} is {got.get(key)}, not {v}")
                        bad += 1
                if inside is not None and np.sum(got["confusion"]) != inside:
                    print(f"NaN in {name}, batches of {batch}: {got['confusion']} has not {inside} answers")
                    bad += 1
        print(f"NaN in {name}: {', '.join(want)}")
    return bad


def evaluate_parts():
    """Each label and each column has the metrics that it has alone."""
    bad, n = 0, 0
    for name, y, t, loss, _ in plain_cases():
        if name not in ("labels", "values"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            whole = evaluate(folder, y, t, loss, None, 32)
            parts = whole.get("labels" if name == "labels" else "columns", [])
            for k, part in enumerate(parts):
                alone = evaluate(folder, y[:, [k]], t[:, [k]], loss, None, 32)
                n += 1
                for key in {"precision", "recall", "f1", "auc", "mae", "rmse", "r2", "samples"} & part.keys():
                    want = int(t[:, k].sum()) if key == "samples" else alone[key]
                    if not math.isclose(part[key], want, rel_tol=1e-9, abs_tol=1e-12):
                        print(f"{name}: {key} of {k} is {part[key]}, alone {want}")
                        bad += 1
    if n != 4 + 2:
        print(f"{n} labels and columns have metrics of their own, not 6")
        bad += 1
    return bad


def main():
    frozen = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    bad, computed = 0, {}
    for name, y, t, loss, judge, tail in cases():
        want = computed[name] = {k: float(v) for k, v in judge(y, t).items()} if sk else frozen[name]
        with tempfile.TemporaryDirectory() as folder:
            for batch in 7, 32, N:
                got = evaluate(folder, y, t, loss, tail, batch)
                for key, v in want.items():
                    if key not in got or not math.isclose(got[key], v, rel_tol=1e-6, abs_tol=1e-6):
                        print(f"{name}, batches of {batch}: {key} is {got.get(key)}, not {v}")
                        bad += 1
        print(f"{name}: {', '.join(want)}")
    if sk and "--write" in sys.argv:
        FROZEN.write_text(json.dumps(computed, indent=1) + "\n")
    elif sk:
        for name, want in computed.items():
            kept = frozen.get(name, {})
            if kept.keys() != want.keys() or not all(math.isclose(kept[k], v, rel_tol=1e-9, abs_tol=1e-9) for k, v in want.items()):
                print(f"figures.json has other numbers of {name}: {kept}, not {want}; write it again with --write")
                bad += 1
    bad += evaluate_not_a_number() + evaluate_parts()
    known = set(re.findall(r"^  ([a-z]\w*)", subprocess.run([program, "help", "metric"], capture_output=True, text=True).stdout, re.M))
    judged = {k for want in computed.values() for k in want}
    if known - judged - {"loss"} or not known:
        print(f"no case measures {sorted(known - judged - {'loss'})}")
        bad += 1
    sys.exit(bad > 0)


main()
