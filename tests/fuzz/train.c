/* train.c - trains three small models (features, images, indices) on any .npz: three updates, written. A second run
 * must write the same file. */
#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "x.npy",        "target.npy", "target_y.npy", "i.npy", "t.npy", "'descr': '",
                                   "<f4",          "|u1",        "<i8",          "<f8",   "|b1",   "'shape': (",
                                   "(4, 1, 4, 4)", "(8, 4)",     "(8,)",         NULL };

static bool train(const ot_model *m, const char *data, const char *out)
{
    ot_options *o = fuzz_options(
        (const char *const[]){ "data", data, "steps", "3", "batch-size", "3", "lr", "0.01", "run-dir", "none", NULL });
    ot_trainer *t = NULL;
    ot_error e = { 0 }, ran = { 0 }, written = { 0 };
    bool good = !fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &e), &e) &&
                !fuzz_status("ot_trainer_run", ot_trainer_run(t, &ran), &ran) &&
                !fuzz_status("ot_trainer_export", ot_trainer_export(t, out, &written), &written);
    ot_trainer_free(t);
    ot_options_free(o);
    return good;
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    static const char *const model[] = { OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-mlp",
                                         OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-conv",
                                         OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-embedding-loss" };
    bool any = false;
    const char *data = fuzz_write("x.npz", p, n);
    for (int i = 0; i < OT_LEN(model); i++) {
        const char *a = fuzz_path("a.onnx"), *b = fuzz_path("b.onnx");
        ot_model *m = fuzz_load(model[i]);
        if (m && train(m, data, a)) {
            any = true;
            FUZZ_HOLD(train(m, data, b), "the same training fails");
            fuzz_same_files(a, b, "the same training gives two files");
        }
        ot_model_free(m);
    }
    if (any) fuzz_answered(OT_OK);
}
