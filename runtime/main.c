/* main.c - the command line: reads arguments into options, runs a command, prints its result.
 *
 * Uses onnxtrain.h and no other header of the library.  Results go to stdout, messages to stderr. */

#include <getopt.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/main_screen.h"

/* ---- signals ------------------------------------------------------------------------- */

static ot_trainer *volatile running;
static volatile sig_atomic_t caught, begun; /* begun: a training was there to be stopped */

static void on_signal(int sig)
{
    static const char text[] = "\n"
                               "stopping after this step; a second signal stops immediately without writing a model\n";
    static const char early[] = "\n"
                                "stopped before the training began; nothing was written\n";
    bool repeats = sig == SIGXCPU || sig == SIGPIPE; /* raised every second, for every write */
    if (caught && repeats) return;
    if (caught || !begun) { /* an incomplete file has no name yet: nothing of it remains */
        ssize_t unheard = caught ? 0 : write(STDERR_FILENO, early, sizeof early - 1);
        (void)unheard;
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    caught = sig;
    if (running) ot_trainer_cancel(running);
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
}

/* t NULL: the training that signals will stop is yet to be prepared.
 * The handlers have a stack of their own: oneDNN's products with AVX2 point the stack pointer into a buffer on the heap, and a
 * handler on that stack would overwrite what is below it. */
static void catch_signals(ot_trainer *t)
{
    enum { STACK = 1 << 16 };
    static char stack[STACK];
    stack_t own = { .ss_sp = stack, .ss_size = STACK };
    int there = sigaltstack(&own, NULL) ? 0 : SA_ONSTACK;
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART | there }, before;
    static const int stops[] = { SIGINT, SIGTERM, SIGXCPU, SIGPIPE };
    running = t;
    begun = t != NULL;
    sigemptyset(&a.sa_mask);
    /* SIGINT also where a shell without job control made a background job ignore it: kill -INT has to stop a run. */
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) sigaction(stops[i], &a, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &a, NULL); /* nohup */
}

/* ---- what commands share ----------------------------------------------------------------- */

enum { MOST_WORDS = 16 }; /* the largest number of words of a command (OT_COMMAND_LIST) */

typedef struct job {
    const char *word[MOST_WORDS + 1]; /* the arguments that are not options, such as the model's path; NULL-ended */
    ot_options *o;
    ot_model *m;
    screen screen;
    ot_callbacks cb;
    ot_error err;
} job;

static ot_status load(job *j) { return ot_model_load(j->word[0], &j->m, &j->err); }

__attribute__((format(printf, 3, 4))) static ot_status fail(job *j, ot_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    j->err.status = s;
    vsnprintf(j->err.text, sizeof j->err.text, fmt, args);
    va_end(args);
    return s;
}

static ot_status unwritable(job *j) { return fail(j, OT_E_IO, "standard output cannot be written"); }

/* Prints the text, which may be NULL, and frees it. */
static ot_status put(job *j, char *text)
{
    screen_clear(&j->screen);
    bool bad = text && (fputs(text, stdout) < 0 || fflush(stdout));
    free(text);
    return bad ? unwritable(j) : OT_OK;
}

/* Prints what a command of the library returns for the model. */
static ot_status print_result(job *j, ot_status (*command)(const ot_model *, const ot_options *, const ot_callbacks *,
                                                           char **, ot_error *))
{
    char *text = NULL;
    ot_status s = load(j);
    if (!s) s = command(j->m, j->o, &j->cb, &text, &j->err);
    return s ? s : put(j, text);
}

/* The same for a command without progress.  The text of one that fails is printed too: `check` lists the reasons. */
static ot_status print_description(job *j,
                                   ot_status (*command)(const ot_model *, const ot_options *, char **, ot_error *))
{
    char *text = NULL;
    ot_status s = load(j);
    if (!s) s = command(j->m, j->o, &text, &j->err);
    ot_status w = put(j, text);
    return s ? s : w;
}

