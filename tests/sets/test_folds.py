#!/usr/bin/env python3
"""test_folds.py PROGRAM: --folds validates every sample once, in folds and classes that differ by one sample at most; its table is what the
folds' logs say, and its mean that of finished folds; a series that was stopped continues to the same numbers; sweep trains every combination once and sorts them.

Each sample of the first data has a loss of its own power of two, and nothing is learnt: the loss of a fold says which samples are in it.
"""
import csv
import json
import pathlib
import signal
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from runs import call, expect, finish, log, program

N, FOLDS = 23, 4

signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that are started do not inherit that it is ignored


def table(path):
    with open(path) as f:
        return list(csv.DictReader(f))


def plain(rows):
    """Without what depends on the clock."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def members(folder, rows):
    """The samples of each fold."""
    out = []
    for row in rows:
        lines = (folder / row["fold"] / "log.jsonl").read_text().splitlines()
        n = [json.loads(line)["samples"] for line in lines if '"eval"' in line][-1]
        bits = round(float(row["loss"]) * n)
        out.append([i for i in range(N) if bits >> i & 1])
        assert len(out[-1]) == n, (bits, n)
    return out


def which_samples(folder):
    c = np.array([0] * 12 + [1] * 7 + [2] * 4)
    c = c[np.random.default_rng(1).permutation(N)]
    x = (2.0 ** np.arange(N) + c).astype(np.float32)[:, None]
    np.savez(folder / "d.npz", x=x, target=c.astype(np.float32)[:, None])
    info = helper.make_tensor_value_info
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [info("x", TensorProto.FLOAT, ["N", 1])],
                          [info("y", TensorProto.FLOAT, ["N", 1])], [helper.make_tensor("w", TensorProto.FLOAT, [1, 1], [1.0])])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    train = "train", "m.onnx", "--data", "d.npz", "--loss", "l1", "--lr", "0", "--weight-decay", "0", "--epochs", "1", "--batch-size", "1"
    seen = []
    for seed in "1", "2":
        run = folder / ("seed" + seed)
        call(folder, *train, "--folds", FOLDS, "--seed", seed, "--run-dir", run.name)
        folds = members(run, table(run / "folds.csv"))
        seen.append(folds)
        expect("every sample is validated once", sorted(sum(folds, [])) == list(range(N)))
        for of in [range(N)] + [np.flatnonzero(c == k) for k in range(3)]:
            counts = [len(set(of) & set(f)) for f in folds]
            expect(f"spread evenly: {counts}", max(counts) - min(counts) <= 1)
    expect("another seed, other folds", seen[0] != seen[1])
    ev = json.loads(call(folder, "eval", "m.onnx", "--data", "d.npz", "--loss", "l1", "--folds", f"2/{FOLDS}", "--seed", 1, "--json").stdout)
    expect("eval of one of them", round(ev["loss"] * ev["samples"]) == sum(2**i for i in seen[0][1]))


def classify(folder):
    call(folder, "new", "mlp", "--input", "1x4x4", "--hidden", "8", "--classes", "3", "-o", "n.onnx")
    r = np.random.default_rng(6)
    y = r.integers(0, 3, 90)
    np.savez(folder / "n.npz", input=(r.random((90, 16)) + 0.4 * np.eye(3, 16)[y]).astype(np.float32), target=y)
    return "n.onnx", "--data", "n.npz", "--checkpoint-every", "5steps"


def stop_and_resume(folder, train, name, sig, code, again=None):
    """Stops a series in its second training and continues it."""
    p = subprocess.Popen([program, *train, "--device", "cpu", "--run-dir", name], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    second = folder / name / ("run-2" if train[0] == "sweep" else "fold-2") / "log.jsonl"
    end = time.time() + 60
    while time.time() < end and p.poll() is None and (not second.exists() or second.stat().st_size < 500):
        time.sleep(0.002)
    p.send_signal(sig)
    _, err = p.communicate()
    stopped = p.returncode == code
    expect(f"stopped by {sig.name}: exit {p.returncode}", stopped)
    if sig == signal.SIGINT:
        expect("says how to continue", f"onnxtrain resume {name}" in err)
    out = call(folder, *(again or ("resume", name)))
    expect("the first one is not trained again", "1 of" in out.stderr and "was trained before" in out.stderr)
    return out


def mean_of_finished(folder):
    """Stopped in the second fold after some epochs: the mean is the first fold's alone."""
    p = subprocess.Popen([program, "train", *classify(folder), "--folds", "3", "--epochs", "100000000", "--time-limit", "1s", "--run-dir", "part", "--device", "cpu", "--quiet"],
                         cwd=folder, stdout=subprocess.PIPE, text=True)
    log = folder / "part/fold-2/log.jsonl"
    end = time.time() + 60
    while time.time() < end and p.poll() is None and not (log.exists() and '"eval"' in log.read_text()):
        time.sleep(0.002)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate()
    rows = table(folder / "part/folds.csv")
    expect("stopped in the second", p.returncode == 130 and [q["state"] for q in rows] == ["time limit", "cancelled", ""] and rows[1]["loss"] != "")
    last = json.loads((folder / "part/log.jsonl").read_text().splitlines()[-1])
    expect("only the finished fold is in the mean", np.isclose(last["mean"]["loss"], float(rows[0]["loss"])) and last["std"] == {} and last["finished"] == 1)
    expect("which is said", "mean and std include 1 of 3 folds" in out)


