/* model.c - reads, describes, checks and plans an ONNX file; fast commands run twice. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "", "N", "ai.onnx.ml", "com.microsoft", NULL };

typedef ot_status asked(const ot_model *m, const ot_options *o, char **text, ot_error *err);

static void ask(const char *what, asked *f, const ot_model *m, const ot_options *o)
{
    char *text[2] = { NULL, NULL };
    ot_error e[2] = { { 0 }, { 0 } };
    clock_t begun = clock();
    fuzz_status(what, f(m, o, &text[0], &e[0]), &e[0]);
    FUZZ_HOLD(e[0].status || text[0], "%s: no text", what);
    if (clock() - begun < CLOCKS_PER_SEC / 4) {
        fuzz_status(what, f(m, o, &text[1], &e[1]), &e[1]);
        FUZZ_HOLD(!strcmp(e[0].text, e[1].text), "%s: '%s' and then '%s'", what, e[0].text, e[1].text);
        FUZZ_HOLD(!text[0] == !text[1] && (!text[0] || !strcmp(text[0], text[1])), "%s gives two texts:\n%s\n%s", what,
                  text[0], text[1]);
    }
    free(text[0]);
    free(text[1]);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    ot_model *m = fuzz_load(fuzz_write("model.onnx", p, n));
    if (!m) return;
    ot_options *o = fuzz_options((const char *const[]){ "graph", "true", "why", "true", NULL });
    ask("inspect", ot_inspect_text, m, o);
    ask("check", ot_check_text, m, o);
    ask("plan", ot_plan_text, m, o);
    ot_options_free(o);
    ot_model_free(m);
}