/* Runs a command of the library that writes a file. */
static ot_status write_file(job *j, ot_status (*command)(const ot_model *, const ot_options *, const ot_callbacks *,
                                                         ot_error *))
{
    ot_status s = load(j);
    return s ? s : command(j->m, j->o, &j->cb, &j->err);
}

/* ---- training --------------------------------------------------------------------------- */

/* A word quoted for a shell. */
static void print_word(const char *w)
{
    w = shown(w);
    if (*w && !w[strspn(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")]) {
        fprintf(stderr, " %s", w);
        return;
    }
    fputs(" '", stderr);
    for (; *w; w++) fputs(*w == '\'' ? "'\\''" : (char[]){ *w, '\0' }, stderr);
    fputs("'", stderr);
}

/* The command that evaluates the trained model as the training did. */
static void say_evaluation(const job *j, const ot_result *r, const char *path)
{
    const char *loss;
    bool measured = false; /* a loss has weights that were counted in the training set; the run folder records them */
    for (int k = 0; (loss = ot_options_nth(j->o, "loss", k)); k++)
        measured |= strstr(loss, "weight") && strstr(loss, "=auto");
    measured = measured && r->run_dir;
    fputs("to evaluate:   onnxtrain eval", stderr);
    print_word(measured ? r->run_dir : path);
    for (const char *const *o = r->evaluation; o && *o && !measured; o += 2) {
        fprintf(stderr, " --%s", o[0]);
        print_word(o[1]);
    }
    fputc('\n', stderr);
}

static void say_result(const job *j, const ot_result *r, const char *path)
{
    if (j->screen.quiet) return;
    char rate[64];
    fprintf(stderr, "%s after %lld step%s, %.1f s, %s\n", r->reason, (long long)r->steps, r->steps == 1 ? "" : "s",
            r->seconds,
            screen_rate(r->samples_per_second, 0, r->steps ? r->seconds / (double)r->steps : (double)NAN, rate));
    bool train = !strcmp(r->split, "train");
    char when[64] = "";
    if (!train && r->evaluated < r->steps) snprintf(when, sizeof when, " after step %lld", (long long)r->evaluated);
    fprintf(stderr, "trained model: %s", path ? shown(path) : "not written (no -o)");
    char watched[128] = "";
    if (r->metric && !isnan(r->value)) snprintf(watched, sizeof watched, ", %.60s %.5g", r->metric, r->value);
    if (!isnan(r->accuracy))
        fprintf(stderr, " (%s%s: loss %.4g, accuracy %.2f %%%s)", r->split, when, r->loss, 100 * r->accuracy, watched);
    else if (!isnan(r->loss))
        fprintf(stderr, " (%s%s: loss %.5g%s%s)", r->split, when, r->loss, train ? ", mean of the last epoch" : "",
                watched);
    fputc('\n', stderr);
    if (r->model_data) fprintf(stderr, "external data: %s (keep it beside the model)\n", shown(r->model_data));
    if (r->best_path && !isnan(r->best)) {
        bool percent = strstr(r->best_metric, "accuracy");
        fprintf(stderr,
                percent ? "best model:    %s (%s %.2f %%, epoch %lld)\n" : "best model:    %s (%s %.5g, epoch %lld)\n",
                shown(r->best_path), r->best_metric, (percent ? 100 : 1) * r->best, (long long)r->best_epoch);
    }
    if (r->run_dir) fprintf(stderr, "run folder:    %s\n", shown(r->run_dir));
    if (r->run_dir && r->checkpoint && strcmp(r->reason, "finished") && strcmp(r->reason, "early stop")) {
        fputs("to continue:   onnxtrain resume", stderr);
        print_word(r->run_dir);
        if (r->checkpoint < r->steps) fprintf(stderr, "   (from step %lld)", (long long)r->checkpoint);
        fputc('\n', stderr);
    }
    if (!r->steps) {
        fputs(
            "stopped before the first step was complete: no weight changed, and no checkpoint was written; run the command again\n",
            stderr);
        return;
    }
    if (path) say_evaluation(j, r, path);
}

/* --log -: prints lines as they come. */
static void on_log(void *user, const char *line, size_t n)
{
    screen *s = user;
    if (fwrite(line, 1, n, stdout) != n || fflush(stdout)) s->log_lost = true;
}

static void open_log(job *j)
{
    const char *log = ot_options_get(j->o, "log");
    if (log && !strcmp(log, "-")) j->cb.log = on_log;
}

/* A trained model whose file could not be written is written to a new folder for temporary files, so that the training is not
 * lost. */
static void write_elsewhere(job *j, ot_trainer *t)
{
    const char *parent = getenv("TMPDIR"), *o = ot_options_get(j->o, "o"), *slash = o ? strrchr(o, '/') : NULL;
    const char *name = slash ? slash + 1 : o ? o : "trained.onnx";
    if (!parent || !*parent) parent = "/tmp";
    size_t folder = strlen(parent) + sizeof "/onnxtrain-XXXXXX", all = folder + 1 + strlen(name);
    char *path = malloc(all);
    ot_error e = { 0 };
    if (!path) return;
    snprintf(path, folder, "%s/onnxtrain-XXXXXX", parent);
    if (mkdtemp(path)) {
        snprintf(path + folder - 1, all - folder + 1, "/%s", name);
        if (!ot_trainer_export(t, path, &e))
            fprintf(stderr, "the trained model could not be written where it belongs; it is in %s\n", shown(path));
        else {
            path[folder - 1] = '\0';
            rmdir(path);
        }
    }
    free(path);
}

/* Exports the trained weights, also of a training that finished although its log or best model could not be written. */
static ot_status export_trained(job *j, ot_trainer *t, ot_status trained)
{
    ot_result r;
    ot_error e = { 0 };
    ot_trainer_result(t, &r);
    static const char *const whole[] = { "finished", "early stop", "time limit", "cancelled" };
    bool has_weights = false;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) has_weights |= r.reason && !strcmp(r.reason, whole[i]);
    if (trained && !has_weights) return trained;
    bool writes = ot_options_get(j->o, "o") || !ot_options_get(j->o, "overfit-batch");
    ot_status s = writes ? ot_trainer_export(t, NULL, &e) : OT_OK;
    if (s == OT_E_IO) write_elsewhere(j, t);
    if (!s && writes && ot_options_get(j->o, "deploy")) s = ot_trainer_deploy(t, NULL, &e);
    ot_trainer_result(t, &r);
    if (!s) say_result(j, &r, r.model_path);
    if (s && trained) fprintf(stderr, "onnxtrain: %s\n", e.text);
    if (!trained) j->err = e;
    return trained ? trained : s;
}

/* Trains to the end, or to a signal, and writes the model. */
static ot_status train(job *j, ot_trainer *t)
{
    catch_signals(t);
    ot_status s = ot_trainer_run(t, &j->err);
    screen_clear(&j->screen);
    s = export_trained(j, t, s);
    running = NULL;
    return s;
}

/* A series begins to train another model (t), or has ended (NULL): signals cancel this training. */
static void on_trains(void *user, ot_trainer *t)
{
    (void)user;
    if (t) catch_signals(t);
    else running = NULL;
    if (t && caught) ot_trainer_cancel(t);
}

static ot_status series(job *j, bool resumes)
{
    char *text = NULL;
    open_log(j);
    j->cb.trains = on_trains;
    ot_status s = ot_series_text(j->m, j->o, resumes, &j->cb, &text, &j->err);
    if (!s) s = put(j, text);
    return !s && j->screen.log_lost ? unwritable(j) : s;
}

static ot_status do_sweep(job *j)
{
    ot_status s = OT_OK;
    for (int i = 1; !s && j->word[i]; i++) s = ot_options_set(j->o, "grid", j->word[i], &j->err);
    if (!s) s = load(j);
    return s ? s : series(j, false);
}

/* Checks that the model can be written at the end under the default name.  ot_trainer_new has checked -o. */
static ot_status check_default(job *j, ot_trainer *t)
{
    bool other = ot_options_get(j->o, "o") || ot_options_get(j->o, "overfit-batch");
    return other ? OT_OK : ot_trainer_check_export(t, NULL, &j->err);
}

static ot_status do_train(job *j)
{
    ot_trainer *t = NULL;
    const char *folds = ot_options_get(j->o, "folds");
    if (!ot_options_get(j->o, "data"))
        return fail(j, OT_E_USAGE, "--data is missing: name a data set such as mnist, or a file");
    catch_signals(NULL);
    open_log(j);
    ot_status s = load(j);
    if (!s && folds && !strchr(folds, '/')) return series(j, false);
    if (!s) s = ot_trainer_new(j->m, j->o, &j->cb, &t, &j->err);
    if (!s) s = check_default(j, t);
    if (!s) s = train(j, t);
    ot_trainer_free(t);
    if (!s && j->screen.log_lost) s = unwritable(j);
    return s;
}

static ot_status do_resume(job *j)
{
    ot_trainer *t = NULL;
    ot_checkpoint *c = NULL;
    char *model = NULL;
    catch_signals(NULL);
    ot_status s = ot_series_open(j->word[0], j->o, &model, &j->err);
    if (!s && model) {
        s = ot_model_load(j->word[1] ? j->word[1] : model, &j->m, &j->err);
        free(model);
        return s ? s : series(j, true);
    }
    if (!s) s = ot_checkpoint_open(j->word[0], &j->cb, &c, &j->err);
    if (!s) s = ot_checkpoint_options(c, j->o, &j->err);
    open_log(j);
    if (!s) s = ot_model_load(j->word[1] ? j->word[1] : ot_checkpoint_model(c), &j->m, &j->err);
    if (!s) s = ot_checkpoint_check(c, j->m, &j->err);
    if (!s) s = ot_trainer_new(j->m, j->o, &j->cb, &t, &j->err);
    if (!s) s = ot_trainer_resume(t, c, &j->err);
    ot_checkpoint_free(c);
    if (!s) s = train(j, t);
    ot_trainer_free(t);
    if (!s && j->screen.log_lost) s = unwritable(j);
    return s;
}

static ot_status do_eval(job *j)
{
    char *text = NULL;
    struct stat st;
    if (stat(j->word[0], &st) || !S_ISDIR(st.st_mode)) return print_result(j, ot_eval_text);
    ot_status s = ot_eval_run_text(j->word[0], j->o, &j->cb, &text, &j->err);
    return s ? s : put(j, text);
}

/* On a terminal, control characters, which a model may generate, are printed as the replacement character. */
static void on_text(void *user, const char *text, size_t n)
{
    bool *terminal = user;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i], d = i + 1 < n ? (unsigned char)text[i + 1] : 0;
        bool upper = c == 0xC2 && d < 0xA0, control = (c < 32 && c != '\n' && c != '\t') || c == 127 || upper;
        if (*terminal && control) fputs("\xEF\xBF\xBD", stdout);
        else putchar(c);
        i += *terminal && upper;
    }
    fflush(stdout);
}

