/* upgrade.c */
#include "importer/build.h"
bool ot_upgrade(ot_form *f) { (void)f; return true; }
