/* onnx_tests.h - parts of the runner of the standard's node cases. */
#ifndef OT_ONNX_TESTS_H
#define OT_ONNX_TESTS_H

#include "runtime/base/base.h"

/* unpack.c: every regular file of an archive, below `folder`.  false: *why is the reason. */
bool ot_unpack(const char *archive, const char *folder, char why[256]);
void ot_remove_tree(const char *folder);

/* survey.c: the requirements of a model, from the file alone. */
typedef struct ot_survey {
    bool readable;
    bool supported;    /* every operator is in ops/list.h */
    bool tensors;      /* inputs and outputs are tensors, no sequence, optional or map */
    bool random;       /* outputs differ from run to run */
    char missing[256]; /* operators that are not, separated by spaces */
} ot_survey;
void ot_survey_model(const char *path, ot_survey *out);

/* one.c: imports, plans, runs and compares one case folder.  NULL: it passed; else the reason, in buf. */
typedef struct ot_setting {
    const char *name; /* "reference", "fast" */
    bool ref_only;
    int threads;
} ot_setting;
const char *ot_run_case(const char *folder, const ot_setting *s, bool values, char *buf, size_t cap);

#endif
