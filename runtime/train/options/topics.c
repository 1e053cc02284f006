/* topics.c - `onnxtrain help TOPIC [NAME]`: what the registries say, as text and as tables for the documents. */

#include <stdlib.h>
#include <string.h>

#include "exporter/new.h"
#include "runtime/data/data.h"
#include "runtime/losses/losses.h"
#include "runtime/optimizers/optimizers.h"
#include "runtime/picture/augment.h"
#include "runtime/passes/lora.h"
#include "runtime/train/options/options.h"
#include "runtime/train/options/help_page.h"
#include "runtime/train/options/schedules.h"
#include "runtime/train/options/metrics.h"

static const ot_registry *const topics[] = { &ot_optimizers,    &ot_losses,       &ot_teachers, &ot_schedules,
                                             &ot_augmentations, &ot_data_sources, &ot_recipes,  &ot_metrics,
                                             &ot_plot_forms,    &ot_loras,        &ot_commands };

static const char options_meaning[] = "options of the program, which are the keys of config files";

const ot_registry *ot_topic_at(int i) { return i >= 0 && i < OT_LEN(topics) ? topics[i] : NULL; }

const ot_registry *ot_topic_find(const char *name)
{
    for (int i = 0; i < OT_LEN(topics); i++)
        if (!strcmp(topics[i]->sort, name)) return topics[i];
    return NULL;
}

/* A cell of a table: `|` ends one. */
static void print_cell(ot_help_page *p, const char *text)
{
    for (; *text; text++) fprintf(p->f, *text == '|' ? "\\%c" : "%c", *text);
}

static void print_key(ot_help_page *p, const ot_entry *e, const ot_key *k)
{
    const char *wants = ot_help_part(p, ot_key_wants(k, p->a)), *dflt = k->dflt      ? k->dflt
                                                                        : k->without ? k->without
                                                                                     : "must be given";
    if (!p->markdown) {
        ot_print(p->f, "\n  %s%s%s%s\n      %s\n      %s\n", k->name, k->dflt ? "=" : " (", dflt, k->dflt ? "" : ")",
                 k->meaning, wants);
        return;
    }
    fprintf(p->f, "| %s | `%s` | ", e->name, k->name);
    print_cell(p, dflt);
    fputs(" | ", p->f);
    print_cell(p, wants);
    fputs(" | ", p->f);
    print_cell(p, k->meaning);
    fputs(" |\n", p->f);
}

/* A command's line, and its options by name. */
static void print_command(ot_help_page *p, const ot_command_info *c)
{
    const ot_option_info *o;
    ot_print(p->f, "\n  onnxtrain %s%s%s\n", c->name, *c->arguments ? " " : "", c->arguments);
    bool own = c->bit == OT_CMD_RESUME; /* what is not given is as in the run */
    ot_print(p->f, "\nOptions ('onnxtrain help option NAME' has the details)%s\n",
             own ? "; without one, the run's own value" : "");
    for (int i = 0; (o = ot_option_at(i)); i++)
        if (o->commands & c->bit) ot_option_print(o, !own || !(o->commands & OT_CMD_TRAIN), p->f);
}

/* How a command line says it. */
static void print_use(ot_help_page *p, const ot_registry *r, const ot_entry *e)
{
    bool keys = e->keys && e->keys->name;
    if (r == &ot_commands) print_command(p, ot_command_find(e->name));
    else if (r == &ot_recipes) ot_print(p->f, "\n  onnxtrain new %s -o FILE [--KEY VALUE ...]\n", e->name);
    else if (r == &ot_loras) ot_print(p->f, "\n  --lora key=value,key=value\n");
    else if (keys)
        ot_print(p->f, "\n  --%s%s%s[:key=value,key=value]\n", r->sort,
                 ot_option_find(r->sort) && ot_option_find(r->sort)->optional ? "=" : " ", e->name);
}

static void print_entry(ot_help_page *p, const ot_registry *r, const ot_entry *e)
{
    ot_print(p->f, "%s %s: %s\n", r->sort, e->name, e->meaning);
    print_use(p, r, e);
    for (const ot_key *k = e->keys; k && k->name; k++) print_key(p, e, k);
}

