/* checkpoint.c - the input is the checkpoint of a run: the run is continued to its end, and evaluated.
 *
 * regressions/checkpoint/good is that of   onnxtrain train regressions/model/0-mlp --data regressions/train/0-mlp
 * --steps 1 --batch-size 3 --threads 1 --select best --metrics all --val regressions/train/0-mlp --schedule plateau
 * --run-dir run -o out.onnx   */
#include "tests/fuzz/models.h"

#include <stdlib.h>

#include "runtime/train/run/checkpoint.h"

const char *const fuzz_words[] = { "run.npy",     "step.npy",    "epoch.npy",    "best/0/w.npy", "format",
                                   "model",       "--data",      "--batch-size", "--steps",      "--loss",
                                   "--schedule",  "--optimizer", "--ema",        "--swa",        "--teacher",
                                   "--val-split", "--folds",     "best metric",  "threads",      "val accuracy",
                                   "<i8",         "<f8",         "|u1",          "'shape': ()",  NULL };

static const char mark[] = "# onnxtrain 0\nselect = best\n";

static bool options_of(const ot_checkpoint *c, ot_options *o)
{
    ot_error e = { 0 };
    if (fuzz_status("ot_checkpoint_options", ot_checkpoint_options(c, o, &e), &e)) return false;
    fuzz_tame(o);
    return true;
}

static void resume(ot_checkpoint *c)
{
    ot_options *o = ot_options_new();
    ot_trainer *t = NULL;
    ot_error e = { 0 }, checked = { 0 }, resumed = { 0 }, ran = { 0 };
    ot_model *m = options_of(c, o) ? fuzz_load(OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-mlp") : NULL;
    if (m && !fuzz_status("ot_checkpoint_check", ot_checkpoint_check(c, m, &checked), &checked) &&
        !fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &e), &e) &&
        !fuzz_status("ot_trainer_resume", ot_trainer_resume(t, c, &resumed), &resumed))
        fuzz_status("ot_trainer_run", ot_trainer_run(t, &ran), &ran);
    ot_trainer_free(t);
    ot_model_free(m);
    ot_options_free(o);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_checkpoint *c = NULL;
    ot_error e = { 0 };
    const char *run = fuzz_subfolder("run");
    fuzz_path("run/?*");
    fuzz_path("out.onnx");
    fuzz_path("log");
    fuzz_path("tensorboard");
    fuzz_path("tensorboard/?*");
    fuzz_path("deploy");
    fuzz_write("run/options.conf", mark, sizeof mark - 1);
    fuzz_write("run/checkpoint-000000001.npz", p, n);
    if (!fuzz_status("ot_checkpoint_open", ot_checkpoint_open(run, NULL, &c, &e), &e)) resume(c);
    ot_checkpoint_free(c);
}