def folds(folder):
    train = "train", *classify(folder), "--folds", "3", "--epochs", "60", "--seed", "3"
    r = call(folder, *train, "--run-dir", "whole")
    rows = table(folder / "whole/folds.csv")
    lines = {line.split()[0]: line.split() for line in r.stdout.splitlines() if line}
    loss = np.array([float(row["loss"]) for row in rows])
    place = lines["fold"].index("loss")
    expect("mean and standard deviation", np.allclose([float(lines[k][place - 1]) for k in ("mean", "std")], [loss.mean(), loss.std(ddof=1)], rtol=1e-5))
    end = json.loads((folder / "whole/log.jsonl").read_text().splitlines()[-1])
    expect("and in the log", np.isclose(end["mean"]["loss"], loss.mean()) and np.isclose(end["std"]["accuracy"], np.std([float(q["accuracy"]) for q in rows], ddof=1)))
    evals = [json.loads(line) for line in (folder / "whole/fold-2/log.jsonl").read_text().splitlines() if '"eval"' in line]
    expect("of the last epoch", np.isclose(evals[-1]["loss"], loss[1], rtol=1e-8) and rows[1]["epoch"] == "60")
    ev = json.loads(call(folder, "eval", "whole/fold-2", "--json").stdout)
    expect("eval of a fold", ev["loss"] == evals[-1]["loss"])
    call(folder, "train", *train[1:], "--folds", "2/3", "--run-dir", "one", "-o", "one.onnx")
    expect("one fold alone is the same", (folder / "one.onnx").read_bytes() == (folder / "whole/fold-2/trained.onnx").read_bytes())
    for sig, code in (signal.SIGINT, 130), (signal.SIGKILL, -9):
        stop_and_resume(folder, train, sig.name, sig, code)
        expect("to the same table", plain(table(folder / sig.name / "folds.csv")) == plain(rows))
    expect("-o is refused", "trained.onnx" in call(folder, *train, "-o", "x.onnx", code=2).stderr)
    expect("--val-split is refused", call(folder, *train, "--val-split", "0.1", code=2))
    call(folder, *train, "--folds", "91", "--run-dir", "many", code=4)
    expect("more folds than samples leave no folder", not (folder / "many").exists())
    r = call(folder, "resume", "whole", "--epochs", "70", code=2)
    expect("other options at resume are refused", "--epochs" in r.stderr and "resume whole/fold-1 --epochs 70" in r.stderr)
    call(folder, "resume", "whole", "--epochs", "60", "--threads", "1")
    for words in ("report", "whole"), ("eval", "whole"):
        r = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
        expect(f"{words[0]} names the folders", r.returncode == 2 and "is the folder of several trainings" in r.stderr and f"{words[0]} whole/fold-1, up to fold-3" in r.stderr)
    folds = [f"whole/fold-{k}" for k in (1, 2, 3)]
    named = call(folder, "compare", *folds).stdout
    beside = sorted(str(p.relative_to(folder)) for p in (folder / "whole").iterdir())
    expect("compare takes the folder of several trainings, and all that a pattern names in it", beside != folds and "whole/fold-3" in named
           and named == call(folder, "compare", "whole").stdout == call(folder, "compare", *beside).stdout)
    r = call(folder, "compare", "whole/fold-1", "whole/folds.csv", code=2)
    expect("compare names a file that is no run", "got 1" in r.stderr and "whole/folds.csv: is a file" in r.stderr)
    r = call(folder, "train", classify(folder)[0], "--folds", "3", "--run-dir", "none", "--data", "missing.npz", code=2)
    expect("--run-dir none is refused before the data are read", "several trainings need a folder" in r.stderr and "missing" not in r.stderr)
    limited = *train[:-4], "--epochs", "100000000", "--time-limit", "0.2s", "--folds", "2", "--quiet", "--tensorboard=events"
    call(folder, *limited, "--run-dir", "limited")
    before = table(folder / "limited/folds.csv")
    call(folder, "resume", "limited")
    after = table(folder / "limited/folds.csv")
    expect("folds that a time limit ended continue", all(p["state"] == q["state"] == "time limit" and int(p["epoch"]) < int(q["epoch"]) for p, q in zip(before, after)))
    expect("--tensorboard=DIR has a folder for each", sorted(p.name for p in (folder / "events").iterdir()) == ["fold-1", "fold-2"])


