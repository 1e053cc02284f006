/* report.h - a run as a page. */
#ifndef OT_REPORT_H
#define OT_REPORT_H

#include "runtime/train/options/options.h"
#include "runtime/train/run/history.h"

/* Reads what is new in the log of the open run folder into h, and writes report.html there; the charts as files in plots/ too,
 * where plots says so.  A page of a run without an end reloads itself.  Errors: OT_E_IO, OT_E_NOMEM, those of ot_history_read. */
ot_status ot_report_write(ot_history *h, int folder, const char *shown, const ot_plots *plots, ot_error *err);

#endif
