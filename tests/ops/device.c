/* device.c - one kernel of a device on buffers of the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels/host.h"
#include "tests/ops/harness.h"

enum { PAD = 256 }; /* space for the guard bytes that keeps the alignment */

static char *device_new(ot_device *d, const void *host, size_t bytes, ot_error *err)
{
    void *p = NULL;
    if (d->backend->alloc(d, (int64_t)bytes + 2 * PAD, &p, err) != OT_OK) return NULL;
    char *at = (char *)p + PAD;
    if (d->backend->upload(d, at - GUARD, (const char *)host - GUARD, (int64_t)bytes + 2 * GUARD, err) == OT_OK &&
        d->backend->wait(d, err) == OT_OK)
        return at;
    d->backend->free(d, p);
    return NULL;
}

static void device_free(ot_device *d, char *at)
{
    if (at) d->backend->free(d, at - PAD);
}

typedef struct buffers { char *in[64], *out[64]; char *work, *table; void *guard; } buffers;

static bool make_buffers(ot_device *d, const ot_node *n, const void *const *in, void *const *out, const ot_prep *p,
                         buffers *b, ot_error *err)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !(b->in[i] = device_new(d, in[i], ot_bytes(&n->in[i]->shape, n->in[i]->dtype), err))) return false;
    for (int o = 0; o < n->n_out; o++) {
        if (!n->out[o]) continue;
        for (int i = 0; i < n->n_in; i++)
            if (in[i] && in[i] == out[o]) b->out[o] = b->in[i];
        if (!b->out[o] && !(b->out[o] = device_new(d, out[o], ot_bytes(&n->out[o]->shape, n->out[o]->dtype), err))) return false;
    }
    if (p->work) {
        b->guard = guarded_new(p->work);
        if (!(b->work = device_new(d, b->guard, p->work, err))) return false;
    }
    if (p->table_bytes) {
        void *copy = guarded_new(p->table_bytes);
        memcpy(copy, p->table, p->table_bytes);
        b->table = device_new(d, copy, p->table_bytes, err);
        guarded_free(copy);
        if (!b->table) return false;
    }
    return true;
}

static void free_buffers(ot_device *d, const ot_node *n, buffers *b)
{
    for (int o = 0; o < n->n_out; o++) {
        bool shared = false;
        for (int i = 0; i < n->n_in; i++) shared |= b->out[o] && b->out[o] == b->in[i];
        if (!shared) device_free(d, b->out[o]);
    }
    for (int i = 0; i < n->n_in; i++) device_free(d, b->in[i]);
    device_free(d, b->work);
    device_free(d, b->table);
    guarded_free(b->guard);
}

static ot_status read_back(ot_device *d, const ot_node *n, void *const *out, const buffers *b, const ot_prep *p,
                           bool *intact, ot_error *err)
{
    ot_fault f;
    for (int o = 0; o < n->n_out; o++)
        if (out[o])
            OT_TRY(d->backend->download(d, (char *)out[o] - GUARD, b->out[o] - GUARD,
                                        (int64_t)ot_bytes(&n->out[o]->shape, n->out[o]->dtype) + 2 * GUARD, err));
    if (b->work) OT_TRY(d->backend->download(d, (char *)b->guard - GUARD, b->work - GUARD, (int64_t)p->work + 2 * GUARD, err));
    OT_TRY(d->backend->download(d, &f, d->fault, sizeof f, err));
    OT_TRY(d->backend->zero(d, d->fault, sizeof f, err));
    OT_TRY(d->backend->wait(d, err));
    *intact = !b->work || guarded_intact(b->guard, p->work);
    return f.step ? ot_fail(err, OT_E_MODEL, "fault %d: %lld", f.kind, (long long)f.value) : OT_OK;
}

ot_status kernel_run_on(ot_device *d, const ot_kernel *k, const ot_node *n, const void *const *in, void *const *out,
                        int variant, int *variants, bool *intact, ot_error *err)
{
    ot_prep p = { .threads = 1, .err = err, .device = d, .variant = variant };
    buffers b = { .work = NULL };
    *intact = true;
    *variants = 0;
    if (k->prepare && k->prepare(n, &p) != OT_OK) return err->status;
    if (p.refused) return OT_OK;
    *variants = p.variants > 1 ? p.variants : 1;
    ot_status s = OT_OK;
    if (!make_buffers(d, n, in, out, &p, &b, err)) s = err->status;
    ot_call c = { .node = n, .in = (const void *const *)b.in, .out = (void *const *)b.out, .work = b.work, .state = p.state,
                  .threads = 1, .err = err, .device = d, .table = b.table, .step = 0 };
    if (s == OT_OK) s = k->run(&c);
    if (s == OT_OK) s = read_back(d, n, out, &b, &p, intact, err);
    if (k->release && p.state) k->release(p.state);
    free_buffers(d, n, &b);
    return s;
}

int device_open(const char *arch, ot_device **out)
{
    ot_error          err = { 0 };
    const ot_backend *b = ot_backend_find(&err);
    bool              named = getenv("ONNXTRAIN_CUDA_MODULE") != NULL;
    char              text[1024];
    if (b && (arch || b->count(&err)) && b->open(0, arch ? describe_device(arch, text, sizeof text) : NULL, out, &err) == OT_OK)
        return 0;
    printf("%s: no device: %s\n", named ? "FAIL" : "skipped", err.text);
    return named ? 1 : 77;
}
