/* external.c - a model with tensors in other files: a few that it may read, and some outside its folder that it must
 * not.  The tensors read are searched for the contents of those; a written model has its own files. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "tests/fuzz/models.h"

const char *const fuzz_words[] = { "weights.bin",
                                   "sub/weights.bin",
                                   "sub/../weights.bin",
                                   "./weights.bin",
                                   "link_in",
                                   "link_out",
                                   "up",
                                   "up/secret",
                                   "../secret",
                                   "../model/weights.bin",
                                   "sub/../../secret",
                                   "/etc/passwd",
                                   "..",
                                   ".",
                                   "",
                                   "0",
                                   "64",
                                   "-1",
                                   "4096",
                                   "9223372036854775807",
                                   "18446744073709551616",
                                   "location",
                                   "offset",
                                   "length",
                                   "checksum",
                                   "model.onnx",
                                   "fifo",
                                   NULL };

static const char secret[] = "SECRETSECRETSECRETSECRETSECRETSECRETSECRETSECRETSECRETSECRETSECRET";

static void hold_no_secret(const void *p, size_t n, const char *where)
{
    FUZZ_HOLD(n < 12 || !memmem(p, n, "SECRETSECRET", 12), "%s has bytes of a file outside the model's folder", where);
}

static void hold_file(const char *path, const void *want, size_t n)
{
    void *p = NULL;
    size_t m = 0;
    ot_error e = { 0 };
    FUZZ_HOLD(!ot_read_file(path, 1 << 24, &p, &m, &e), "%s", e.text);
    FUZZ_HOLD(m == n && !memcmp(p, want, n), "%s was changed", path);
    free(p);
}

/* Every file that was written. */
static void hold_written(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *x; d && (x = readdir(d));) {
        char path[1024];
        void *p = NULL;
        size_t n = 0;
        ot_error e = { 0 };
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        if (x->d_name[0] == '.' || ot_read_file(path, 1 << 24, &p, &n, &e)) continue;
        hold_no_secret(p, n, path);
        free(p);
    }
    if (d) closedir(d);
}

static void write_again(const ot_model *m)
{
    ot_options *o = fuzz_options((const char *const[]){ "lr", "0", "optimizer", "sgd", "loss", "output", NULL });
    ot_trainer *t = NULL;
    ot_error e = { 0 }, stepped = { 0 }, written = { 0 };
    fuzz_fed f = { .n = 0 };
    if (fuzz_feed(m, &f) && !fuzz_status("ot_trainer_new", ot_trainer_new(m, o, NULL, &t, &e), &e) &&
        !fuzz_status("ot_trainer_step", ot_trainer_step(t, f.t, f.n, NULL, &stepped), &stepped))
        fuzz_status("ot_trainer_export", ot_trainer_export(t, fuzz_path("out/out.onnx"), &written), &written);
    fuzz_unfeed(&f);
    ot_trainer_free(t);
    ot_options_free(o);
}

void ot_fuzz(const uint8_t *p, size_t n)
{
    uint8_t weights[512];
    for (size_t i = 0; i < sizeof weights; i++) weights[i] = (uint8_t)(i % 64 < 60 ? i % 7 : 0x3f);
    fuzz_subfolder("model");
    const char *outside = fuzz_write("secret", secret, sizeof secret);
    const char *out = fuzz_subfolder("out");
    fuzz_path("out/?*");
    fuzz_subfolder("model/sub");
    const char *inside = fuzz_write("model/weights.bin", weights, sizeof weights);
    fuzz_write("model/sub/weights.bin", weights, sizeof weights);
    if (symlink("weights.bin", fuzz_path("model/link_in")) || symlink("../secret", fuzz_path("model/link_out")) ||
        symlink("..", fuzz_path("model/up")))
        abort();
    ot_model *m = fuzz_load(fuzz_write("model/model.onnx", p, n));
    ot_tensor t;
    for (int i = 0; m && ot_model_initializer(m, i, &t); i++)
        if (!memmem(p, n, "SECRETSECRET", 12)) hold_no_secret(t.data, fuzz_bytes(&t), t.name);
    if (m) write_again(m);
    ot_model_free(m);
    hold_written(out);
    hold_file(outside, secret, sizeof secret);
    hold_file(inside, weights, sizeof weights);
}
