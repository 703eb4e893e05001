/* From a word to a float. The other direction is `quantise` in scare.c. */
#include "scare_fixed.h"

void scare_result_q(float *out, const int32_t *x, float unit) {
    *out = (float)*x * unit;
}
