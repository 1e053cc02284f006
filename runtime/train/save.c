/* save.c - the trained tensors into a copy of the model's file. */

#include "runtime/train/trainer.h"

ot_status ot_trainer_save(ot_trainer *t, const char *path, bool proof, ot_error *err)
{
    (void)t;
    (void)proof;
    return ot_fail(err, OT_E_IO, "%s: this build cannot write models", path);
}

ot_status ot_trainer_export(ot_trainer *t, const char *path, ot_error *err)
{
    return ot_trainer_save(t, path ? path : "the trained model", true, err);
}