static ot_status generate(job *j)
{
    bool terminal = isatty(1);
    ot_status s = load(j);
    if (!s && j->word[1]) s = fail(j, OT_E_USAGE, "--prompt: no data set is read: remove %.200s", j->word[1]);
    if (!s && ot_options_get(j->o, "o"))
        s = fail(j, OT_E_USAGE, "--prompt: the text goes to standard output: instead of -o, write > %.200s",
                 ot_options_get(j->o, "o"));
    if (!s) s = ot_generate(j->m, j->o, &j->cb, on_text, &terminal, &j->err);
    if (!s) putchar('\n');
    return !s && (fflush(stdout) || ferror(stdout)) ? unwritable(j) : s;
}

static ot_status do_predict(job *j)
{
    if (ot_options_get(j->o, "prompt")) return generate(j);
    for (int i = 1; j->word[i]; i++)
        if (ot_options_set(j->o, "data", j->word[i], &j->err)) return j->err.status;
    return print_result(j, ot_predict_text);
}

static ot_status do_find_lr(job *j) { return print_result(j, ot_find_lr_text); }
static ot_status do_bench(job *j) { return print_result(j, ot_bench_text); }
static ot_status do_run(job *j) { return write_file(j, ot_run_file); }
static ot_status do_grad(job *j) { return write_file(j, ot_grad_file); }
static ot_status do_export(job *j) { return write_file(j, ot_export_file); }
static ot_status do_check(job *j) { return print_description(j, ot_check_text); }
static ot_status do_inspect(job *j) { return print_description(j, ot_inspect_text); }
static ot_status do_plan(job *j) { return print_description(j, ot_plan_text); }