static void print_registry(ot_help_page *p, const ot_registry *r)
{
    bool keys = false;
    if (p->markdown) fprintf(p->f, "| %s | what it is |\n|---|---|\n", r->sort);
    else ot_print(p->f, "%s\n\n", r->meaning);
    for (const ot_entry *const *e = r->entries; *e; e++) {
        keys |= (*e)->keys && (*e)->keys->name;
        if (!p->markdown) {
            ot_print(p->f, "  %-16s %s\n", (*e)->name, (*e)->meaning);
            continue;
        }
        const ot_command_info *c = r == &ot_commands ? ot_command_find((*e)->name) : NULL;
        fprintf(p->f, "| `%s%s", c ? "onnxtrain " : "", (*e)->name);
        if (c && *c->arguments) fputc(' ', p->f), print_cell(p, c->arguments);
        fputs("` | ", p->f);
        print_cell(p, (*e)->meaning);
        fputs(" |\n", p->f);
    }
    if (!p->markdown && keys) ot_print(p->f, "\n'onnxtrain help %s NAME' has the keys of one.\n", r->sort);
    if (!p->markdown || !keys) return;
    fprintf(p->f, "\n| %s | key | without it | value | meaning |\n|---|---|---|---|---|\n", r->sort);
    for (const ot_entry *const *e = r->entries; *e; e++)
        for (const ot_key *k = (*e)->keys; k && k->name; k++) print_key(p, *e, k);
}

/* ---- options -------------------------------------------------------------------------- */

static void print_option(ot_help_page *p, const ot_option_info *o)
{
    const ot_registry *r = ot_topic_find(o->name);
    ot_print(p->f, "%s%s%s%s: %s\n\n", strlen(o->name) > 1 ? "--" : "-", o->name,
             o->argument && !o->optional ? " " : "", o->argument ? o->argument : "", o->help);
    if (o->argument) ot_print(p->f, "  %s\n", ot_help_part(p, ot_option_wants(o, p->a)));
    if (o->value) ot_print(p->f, "  without it: %s\n", o->value);
    if (o->repeats) ot_print(p->f, "  may be given more than once\n");
    if (strlen(o->name) > 1)
        ot_print(p->f, "  in a config file: %s = %s\n", o->name,
                 o->optional   ? "true"
                 : o->argument ? o->argument
                               : "true");
    if (r) ot_print(p->f, "  'onnxtrain help %s' lists: %s\n", r->sort, ot_help_part(p, ot_registry_names(r, p->a)));
}

static void print_options(ot_help_page *p)
{
    const ot_option_info *o;
    const char *group = "";
    if (p->markdown) fputs("| option | without it | meaning |\n|---|---|---|\n", p->f);
    else ot_print(p->f, "%s\n", options_meaning);
    for (int i = 0; (o = ot_option_at(i)); i++) {
        const char *dashes = strlen(o->name) > 1 ? "--" : "-";
        if (!p->markdown) {
            if (strcmp(group, o->group)) ot_print(p->f, "\n%s\n", o->group);
            ot_print(p->f, "  %s%-18s %s\n", dashes, o->name, o->help);
        } else {
            fprintf(p->f, "| `%s%s%s", dashes, o->name, o->argument && !o->optional ? " " : "");
            print_cell(p, o->argument ? o->argument : "");
            fputs("` | ", p->f);
            print_cell(p, o->value ? o->value : "");
            fputs(" | ", p->f);
            print_cell(p, o->help);
            fputs(" |\n", p->f);
        }
        group = o->group;
    }
}

/* ---- the command ------------------------------------------------------------------------ */

static void print_topics(ot_help_page *p)
{
    if (p->markdown) {
        fputs("| `onnxtrain help` | what there is |\n|---|---|\n", p->f);
        for (int i = 0; i < OT_LEN(topics); i++)
            fprintf(p->f, "| `%s` | %s |\n", topics[i]->sort, ot_help_part(p, ot_registry_names(topics[i], p->a)));
        return;
    }
    fputs("onnxtrain help TOPIC [NAME]\nonnxtrain help NAME           a command, an option, or a name of one topic\n\n",
          p->f);
    for (int i = 0; i < OT_LEN(topics); i++) ot_print(p->f, "  %-10s %s\n", topics[i]->sort, topics[i]->meaning);
    ot_print(p->f, "  %-10s %s\n", "option", options_meaning);
    fputs("\n'onnxtrain --help' has the commands and the usual options.\n", p->f);
}

