/* scope.c - the names that a body can use; the import's memory and notes. */
#include <string.h>

#include "importer/build.h"

const char ot_absent_mark = 0;

void *ot_job_alloc(ot_job *j, size_t n)
{
    void *p = ot_arena_alloc(j->f->arena, n ? n : 1);
    if (!p) ot_fail_more(j->found, OT_E_NOMEM, "no memory");
    return p;
}

void ot_note(ot_job *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)ot_arena_line(j->f->arena, &j->notes, fmt, ap);
    va_end(ap);
}

ot_status ot_scope_bind(ot_job *j, ot_scope *s, const char *name, ot_value *v)
{
    if (ot_table_set(&s->values, name, v ? (void *)v : OT_ABSENT)) return OT_OK;
    return ot_fail_more(j->found, OT_E_NOMEM, "no memory");
}

ot_value *ot_scope_find(const ot_scope *s, const char *name, bool *absent)
{
    *absent = false;
    for (; s; s = s->up) {
        void *v = ot_table_find(&s->values, name);
        *absent = v == OT_ABSENT;
        if (v) return *absent ? NULL : v;
    }
    return NULL;
}

int64_t ot_scope_version(const ot_job *j, const ot_scope *s, const char *domain)
{
    for (size_t i = 0; i < s->n_opset; i++)
        if (!strcmp(ot_domain(s->opset[i]->domain), domain)) return s->opset[i]->version;
    return *domain ? 1 : j->m->opset;
}

/* Inside functions names are cut: inlining repeats them, and a name of 1 MB called 10,000 times would exhaust memory. */
const char *ot_scope_name(const ot_scope *s, const char *name)
{
    if (!*s->prefix) return ot_arena_strdup(s->graph->arena, name);
    return ot_arena_printf(s->graph->arena, "%s%.300s", s->prefix, name);
}