static ot_status fetch(job *j)
{
    ot_status s = OT_OK;
    if (!j->word[1]) return ot_data_fetch("", j->o, &j->cb, &j->err);
    for (int i = 1; j->word[i] && !s; i++) s = ot_data_fetch(j->word[i], j->o, &j->cb, &j->err);
    return s;
}

static ot_status do_data(job *j)
{
    char *text = NULL, *all = NULL;
    size_t size = 0;
    if (!strcmp(j->word[0], "fetch") && (j->word[1] || access("fetch", F_OK))) return fetch(j);
    for (int i = 0; i < 2; i++)
        if (ot_options_get(j->o, i ? "mirror" : "to"))
            return fail(j, OT_E_USAGE, "--%s is of 'onnxtrain data fetch NAME'", i ? "mirror" : "to");
    FILE *f = open_memstream(&all, &size); /* several files: a line each */
    for (int i = 0; f && j->word[i]; i++) fprintf(f, "%s%s", i ? "\n" : "", j->word[i]);
    ot_status s = f && !fclose(f) ? ot_data_text(all, j->o, &text, &j->err)
                                  : fail(j, OT_E_NOMEM, "no memory for the names of files");
    free(all);
    return s ? s : put(j, text);
}

static ot_status do_ops(job *j)
{
    char *text = NULL;
    ot_status s = ot_ops_text(j->o, &text, &j->err);
    return s ? s : put(j, text);
}

