/* What GCC expects of every C library, which is not linked here. Plain loops, which it must not turn into calls. */
#include <stddef.h>

#define PLAIN __attribute__((optimize("no-tree-loop-distribute-patterns")))

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

PLAIN void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

PLAIN void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = (char)value;
    return to;
}
