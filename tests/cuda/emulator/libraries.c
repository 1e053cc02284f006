/* libraries.c - the version of cuDNN that the emulator stands in for. */
#include <cudnn.h>

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