static ot_status do_env(job *j)
{
    char *text = NULL;
    ot_status s = ot_env_text(j->o, &text, &j->err);
    return s ? s : put(j, text);
}

static ot_status do_report(job *j) { return ot_report_file(j->word[0], j->o, &j->cb, &j->err); }

static ot_status do_compare(job *j)
{
    char *text = NULL;
    int n = 0;
    while (j->word[n]) n++;
    ot_status s = ot_compare_text(n, j->word, &text, &j->err);
    return s ? s : put(j, text);
}

static ot_status do_new(job *j) { return ot_new_file(j->word[0], j->o, &j->cb, &j->err); }

static ot_status do_help(job *j)
{
    const char *markdown = ot_options_get(j->o, "markdown"), *man = ot_options_get(j->o, "man");
    char *text = NULL;
    ot_status s = man ? ot_man_text(&text, &j->err)
                      : ot_help_about(j->word[0], j->word[1], markdown && !strcmp(markdown, "true"), &text, &j->err);
    return s ? s : put(j, text);
}

static ot_status do_completion(job *j)
{
    char *text = NULL;
    ot_status s = ot_completion_text(j->word[0], &text, &j->err);
    return s ? s : put(j, text);
}

static ot_status (*const functions[])(job *) = { /* in the order of ot_command_at */
#define X(code, bit, name, ...) do_##name,
                                                 OT_COMMAND_LIST(X)
#undef X
};

/* ---- arguments ------------------------------------------------------------------------------ */

enum { HELP = 1000, HELP_ALL, VERSION, FIRST };

typedef struct table { /* for getopt_long, from the option table */
    struct option *longs;
    char shorts[128];
    int n;
} table;

/* Before a command has begun. */
static ot_status no_memory(void)
{
    fputs("onnxtrain: out of memory\n", stderr);
    return OT_E_NOMEM;
}

