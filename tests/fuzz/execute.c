/* execute.c - runs an ONNX file on generated inputs, twice, and trains a step at learning rate 0: the file written
 * afterwards must equal the one read.  Models with large inputs are skipped. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "", "N", "ai.onnx.ml", NULL };

static void run(const ot_model *m, const fuzz_fed *f, ot_tensor *first)
{
    ot_options *o = fuzz_options(NULL);
    ot_tensors out[2] = { { 0 }, { 0 } };
    ot_error e[2] = { { 0 }, { 0 } };
    for (int i = 0; i < 2; i++) fuzz_status("ot_run", ot_run(m, o, f->t, f->n, &out[i], &e[i]), &e[i]);
    FUZZ_HOLD(!strcmp(e[0].text, e[1].text) && out[0].n == out[1].n, "run twice: '%s', '%s'", e[0].text, e[1].text);
    for (int i = 0; i < out[0].n; i++) {
        const ot_tensor *a = &out[0].t[i], *b = &out[1].t[i];
        size_t n = fuzz_bytes(a);
        FUZZ_HOLD(a->dtype == b->dtype && n == fuzz_bytes(b) && (!n || !memcmp(a->data, b->data, n)),
                  "output '%s', run twice", a->name);
    }
    if (out[0].n) {
        *first = out[0].t[0];
        first->name = "target";
        first->data = fuzz_made_up(first);
    }
    ot_tensors_free(&out[0]);
    ot_tensors_free(&out[1]);
    ot_options_free(o);
}

static void train(const ot_model *m, const char *path, const fuzz_fed *f, bool target)
{
    ot_options *o = fuzz_options((const char *const[]){ "lr", "0", "optimizer", "sgd", "bn", "frozen", "weight-decay",
                                                        "0", "loss", target ? "mse" : "output", NULL });
    ot_trainer *t = NULL;
    ot_error e = { 0 }, stepped = { 0 }, written = { 0 };
    const char *out = fuzz_path("out.onnx");
    double loss;
    if (!fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &e), &e) &&
        !fuzz_status("ot_trainer_step", ot_trainer_step(t, f->t, f->n + target, &loss, &stepped), &stepped) &&
        !fuzz_status("ot_trainer_export", ot_trainer_export(t, out, &written), &written))
        fuzz_same_files(path, out, "a step at learning rate 0 gives another file");
    ot_trainer_free(t);
    ot_options_free(o);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    fuzz_fed f = { .n = 0 };
    ot_tensor target = { .data = NULL };
    const char *path = fuzz_write("model.onnx", p, n);
    ot_model *m = fuzz_load(path);
    if (!m) return;
    if (fuzz_feed(m, &f)) {
        run(m, &f, &target);
        f.t[f.n] = target;
        if (target.data || !target.name) train(m, path, &f, target.data && target.rank && ot_is_float(target.dtype));
    }
    fuzz_unfeed(&f);
    free(target.data);
    ot_model_free(m);
}
