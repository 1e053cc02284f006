/* files.c - reads the files of a folder into memory. */
#include "tests/calls/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 1024, MOST = 256 };

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) abort();
    char *p = malloc((size_t)st.st_size + 1);
    if (!p) abort();
    *n = fread(p, 1, (size_t)st.st_size, f);
    p[*n] = '\0';
    fclose(f);
    return p;
}

static void spill(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
        perror(path);
        abort();
    }
}

static void collect(files *f, const char *folder, const char *below)
{
    char path[PATH], name[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(name, sizeof name, "%.500s%s", below, e->d_name);
        snprintf(path, sizeof path, "%.400s/%.600s", folder, name);
        if (lstat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) {
            strcat(name, "/");
            collect(f, folder, name);
        } else if (S_ISREG(st.st_mode) && f->n < MOST) {
            file *x = &f->list[f->n++];
            x->name = strdup(name);
            x->bytes = slurp(path, &x->n);
        }
    }
    if (d) closedir(d);
}

files files_read(const char *folder)
{
    files f = { calloc(MOST, sizeof *f.list), 0 };
    if (!f.list) abort();
    collect(&f, folder, "");
    return f;
}

void files_free(files *f)
{
    for (int i = 0; i < f->n; i++) {
        free(f->list[i].name);
        free(f->list[i].bytes);
    }
    free(f->list);
    *f = (files){ 0 };
}

void folder_empty(const char *folder)
{
    char path[PATH];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(path, sizeof path, "%.700s/%.300s", folder, e->d_name);
        if (unlink(path)) {
            folder_empty(path);
            rmdir(path);
        }
    }
    if (d) closedir(d);
}

void files_put(const files *f, const char *folder)
{
    char path[PATH];
    folder_empty(folder);
    for (int i = 0; i < f->n; i++) {
        snprintf(path, sizeof path, "%.400s/%.600s", folder, f->list[i].name);
        for (char *p = strchr(path + strlen(folder) + 1, '/'); p; p = strchr(p + 1, '/')) {
            *p = '\0';
            mkdir(path, 0777);
            *p = '/';
        }
        spill(path, f->list[i].bytes, f->list[i].n);
    }
}

const file *files_find(const files *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->list[i].name, name)) return &f->list[i];
    return NULL;
}

bool file_same(const file *a, const file *b) { return a && b && a->n == b->n && !memcmp(a->bytes, b->bytes, a->n); }

bool file_copy(const char *from, const char *folder, const char *name)
{
    char path[PATH];
    size_t n;
    if (access(from, R_OK)) return false;
    char *p = slurp(from, &n);
    snprintf(path, sizeof path, "%.500s/%.500s", folder, name);
    spill(path, p, n);
    free(p);
    return true;
}
