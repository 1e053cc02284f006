/* folder.c - the input is one file of a run folder, whose name is its first line: the run is shown, compared, evaluated and
 * continued. */
#include "tests/fuzz/models.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/io.h"
#include "runtime/train/commands/series.h"
#include "runtime/train/run/checkpoint.h"

const char *const fuzz_words[] = { "log.jsonl\n",
                                   "evaluation.json\n",
                                   "profile.json\n",
                                   "epochs.csv\n",
                                   "options.conf\n",
                                   "{\"event\":\"step\"",
                                   "{\"event\":\"eval\"",
                                   "{\"event\":\"start\"",
                                   "{\"event\":\"end\"",
                                   "{\"event\":\"resume\"",
                                   "\"step\":",
                                   "\"epoch\":",
                                   "\"split\":",
                                   "\"loss\":",
                                   "\"best\":",
                                   "\"monitor\":",
                                   "\"options\":",
                                   "\"memory\":",
                                   "\"memory_at_peak\":",
                                   "\"nodes\":",
                                   "\"series\":",
                                   "\"folder\":",
                                   "\"trainings\":",
                                   "\"confusion\":",
                                   "\"classes\":",
                                   "\"worst\":",
                                   "\"picture\":",
                                   "null",
                                   "1e308",
                                   "-1e308",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "}\n",
                                   "[",
                                   "{",
                                   NULL };

/* Files that an input may be; one that it is not has the content of regressions/checkpoint/good's run, or is not there. */
static const char *const names[] = { "log.jsonl", "evaluation.json", "profile.json", "epochs.csv", "options.conf" };

static void put_checkpoint(void)
{
    void *bytes = NULL;
    size_t n = 0;
    ot_error e = { 0 };
    FUZZ_HOLD(!ot_read_file(OT_SOURCE_ROOT "/tests/fuzz/regressions/checkpoint/good", 1 << 20, &bytes, &n, &e), "%s",
              e.text);
    fuzz_write("run/checkpoint-000000001.npz", bytes, n);
    free(bytes);
}

static void resume(const char *run)
{
    ot_checkpoint *c = NULL;
    ot_trainer *t = NULL;
    ot_error e = { 0 }, taken = { 0 }, made = { 0 }, resumed = { 0 }, ran = { 0 };
    ot_options *o = ot_options_new();
    ot_model *m = fuzz_load(OT_SOURCE_ROOT "/tests/fuzz/regressions/model/0-mlp");
    if (!fuzz_status("ot_checkpoint_open", ot_checkpoint_open(run, NULL, &c, &e), &e) &&
        !fuzz_status("ot_checkpoint_options", ot_checkpoint_options(c, o, &taken), &taken)) {
        fuzz_tame(o);
        if (!fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &made), &made) &&
            !fuzz_status("ot_trainer_resume", ot_trainer_resume(t, c, &resumed), &resumed))
            fuzz_status("ot_trainer_run", ot_trainer_run(t, &ran), &ran);
    }
    ot_trainer_free(t);
    ot_checkpoint_free(c);
    ot_model_free(m);
    ot_options_free(o);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    const uint8_t *end = n ? memchr(p, '\n', n < 64 ? n : 64) : NULL;
    const char *run = fuzz_subfolder("run"), *name = NULL, *runs[] = { run, run };
    char *text = NULL, *model = NULL, path[64];
    for (int i = 0; end && i < OT_LEN(names); i++)
        if (strlen(names[i]) == (size_t)(end - p) && !memcmp(names[i], p, (size_t)(end - p))) name = names[i];
    fuzz_path("run/?*");
    fuzz_path("run/plots/?*");
    fuzz_path("out.onnx");
    if (!name) return;
    fuzz_write("run/options.conf", "# onnxtrain 0\n", 14);
    fuzz_write("run/log.jsonl", "{\"event\":\"start\"}\n", 18);
    snprintf(path, sizeof path, "run/%s", name);
    fuzz_write(path, end + 1, n - (size_t)(end + 1 - p));

    ot_error shown = { 0 }, compared = { 0 }, opened = { 0 };
    ot_options *o = ot_options_new(), *own = ot_options_new();
    FUZZ_HOLD(!ot_options_set(o, "plots", "svg", &shown), "%s", shown.text);
    fuzz_status("ot_report_file", ot_report_file(run, o, NULL, &shown), &shown);
    if (!fuzz_status("ot_compare_text", ot_compare_text(2, runs, &text, &compared), &compared))
        FUZZ_HOLD(!strchr(text, '\x1b'), "an escape sequence");
    fuzz_status("ot_series_open", ot_series_open(run, own, &model, &opened), &opened);
    free(model);
    free(text);
    ot_options_free(o);
    ot_options_free(own);
    put_checkpoint();
    resume(run);
}
