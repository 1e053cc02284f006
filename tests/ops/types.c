/* types.c - every operator, every input, every element type.
 *
 * The rows of an operator are run with one input in another type, and with all inputs of one type in another: they must
 * be computed (by every kernel alike, within their memory) or refused as an error of the model.  Errors of data are
 * allowed too, since values change with the type. */
#include <stdio.h>
#include <string.h>

#include "tests/ops/harness.h"

enum { LONGEST = 4096 };

/* The words of `in`, with type `name` where `change` says so. */
static void retype(const char *in, const char *name, unsigned change, char *out)
{
    size_t at = 0;
    for (int i = 0; *in; i++) {
        size_t word = strcspn(in, " "), old = strcspn(in, "[");
        bool   swap = (change >> i & 1) && old < word;
        at += (size_t)snprintf(out + at, LONGEST - at, "%s%s%.*s", i ? " " : "", swap ? name : "", (int)(swap ? word - old : word),
                               swap ? in + old : in);
        in += word;
        in += strspn(in, " ");
    }
}

/* The type of word i, "" if it is missing; the number of words. */
static int types_in(const char *in, char type[MAX_IN][16])
{
    int n = 0;
    for (; *in && n < MAX_IN; n++) {
        size_t word = strcspn(in, " "), old = strcspn(in, "[");
        snprintf(type[n], sizeof type[n], "%.*s", old < word ? (int)old : 0, in);
        in += word;
        in += strspn(in, " ");
    }
    return n;
}

static bool one(const ot_op *op, const ot_case *row, const char *type, unsigned change, int *answered, int *refused)
{
    char     in[LONGEST];
    ot_case  c = *row;
    ot_error err = { 0 };
    retype(row->in, type, change, in);
    c.in = in;
    c.tol = row->tol > 1e-3 ? row->tol : 1e-3; /* other types are other sums; the rows themselves are exact */
    ot_status s = row_try(op, &c, &err);
    if (s == OT_OK || s == OT_E_DATA) ++*answered;
    else if (s == OT_E_MODEL) ++*refused;
    else {
        printf("FAIL %s.%s with %s: status %d: %s\n", op->name, row->name, in, s, err.text);
        return false;
    }
    return true;
}

bool types_of(const ot_op *op, const ot_case *rows, int *cases, int *answered, int *refused)
{
    bool ok = true;
    int  covered = 0;
    for (const ot_case *row = rows; row->name; row++) {
        char type[MAX_IN][16];
        int  n = row->in ? types_in(row->in, type) : 0;
        if (n <= covered || row->fail || row->fail_run || strlen(row->in) > LONGEST / 2) continue; /* says nothing new */
        for (int i = covered = 0; i < n; i++) {
            unsigned alike = 0;
            for (int k = 0; k < n; k++) alike |= (unsigned)!strcmp(type[i], type[k]) << k;
            if (!*type[i]) continue;
            for (int t = 0; parse_type_name(t); t++) {
                ok &= one(op, row, parse_type_name(t), 1u << i, answered, refused);
                ok &= one(op, row, parse_type_name(t), alike, answered, refused);
                *cases += 2;
            }
        }
        covered = n;
    }
    return ok;
}
