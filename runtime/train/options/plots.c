/* plots.c - --plots: the forms that the charts of a report are written in. */

#include <string.h>

#include "runtime/picture/draw.h"
#include "runtime/train/options/options.h"
#include "runtime/train/options/specs.h"

static const ot_key png_keys[] = {
    { "scale", "2", NULL, "pixels for each pixel of the page, where a chart is 640 wide", .kind = OT_KEY_NUMBER,
      OT_KEY_FROM(0.25, 8) },
    OT_KEYS_END,
};

static const ot_entry svg = { "svg", "vector graphics, for web pages and printing", NULL },
                      png = { "png", "pixels (needs cairo when onnxtrain is built)", png_keys };

static const ot_entry *const entries[] = { &svg, &png, NULL };

const ot_registry ot_plot_forms = { "plots", "forms of the charts that --plots writes", entries };

static ot_status read_form(const char *text, ot_arena *a, ot_plots *out, ot_error *err)
{
    ot_spec form;
    OT_TRY(ot_spec_parse(text, &ot_plot_forms, NULL, a, &form, err));
    if (form.entry == &svg) out->svg = true;
    if (form.entry != &png) return OT_OK;
    out->png = ot_spec_num(&form, "scale");
    return ot_sketch_png_check("--plots=png", err);
}

ot_status ot_plots_read(const ot_options *o, ot_plots *out, ot_error *err)
{
    ot_status s = OT_OK;
    ot_arena *a = ot_arena_new();
    *out = (ot_plots){ .svg = false };
    if (!a) return ot_fail(err, OT_E_NOMEM, "no memory for options");
    for (int k = 0; !s && k < ot_options_count(o, "plots"); k++) {
        const char *text = ot_options_nth(o, "plots", k);
        if (!strcmp(text, "true")) out->svg = true;
        else if (strcmp(text, "false")) s = read_form(text, a, out, err);
    }
    ot_arena_free(a);
    return s;
}
