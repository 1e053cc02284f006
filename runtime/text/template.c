/* template.c - the tokens around a text, and around and between two texts: the post-processor of tokenizer.json. */
#include <string.h>

#include "runtime/text/internal.h"

enum { DEEPEST = 4 };

static ot_status add_special(ot_template *t, const json_t *id, bool behind, ot_error *err)
{
    int *n = behind ? &t->n_behind : &t->n_front, at = t->n_front + t->n_behind;
    json_int_t v = json_integer_value(id);
    if (!json_is_integer(id) || v < 0 || v >= t->size || *n == OT_MOST_SPECIALS || (t->n_behind && !behind))
        return ot_fail(err, OT_E_DATA, "%s: its post-processor names a token that is not in the vocabulary", t->name);
    t->around[at] = (int32_t)v;
    ++*n;
    return OT_OK;
}

/* ---- two texts ---------------------------------------------------------------------------------------- */

/* A part of the template; what cannot be one leaves none. */
static void add_part(ot_template *t, const json_t *id, int32_t text, json_int_t kind)
{
    json_int_t v = id ? json_integer_value(id) : text;
    bool good = id ? json_is_integer(id) && v >= 0 && v < t->size : text == OT_FIRST_TEXT || text == OT_SECOND_TEXT;
    if (t->n_pair < 0) return;
    if (!good || t->n_pair == OT_LEN(t->pair) || kind < 0 || kind > 255) t->n_pair = -1;
    else t->pair[t->n_pair++] = (ot_text_part){ (int32_t)v, (int)kind };
}

static void read_pair(ot_template *t, const json_t *list, const json_t *tokens)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *special = json_object_get(one, "SpecialToken");
        const json_t *text = json_object_get(one, "Sequence"), *of = special ? special : text;
        const char *id = ot_config_text(of, "id");
        json_int_t type = json_integer_value(json_object_get(of, "type_id"));
        const json_t *ids = special && id ? json_object_get(json_object_get(tokens, id), "ids") : NULL;
        if (!special) add_part(t, NULL, !id ? 0 : !strcmp(id, "A") ? OT_FIRST_TEXT : OT_SECOND_TEXT, type);
        for (size_t k = 0; k < json_array_size(ids); k++) add_part(t, json_array_get(ids, k), 0, type);
    }
}

/* [CLS] A [SEP] B [SEP], of which B and what is behind it have type 1; RoBERTa's: <s> A </s> </s> B </s>, all of type 0. */
static void make_pair(ot_template *t, const json_t *cls, const json_t *sep, bool roberta)
{
    int second = !roberta;
    add_part(t, cls, 0, 0);
    add_part(t, NULL, OT_FIRST_TEXT, 0);
    add_part(t, sep, 0, 0);
    if (roberta) add_part(t, sep, 0, 0);
    add_part(t, NULL, OT_SECOND_TEXT, second);
    add_part(t, sep, 0, second);
}

/* Each text is there once. */
static void check_pair(ot_template *t)
{
    int texts[2] = { 0 };
    for (int i = 0; i < t->n_pair; i++)
        if (t->pair[i].id < 0) texts[t->pair[i].id == OT_SECOND_TEXT]++;
    if (t->n_pair < 0 || texts[0] != 1 || texts[1] != 1) t->n_pair = 0;
}

/* ---- reading --------------------------------------------------------------------------------------------- */

static ot_status read_template(ot_template *t, const json_t *v, ot_error *err)
{
    const json_t *single = json_object_get(v, "single"), *tokens = json_object_get(v, "special_tokens");
    bool behind = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *one = json_array_get(single, i), *special = json_object_get(one, "SpecialToken");
        const char *id = ot_config_text(special, "id");
        if (json_object_get(one, "Sequence")) behind = true;
        const json_t *ids = id ? json_object_get(json_object_get(tokens, id), "ids") : NULL;
        for (size_t k = 0; special && k < json_array_size(ids); k++)
            OT_TRY(add_special(t, json_array_get(ids, k), behind, err));
    }
    read_pair(t, json_object_get(v, "pair"), tokens);
    return OT_OK;
}

static ot_status read(ot_template *t, const json_t *v, int depth, ot_error *err)
{
    const char *type = ot_config_text(v, "type");
    if (!v || json_is_null(v)) return OT_OK;
    if (type && !strcmp(type, "Sequence") && depth < DEEPEST) {
        const json_t *list = json_object_get(v, "processors");
        for (size_t i = 0; i < json_array_size(list); i++) OT_TRY(read(t, json_array_get(list, i), depth + 1, err));
        return OT_OK;
    }
    if (type && !strcmp(type, "ByteLevel")) return OT_OK; /* offsets alone */
    t->n_pair = t->given ? -1 : 0;
    t->given = true;
    if (type && !strcmp(type, "TemplateProcessing")) return read_template(t, v, err);
    if (!type || (strcmp(type, "BertProcessing") && strcmp(type, "RobertaProcessing")))
        return ot_text_unsupported(t->name, "post-processor", type, err);
    const json_t *cls = json_array_get(json_object_get(v, "cls"), 1),
                 *sep = json_array_get(json_object_get(v, "sep"), 1);
    make_pair(t, cls, sep, *type == 'R');
    OT_TRY(add_special(t, cls, false, err));
    return add_special(t, sep, true, err);
}

ot_status ot_template_read(ot_template *t, const json_t *v, const char *name, int64_t size, ot_error *err)
{
    *t = (ot_template){
        .name = name, .size = size, .n_pair = 2, .pair = { { OT_FIRST_TEXT, 0 }, { OT_SECOND_TEXT, 1 } }
    };
    OT_TRY(read(t, v, 0, err));
    check_pair(t);
    return OT_OK;
}