def same_numbers(folder):
    """Each of three folds has one sample of each of five classes, and one class is predicted: the accuracies are 0.2, whose sum is rounded, and deviate by 0."""
    np.savez(folder / "same.npz", x=np.ones((15, 1), np.float32), target=np.arange(15) % 5)
    info = helper.make_tensor_value_info
    g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [info("x", TensorProto.FLOAT, ["N", 1])],
                          [info("y", TensorProto.FLOAT, ["N", 5])], [helper.make_tensor("w", TensorProto.FLOAT, [1, 5], [1.0, 0, 0, 0, 0])])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "same.onnx")
    call(folder, "train", "same.onnx", "--data", "same.npz", "--loss", "cross_entropy", "--lr", "0", "--weight-decay", "0", "--epochs", "1", "--folds", "3", "--run-dir", "same")
    end = json.loads((folder / "same/log.jsonl").read_text().splitlines()[-1])
    got = [float(q["accuracy"]) for q in table(folder / "same/folds.csv")]
    expect("equal accuracies deviate by 0", got == [0.2] * 3 and end["mean"]["accuracy"] == 0.2 and end["std"]["accuracy"] == 0)


def sweeps(folder):
    sweep = "sweep", *classify(folder), "--val-split", "0.2", "--epochs", "40", "--grid", "lr=1e-4,1e-2", "--grid", "optimizer=adamw|sgd:lr=0.1,momentum=0.9"
    sweep = sweep[:-2] + ("--grid", "batch-size=16,48")
    r = call(folder, *sweep, "--run-dir", "grid")
    rows = table(folder / "grid/sweep.csv")
    expect("every combination", sorted((q["lr"], q["batch-size"]) for q in rows) == [("1e-2", "16"), ("1e-2", "48"), ("1e-4", "16"), ("1e-4", "48")])
    best = [float(q["best"]) for q in rows]
    expect("sorted by the validation accuracy", best == sorted(best, reverse=True) and rows[0]["best_metric"] == "val accuracy" and best[0] > best[-1])
    expect("the best is said", f"best: grid/{rows[0]['run']} " in r.stdout and f"--lr {rows[0]['lr']}" in r.stdout)
    row = next(q for q in rows if (q["lr"], q["batch-size"]) == ("1e-4", "48"))
    call(folder, "train", *sweep[1:-4], "--lr", "1e-4", "--batch-size", "48", "--run-dir", "none", "-o", "one.onnx")
    expect("a training of it is a training", (folder / "one.onnx").read_bytes() == (folder / "grid" / row["run"] / "trained.onnx").read_bytes())
    again = call(folder, *sweep, "--run-dir", "grid")
    expect("again: nothing is trained", again.stderr.count("was trained before") == 4 and again.stdout == r.stdout)
    model = folder / "grid/run-2/trained.onnx"
    whole = model.read_bytes()
    model.unlink()  # as after a kill between the last update and the model
    again = call(folder, *sweep, "--run-dir", "grid")
    expect("one without its model gets it", again.stderr.count("was trained before") == 3 and model.exists() and model.read_bytes() == whole)
    stop_and_resume(folder, sweep, "stopped", signal.SIGKILL, -9, again=(*sweep, "--run-dir", "stopped"))
    expect("stopped and given again: the same table", plain(table(folder / "stopped/sweep.csv")) == plain(rows))
    for _ in range(2):
        call(folder, *sweep)
    there = sorted(p.name for p in (folder / "runs").iterdir())
    expect(f"without --run-dir too: {there}", there == ["n-1"])

    draw = "sweep", "n.onnx", "--data", "n.npz", "--val-split", "0.2", "--epochs", "1", "--random", "12", "lr=log:1e-4..1e-1", "batch-size=8..16"
    call(folder, *draw, "--run-dir", "draw1")
    call(folder, *draw, "--run-dir", "draw2")
    drawn = [sorted((float(q["lr"]), int(q["batch-size"])) for q in table(folder / d / "sweep.csv")) for d in ("draw1", "draw2")]
    lr = np.log10([q[0] for q in drawn[0]])
    expect("draws are the seed's, in the range", drawn[0] == drawn[1] and len(set(lr)) == 12 and lr.min() >= -4 and lr.max() <= -1 and
           lr.max() - lr.min() > 1.5 and {8, 9, 10, 11, 12, 13, 14, 15, 16} >= {q[1] for q in drawn[0]})
    call(folder, "sweep", "n.onnx", "--data", "n.npz", "--val-split", "0.2", "--epochs", "3", "--optimizer", "sgd", "--grid", "lr=1e38,0.1", "--run-dir", "bad")
    rows = table(folder / "bad/sweep.csv")
    expect("one that diverges is a row", [q["state"] for q in rows] == ["finished", "diverged"])
    half = call(folder, "sweep", "n.onnx", "--data", "n.npz", "--epochs", "3", "--optimizer", "sgd", "--grid", "lr=1e38,0.1", "--run-dir", "half")
    expect("which a warning counts", "1 of 2 trainings failed or diverged" in half.stderr and "run-2/trained.onnx, of that epoch" in half.stdout)
    for _ in range(2):
        r = call(folder, "sweep", "n.onnx", "--data", "n.npz", "--epochs", "3", "--optimizer", "sgd", "--grid", "lr=1e38,1e37", "--run-dir", "none-left", code=6)
        expect("all diverged: the status of the first", "all 2 trainings" in r.stderr and [q["state"] for q in table(folder / "none-left/sweep.csv")] == ["diverged"] * 2)
    for p in (folder / "half/run-1").glob("checkpoint-*"):
        p.unlink()
    log = folder / "half/run-1/log.jsonl"
    log.write_text("".join(log.read_text().splitlines(True)[:-1]))  # as if it had been stopped
    again = call(folder, "resume", "half").stderr
    expect("without a checkpoint it starts again, and no more is needed", "starts from its beginning: " in again and "onnxtrain train" not in again, again)
    few = "sweep", "n.onnx", "--data", "n.npz", "--val-split", "0.2", "--epochs", "1", "dropout=off,0.5", "lr=1e-2,1e-3,1e-4"
    for n, trained in (5, 5), (20, 6):
        r = call(folder, *few, "--random", n, "--run-dir", f"few{n}")
        drawn = [(q["dropout"], q["lr"]) for q in table(folder / f"few{n}/sweep.csv")]
        expect(f"draws of lists do not repeat: {len(drawn)}", len(drawn) == len(set(drawn)) == trained)
    expect("fewer combinations than draws: that is said", "6 combinations" in r.stderr)
    expect("what the files contain is said", "best.onnx, of that epoch; trained.onnx has the last" in r.stdout)
    for words in (["--grid", "lr=1,x"], ["--grid", "nope=1"], ["--grid", "lr"], [], ["--grid", "lr=1..2"], ["--grid", "o=a,b"], ["--grid", "lr=1,2", "-o", "x"]):
        call(folder, "sweep", "n.onnx", "--data", "n.npz", *words, code=2)


