/* plans.c - whole training plans for a described H200, by the real cuDNN: the operators that it supports, and reasons
 * for refusals.
 *
 *     test_plans [FILE]     compares with FILE (expected.txt); with a dash prints what would be expected
 *     test_plans --few      fp32 only (cuda_steps plans bf16): each line found must be in the file
 *
 * One line per network and precision counts the nodes per operator that cuDNN computes; one line per reason of a
 * refusal.  Engines and workspace are printed, not compared: they depend on the library's version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exporter/new.h"
#include "ops/kernels/fused.h"
#include "ops/kernels/host.h"
#include "ops/kernel.h"
#include "runtime/passes/passes.h"
#include "runtime/train/run/model.h"

/* The properties as cuDNN writes them; sizes of the public data sheet. */
static const char h200[] = "{\"cudaDeviceId\":0,\"deviceName\":\"NVIDIA "
                           "H200\",\"deviceVer\":900,\"driverVer\":13000,\"isTccDriver\":0,\"maxCtasPerSM\":32,"
                           "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
                           "\"maxSharedMemoryPerBlockOptin\":232448,\"maxThreadsPerBlock\":1024,"
                           "\"maxThreadsPerSM\":2048,\"memClockRateKHz\":3201000,\"multiProcessorCount\":132,"
                           "\"pciDeviceId\":0,\"regsPerBlock\":65536,"
                           "\"reservedSharedMemoryPerBlock\":1024,\"smClockRateKHz\":1980000,\"supportCoopLaunch\":1,"
                           "\"totalGlobalMem\":150754820096,"
                           "\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
                           "\"l2CacheSize\":62914560}";

/* tf32 takes more engines than fp32 of the same graphs: one network of each sort shows it.  tokens, of how many
 * layers: sequences, not pictures. */
static const struct {
    const char *kind;
    int64_t batch, channels, size;
    bool tf32;
    int64_t tokens, layers;
} networks[] = {
    { "lenet", 64, 1, 28, true, 0, 0 },        { "vgg", 128, 3, 32, false, 0, 0 },
    { "resnet18", 128, 3, 32, true, 0, 0 },    { "mobilenet", 128, 3, 32, false, 0, 0 },
    { "autoencoder", 64, 1, 28, false, 0, 0 }, { "alexnet", 64, 3, 224, false, 0, 0 },
    { "resnet50", 64, 3, 224, false, 0, 0 },   { "gpt2", 8, 0, 0, true, 1024, 2 },
    { "bert", 8, 0, 0, true, 512, 2 },
};

static const struct {
    ot_precision precision;
    const char *name;
} precisions[] = {
    { OT_FP32, "fp32" },
    { OT_TF32, "tf32" },
    { OT_PREC_BF16, "bf16" },
    { OT_PREC_FP16, "fp16" },
};

static const char *const operators[] = { "Convolve",    "ConvolveDx",     "ConvolveDw",      "BatchNorm",
                                         "BatchNormDx", "FusedAttention", "FusedAttentionDx" };

enum { REASONS = 64 };

typedef struct reason {
    int op, times;
    const char *why;
} reason;

typedef struct tally {
    int all[OT_LEN(operators)], taken[OT_LEN(operators)];
    reason list[REASONS];
    int reasons;
} tally;

static int total, accepted;

/* ---- counting ------------------------------------------------------------------------------ */

static int operator_of(const ot_step *s)
{
    for (int i = 0; i < OT_LEN(operators); i++)
        if (!strcmp(ot_op_of(s->node)->name, operators[i])) return i;
    return -1;
}

static const char *refusal(const ot_step *s)
{
    for (int i = 0; i < s->n_refused; i++)
        if (!strcmp(s->refused[i].kernel->name, "cudnn")) return s->refused[i].why;
    return "a kernel in front of it was taken";
}

static void count(tally *t, const ot_step *s)
{
    int i = operator_of(s), k = 0;
    if (i < 0) return;
    t->all[i]++;
    total++;
    if (!strcmp(s->kernel->name, "cudnn")) {
        t->taken[i]++;
        accepted++;
        printf("    %-12s %-24s %s\n", operators[i], s->node->name, s->how);
        return;
    }
    const char *why = refusal(s);
    while (k < t->reasons && (t->list[k].op != i || strcmp(t->list[k].why, why) != 0)) k++;
    if (k == REASONS) return;
    if (k == t->reasons) t->list[t->reasons++] = (reason){ .op = i, .why = why };
    t->list[k].times++;
}

static void report(FILE *f, const char *kind, const char *precision, const tally *t)
{
    fprintf(f, "%s %s:", kind, precision);
    for (int i = 0; i < OT_LEN(operators); i++)
        if (t->all[i]) fprintf(f, " %s %d/%d", operators[i], t->taken[i], t->all[i]);
    fprintf(f, "\n");
    for (int k = 0; k < t->reasons; k++)
        fprintf(f, "  %d %s: %s\n", t->list[k].times, operators[t->list[k].op], t->list[k].why);
}

/* ---- planning ------------------------------------------------------------------------------- */

