/* help_page.c - a text that is being printed. */
#include "runtime/train/options/help_page.h"

#include <stdlib.h>

#include "runtime/base/io.h"

ot_status ot_help_open(ot_help_page *p, char **text, ot_error *err)
{
    *text = NULL;
    p->a = ot_arena_new();
    if (p->a) p->f = open_memstream(text, &p->size);
    return p->f ? OT_OK : ot_fail(err, OT_E_NOMEM, "no memory for the text");
}

ot_status ot_help_close(ot_help_page *p, ot_status s, char **text, ot_error *err)
{
    bool whole = p->f && ot_memstream_close(p->f);
    ot_arena_free(p->a);
    if (!s && whole && !p->lost) return OT_OK;
    free(*text);
    *text = NULL;
    return s ? s : ot_fail(err, OT_E_NOMEM, "no memory for the text");
}

const char *ot_help_part(ot_help_page *p, const char *text)
{
    p->lost |= !text || !*text;
    return text ? text : "";
}
