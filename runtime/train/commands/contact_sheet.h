/* contact_sheet.h - the images of a data set before and after --augment. */
#ifndef OT_CONTACT_SHEET_H
#define OT_CONTACT_SHEET_H

#include <stdio.h>

#include "runtime/data/data.h"
#include "runtime/train/options/options.h"

/* Writes the PNG that the option "preview" names, with "augment"; nothing without these options.  f: gets a line about it, or
 * NULL.  Errors: OT_E_USAGE (no images in d; "augment" without "preview"), OT_E_IO, OT_E_NOMEM. */
ot_status ot_contact_sheet(const ot_dataset *d, const ot_options *o, ot_arena *a, FILE *f, ot_error *err);

#endif
