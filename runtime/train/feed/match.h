/* match.h - which array an input gets, and in which order of its axes. */
#ifndef OT_MATCH_H
#define OT_MATCH_H

#include "runtime/train/feed/bind_inputs.h"

/* The array for input v of the graph: as --inputs says, by its name, or the only one where v is the only input (of `needed`);
 * *named: it has a name.  target: v is one of the inputs of the file's own training algorithm for targets.  NULL: none. */
const ot_array *ot_match_array(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, int needed, bool target,
                               bool *named);

/* What is wrong where there is none: arrays and inputs with their shapes, and the option that says which is which. */
ot_status ot_match_failed(const ot_adapt_env *e, const ot_dataset *d, const ot_value *v, ot_error *err);

/* --inputs INPUT=ARRAY;... names inputs and arrays that exist.  Errors: OT_E_USAGE. */
ot_status ot_match_check(const ot_adapt_env *e, const ot_dataset *d, ot_error *err);

/* The order of axes in which array a is fed to v, with f->sample and f->gather.permute; f->gather is set otherwise.  *turned
 * false: as it is.  Errors: OT_E_USAGE: --permute does not apply. */
ot_status ot_match_axes(const ot_adapt_env *e, const ot_value *v, const ot_array *a, ot_feeder *f, bool *turned,
                        ot_error *err);

/* ", channel after channel; if ...: --permute ...", where bytes in a row may be an image in two ways; "": they may not. */
const char *ot_match_row(const ot_value *v, const ot_array *a, char buf[300]);

/* "; use --permute ...", where channels on the other side would agree; "": they would not. */
const char *ot_match_channels(const ot_value *v, const ot_array *a, char buf[300]);

/* scaling.c: how bytes of images of c channels for this input are scaled where neither an option nor what was recorded in the training says
 * it; a note says why.  false: by the usual default. */
bool ot_scaling_default(const ot_adapt_env *e, const char *input, int64_t c, ot_normalize *out);

/* bind_inputs.c: every known dimension of `want` from axis `first` on is that of s. */
bool ot_shape_agrees(const ot_shape *want, const ot_shape *s, int first);
bool ot_input_is_fed(const ot_graph *g, const ot_value *v);

#endif
