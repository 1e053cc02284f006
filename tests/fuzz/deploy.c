/* deploy.c - the deployable form of an ONNX file: plain, folded, in float16.  What is written is read again, and
 * written twice it is the same. */
#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "", "N", "Identity", NULL };

static bool deploy(const ot_model *m, const char *option, const char *out)
{
    ot_options *o = fuzz_options((const char *const[]){ "o", out, option, option ? "true" : NULL, NULL });
    ot_error e = { 0 };
    ot_status s = fuzz_status("ot_export_file", ot_export_file(m, o, NULL, &e), &e);
    ot_options_free(o);
    return !s;
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    static const char *const option[] = { NULL, "fold", "fp16" };
    static const char *const name[] = { "plain.onnx", "fold.onnx", "fp16.onnx" };
    ot_model *m = fuzz_load(fuzz_write("model.onnx", p, n));
    for (int i = 0; m && i < OT_LEN(option); i++) {
        const char *a = fuzz_path(name[i]), *b = fuzz_path("again.onnx");
        if (!deploy(m, option[i], a)) continue;
        ot_model *made = NULL;
        ot_error e = { 0 };
        FUZZ_HOLD(!ot_model_load(a, &made, &e), "what was written is refused: %s", e.text);
        ot_model_free(made);
        if (i > 0) continue;
        FUZZ_HOLD(deploy(m, option[i], b), "written again, it is refused");
        fuzz_same_files(a, b, "written twice, it is another file");
    }
    ot_model_free(m);
}
