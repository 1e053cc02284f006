/* libraries.c - versions of the libraries the emulator stands in for. */
#include <cublasLt.h>
#include <cudnn.h>

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
size_t cublasLtGetVersion(void) { return 130100; }
