#!/usr/bin/env python3
"""test_continued.py PROGRAM: what a run prints and stores belongs to its samples and weights: the numbers beside the written model,
class weights of classes that do not occur, --swa with a fraction in a longer run, eval of a run, metrics of a second output, compare."""
import json
import pathlib
import re
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import runs
from runs import expect, finish

temporary = tempfile.TemporaryDirectory()
folder = pathlib.Path(temporary.name)


def call(*arguments, code=0):
    return runs.call(folder, *arguments, code=code)


def log(run, event):
    return runs.log(folder, run, event)


rng = np.random.default_rng(1)
x = rng.normal(size=(120, 4)).astype(np.float32)
y = (x[:, 0] + 0.8 * rng.normal(size=120) > 0.3).astype(np.int64)
np.savez(folder / "d.npz", x=x[:80], target=y[:80])
np.savez(folder / "t.npz", x=x[80:], target=y[80:])
value = helper.make_tensor_value_info


def save(name, classes, second=False):
    w = [numpy_helper.from_array(rng.normal(size=(4, classes)).astype(np.float32) / 4, "w"),
         numpy_helper.from_array(rng.normal(size=(4, 2)).astype(np.float32) / 4, "v")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("MatMul", ["x", "v"], ["z"])]
    outputs = [value("y", TensorProto.FLOAT, ["N", classes]), value("z", TensorProto.FLOAT, ["N", 2])]
    n = 2 if second else 1
    g = helper.make_graph(nodes[:n], "g", [value("x", TensorProto.FLOAT, ["N", 4])], outputs[:n], w[:n])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / name)


save("m.onnx", 2)
save("three.onnx", 3)
save("heads.onnx", 2, True)

# Without validation samples the training loss decides; the numbers beside the written model are those of its epoch.
r = call("train", "m.onnx", "--data", "d.npz", "--test", "t.npz", "--epochs", 8, "--optimizer", "sgd:lr=6,momentum=0.9", "--select", "best",
         "-o", "o.onnx", "--run-dir", "a")
end = log("a", "end")[0]
best, last = log("a", "eval")[end["best_epoch"] - 1], log("a", "eval")[-1]
expect("the best epoch is not the last", best["loss"] != last["loss"])
told = float(re.search(r"trained model: o.onnx \(test: loss ([\d.e+-]+)", r.stderr)[1])
expect("numbers of the best epoch", abs(told / best["loss"] - 1) < 1e-3, f"{told}, {best}")
direct = json.loads(call("eval", "o.onnx", "--data", "t.npz", "--json").stdout)["loss"]
expect("they are those of the file", abs(direct / best["loss"] - 1) < 1e-5, f"{direct}, {best}")

# A class that no sample has.
r = call("train", "three.onnx", "--data", "d.npz", "--val-split", 0.2, "--epochs", 2, "--loss", "cross_entropy:class_weights=auto", "-o", "o.onnx",
         "--run-dir", "w")
whole = (folder / "o.onnx").read_bytes()
line = re.search(r"to evaluate: +onnxtrain (.*)", r.stderr)[1]
expect("the command that is suggested", json.loads(call(*line.split(), "--json").stdout)["loss"] == log("w", "eval")[-1]["loss"], line)
call("train", "three.onnx", "--data", "d.npz", "--val-split", 0.2, "--epochs", 1, "--loss", "cross_entropy:class_weights=auto", "-o", "p.onnx",
     "--run-dir", "w1")
call("resume", "w1", "--epochs", 2)
expect("options.conf has the options of the longer run", "\nepochs = 2\n" in (folder / "w1/options.conf").read_text())
(folder / "w2").mkdir()
for name in ("options.conf", "log.jsonl", *(f.name for f in (folder / "w1").glob("checkpoint-*.npz"))):
    (folder / "w2" / name).write_bytes((folder / "w1" / name).read_bytes())
err = call("resume", "w2", "--epochs", 3).stderr
expect("a checkpoint of another run", "was copied from the run folder " in err and "is continued in w2, " in err)
expect("not of its own", "was copied" not in call("resume", "w1", "--epochs", 3).stderr)
call("train", "three.onnx", "--data", "d.npz", "--val-split", 0.2, "--epochs", 1, "--loss", "cross_entropy:class_weights=auto", "-o", "p.onnx",
     "--run-dir", "w1")
call("resume", "w1", "--epochs", 2)
expect("compare too", "--epochs" not in call("compare", "w", "w1").stdout)
expect("resumed with weights by auto", (folder / "p.onnx").read_bytes() == whole)

