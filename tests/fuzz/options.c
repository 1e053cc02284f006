/* options.c - the input is a config file.  What it sets is set again one by one, then a model is checked, planned
 * and trained for two updates with it.  Files, folders and sizes are replaced by harmless ones. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "\nloss = ",
                                   "\noptimizer = ",
                                   "\nschedule = ",
                                   "\nlr = ",
                                   "\nnormalize = ",
                                   "\ntrain = *",
                                   "\nfreeze = w*",
                                   "\nlr-scale = w=",
                                   "\nbn = train",
                                   "\nprecision = bf16",
                                   "\nprecision = fp16",
                                   "\ndropout = 0.5",
                                   "\nclip-norm = 1",
                                   "\nclip-value = 0.1",
                                   "\nno-decay = biases",
                                   "\nno-shuffle = true",
                                   "\ndrop-last = true",
                                   "\naccumulate = 2",
                                   "\nbatch-size = 3",
                                   "\non-nonfinite = skip",
                                   "\ntarget = ",
                                   "\nval = x",
                                   "\nlog = x",
                                   "\nrun-dir = x",
                                   "\nseed = 7",
                                   "\nconfig = x",
                                   "\nmomentum = 0.9",
                                   "\nweight-decay = 0.1",
                                   "y=",
                                   "cross_entropy",
                                   "nll",
                                   "bce",
                                   "bce_with_logits",
                                   "mse",
                                   "l1",
                                   "smooth_l1",
                                   "huber",
                                   "kl",
                                   "hinge",
                                   "output",
                                   ":label_smoothing=0.1",
                                   ":ignore_index=0",
                                   ":class_axis=-1",
                                   ":weight=2",
                                   ":weight=[1,2,3]",
                                   ":reduction=sum",
                                   ":delta=1",
                                   ":beta=0.5",
                                   ":tail=none",
                                   "sgd",
                                   "adam",
                                   "adamw",
                                   "adagrad",
                                   "adadelta",
                                   "rmsprop",
                                   "adamax",
                                   "nadam",
                                   "radam",
                                   "lion",
                                   "lamb",
                                   "lars",
                                   "muon",
                                   ":nesterov=true",
                                   ":amsgrad=true",
                                   ":momentum=0.9",
                                   ":beta1=0.5",
                                   ":beta2=0.9",
                                   ":eps=1e-3",
                                   "step",
                                   "multistep",
                                   "exponential",
                                   "cosine",
                                   "cosine-restarts",
                                   "onecycle",
                                   "linear",
                                   "polynomial",
                                   "plateau",
                                   ":warmup=2",
                                   ":milestones=[1,2]",
                                   ":step_size=1",
                                   ":gamma=0.5",
                                   ":T_max=3",
                                   ":T_0=2",
                                   ":T_mult=2",
                                   ":total_steps=5",
                                   ":power=2",
                                   ":patience=1",
                                   ",",
                                   ":",
                                   "=",
                                   "[",
                                   "]",
                                   "nan",
                                   "inf",
                                   "1e400",
                                   "-1",
                                   "0x10",
                                   "none",
                                   NULL };

/* A value that a config file may set, an argument may set, too, and it reads the same. */
static void set_again(const ot_options *o)
{
    ot_options *again = ot_options_new();
    for (int i = 0; ot_option_at(i); i++) {
        const char *name = ot_option_at(i)->name, *value = ot_options_get(o, name);
        ot_error e = { 0 };
        if (!value || !strcmp(name, "config")) continue;
        ot_status s = fuzz_status("ot_options_set", ot_options_set(again, name, value, &e), &e);
        FUZZ_HOLD(!s || value == ot_option_at(i)->value, "--%s %s is refused: %s", name, value, e.text);
        FUZZ_HOLD(s || !strcmp(ot_options_get(again, name), value), "--%s is another", name);
    }
    ot_options_free(again);
}

static void train(const ot_model *m, const ot_options *o)
{
    ot_trainer *t = NULL;
    ot_error e = { 0 }, ran = { 0 }, written = { 0 };
    char *text = NULL;
    fuzz_path("run");
    fuzz_path("run/?*");
    fuzz_path("out.onnx");
    ot_error c = { 0 };
    fuzz_status("ot_check_text", ot_check_text(m, o, &text, &c), &c);
    free(text);
    if (!fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &e), &e) &&
        !fuzz_status("ot_trainer_run", ot_trainer_run(t, &ran), &ran))
        fuzz_status("ot_trainer_export", ot_trainer_export(t, NULL, &written), &written);
    ot_trainer_free(t);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_error e = { 0 };
    ot_options *o = ot_options_new();
    const char *path = fuzz_write("options.conf", p, n);
    if (!fuzz_status("config", ot_options_set(o, "config", path, &e), &e)) {
        for (unsigned command = OT_CMD_TRAIN; command <= OT_CMD_EXPORT; command <<= 1) {
            ot_error e1 = { 0 };
            fuzz_status("ot_options_check", ot_options_check(o, command, &e1), &e1);
        }
        set_again(o);
        fuzz_tame(o);
        ot_model *m = fuzz_load(OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-mlp");
        if (m) train(m, o);
        ot_model_free(m);
    }
    ot_options_free(o);
}
