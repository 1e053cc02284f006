#!/usr/bin/env python3
"""test_help.py PROGRAM [--write]: `onnxtrain help` prints every name with every key; the tables of the documents are what it says.

A table stands between `<!-- onnxtrain help --markdown TOPIC -->` and `<!-- end of the table -->`; --write brings all of them up to date.
"""
import functools
import pathlib
import re
import subprocess
import sys

PROGRAM, ROOT = sys.argv[1], pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = {"README.md": 2, "docs/reference.md": 11}  # tables in each
TABLE = re.compile(r"(<!-- onnxtrain (help --markdown[a-z ]*) -->\n).*?(<!-- end of the table -->)", re.S)
bad = 0


def wrong(text):
    global bad
    bad += 1
    print("FAILED:", text)


@functools.lru_cache(maxsize=None)  # a list is asked for once, not once for each of its names
def run(*words):
    p = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr


def output(*words):
    code, out, err = run(*words)
    if code or err or not out:
        wrong(f"{' '.join(words)}: exit code {code}: {err}")
    return out


def rows(markdown):
    """Tables as lists of cells, without heads."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in markdown.splitlines() if line.startswith("|")]
    heads = {i for i, cells in enumerate(lines) if set("".join(cells)) <= {"-"}}
    return [[c.strip().strip("`").replace("\\|", "|") for c in cells] for i, cells in enumerate(lines) if i not in heads and i + 1 not in heads]


def registry(topic):
    table, listed = rows(output("help", "--markdown", topic)), output("help", topic)
    names = {r[0].split()[topic == "command"]: r[1] for r in table if len(r) == 2}
    keys = [r for r in table if len(r) == 5]
    for name, meaning in names.items():
        if not meaning or not re.search(rf"^  {re.escape(name)} +{re.escape(meaning)}$", listed, re.M):
            wrong(f"help {topic} does not say what {name} is")
        one = output("help", topic, name)
        printed = {m[0] for m in re.findall(r"^  (\w+)(=| \()", one, re.M)}
        mine = [k for k in keys if k[0] == name]
        if printed != {k[1] for k in mine}:
            wrong(f"help {topic} {name} prints {sorted(printed)}, the table has {sorted(k[1] for k in mine)}")
        for _, key, default, wants, meaning in mine:
            if not default or not wants or not meaning:
                wrong(f"{topic} {name}: {key} lacks a default, a value or a meaning")
            if not all(text in one for text in (default, wants, meaning)):
                wrong(f"help {topic} {name} does not say all of {key}")
    for text in names:
        if run("help", topic, "no-such-name")[0] != 2 or text not in run("help", topic, "no-such-name")[2]:
            wrong(f"help {topic} no-such-name does not name {text}")
            break
    return names, keys


def refused(topic, name, key, keys):
    """An unknown key lists those there are."""
    code, _, err = run("train", str(ROOT / "models/lenet.onnx"), "--data", "mnist", "--run-dir", "none", f"--{topic}", f"{name}:{key}=1")
    if code != 2 or not all(k in err for k in keys):
        wrong(f"--{topic} {name}:{key}=1: exit code {code}: {err}")


def documents(write):
    for path, tables in DOCUMENTS.items():
        text = (ROOT / path).read_text()
        found = TABLE.findall(text)
        if len(found) != tables:
            wrong(f"{path} has {len(found)} tables; {tables} are expected")
        now = TABLE.sub(lambda m: m[1] + output(*m[2].split()) + m[3], text)
        if write and now != text:
            (ROOT / path).write_text(now)
        elif now != text:
            wrong(f"{path} is not what the program says; tests/python tests/cli/test_help.py build/onnxtrain --write brings it up to date")


def main():
    topics = {r[0]: r[1].split(", ") for r in rows(output("help", "--markdown"))}
    text = output("help")
    if set(topics) != {"optimizer", "loss", "schedule", "data", "new", "metric", "command", "teacher", "augment", "plots", "lora"}:
        wrong(f"topics are {sorted(topics)}")
    for topic, listed in topics.items():
        if not re.search(rf"^  {topic} ", text, re.M):
            wrong(f"help does not name {topic}")
        names, keys = registry(topic)
        if list(names) != listed:
            wrong(f"help --markdown has {listed} of {topic}, help {topic} has {list(names)}")
        if topic in ("optimizer", "loss", "schedule"):
            mine = [k[1] for k in keys if k[0] == listed[0]]
            refused(topic, listed[0], "no_such_key", mine)
            missing = [n for n in listed if n not in output("--help")]
            if len(keys) < 40 or not mine or missing:
                wrong(f"{topic}: {len(keys)} keys; --help does not name {missing}")
    code, _, err = run("help", "nothing")
    if code != 2 or not all(t in err for t in [*topics, "option"]):
        wrong(f"help nothing: exit code {code}: {err}")
    for word, asked in ("bench", ("command", "bench")), ("train", ("command", "train")), ("adam", ("optimizer", "adam")), ("lr", ("option", "lr")):
        if output("help", word) != output("help", *asked):
            wrong(f"help {word} is not help {' '.join(asked)}")
    code, _, err = run("help", "cosine")
    if code != 2 or not all(f"'help {topic} cosine'" in err for topic in ("loss", "schedule")):
        wrong(f"help cosine: exit code {code}: {err}")
    for command in topics["command"]:
        text = output(command, "--help")
        if text != output("help", "command", command) or f"  onnxtrain {command}" not in text or "--quiet" not in text and command not in ("help", "completion"):
            wrong(f"{command} --help: {text}")
    if "--graph" in output("train", "--help") or "--graph" not in output("inspect", "--help"):
        wrong("COMMAND --help has the options of another command")
    options = rows(output("help", "--markdown", "option"))
    for name, _, meaning in options:
        word = name.split()[0]
        word = word.split("[")[0]
        one = output("help", "option", word.lstrip("-"))
        if word not in ("--man", "--markdown") and output("help", word) != one:  # those are options of help itself
            wrong(f"help {word} is not help option {word}")
        if not meaning or meaning not in one or word not in output("help", "option"):
            wrong(f"help option {word}: {one}")
    if len(options) < 50 or "a whole number from 1 to" not in output("help", "option", "epochs"):
        wrong("help option epochs does not say which numbers")
    if run("help", "option", "epoch")[0] != 2 or "epochs" not in run("help", "option", "epoch")[2]:
        wrong("help option epoch")
    documents("--write" in sys.argv[2:])
    print("failed:" if bad else "help and documents say what the registries say", bad or "")
    return bad > 0


sys.exit(main())
