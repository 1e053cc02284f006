/* judge.c - checks a folder after a command was disturbed.
 *
 * Training writes the same bytes each time, so every file must be unchanged, or equal to that of an undisturbed run; a
 * log and a checkpoint, which contain times, must consist of whole lines and of a whole archive. */
#include "tests/calls/judge.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static const char *wrong(const char *fmt, ...)
{
    static char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return text;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static const char *base(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool is_log(const file *x) { return ends_in(x->name, ".jsonl"); }
static bool is_checkpoint(const file *x)
{
    return !strncmp(base(x->name), "checkpoint-", 11) && ends_in(x->name, ".npz");
}
static bool is_page(const file *x) { return ends_in(x->name, "/report.html"); }
static bool is_table(const file *x) { return ends_in(x->name, "/epochs.csv"); }
static bool is_temporary(const file *x) { return *base(x->name) == '.' && ends_in(x->name, ".tmp"); }

/* Whole lines, the last one perhaps cut. */
static bool log_holds(const file *x, bool cut)
{
    const char *p = x->bytes, *end = p + x->n;
    while (p < end) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        if (!line) return cut;
        if (line - p < 10 || memcmp(p, "{\"event\":", 9) || line[-1] != '}') return false;
        p = line + 1;
    }
    return true;
}

static bool page_whole(const file *x)
{
    static const char end[] = "</html>\n";
    return x->n > sizeof end && !memcmp(x->bytes + x->n - (sizeof end - 1), end, sizeof end - 1);
}

/* Begins with the names of its columns; the last row may be cut where the log's line may. */
static bool table_holds(const file *x, bool cut)
{
    static const char head[] = "epoch,step,";
    return !x->n ||
           ((x->n > sizeof head && !memcmp(x->bytes, head, sizeof head - 1)) && (cut || x->bytes[x->n - 1] == '\n'));
}

/* From its first member to its end record. */
static bool archive_whole(const file *x)
{
    enum { END = 22 };
    return x->n > END && !memcmp(x->bytes, "PK\3\4", 4) && !memcmp(x->bytes + x->n - END, "PK\5\6", 4);
}

static bool has_word(const char *words, const char *word, size_t n)
{
    for (const char *p = words; (p = strstr(p, word)); p++)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

static bool is_out(const scene *s, const char *name) { return has_word(s->outs, name, strlen(name)); }

/* The output whose data file `name` is: out-1234abcd.onnx.data of out.onnx.  false: of none. */
static bool model_of(const scene *s, const char *name, char model[64])
{
    const char *dash = strrchr(name, '-');
    if (!ends_in(name, ".onnx.data") || !dash || dash - name > 40) return false;
    snprintf(model, 64, "%.*s.onnx", (int)(dash - name), name);
    return is_out(s, model);
}

static bool is_new(const record *r, const files *now, const char *name)
{
    return file_same(files_find(now, name), files_find(&r->after, name)) &&
           !file_same(files_find(&r->before, name), files_find(&r->after, name));
}

/* A file without a name gets a temporary one, briefly, only when it is complete. */
static bool is_complete(const record *r, const file *x)
{
    for (int i = 0; i < r->after.n; i++)
        if (file_same(&r->after.list[i], x)) return true;
    return false;
}

/* Every existing file is an expected one. */
static const char *nothing_else(const record *r, const files *now, bool killed, bool unlinking, bool log_fails)
{
    char model[64];
    for (int i = 0; i < now->n; i++) {
        const file *x = &now->list[i];
        bool old = file_same(x, files_find(&r->before, x->name)), fresh = file_same(x, files_find(&r->after, x->name));
        if (is_log(x)) {
            if (!old && !log_holds(x, killed || log_fails)) return wrong("%s has a line that is cut", x->name);
            continue;
        }
        if (is_checkpoint(x)) { /* has seconds in it */
            if (!archive_whole(x)) return wrong("%s is cut", x->name);
            continue;
        }
        if (is_page(x) || is_table(x)) { /* likewise */
            if (is_page(x) ? !page_whole(x) : !table_holds(x, killed || log_fails)) return wrong("%s is cut", x->name);
            continue;
        }
        if (unlinking && is_temporary(x)) continue;
        if (killed && is_temporary(x) && !strncmp(base(x->name), ".report.html", 12) && page_whole(x)) continue;
        if (killed && is_temporary(x) && !strncmp(base(x->name), ".checkpoint-", 12) && archive_whole(x)) continue;
        if (killed && is_temporary(x) && (r->s->no_tmpfile || is_complete(r, x))) continue;
        if (!old && !fresh) return wrong("%s is neither the old nor the new one (%zu bytes)", x->name, x->n);
        if (!killed && !old && model_of(r->s, x->name, model) && !is_new(r, now, model))
            return wrong("%s is left without its model", x->name);
    }
    return NULL;
}

/* Every earlier file still exists, under its name or the one it moves to, unless its successor exists. */
static const char *nothing_lost(const record *r, const files *now)
{
    char model[64];
    for (int i = 0; i < r->before.n; i++) {
        const file *x = &r->before.list[i], *is = files_find(now, x->name);
        bool kept = file_same(is, x);
        for (int k = 0; k < now->n && !kept; k++)
            kept = !strcmp(base(now->list[k].name), base(x->name)) && file_same(&now->list[k], x);
        if (is_checkpoint(x)) continue; /* newer ones replace it */
        bool succeeded =
            is && (is_log(x) || is_page(x) || is_table(x) || file_same(is, files_find(&r->after, x->name)));
        bool superseded = !files_find(&r->after, x->name) && model_of(r->s, x->name, model) && is_new(r, now, model);
        if (!kept && !succeeded && !superseded) return wrong("%s is lost", x->name);
    }
    return NULL;
}

/* A new model has its data. */
static const char *data_there(const record *r, const files *now)
{
    char model[64];
    for (int i = 0; i < r->after.n; i++) {
        const file *x = &r->after.list[i];
        if (model_of(r->s, x->name, model) && is_new(r, now, model) && !file_same(files_find(now, x->name), x))
            return wrong("%s is there without %s", model, x->name);
    }
    return NULL;
}

/* On a full disk the checkpoints before the newest make room for it. */
static bool made_room(const file *x, const fault *f, const files *now)
{
    bool newer = false;
    for (int i = 0; i < now->n; i++) newer |= is_checkpoint(&now->list[i]) && strcmp(now->list[i].name, x->name) > 0;
    return is_checkpoint(x) && newer && f->kind == FAULT_ERROR && (f->error == ENOSPC || f->error == EDQUOT);
}

static const char *all_done(const record *r, const fault *f, const files *now)
{
    for (int i = 0; i < r->after.n; i++) {
        const file *x = &r->after.list[i], *is = files_find(now, x->name);
        if ((is_checkpoint(x) || is_page(x) || is_table(x)) && is) continue; /* seconds differ */
        if (!is && made_room(x, f, now)) continue;
        if (!is || (!is_log(x) && !file_same(is, x))) return wrong("exit 0, and %s is not what it should be", x->name);
        if (is_log(x) && !file_same(x, files_find(&r->before, x->name)) && !strstr(is->bytes, "\"event\":\"end\""))
            return wrong("exit 0, and %s has no end", x->name);
    }
    return NULL;
}

/* One of the files of the scene, or a folder of one. */
static bool names_a_file(const record *r, const char *said)
{
    const files *all[] = { &r->before, &r->after };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < all[k]->n; i++) {
            char part[128];
            snprintf(part, sizeof part, "%s", all[k]->list[i].name);
            if (strstr(said, part)) return true;
            part[strcspn(part, "/")] = '\0';
            if (strchr(all[k]->list[i].name, '/') && strstr(said, part)) return true;
        }
    return false;
}

static const char *name_of(const fault *f, const outcome *o)
{
    return f->at < MOST_CALLS && o->name[f->at] ? o->name[f->at] : "";
}

static bool must_be_repeated(const fault *f, const outcome *o)
{
    static const char *const calls[] = { "read", "pread64", "write", "fsync", "ftruncate", "flock", "close" };
    const char *name = name_of(f, o);
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        if (f->error == EINTR && !strcmp(name, calls[i])) return true;
    return false;
}

static const char *judge_code(const record *r, const fault *f, const outcome *o, const char *said)
{
    bool kill = f->kind == FAULT_KILL;
    if (kill && o->code != 137) return wrong("killed, and exit %d", o->code);
    if (kill) return NULL;
    bool error = f->kind == FAULT_ERROR, no_memory = error && f->error == ENOMEM;
    if (o->code && o->code != 7 && !(no_memory && o->code == 5)) return wrong("exit %d", o->code);
    if (o->code && !error) return wrong("exit %d of what is only slow", o->code);
    if (o->code && must_be_repeated(f, o)) return wrong("exit %d of a call that was interrupted", o->code);
    if (o->code && !o->speaks && !strstr(said, "onnxtrain: ")) return wrong("exit %d without a word", o->code);
    if (o->code && !o->speaks && !names_a_file(r, said)) return wrong("names no file");
    return NULL;
}

/* A refused command is refused again, and changes nothing. */
static const char *judge_refused(const record *r, const fault *f, const outcome *o, const files *now)
{
    if (f->kind != FAULT_KILL && !o->code) return wrong("exit 0 of what is refused");
    for (int i = 0; i < r->before.n; i++)
        if (!file_same(files_find(now, r->before.list[i].name), &r->before.list[i]))
            return wrong("%s is not as it was", r->before.list[i].name);
    for (int i = 0; i < now->n; i++)
        if (!files_find(&r->before, now->list[i].name)) return wrong("%s has come", now->list[i].name);
    return NULL;
}

/* Log and best model are reported as lost, and the trained model exists. */
static const char *model_delivered(const record *r, const fault *f, const outcome *o, const char *said,
                                   const files *now)
{
    const char *name = name_of(f, o);
    bool writes =
        !strcmp(name, "write") || !strcmp(name, "fsync") || !strcmp(name, "linkat") || !strcmp(name, "renameat");
    bool lost = f->kind == FAULT_ERROR && o->code && writes &&
                (strstr(said, ".jsonl: ") || strstr(said, "/best.onnx: ") || strstr(said, "/checkpoint-") ||
                 strstr(said, "/epochs.csv: ") || strstr(said, "/report.html: "));
    return lost && !is_new(r, now, "out.onnx") ? wrong("the trained model is not written") : NULL;
}

const char *judge(const record *r, const fault *f, const outcome *o, const char *said, const files *now)
{
    bool killed = f->kind == FAULT_KILL, failed = o->code == 7 || o->code == 5;
    bool unlinking =
        r->s->no_tmpfile && f->kind == FAULT_ERROR && !strncmp(name_of(f, o), "unlink", 6); /* then it stays */
    const char *why = r->s->code ? judge_refused(r, f, o, now) : judge_code(r, f, o, said);
    if (r->s->code) return why;
    if (!why) why = nothing_else(r, now, killed, unlinking, failed);
    if (!why) why = nothing_lost(r, now);
    if (!why) why = data_there(r, now);
    if (!why) why = model_delivered(r, f, o, said, now);
    if (!why && !killed && !failed) why = all_done(r, f, now);
    return why;
}

const char *judge_record(const record *r)
{
    char names[200], model[64];
    for (int i = 0; i < r->before.n; i++) {
        const file *x = &r->before.list[i];
        if (r->s->code && !file_same(files_find(&r->after, x->name), x))
            return wrong("undisturbed: refused, and %s is not as it was", x->name);
    }
    for (int i = 0; i < r->after.n; i++) {
        const file *x = &r->after.list[i];
        if (file_same(files_find(&r->before, x->name), x) || is_checkpoint(x)) continue;
        if (r->s->code) return wrong("undisturbed: refused, and %s has come", x->name);
        if (!strchr(x->name, '/') && !is_log(x) && !is_out(r->s, x->name) && !model_of(r->s, x->name, model))
            return wrong("undisturbed: %s is written, and the scene does not say so", x->name);
    }
    snprintf(names, sizeof names, "%s", r->s->outs);
    for (char *w = strtok(names, " "); w; w = strtok(NULL, " "))
        if (!is_new(r, &r->after, w)) return wrong("undisturbed: %s is not written", w);
    return NULL;
}

const char *judge_again(const record *r, int code, const files *now, const files *again)
{
    if (code != r->s->code) return wrong("once more, undisturbed: exit %d", code);
    for (int i = 0; i < again->n; i++) {
        const file *x = &again->list[i];
        bool was = false; /* perhaps in a folder that has moved */
        for (int k = 0; k < now->n; k++) was |= !strcmp(base(now->list[k].name), base(x->name));
        if (is_temporary(x) && !was) return wrong("once more, undisturbed: %s is left", x->name);
        if (is_out(r->s, x->name) && !file_same(x, files_find(&r->after, x->name)))
            return wrong("once more, undisturbed: %s differs", x->name);
    }
    return NULL;
}