/* The graph's inputs and the target, which is last. */
static int feeds_of(const ot_model *m, int network, ot_feed feeds[4])
{
    int64_t batch = networks[network].batch, C = networks[network].channels, S = networks[network].size;
    int n = m->file->graph->n_inputs;
    bool sequences = networks[network].tokens > 0;
    ot_shape sample = { 4, { batch, C, S, S } };
    if (sequences) sample = (ot_shape){ 2, { batch, networks[network].tokens } };
    for (int i = 0; i < n && i < 3; i++)
        feeds[i] =
            (ot_feed){ .name = m->file->graph->inputs[i]->name, .dtype = sequences ? OT_I64 : OT_F32, .shape = sample };
    feeds[n] = (ot_feed){ .name = "target", .dtype = OT_I64, .shape = { 1, { batch } } };
    if (!strcmp(networks[network].kind, "gpt2")) feeds[n].shape = sample; /* the next token of every one */
    if (!strcmp(networks[network].kind, "autoencoder")) feeds[n].shape = sample, feeds[n].dtype = OT_F32;
    return n + 1;
}

static ot_status plan(const ot_model *m, int network, int precision, ot_device *d, FILE *f, ot_error *err)
{
    ot_feed feeds[4];
    int n_feeds = feeds_of(m, network, feeds);
    ot_spec loss = { .name = feeds[n_feeds - 1].dtype == OT_F32 ? "mse" : "cross_entropy" };
    ot_config c = { .want = OT_WANT_TRAIN,
                    .n_feeds = n_feeds,
                    .feeds = feeds,
                    .options.n_losses = 1,
                    .options.losses = &loss,
                    .options.optimizer = { .name = "sgd" },
                    .accumulate = 1,
                    .options.dropout = -1,
                    .threads = 1,
                    .device = d,
                    .options.precision = precisions[precision].precision };
    ot_plan *p = NULL;
    tally t = { .reasons = 0 };
    OT_TRY(ot_plan_new(m->file->graph, &c, NULL, &p, err));
    for (int i = 0; i < p->n_batch_steps; i++) count(&t, &p->batch_steps[i]);
    report(f, networks[network].kind, precisions[precision].name, &t);
    report(stdout, networks[network].kind, precisions[precision].name, &t);
    ot_plan_free(p);
    return OT_OK;
}

static ot_status plan_all(ot_device *d, bool few, FILE *f, ot_error *err)
{
    for (int i = 0; i < OT_LEN(networks); i++) {
        char path[64];
        ot_model *m = NULL;
        ot_new_options o = { .channels = networks[i].channels,
                             .height = networks[i].size,
                             .width = networks[i].size,
                             .tokens = networks[i].tokens,
                             .layers = networks[i].layers };
        if (!strcmp(networks[i].kind, "gpt2")) o.classes = 1000; /* a vocabulary of less to write */
        snprintf(path, sizeof path, "plans-%d.onnx", (int)getpid());
        ot_status s = ot_new_model(networks[i].kind, &o, path, err);
        if (s == OT_OK) s = ot_model_load(path, &m, err);
        unlink(path);
        for (int k = 0; k < OT_LEN(precisions) && s == OT_OK; k++) {
            ot_precision x = precisions[k].precision;
            if (few ? x == OT_FP32 : x != OT_TF32 || networks[i].tf32) s = plan(m, i, k, d, f, err);
        }
        ot_model_free(m);
        if (s != OT_OK) return s;
    }
    return OT_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static char *contents(const char *path)
{
    char *text = NULL;
    size_t cap = 0;
    FILE *f = fopen(path, "r");
    if (f && getdelim(&text, &cap, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    return text;
}

/* Lines of `a` that `b` lacks. */
static int lacking(const char *a, const char *b, const char *what)
{
    int n = 0;
    while (*a) {
        size_t length = strcspn(a, "\n");
        const char *at = b;
        while (*at && (strncmp(at, a, length) != 0 || (at[length] && at[length] != '\n')))
            at += strcspn(at, "\n"), at += *at == '\n';
        if (!*at && length) printf("%s: %.*s\n", what, (int)length, a), n++;
        a += length + (a[length] == '\n');
    }
    return n;
}

int main(int argc, char **argv)
{
    bool few = argc > 1 && !strcmp(argv[1], "--few");
    const char *file = argc > 1 && !few ? argv[1] : OT_SOURCE_ROOT "/tests/cuda/plans/expected.txt";
    ot_error err = { 0 };
    ot_device *d = NULL;
    char *text = NULL;
    size_t n = 0;
    const ot_backend *b = ot_backend_find(&err);
    if (!b) {
        printf("FAIL %s\n", err.text);
        return 1;
    }
    FILE *f = open_memstream(&text, &n);
    if (!f || b->open(0, h200, &d, &err) != OT_OK) {
        printf("FAIL %s\n", err.text);
        return 1;
    }
    ot_status s = plan_all(d, few, f, &err);
    fclose(f);
    b->close(d);
    if (s != OT_OK) {
        printf("FAIL %s\n", err.text);
        return 1;
    }
    printf("cudnn plans: %d of %d convolutions, norms, attentions and their gradients accepted for a described H200\n",
           accepted, total);
    if (!strcmp(file, "-")) {
        FILE *to = fopen("expected.txt", "w");
        if (!to || fputs(text, to) < 0 || fclose(to)) return 1;
        free(text);
        return 0;
    }
    char *want = contents(file);
    int wrong = !want || !*want ? 1 : (few ? 0 : lacking(want, text, "missing")) + lacking(text, want, "new");
    if (!want) printf("FAIL no %s\n", file);
    free(want);
    free(text);
    return wrong != 0;
}
