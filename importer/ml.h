/* ml.h - shared by the files of ai.onnx.ml.  Given an operand that is NULL, each of these returns NULL. */
#ifndef OT_IMPORTER_ML_H
#define OT_IMPORTER_ML_H

#include "importer/build.h"

/* The node is made: v is its first output.  NULL: a finding was added (OT_E_MODEL), or there is no memory. */
ot_status ot_ml_made(ot_form *f, ot_value *v);

ot_value *ot_ml_op(ot_form *f, const char *op, ot_value *a, ot_value *b);
ot_value *ot_ml_joined(ot_form *f, ot_value *a, ot_value *b, int64_t axis);
ot_status ot_ml_tensor(ot_form *f, const char *name, ot_blob *out); /* a tensor attribute */

/* Attribute post_transform: its name, by default "NONE"; and the scores y after it, along their last axis. */
const char *ot_ml_post(const ot_form *f);
ot_value *ot_ml_transform(ot_form *f, ot_value *y, const char *post);

/* Notes that the node's numbers, in these attributes, do not train; reported where nothing else trains. */
void ot_ml_fixed(ot_form *f, const char *attributes);
/* Of a classifier: how many labels it has, 0: none; outputs 0 and 1 from its scores (N, classes). */
int64_t ot_ml_classes(const ot_form *f);
ot_status ot_ml_labelled(ot_form *f, ot_value *scores);

/* trees.c */
ot_status ot_ml_tree_ensemble(ot_form *f);
ot_status ot_ml_tree_regressor(ot_form *f);
ot_status ot_ml_tree_classifier(ot_form *f);

#endif
