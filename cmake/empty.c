/* empty.c - the shared library takes all its code from the static one. */
typedef int ot_shared_library;
