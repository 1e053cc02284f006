#!/usr/bin/env python3
"""test_eval_run.py PROGRAM: `onnxtrain eval RUN` gives the numbers that the run's own log has, to the last digit."""
import json
import pathlib
import tempfile

import numpy as np

from runs import call, expect, finish, log

N, PIXELS = 301, 16


def data(path, seed, n):
    r = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = (r.random((n, 4, 4)) * 120 + 40 * y[:, None, None]).astype(np.uint8)
    np.savez(path, input=x.reshape(n, PIXELS), target=y.astype(np.int64))


def run(folder, name, *options):
    call(folder, "train", "m.onnx", "--data", "d.npz", "--epochs", "3", "--run-dir", name, "-o", name + ".onnx", *options)
    return log(folder, name, "eval"), log(folder, name, "end")[-1]


def evaluate(folder, *arguments):
    return json.loads(call(folder, "eval", *arguments, "--json").stdout)


def same(a, b):
    return all(a[k] == b[k] for k in ("split", "samples", "loss", "accuracy"))


def near(a, b):
    return a["samples"] == b["samples"] and a["accuracy"] == b["accuracy"] and abs(a["loss"] - b["loss"]) < 1e-5


def table(path, seed, n):
    """Numbers that are standardised, missing values, categories, and strings as classes."""
    r = np.random.default_rng(seed)
    with open(path, "w") as f:
        f.write("size,weight,colour,made,kind\n")
        for i in range(n):
            weight = "" if i % 17 == 3 else f"{r.normal(70, 9):.2f}"
            f.write(f"{r.normal(i % 3, 0.5) * 1000:.3f},{weight},{['red', 'green', 'blue'][r.integers(3)]},2024-0{1 + i % 9}-11,{['cat', 'dog', 'cow'][i % 3]}\n")


def tables(folder):
    """The best model records how its table is encoded: the samples that were kept back stay the same."""
    call(folder, "new", "mlp", "--input", "1x3x3", "--hidden", "8", "--classes", "3", "-o", "m9.onnx")
    table(folder / "t.csv", 3, 240)
    for name, split in ("split", ("--val-split", "0.2")), ("fold", ("--folds", "2/4")):
        options = *split, "--data", "t.csv", "--epochs", "4", "--lr", "0.1", "--run-dir", name, "--select", "best", "-o", name + ".onnx"
        call(folder, "train", "m9.onnx", *options)
        evals, end = log(folder, name, "eval"), log(folder, name, "end")[-1]
        expect(f"{name} of a table: the best", near(evaluate(folder, name), evals[end["best_epoch"] - 1]))
        expect(f"{name} of a table: its last weights", same(evaluate(folder, name, "--select", "last"), evals[-1]))
    changed = (folder / "t.csv").read_text().splitlines()
    changed[9] = changed[9].replace(changed[9].split(",")[0], "123.5")
    (folder / "t.csv").write_text("\n".join(changed) + "\n")
    expect("a table that has changed", "other samples" in call(folder, "eval", "split", code=2).stderr)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        call(folder, "new", "mlp", "--input", "1x4x4", "--hidden", "8", "--classes", "3", "-o", "m.onnx")
        data(folder / "d.npz", 1, N)
        data(folder / "t.npz", 2, 77)
        split = "--val-split", "0.2", "--seed", "5", "--normalize", "mean,std"

        evals, _ = run(folder, "last", *split)
        expect("validation samples", same(evaluate(folder, "last"), evals[-1]))
        expect("the written model on the same samples", near(evaluate(folder, "last.onnx", "--data", "d.npz", *split), evals[-1]))
        other = evaluate(folder, "last.onnx", "--data", "d.npz", *split, "--seed", "6")
        expect("another seed keeps others back", other["samples"] == evals[-1]["samples"] and other["loss"] != evals[-1]["loss"])
        expect("another seed of a run is refused", "remove this option" in call(folder, "eval", "last", "--seed", "6", code=2).stderr)

        evals, end = run(folder, "best", *split, "--select", "best", "--optimizer", "sgd:lr=0.8,momentum=0.9", "--monitor", "loss")
        of_best = evals[end["best_epoch"] - 1]
        expect("the best epoch is not the last", end["best_epoch"] != 3)
        expect("the best of --select best", near(evaluate(folder, "best"), of_best))
        expect("the last of it", same(evaluate(folder, "best", "--select", "last"), evals[-1]))

        evals, _ = run(folder, "ema", *split, "--ema", "0.9", "--test", "t.npz", "--loss", "cross_entropy:label_smoothing=0.1")
        expect("averages on the test set", evals[-1]["split"] == "test" and same(evaluate(folder, "ema"), evals[-1]))

        evals, _ = run(folder, "plain", "--normalize", "mean,std", "--test", "t.npz")
        expect("no validation samples", same(evaluate(folder, "plain"), evals[-1]))
        run(folder, "alone", "--normalize", "mean,std")
        whole = evaluate(folder, "alone")
        expect("no set: all of the data", whole["samples"] == N)
        kept = (folder / "d.npz").read_bytes()
        with np.load(folder / "d.npz") as d:
            np.savez(folder / "d.npz", **{n: d[n][1:] for n in d})
        said = call(folder, "eval", "alone", code=4).stderr
        expect("changed data: what evaluates the model", "onnxtrain eval MODEL --data DATA" in said and "continues" not in said, said)
        (folder / "d.npz").write_bytes(kept)
        expect("another set, scaled as the training's", near(evaluate(folder, "alone", "--data", "t.npz"), evals[-1]))

        # Without a usable checkpoint best.onnx is evaluated, on the samples of the run.
        evals, end = run(folder, "damaged", *split, "--optimizer", "sgd:lr=0.8,momentum=0.9", "--monitor", "loss", "--loss", "cross_entropy:class_weights=auto")
        for checkpoint in (folder / "damaged").glob("checkpoint-*"):
            checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
        r = call(folder, "eval", "damaged", "--json")
        expect("damaged checkpoints: the best", near(json.loads(r.stdout), evals[end["best_epoch"] - 1]) and "evaluating best.onnx" in r.stderr, r.stderr)
        expect("the last weights are gone", "checkpoint" in call(folder, "eval", "damaged", "--select", "last", code=7).stderr)
        there = json.loads(call(folder, "eval", "damaged", "--data", "t.npz", "--json").stdout)
        expect("another set, without a checkpoint", there["samples"] == 77)
        (folder / "damaged" / "best.onnx").unlink()
        expect("neither a checkpoint nor a best model", "start the training again" in call(folder, "eval", "damaged", code=7).stderr)

        tables(folder)

        # -100 is no class, though it gets its share.
        with np.load(folder / "d.npz") as d:
            np.savez(folder / "ignored.npz", input=d["input"], target=np.where(np.arange(N) % 10 == 0, -100, d["target"]))
        r = call(folder, "train", "m.onnx", "--data", "ignored.npz", "--epochs", "1", "--run-dir", "none", "-o", "i.onnx", "--val-split", "0.2")
        expect("-100 is no class", "the same fraction of each of 3 target values" in r.stderr, r.stderr)

        (folder / "empty").mkdir()
        there = evaluate(folder / "empty", "../alone")
        expect("from another folder", {**there, "model": "m.onnx", "data": "d.npz"} == whole)
        expect("no run", "options.conf" in call(folder, "eval", "empty", code=2).stderr)
    finish()


main()