static bool make_table(table *t)
{
    const ot_option_info *row;
    int n = 0;
    while (ot_option_at(n)) n++;
    t->longs = calloc((size_t)n + 4, sizeof *t->longs);
    if (!t->longs) return false;
    char *s = t->shorts;
    *s++ = ':'; /* a missing argument is ':' */
    *s++ = 'h';
    for (int i = 0; (row = ot_option_at(i)); i++) {
        t->longs[i] = (struct option){ row->name,
                                       !row->argument  ? no_argument
                                       : row->optional ? optional_argument
                                                       : required_argument,
                                       NULL, FIRST + i };
        if (!row->letter) continue;
        *s++ = row->letter;
        if (row->argument) *s++ = ':';
    }
    *s = '\0';
    t->longs[n] = (struct option){ "help", no_argument, NULL, HELP };
    t->longs[n + 1] = (struct option){ "help-all", no_argument, NULL, HELP_ALL };
    t->longs[n + 2] = (struct option){ "version", no_argument, NULL, VERSION };
    t->n = n;
    return true;
}

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("onnxtrain: ", stderr);
    vfprintf(stderr, fmt, args);
    fputs("\nTry 'onnxtrain --help'\n", stderr);
    va_end(args);
    return OT_E_USAGE;
}

static int bad_option(const char *argument)
{
    char name[64];
    snprintf(name, sizeof name, "%s", argument + strspn(argument, "-"));
    name[strcspn(name, "=")] = '\0';
    const char *near = ot_option_nearest(name);
    if (!near) return usage("unknown option '%.80s'", shown(argument));
    return usage("unknown option '%.80s'; did you mean '%s%s'?", shown(argument), near[1] ? "--" : "-", near);
}

/* Prints the help of command c; NULL: of the program. */
static int help(const ot_command_info *c, bool all)
{
    char *text = NULL;
    ot_error err = { 0 };
    if (c ? ot_help_about("command", c->name, false, &text, &err) : ot_help_text(all, &text, &err))
        return usage("%s", err.text);
    bool bad = fputs(text, stdout) < 0 || fflush(stdout);
    free(text);
    return bad ? OT_E_IO : OT_OK;
}

static int version(void)
{
    printf("onnxtrain %s\nApache License 2.0\n", ot_version());
    return fflush(stdout) ? OT_E_IO : OT_OK;
}

/* Parses options into j->o; c: the command if given, else NULL.  >= 0: the program exits with this code. */
static int read_options(job *j, const table *t, const ot_command_info *c, int argc, char **argv)
{
    ot_error err = { 0 };
    int letter, at = 0;
    opterr = 0;
    while (at = optind, (letter = getopt_long(argc, argv, t->shorts, t->longs, NULL)) != -1) {
        const char *argument = argv[optind > at ? optind - 1 : at];
        if (letter == HELP || letter == 'h') return help(c, false);
        if (letter == HELP_ALL) return help(NULL, true);
        if (letter == VERSION) return version();
        if (letter == ':') return usage("%.80s needs a value", shown(argument));
        if (letter == '?') return bad_option(argument);
        for (int i = 0; letter < FIRST && i < t->n; i++)
            if (ot_option_at(i)->letter == letter) letter = FIRST + i;
        const ot_option_info *row = ot_option_at(letter - FIRST);
        if (!row) return bad_option(argument);
        if (ot_options_set(j->o, row->name, row->argument && optarg ? optarg : "true", &err)) {
            if (err.status == OT_E_USAGE) return usage("%s", err.text);
            fprintf(stderr, "onnxtrain: %s\n", err.text);
            return err.status;
        }
    }
    return -1;
}

