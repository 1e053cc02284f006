/* message.h - changes protobuf-c messages by their descriptors.
 *
 * A message is owned by its root, which protobuf_c_message_free_unpacked releases: everything put into one
 * comes from malloc. */
#ifndef OT_TESTS_FUZZ_MESSAGE_H
#define OT_TESTS_FUZZ_MESSAGE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

enum { MOST_MESSAGES = 4096 };

/* The messages of a tree, the root first.  Valid until the tree changes. */
typedef struct messages {
    int n;
    ProtobufCMessage *m[MOST_MESSAGES];
} messages;

void message_walk(messages *all, ProtobufCMessage *root);
ProtobufCMessage *message_pick(const messages *all,
                               const ProtobufCMessageDescriptor *d); /* any one of that type, or NULL */
ProtobufCMessage *message_clone(const ProtobufCMessage *m);          /* NULL: no memory */

void message_text(char **to, const char *text); /* replaces a string */

/* The repeated field `name`: an element more (a message or a string, owned from now on), or one less. */
void message_append(ProtobufCMessage *m, const char *name, void *element);
void message_remove(ProtobufCMessage *m, const char *name, size_t i);

/* Changes one field of one message, whatever it means. */
void message_change_any(const messages *all);

#endif
