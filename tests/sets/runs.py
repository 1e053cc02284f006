"""What these tests share: the program, a call in a folder with a known exit code, verdicts, and the log of a run."""
import json
import pathlib
import subprocess
import sys

program = pathlib.Path(sys.argv[1]).resolve()
without_device = "compare", "report"
bad = 0


def call(folder, *arguments, code=0):
    where = () if arguments[0] in without_device else ("--device", "cpu")
    r = subprocess.run([program, *map(str, arguments), *where], cwd=folder, capture_output=True, text=True)
    if r.returncode != code:
        sys.exit(f"{' '.join(map(str, arguments))}: exit {r.returncode}, not {code}: {r.stderr}")
    return r


def expect(what, good, told=""):
    global bad
    bad += not good
    print(f"{what}: {'ok' if good else f'WRONG {told}'}")


def log(folder, run, event):
    lines = (pathlib.Path(folder) / run / "log.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == event]


def finish():
    sys.exit(bad > 0)
