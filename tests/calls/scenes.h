/* scenes.h - the commands that run while calls fail: every command that writes files. */
#ifndef OT_TESTS_CALLS_SCENES_H
#define OT_TESTS_CALLS_SCENES_H

#include <stdbool.h>

typedef struct scene {
    const char *name;
    const char *fixtures;  /* files of tests/calls that are there */
    const char *before[4]; /* what was done earlier */
    const char *command;
    const char *outs; /* the files that the command writes, the same in each run */
    bool no_tmpfile;
    int code; /* what is refused writes nothing */
} scene;

#define NEW "new mlp -o plain.onnx --input 1x2x2 --hidden 5 --classes 3 -q"
#define TABLE " --data table.csv --target target --threads 1 -q"

/* The outputs exist: an earlier run wrote them. */
static const scene scenes[] = {
    { "train: run folder, log, config, deployable form",
      "table.csv seed.conf",
      { NEW, "plain.onnx --steps 3 --lr 0.1 -o out.onnx --deploy lean.onnx --run-dir run --log all.jsonl" TABLE },
      "plain.onnx --config seed.conf --val table.csv --steps 2 -o out.onnx --deploy lean.onnx --run-dir run --log all.jsonl" TABLE,
      "out.onnx lean.onnx",
      false,
      0 },
    { "train: external data, numbered folder",
      "table.csv linear.onnx linear.data",
      { "linear.onnx --steps 3 --lr 0.1 -o out.onnx --deploy lean.onnx --run-dir none" TABLE,
        "cp lean.onnx other.onnx" },
      "linear.onnx --steps 2 -o out.onnx --deploy lean.onnx" TABLE,
      "out.onnx lean.onnx",
      false,
      0 },
    { "train: external data, no files without a name",
      "table.csv linear.onnx linear.data",
      { "linear.onnx --steps 3 --lr 0.1 -o out.onnx --deploy lean.onnx --run-dir none" TABLE },
      "linear.onnx --steps 2 -o out.onnx --deploy lean.onnx --run-dir none" TABLE,
      "out.onnx lean.onnx",
      true,
      0 },
    { "resume",
      "table.csv",
      { NEW, "plain.onnx --steps 3 --lr 0.1 -o out.onnx --run-dir run --checkpoint-every 1steps" TABLE },
      "resume run --steps 7 --threads 1 -q",
      "out.onnx",
      false,
      0 },
    { "train: nothing was there",
      "table.csv linear.onnx linear.data",
      { NULL },
      "linear.onnx --steps 2 --val table.csv -o out.onnx --run-dir a/b/run" TABLE,
      "out.onnx",
      false,
      0 },
    { "export: external data, folded, float16",
      "table.csv linear.onnx linear.data",
      { "export linear.onnx --fold -o lean.onnx -q" },
      "export linear.onnx --fold --fp16 -o lean.onnx -q",
      "lean.onnx",
      false,
      0 },
    { "run",
      "arrays.npz linear.onnx linear.data",
      { "grad linear.onnx --data arrays.npz --threads 1 -o y.npz -q" },
      "run linear.onnx --data arrays.npz --threads 1 -o y.npz -q",
      "y.npz",
      false,
      0 },
    { "grad",
      "arrays.npz linear.onnx linear.data",
      { "run linear.onnx --data arrays.npz --threads 1 -o g.npz -q" },
      "grad linear.onnx --data arrays.npz --threads 1 -o g.npz -q",
      "g.npz",
      false,
      0 },
    { "new",
      "",
      { "new mlp -o fresh.onnx --input 1x2x2 --hidden 5 --classes 3 -q" },
      "new mlp -o fresh.onnx --input 1x2x2 --hidden 6 --classes 3",
      "fresh.onnx",
      false,
      0 },
    { "refused: -o is the data",
      "table.csv linear.onnx linear.data",
      { "cp table.csv out" },
      "linear.onnx --data out --target target --threads 1 -q -o ./out",
      "",
      false,
      2 },
    { "refused: -o is the model's data",
      "table.csv linear.onnx linear.data",
      { "cp linear.data out" },
      "linear.onnx -o linear.data" TABLE,
      "",
      false,
      2 },
    { "refused: --log is the data",
      "table.csv linear.onnx linear.data",
      { NULL },
      "linear.onnx --run-dir none --log ./table.csv -o out.onnx" TABLE,
      "",
      false,
      2 },
};
enum { N_SCENES = sizeof scenes / sizeof *scenes };

#endif
