/* fetch.c - the command data fetch: downloads a named data set, and prints where it is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/fetch.h"
#include "runtime/train/options/options.h"

static void on_line(void *user, const char *line)
{
    const ot_callbacks *cb = user;
    if (cb && cb->message) cb->message(cb->user, OT_INFO, line);
}

static void on_part(void *user, const char *file, int64_t done, int64_t all, double seconds)
{
    const ot_callbacks *cb = user;
    if (!cb || !cb->progress || done <= 0) return;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    ot_progress p = { .file = file,
                      .step = done,
                      .steps = all,
                      .in_epoch = done,
                      .of_epoch = all,
                      .loss = (double)NAN,
                      .accuracy = (double)NAN,
                      .seconds = seconds,
                      .left = rate > 0 ? (double)(all - done) / rate : (double)NAN };
    cb->progress(cb->user, &p);
}

ot_status ot_data_fetch(const char *name, const ot_options *o, const ot_callbacks *cb, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(name);
    OT_GIVEN(o);
    ot_callbacks copy = cb ? *cb : (ot_callbacks){ 0 };
    const ot_fetch_options f = { .to = ot_options_get(o, "to"),
                                 .mirror = ot_options_get(o, "mirror"),
                                 .user = &copy,
                                 .tell = on_line,
                                 .progress = on_part };
    OT_TRY(ot_fetch_set(name, &f, err));
    char line[4352];
    if (f.to) snprintf(line, sizeof line, "to train with it: --data %.4000s/%.200s", f.to, name);
    else snprintf(line, sizeof line, "to train with it: --data %.200s", name);
    on_line(&copy, line);
    return OT_OK;
}