# All targets are 1.
np.savez(folder / "ones.npz", x=x[:40], target=np.ones((40, 1), np.float32))
save("one.onnx", 1)
r = call("train", "one.onnx", "--data", "ones.npz", "--epochs", 1, "--loss", "bce_with_logits:pos_weight=auto", "--run-dir", "p", "-o", "o.onnx")
expect("pos_weight where all are 1", "pos_weight=auto: [1]" in r.stderr, r.stderr)
r = call("train", "one.onnx", "--data", "ones.npz", "--epochs", 1, "--loss", "mse", "--val-split", 0.2, "--run-dir", "p", "-o", "o.onnx")
expect("one value of the target is not spread", "target values" not in r.stderr and "8 samples" in r.stderr, r.stderr)

# The average begins where it began, if the run becomes longer.
swa = ["train", "m.onnx", "--data", "d.npz", "--val-split", 0.2]
for per in ("", ":per=update"):
    call(*swa, "--epochs", 10, "--swa", "4" + per, "-o", "s.onnx", "--run-dir", "s" + per[1:4])
    call(*swa, "--epochs", 6, "--swa", "0.5" + per, "-o", "f.onnx", "--run-dir", "f" + per[1:4])
    call("resume", "f" + per[1:4], "--epochs", 10)
    expect(f"--swa 0.5{per} of 6 epochs, then 10, is --swa 4{per}", (folder / "s.onnx").read_bytes() == (folder / "f.onnx").read_bytes())

# The run's own samples are those that it was not trained on.
for option in (["--seed", 3], ["--val-split", 0.5], ["--folds", "1/2"]):
    expect(f"eval RUN {option[0]}", "remove this option" in call("eval", "w", *option, code=2).stderr)
r = call("train", "m.onnx", "--data", "d.npz", "--folds", "2/3", "--epochs", 1, "--run-dir", "fold", "-o", "o.onnx")
line = re.search(r"to evaluate: +onnxtrain (.*)", r.stderr)[1]
got = json.loads(call(*line.split(), "--json").stdout)
expect("the suggested command evaluates the fold", abs(got["loss"] / log("fold", "eval")[-1]["loss"] - 1) < 1e-5 and got["samples"] < 40, line)

# A second output with values has its metrics beside the first one's, with classes.
z = (x @ rng.normal(size=(4, 2))).astype(np.float32)
np.savez(folder / "two.npz", x=x, target_y=y, target_z=z)
call("train", "heads.onnx", "--data", "two.npz", "--val-split", 0.2, "--metrics", "all", "--loss", "y=cross_entropy", "--loss", "z=mse", "--monitor", "r2",
     "--epochs", 2, "--run-dir", "h", "-o", "h.onnx")
e = log("h", "eval")[-1]
expect("metrics of both outputs", {"f1", "auc"} <= set(e["metrics"]["y"]) and {"mae", "rmse", "r2"} <= set(e["metrics"]["z"]), e)
expect("--monitor of the second output", log("h", "end")[0]["best_metric"] == "val r2")

# compare: validation and test apart.
call("train", "m.onnx", "--data", "d.npz", "--test", "t.npz", "--val-split", 0.2, "--epochs", 2, "--metrics", "all", "--monitor", "f1", "--run-dir", "c",
     "-o", "o.onnx")
rows = {row[:22].strip(): row[22:].split() for row in call("compare", "a", "c").stdout.splitlines()}
evals = log("c", "eval")
expect("compare: last of the validation set", rows["last loss"][1] == f"{evals[-2]['loss']:.5g}" and rows["test loss"][1] == f"{evals[-1]['loss']:.5g}", rows)
expect("compare: the monitored value", rows["best value"][1] == f"{max(e['f1'] for e in evals[:2]):.5g}", rows)

# After an early stop.
call("train", "m.onnx", "--data", "d.npz", "--val-split", 0.2, "--epochs", 9, "--patience", 1, "--min-delta", 5, "--run-dir", "e", "-o", "o.onnx")
expect("resume after an early stop", "--patience" in call("resume", "e", "--epochs", 20).stderr)
# Scores that are not numbers have no rank, and no AUC; the evaluation ends.
g = helper.make_graph([helper.make_node("Sqrt", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])], "g",
                      [value("x", TensorProto.FLOAT, ["N", 4])], [value("y", TensorProto.FLOAT, ["N", 2])],
                      [numpy_helper.from_array(np.ones((4, 2), np.float32), "w")])
onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "nan.onnx")
got = json.loads(call("eval", "nan.onnx", "--data", "d.npz", "--json", "--loss", "cross_entropy").stdout)
expect("no AUC with NaN", "auc" not in got and got["samples"] == 80, got)

# The samples of a run are compared before its best model is evaluated on them.
call("train", "m.onnx", "--data", "d.npz", "--val-split", 0.2, "--epochs", 2, "--select", "best", "--run-dir", "g", "-o", "o.onnx")
call("eval", "g", "--select", "best")
np.savez(folder / "d.npz", x=x[:80][::-1], target=y[:80][::-1])
expect("best model of a run, other data", "other samples" in call("eval", "g", "--select", "best", code=2).stderr)
finish()