/* The first of several words is not a file: probably a command was intended. */
static int no_command(const char *name)
{
    char text[256];
    const ot_command_info *c;
    int n = snprintf(text, sizeof text, "unknown command '%.80s'; commands:", shown(name));
    for (int i = 0; (c = ot_command_at(i)) && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", i ? "," : "", c->name);
    return usage("%s", text);
}

/* Assigns the words that remain of the arguments; c NULL: no command was given.  >= 0: the program exits with this code. */
static int read_words(job *j, const ot_command_info *c, int argc, char **argv)
{
    ot_error err = { 0 };
    int n = argc - optind;
    if (n > 1 && !c && access(argv[optind], F_OK)) return no_command(argv[optind]);
    if (!c) c = ot_command_at(0);
    if (n > c->words) {
        bool data = c->words == 1 && n == 2 && strstr(c->arguments, "--data");
        return usage("unexpected argument '%.80s'%s", shown(argv[optind + c->words]),
                     data ? "; data follows --data" : "");
    }
    if (c->needs && n == 0) return usage("%s needs %s", c->name, c->needs);
    for (int i = 0; i < n; i++) {
        j->word[i] = argv[optind + i];
        if (!*j->word[i])
            return usage("argument %d of %s is empty, as is a variable of the shell that is not set", i + 1, c->name);
    }
    return ot_options_check(j->o, c->bit, &err) ? usage("%s", err.text) : -1;
}

/* `help --lr` and `help option --lr` name an option, which is then a word: argv as if it were `help option lr`.  Options of help
 * itself (--man) stay. */
static char **name_of_option(int *argc, char **argv)
{
    static char option[] = "option", *words[4];
    char *last = argv[*argc - 1], *name = last + strspn(last, "-");
    const ot_option_info *row = ot_option_find(name);
    bool alone = *argc == 2 && name > last && row && !(row->commands & OT_CMD_HELP);
    if (!alone && (*argc != 3 || strcmp(argv[1], option) != 0)) return argv;
    words[0] = argv[0], words[1] = option, words[2] = name;
    *argc = 3;
    return words;
}

static int run_command(job *j, int argc, char **argv)
{
    table t = { 0 };
    const ot_command_info *c = argc > 1 ? ot_command_find(argv[1]) : NULL;
    if (c) argc--, argv++;
    if (c && c->bit == OT_CMD_HELP) argv = name_of_option(&argc, argv);
    if (!make_table(&t)) return no_memory();
    int end = read_options(j, &t, c, argc, argv), at = 0;
    free(t.longs);
    if (end < 0) end = read_words(j, c, argc, argv);
    if (end >= 0) return end;
    while (c && ot_command_at(at) != c) at++;

    const char *quiet = ot_options_get(j->o, "quiet"), *verbose = ot_options_get(j->o, "verbose");
    screen_open(&j->screen, quiet && !strcmp(quiet, "true"), verbose && !strcmp(verbose, "true"),
                ot_options_get(j->o, "log-every"));
    if (j->screen.terminal) j->cb.epoch = screen_epoch;
    ot_status s = functions[at](j);
    screen_clear(&j->screen);
    if (s == OT_E_USAGE) return usage("%s", j->err.text);
    if (s) fprintf(stderr, "onnxtrain: %s\n", j->err.text);
    return s ? (int)s : caught ? 128 + caught : 0;
}

/* GNU's OpenMP reads its settings when it is loaded, before main, and by default a waiting thread spins for
 * milliseconds.  If other processes need the processors, every such wait delays the thread that is waited for.
 * Unless the user has set it, the program restarts itself with a spin of about thirty microseconds.  On an idle
 * machine a shorter spin slows small networks by up to a third (measured with an LSTM, which joins its threads at
 * every time step); beside one busy process a longer one doubles the time of a step or worse.  A library cannot do
 * this for its caller. */
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    char self[4096]; /* the program's name, as shown by ps */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return;
    self[n] = '\0';
    if (!setenv("GOMP_SPINCOUNT", "1000", 0)) execv(self, argv);
}

/* With a limit on address space (ulimit -v) the C library's 64 MiB per allocating thread would be most of it. */
static void limit_arenas(void)
{
#ifdef __GLIBC__
    struct rlimit space;
    if (!getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY) (void)mallopt(M_ARENA_MAX, 1);
#endif
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the size limit is then an error of the call that writes it */
    limit_spinning(argv);
    limit_arenas();
    screen_catch_bus();
    job j = { .o = ot_options_new() };
    if (!j.o) return no_memory();
    if (argc < 2) {
        ot_options_free(j.o);
        return usage("a model file and --data are needed");
    }
    j.cb = (ot_callbacks){ .user = &j.screen, .message = screen_message, .progress = screen_progress };
    int code = run_command(&j, argc, argv);
    ot_model_free(j.m);
    ot_options_free(j.o);
    return code;
}
