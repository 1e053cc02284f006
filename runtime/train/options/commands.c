/* commands.c - the commands (OT_COMMAND_LIST in onnxtrain.h), as the program and the help ask for them. */

#include <string.h>

#include "runtime/train/options/options.h"

/* A command is spelt as its name in the list, but for those that have a row here. */
#define OT_SPELT_find_lr       , "find-lr"
#define SECOND(a, b, ...)      b
#define CHOOSE(...)            SECOND(__VA_ARGS__, NULL)
#define SPELT(name)            CHOOSE(OT_SPELT_##name, #name)

static const ot_command_info commands[] = {
#define X(code, bit, name, words, arguments, needs, meaning) { SPELT(name), bit, words, arguments, needs, meaning },
    OT_COMMAND_LIST(X)
#undef X
};

#define X(code, bit, name, words, arguments, needs, meaning) static const ot_entry entry_##name = { SPELT(name), meaning, NULL };
OT_COMMAND_LIST(X)
#undef X

static const ot_entry *const entries[] = {
#define X(code, bit, name, ...) &entry_##name,
    OT_COMMAND_LIST(X)
#undef X
        NULL
};

const ot_registry ot_commands = { "command", "what the program does", entries };

const ot_command_info *ot_command_at(int i) { return i >= 0 && i < OT_LEN(commands) ? &commands[i] : NULL; }

const ot_command_info *ot_command_find(const char *name)
{
    for (int i = 0; name && i < OT_LEN(commands); i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}