static const char *topic_names(const ot_help_page *p)
{
    const char *names = "";
    for (int i = 0; i < OT_LEN(topics) && names; i++) names = ot_arena_printf(p->a, "%s%s, ", names, topics[i]->sort);
    return names ? names : "";
}

/* The meaning of a single word: a topic, else a command, else the only option or name of a topic that is called so. */
typedef struct meaning {
    const ot_registry *r;
    const ot_entry *e;
    const ot_option_info *o;
    int n;           /* so many names and options have it */
    const char *all; /* the calls that print each, if there are several */
} meaning;

static meaning find_word(const ot_help_page *p, const char *word)
{
    meaning m = { .all = "" };
    const ot_entry *command = ot_registry_find(&ot_commands, word);
    if (command) return (meaning){ .r = &ot_commands, .e = command, .n = 1 };
    for (int i = 0; i < OT_LEN(topics); i++) {
        const ot_entry *e = ot_registry_find(topics[i], word);
        if (!e) continue;
        m.r = topics[i], m.e = e;
        if (m.all) m.all = ot_arena_printf(p->a, "%s%s'help %s %s'", m.all, m.n ? ", " : "", topics[i]->sort, word);
        m.n++;
    }
    m.o = ot_option_find(word);
    if (m.o && m.all) m.all = ot_arena_printf(p->a, "%s%s'help option %s'", m.all, m.n ? ", " : "", word);
    m.n += m.o != NULL;
    return m;
}

static ot_status print_word(ot_help_page *p, const char *word, ot_error *err)
{
    meaning m = find_word(p, word);
    if (m.n > 1) return ot_fail(err, OT_E_USAGE, "help: '%s' has several meanings: %s", word, ot_help_part(p, m.all));
    if (m.e) print_entry(p, m.r, m.e);
    else if (m.o) print_option(p, m.o);
    if (m.n) return OT_OK;
    const char *near = ot_option_nearest(word);
    return ot_fail(err, OT_E_USAGE, "help: unknown name '%s'%s%s%s; topics: %soption", word,
                   near ? "; did you mean option '" : "", near ? near : "", near ? "'" : "", topic_names(p));
}

static ot_status print_about(ot_help_page *p, const char *topic, const char *name, ot_error *err)
{
    const ot_registry *r = topic ? ot_topic_find(topic) : NULL;
    if (!topic) {
        print_topics(p);
        return OT_OK;
    }
    if (r) {
        const ot_entry *e = name ? ot_registry_find(r, name) : NULL;
        if (name && !e)
            return ot_registry_unknown(r,
                                       r == &ot_recipes        ? "kind of model"
                                       : r == &ot_data_sources ? "kind of data"
                                                               : r->sort,
                                       name, p->a, err);
        if (e) print_entry(p, r, e);
        else print_registry(p, r);
        return OT_OK;
    }
    if (strcmp(topic, "option")) {
        if (!name) return print_word(p, topic, err);
        return ot_fail(err, OT_E_USAGE, "help: unknown topic '%s'; supported: %soption", topic, topic_names(p));
    }
    const ot_option_info *o = name ? ot_option_find(name + strspn(name, "-")) : NULL;
    if (name && !o) {
        const char *near = ot_option_nearest(name + strspn(name, "-"));
        return ot_fail(err, OT_E_USAGE, "unknown option '%s'%s%s%s; 'onnxtrain help option' lists them", name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'" : "");
    }
    if (o) print_option(p, o);
    else print_options(p);
    return OT_OK;
}

ot_status ot_help_about(const char *topic, const char *name, bool markdown, char **text, ot_error *err)
{
    OT_ENTER(err);
    OT_GIVEN(text);
    ot_help_page p = { .markdown = markdown };
    ot_status s = ot_help_open(&p, text, err);
    if (!s) s = print_about(&p, topic, name, err);
    return ot_help_close(&p, s, text, err);
}
