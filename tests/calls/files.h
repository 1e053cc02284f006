/* files.h - reads the files of a folder into memory. */
#ifndef OT_TESTS_CALLS_FILES_H
#define OT_TESTS_CALLS_FILES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct file {
    char *name; /* seen from the folder */
    char *bytes;
    size_t n;
} file;

typedef struct files {
    file *list;
    int n;
} files;

files files_read(const char *folder); /* including subfolders; links are skipped */
void files_free(files *f);
void files_put(const files *f, const char *folder);       /* and nothing else */
const file *files_find(const files *f, const char *name); /* NULL: there is none */
bool file_same(const file *a, const file *b);             /* their bytes; false where one is NULL */
bool file_copy(const char *from, const char *folder, const char *name);
void folder_empty(const char *folder);

#endif