def many_outputs(folder):
    """Every number of an evaluation is a column, however many there are and however long their names."""
    names = [f"output_{k}_" + "long" * 20 for k in range(9)]
    info = helper.make_tensor_value_info
    g = helper.make_graph([helper.make_node("MatMul", ["x", f"w{k}"], [name]) for k, name in enumerate(names)], "g", [info("x", TensorProto.FLOAT, ["N", 4])],
                          [info(name, TensorProto.FLOAT, ["N", 2]) for name in names],
                          [helper.make_tensor(f"w{k}", TensorProto.FLOAT, [4, 2], np.random.default_rng(k).standard_normal(8)) for k in range(9)])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "many.onnx")
    r = np.random.default_rng(3)
    np.savez(folder / "many.npz", x=r.standard_normal((40, 4)).astype(np.float32), **{f"target_{name}": r.integers(0, 2, 40) for name in names})
    out = call(folder, "train", "many.onnx", "--data", "many.npz", "--folds", 2, "--epochs", 1, "--metrics", "all", "--run-dir", "many").stdout
    rows = table(folder / "many/folds.csv")
    own = log(folder, "many/fold-2", "eval")[-1]
    for name in names:
        told = own["losses"][name], own["accuracies"][name], own["metrics"][name]["f1"], own["metrics"][name]["log_loss"]
        kept = [float(rows[1][key]) for key in (f"losses/{name}", f"accuracies/{name}", f"metrics/{name}/f1", f"metrics/{name}/log_loss")]
        expect(f"columns of {name[:9]}", np.allclose(told, kept, rtol=1e-6) and f"metrics/{name}/auc" in out, f"{told} {kept}")
    expect("the table is aligned", len({len(line) for line in out.splitlines() if line.startswith(("mean", "std"))}) == 1 and
           all(out.splitlines()[0].index(f"losses/{n}") + len(f"losses/{n}") <= len(out.splitlines()[1]) for n in names))


def main():
    with tempfile.TemporaryDirectory() as temporary:
        for part in which_samples, mean_of_finished, folds, same_numbers, sweeps, many_outputs:
            part(pathlib.Path(temporary))
    finish()


main()
