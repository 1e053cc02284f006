/* fetch.c - downloads named data sets with libcurl. Each file's size and SHA-256 stand here: the address may be any mirror, and
 * what differs is never given its name.
 *
 * Source: sizes and hashes of the files as their authors publish them; those of MNIST are the files in models/data/mnist. */
#include "runtime/data/fetch.h"
#include "runtime/base/io.h"
#include "runtime/data/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *ot_fetch_missing(void)
{
#ifndef OT_HAVE_CURL
    return "libcurl (Debian: libcurl4-openssl-dev)";
#elif !defined OT_HAVE_CRYPTO
    return "libcrypto (Debian: libssl-dev)";
#else
    return NULL;
#endif
}

#if defined OT_HAVE_CURL && defined OT_HAVE_CRYPTO
#include <curl/curl.h>
#include <openssl/evp.h>

enum { HASH = 32, REDIRECTS = 5, CONNECT_SECONDS = 30, STALL_SECONDS = 60, BLOCK = 1 << 16 };

typedef struct remote_file {
    const char *name;
    int64_t bytes;
    const char *sha256;
} remote_file;

typedef struct remote_set {
    const char *name, *address;
    remote_file file[4];
} remote_set;

static const remote_set remote_sets[] = {
    { "mnist",
      "https://storage.googleapis.com/cvdf-datasets/mnist",
      { { "train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" },
        { "train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c" },
        { "t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6" },
        { "t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6" } } },
    { "fashion-mnist",
      "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
      { { "train-images-idx3-ubyte.gz", 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84" },
        { "train-labels-idx1-ubyte.gz", 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845" },
        { "t10k-images-idx3-ubyte.gz", 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073" },
        { "t10k-labels-idx1-ubyte.gz", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5" } } },
    { "kmnist",
      "https://codh.rois.ac.jp/kmnist/dataset/kmnist",
      { { "train-images-idx3-ubyte.gz", 18165135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4" },
        { "train-labels-idx1-ubyte.gz", 29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17" },
        { "t10k-images-idx3-ubyte.gz", 3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5" },
        { "t10k-labels-idx1-ubyte.gz", 5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c" } } },
};

/* ---- hashes ---------------------------------------------------------------------------------- */

static void hash_text(const unsigned char hash[HASH], char text[2 * HASH + 1])
{
    for (int i = 0; i < HASH; i++) snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

static ot_status hash_end(EVP_MD_CTX *c, char text[2 * HASH + 1], ot_error *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE] = { 0 };
    if (EVP_DigestFinal_ex(c, hash, NULL) != 1) return ot_fail(err, OT_E_INTERNAL, "libcrypto computed no SHA-256");
    hash_text(hash, text);
    return OT_OK;
}

static ot_status hash_begin(EVP_MD_CTX **c, ot_error *err)
{
    *c = EVP_MD_CTX_new();
    if (*c && EVP_DigestInit_ex(*c, EVP_sha256(), NULL) == 1) return OT_OK;
    return ot_fail(err, OT_E_NOMEM, "no memory for SHA-256");
}

/* Compares what was found with what is known.  OT_E_IO: it differs. */
static ot_status compare(const remote_file *f, const char *where, int64_t bytes, const char *sha256, const char *then,
                         ot_error *err)
{
    if (bytes == f->bytes && !strcmp(sha256, f->sha256)) return OT_OK;
    ot_fail(err, OT_E_IO, "%s: is not the published file:", where);
    ot_fail_more(err, OT_E_IO, "  expected %lld bytes, SHA-256 %s", (long long)f->bytes, f->sha256);
    ot_fail_more(err, OT_E_IO, "  found    %lld bytes, SHA-256 %s", (long long)bytes, sha256);
    return ot_fail_more(err, OT_E_IO, "%s", then);
}

/* Is the file there, and the right one?  A file that differs may be the user's own: it stays, and is an error. */
static ot_status present(const remote_file *f, const char *path, bool *there, ot_error *err)
{
    unsigned char block[BLOCK];
    char text[2 * HASH + 1];
    struct stat st;
    EVP_MD_CTX *c = NULL;
    *there = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return OT_OK;
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        int number = fd < 0 ? errno : EINVAL;
        if (fd >= 0) close(fd);
        return ot_fail(err, OT_E_IO, "%s: cannot be read as a file: %s", path,
                       strerror_r(number, (char[128]){ 0 }, 128));
    }
    ot_status s = hash_begin(&c, err);
    int64_t n = 0, at = 0;
    while (!s && (n = ot_read_at(fd, block, BLOCK, at)) > 0) {
        at += n;
        if (EVP_DigestUpdate(c, block, (size_t)n) != 1)
            s = ot_fail(err, OT_E_INTERNAL, "libcrypto computed no SHA-256");
    }
    if (!s && n < 0) s = ot_fail(err, OT_E_IO, "%s: %s", path, strerror_r(errno, (char[128]){ 0 }, 128));
    if (!s) s = hash_end(c, text, err);
    if (!s) s = compare(f, path, at, text, "it was there before: move it away, or name another folder (--to)", err);
    EVP_MD_CTX_free(c);
    close(fd);
    *there = !s;
    return s;
}

/* ---- one file -------------------------------------------------------------------------------- */

typedef struct transfer {
    const ot_fetch_options *o;
    const remote_file *file;
    const char *url;
    ot_replace *to;
    EVP_MD_CTX *hash;
    int64_t got;
    struct timespec begun;
    ot_status status;
    ot_error *err;
} transfer;

/* libcurl's: fewer bytes than given end the transfer. */
static size_t on_bytes(char *p, size_t one, size_t n, void *user)
{
    transfer *t = user;
    n *= one;
    t->got += (int64_t)n;
    if (t->got > t->file->bytes) return 0; /* compared, and refused, by the caller */
    t->status = ot_replace_write(t->to, p, n, t->err);
    if (!t->status && EVP_DigestUpdate(t->hash, p, n) != 1)
        t->status = ot_fail(t->err, OT_E_INTERNAL, "libcrypto computed no SHA-256");
    return t->status ? 0 : n;
}

static int on_progress(void *user, curl_off_t all, curl_off_t done, curl_off_t up_all, curl_off_t up)
{
    transfer *t = user;
    struct timespec now;
    (void)all, (void)up_all, (void)up;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - t->begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - t->begun.tv_nsec);
    if (t->o->progress) t->o->progress(t->o->user, t->file->name, done, t->file->bytes, seconds);
    return 0;
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static bool configure(CURL *c, transfer *t, char reason[CURL_ERROR_SIZE])
{
    const char *then = begins(t->url, "https:") ? "https" : "http,https";
    bool ok = !curl_easy_setopt(c, CURLOPT_URL, t->url);
    ok = ok && !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http,file");
    ok = ok && !curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, then);
    ok = ok && !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) &&
         !curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    ok = ok && !curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L) && !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    ok = ok && !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    ok = ok && !curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) &&
         !curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    ok =
        ok && !curl_easy_setopt(c, CURLOPT_USERAGENT, "onnxtrain") && !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, reason);
    ok = ok && !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    ok = ok && !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) &&
         !curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    return ok && !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
}

/* Bytes of t->url to t->to.  A file that is too long ends with OT_OK and t->got above its size. */
static ot_status receive(transfer *t, ot_error *err)
{
    char reason[CURL_ERROR_SIZE] = "";
    CURL *c = curl_easy_init();
    if (!c || !configure(c, t, reason)) {
        curl_easy_cleanup(c);
        return ot_fail(err, OT_E_NOMEM, "%s: libcurl could not begin", t->url);
    }
    clock_gettime(CLOCK_MONOTONIC, &t->begun);
    CURLcode code = curl_easy_perform(c);
    curl_easy_cleanup(c);
    if (t->status || t->got > t->file->bytes) return t->status;
    if (code == CURLE_OUT_OF_MEMORY) return ot_fail(err, OT_E_NOMEM, "%s: no memory", t->url);
    if (code)
        return ot_fail(err, OT_E_IO, "%s: %s; --mirror URL names another server or a folder (file:///...)", t->url,
                       *reason ? reason : curl_easy_strerror(code));
    return OT_OK;
}

static ot_status download(const remote_file *f, const char *url, const char *path, const ot_fetch_options *o,
                          ot_error *err)
{
    char text[2 * HASH + 1] = "";
    transfer t = { .o = o, .file = f, .url = url, .err = err };
    OT_TRY(ot_replace_begin(path, &t.to, err));
    ot_status s = hash_begin(&t.hash, err);
    if (!s) s = receive(&t, err);
    if (!s) s = hash_end(t.hash, text, err);
    if (!s && t.got > f->bytes) snprintf(text, sizeof text, "not computed, too long");
    if (!s) s = compare(f, url, t.got, text, "nothing of it was kept", err);
    EVP_MD_CTX_free(t.hash);
    if (!s) return ot_replace_commit(t.to, err);
    ot_replace_abort(t.to);
    return s;
}

/* ---- a set ----------------------------------------------------------------------------------- */

/* Creates a folder and those above it. */
static ot_status make_folders(const char *path, ot_error *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= PATH_MAX)
        return ot_fail(err, OT_E_USAGE, "the folder's path is too long");
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        mkdir(part, 0777); /* the last one says what is wrong */
        *p = '/';
    }
    if (!mkdir(part, 0777) || (errno == EEXIST && ot_is_folder(part))) return OT_OK;
    return ot_fail(err, OT_E_IO, "%s: the folder cannot be created: %s; --to names another one", path,
                   strerror_r(errno, (char[128]){ 0 }, 128));
}

/* The first of the folders searched for named sets that is the user's. */
static ot_status choose_root(const char *to, char root[PATH_MAX], ot_error *err)
{
    const char *data = getenv("ONNXTRAIN_DATA"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = to              ? snprintf(root, PATH_MAX, "%s", to)
            : data && *data ? snprintf(root, PATH_MAX, "%s", data)
            : xdg && *xdg   ? snprintf(root, PATH_MAX, "%s/onnxtrain", xdg)
            : home && *home ? snprintf(root, PATH_MAX, "%s/.local/share/onnxtrain", home)
                            : -1;
    if (n < 0) return ot_fail(err, OT_E_USAGE, "HOME is not set: name a folder with --to DIR");
    return n >= PATH_MAX ? ot_fail(err, OT_E_USAGE, "the folder's path is too long") : OT_OK;
}

static ot_status find_set(const char *name, const remote_set **out, ot_error *err)
{
    for (int i = 0; i < OT_LEN(remote_sets); i++)
        if (!strcmp(remote_sets[i].name, name)) return *out = &remote_sets[i], OT_OK;
    char known[200] = "";
    for (int i = 0; i < OT_LEN(remote_sets); i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", remote_sets[i].name);
    if (!*name)
        return ot_fail(err, OT_E_USAGE,
                       "data fetch: the name of a data set is missing; expected %s, such as data fetch %s", known,
                       remote_sets[0].name);
    return ot_fail(
        err, OT_E_USAGE,
        "data fetch: cannot download '%.80s', only %s; for other named sets 'onnxtrain data NAME' says how to get them",
        name, known);
}

static void tell(const ot_fetch_options *o, const char *path, const char *what)
{
    char line[PATH_MAX + 100];
    snprintf(line, sizeof line, "%s %s", path, what);
    if (o->tell) o->tell(o->user, line);
}

/* URL of a file: spaces and the like are the user's to quote. */
static ot_status fetch_file(const remote_set *set, const remote_file *f, const char *folder, const ot_fetch_options *o,
                            ot_error *err)
{
    const char *address = o->mirror ? o->mirror : set->address;
    size_t n = strlen(address);
    char path[PATH_MAX], url[PATH_MAX];
    bool there = false;
    while (n && address[n - 1] == '/') n--;
    if (snprintf(path, sizeof path, "%s/%s", folder, f->name) >= PATH_MAX ||
        snprintf(url, sizeof url, "%.*s/%s", (int)n, address, f->name) >= PATH_MAX)
        return ot_fail(err, OT_E_USAGE, "--to or --mirror is too long");
    OT_TRY(present(f, path, &there, err));
    if (!there) OT_TRY(download(f, url, path, o, err));
    tell(o, path, there ? "is already there, its hash matches" : "downloaded, its hash matches");
    return OT_OK;
}

ot_status ot_fetch_set(const char *name, const ot_fetch_options *o, ot_error *err)
{
    const remote_set *set = NULL;
    char root[PATH_MAX], folder[PATH_MAX];
    OT_TRY(find_set(name, &set, err));
    if (o->mirror && !begins(o->mirror, "https://") && !begins(o->mirror, "http://") && !begins(o->mirror, "file://"))
        return ot_fail(err, OT_E_USAGE,
                       "--mirror '%.200s': expected a URL that begins with https://, http:// or file://", o->mirror);
    OT_TRY(choose_root(o->to, root, err));
    if (snprintf(folder, sizeof folder, "%s/%s", root, set->name) >= PATH_MAX)
        return ot_fail(err, OT_E_USAGE, "the folder's path is too long");
    OT_TRY(make_folders(folder, err));
    if (curl_global_init(CURL_GLOBAL_DEFAULT)) return ot_fail(err, OT_E_NOMEM, "libcurl could not begin");
    ot_status s = OT_OK;
    for (int i = 0; i < OT_LEN(set->file) && !s; i++) s = fetch_file(set, &set->file[i], folder, o, err);
    curl_global_cleanup();
    return s;
}

#else

ot_status ot_fetch_set(const char *name, const ot_fetch_options *o, ot_error *err)
{
    (void)o;
    return ot_fail(
        err, OT_E_IO,
        "%s%sdata fetch needs libcurl and libcrypto, which this program was built without; Debian: apt-get install "
        "libcurl4-openssl-dev libssl-dev, then build again",
        name, *name ? ": " : "");
}

#endif
