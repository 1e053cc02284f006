/* metadata.c - entries of the model's metadata_props.
 *
 * Spec  Keys are unique: an onnxtrain.* key is replaced, any other existing key is kept. */
#include "exporter/messages.h"
#include "exporter/patch.h"

#include <string.h>

static bool text_is(const ot_patch *p, const ot_field *f, const char *s)
{
    size_t n = strlen(s);
    return f->end - f->body == n && !memcmp(p->p + f->body, s, n);
}

ot_status ot_metadata_edit(ot_patch *p, const char *key, const char *value, ot_error *err)
{
    ot_field f, old;
    bool ours = ot_metadata_is_ours(key), there = false;
    size_t n, end = p->span[0].end;
    const uint8_t *entry = ot_entry_bytes(p->arena, OT_MODEL_METADATA, key, value, &n);
    if (!entry) return ot_fail(err, OT_E_NOMEM, "export: no memory for metadata '%s'", key);
    for (size_t at = 0; ot_field_next(p->p, &at, end, &f);) {
        if (f.number != OT_MODEL_METADATA) continue;
        int span = ot_patch_span(p, 0, &f);
        if (!span) return ot_fail(err, OT_E_NOMEM, "export: no memory for metadata '%s'", key);
        if (!ot_field_last(p, span, OT_ENTRY_KEY, &old) || !text_is(p, &old, key)) continue;
        /* Equal entries stay as they are written. */
        if (ours && !there && !(ot_field_last(p, span, OT_ENTRY_VALUE, &old) && text_is(p, &old, value)))
            ot_patch_edit(p, 0, f.at, f.end, entry, n);
        there = true;
    }
    if (!there) ot_patch_edit(p, 0, end, end, entry, n);
    return OT_OK;
}

ot_status ot_metadata_drop(ot_patch *p, const char *key, ot_error *err)
{
    ot_field f, name;
    for (size_t at = 0; ot_field_next(p->p, &at, p->span[0].end, &f);) {
        if (f.number != OT_MODEL_METADATA || f.wire != 2) continue;
        int span = ot_patch_span(p, 0, &f);
        if (!span) return ot_fail(err, OT_E_NOMEM, "no memory to remove metadata '%s'", key);
        if (ot_field_last(p, span, OT_ENTRY_KEY, &name) && text_is(p, &name, key))
            ot_patch_edit(p, 0, f.at, f.end, NULL, 0);
    }
    return OT_OK;
}
